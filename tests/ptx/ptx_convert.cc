/* cvt: between integers, between integers and fp32, and to and from the narrow formats. */
#include "gpu_model.h"
#include "ptx_lanes.h"

#include <cmath>
#include <limits>

namespace {

/* Registers may be wider than the types: a source's low bits count, and a target is filled up by
 * the type's sign. */
template <class To, class From> void execute_integer(ptx_warp &warp, const ptx_instruction &in) {
    ptx_each_lane(warp, [&](uint32_t i) {
        const From from = (From)ptx_lane_bits(warp, in.sources[0], i);
        const To to = (To)from;
        ptx_set_lane_bits(warp, in.targets[0], i, (uint64_t)(int64_t)to);
    });
}

template <class From> void execute_to_float(ptx_warp &warp, const ptx_instruction &in) {
    ptx_each_lane(warp, [&](uint32_t i) {
        const From from = (From)ptx_lane_bits(warp, in.sources[0], i);
        ptx_set_lane_bits(warp, in.targets[0], i, ptx_to_slot<float>((float)from));
    });
}

struct toward_zero {
    float operator()(float x) const {
        return std::trunc(x);
    }
};
struct nearest_even {
    float operator()(float x) const {
        return std::nearbyint(x);
    }
};
struct downward {
    float operator()(float x) const {
        return std::floor(x);
    }
};

/* Out of range: the nearest number there is; NaN: 0. */
template <class To, class Rounding>
void execute_from_float(ptx_warp &warp, const ptx_instruction &in) {
    ptx_each_lane(warp, [&](uint32_t i) {
        const uint32_t bits = (uint32_t)ptx_lane_bits(warp, in.sources[0], i);
        const double whole = Rounding()(ptx_from_slot<float>(bits));
        To to = 0;
        if (whole >= (double)std::numeric_limits<To>::max())
            to = std::numeric_limits<To>::max();
        else if (whole <= (double)std::numeric_limits<To>::min())
            to = std::numeric_limits<To>::min();
        else if (whole == whole)
            to = (To)whole;
        ptx_set_lane_bits(warp, in.targets[0], i, (uint64_t)(int64_t)to);
    });
}

struct from_f16 {
    float operator()(uint16_t a) const {
        return gpu_model_f16_to_f32(a);
    }
};
struct from_bf16 {
    float operator()(uint16_t a) const {
        return format_bits_bf16_to_f32(a);
    }
};
struct to_f16 {
    uint16_t operator()(float a) const {
        return format_bits_f32_to_f16(a);
    }
};
struct to_bf16 {
    uint16_t operator()(float a) const {
        return format_bits_f32_to_bf16(a);
    }
};
/* The first source is the high half. */
struct pack_f16 {
    uint32_t operator()(float high, float low) const {
        return gpu_model_pack_f16x2(low, high);
    }
};
struct pack_bf16 {
    uint32_t operator()(float high, float low) const {
        return gpu_model_pack_bf16x2(low, high);
    }
};
struct unpack_e4m3 {
    uint32_t operator()(uint16_t codes) const {
        return gpu_model_e4m3x2_to_f16x2(codes);
    }
};

/* Its source is a register of 8 bits. */
void execute_unpack_e2m1(ptx_warp &warp, const ptx_instruction &in) {
    uint32_t *const d = ptx_lanes<uint32_t>(warp, in.targets[0]);
    ptx_each_lane(warp, [&](uint32_t i) {
        d[i] = gpu_model_e2m1x2_to_f16x2((uint32_t)ptx_lane_bits(warp, in.sources[0], i));
    });
}

template <class To, class From>
void add_pair(ptx_opcodes &table, const char *to, const char *from) {
    table[std::string("cvt") + to + from] = {execute_integer<To, From>, "=xx", PTX_CONVERT};
}
template <class To> void add_to(ptx_opcodes &table, const char *to) {
    add_pair<To, uint8_t>(table, to, ".u8");
    add_pair<To, int8_t>(table, to, ".s8");
    add_pair<To, uint16_t>(table, to, ".u16");
    add_pair<To, int16_t>(table, to, ".s16");
    add_pair<To, uint32_t>(table, to, ".u32");
    add_pair<To, int32_t>(table, to, ".s32");
    add_pair<To, uint64_t>(table, to, ".u64");
    add_pair<To, int64_t>(table, to, ".s64");
}
template <class T> void add_with_float(ptx_opcodes &table, const std::string &type) {
    table["cvt.rn.f32" + type] = {execute_to_float<T>, "=wx", PTX_CONVERT};
    table["cvt.rzi" + type + ".f32"] = {execute_from_float<T, toward_zero>, "=xw", PTX_CONVERT};
    table["cvt.rni" + type + ".f32"] = {execute_from_float<T, nearest_even>, "=xw", PTX_CONVERT};
    table["cvt.rmi" + type + ".f32"] = {execute_from_float<T, downward>, "=xw", PTX_CONVERT};
}

} // namespace

void ptx_add_convert(ptx_opcodes &table) {
    add_to<uint8_t>(table, ".u8");
    add_to<int8_t>(table, ".s8");
    add_to<uint16_t>(table, ".u16");
    add_to<int16_t>(table, ".s16");
    add_to<uint32_t>(table, ".u32");
    add_to<int32_t>(table, ".s32");
    add_to<uint64_t>(table, ".u64");
    add_to<int64_t>(table, ".s64");
    add_with_float<uint8_t>(table, ".u8");
    add_with_float<int8_t>(table, ".s8");
    add_with_float<uint16_t>(table, ".u16");
    add_with_float<int16_t>(table, ".s16");
    add_with_float<uint32_t>(table, ".u32");
    add_with_float<int32_t>(table, ".s32");
    add_with_float<uint64_t>(table, ".u64");
    add_with_float<int64_t>(table, ".s64");
    ptx_add_unary<from_f16, float, uint16_t>(table, "cvt.f32.f16", PTX_CONVERT);
    ptx_add_unary<from_bf16, float, uint16_t>(table, "cvt.f32.bf16", PTX_CONVERT);
    ptx_add_unary<to_f16, uint16_t, float>(table, "cvt.rn.f16.f32", PTX_CONVERT);
    ptx_add_unary<to_bf16, uint16_t, float>(table, "cvt.rn.bf16.f32", PTX_CONVERT);
    ptx_add_binary<pack_f16, uint32_t, float, float>(table, "cvt.rn.f16x2.f32", PTX_CONVERT);
    ptx_add_binary<pack_bf16, uint32_t, float, float>(table, "cvt.rn.bf16x2.f32", PTX_CONVERT);
    ptx_add_unary<unpack_e4m3, uint32_t, uint16_t>(table, "cvt.rn.f16x2.e4m3x2", PTX_CONVERT);
    table["cvt.rn.f16x2.e2m1x2"] = {execute_unpack_e2m1, "=wx", PTX_CONVERT};
}
