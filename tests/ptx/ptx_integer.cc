/* Integer arithmetic, bits, and comparisons of integers. */
#include "gpu_model.h"
#include "ptx_lanes.h"

namespace {

struct add {
    template <class T> T operator()(T a, T b) const {
        return (T)(a + b);
    }
};
struct subtract {
    template <class T> T operator()(T a, T b) const {
        return (T)(a - b);
    }
};
struct multiply_low {
    template <class T> T operator()(T a, T b) const {
        return (T)((std::conditional_t<sizeof(T) == 2, uint32_t, T>)a * b);
    }
};
struct multiply_add_low {
    template <class T> T operator()(T a, T b, T c) const {
        return (T)(multiply_low()(a, b) + c);
    }
};
/* Wide: of numbers already widened. */
template <class W> struct multiply_wide {
    template <class T> W operator()(T a, T b) const {
        return (W)a * (W)b;
    }
};
template <class W> struct multiply_add_wide {
    template <class T> W operator()(T a, T b, W c) const {
        return (W)((std::make_unsigned_t<W>)((W)a * (W)b) + (std::make_unsigned_t<W>)c);
    }
};
struct multiply_high {
    uint16_t operator()(uint16_t a, uint16_t b) const {
        return (uint16_t)((uint32_t)a * b >> 16);
    }
    uint32_t operator()(uint32_t a, uint32_t b) const {
        return gpu_model_multiply_high(a, b);
    }
    int32_t operator()(int32_t a, int32_t b) const {
        return (int32_t)((uint64_t)((int64_t)a * b) >> 32);
    }
};
/* What PTX leaves open must not end the program: x / 0 is all ones, INT_MIN / -1 is INT_MIN. */
struct divide {
    template <class T> T operator()(T a, T b) const {
        if (b == 0)
            return (T)-1;
        return std::is_signed<T>::value && b == (T)-1 ? (T)(0 - (std::make_unsigned_t<T>)a)
                                                      : (T)(a / b);
    }
};
struct remainder {
    template <class T> T operator()(T a, T b) const {
        if (b == 0)
            return a;
        return std::is_signed<T>::value && b == (T)-1 ? (T)0 : (T)(a % b);
    }
};
struct smaller {
    template <class T> T operator()(T a, T b) const {
        return a < b ? a : b;
    }
};
struct larger {
    template <class T> T operator()(T a, T b) const {
        return a > b ? a : b;
    }
};
struct negate {
    template <class T> T operator()(T a) const {
        return (T)(0 - a);
    }
};
struct absolute {
    template <class T> T operator()(T a) const {
        return a < 0 ? (T)(0 - (std::make_unsigned_t<T>)a) : a;
    }
};
struct bit_and {
    template <class T> T operator()(T a, T b) const {
        return (T)(a & b);
    }
};
struct bit_or {
    template <class T> T operator()(T a, T b) const {
        return (T)(a | b);
    }
};
struct bit_xor {
    template <class T> T operator()(T a, T b) const {
        return (T)(a ^ b);
    }
};
struct bit_not {
    template <class T> T operator()(T a) const {
        return (T)~a;
    }
};
struct shift_left {
    template <class T> T operator()(T a, uint32_t by) const {
        return by < 8 * sizeof(T) ? (T)(a << by) : (T)0;
    }
};
struct shift_right {
    template <class T> T operator()(T a, uint32_t by) const {
        const uint32_t most = 8 * sizeof(T) - 1;
        if (std::is_signed<T>::value)
            return (T)(a >> (by < most ? by : most));
        return by <= most ? (T)(a >> by) : (T)0;
    }
};
struct leading_zeros {
    uint32_t operator()(uint32_t a) const {
        return a != 0 ? (uint32_t)__builtin_clz(a) : 32;
    }
};
struct ones {
    template <class T> uint32_t operator()(T a) const {
        return (uint32_t)__builtin_popcountll(a);
    }
};
/* `count` bits from `start` on; signed: the last of them goes on above. */
struct extract {
    template <class T> T operator()(T a, uint32_t start, uint32_t count) const {
        constexpr uint32_t bits = 8 * sizeof(T);
        start &= 255;
        count &= 255;
        if (count == 0)
            return 0;
        const uint32_t end = start + count < bits ? start + count : bits;
        if (end <= start) /* nothing but copies of the sign */
            return shift_right()(a, bits);
        const T top = (T)((std::make_unsigned_t<T>)a << (bits - end));
        return (T)(top >> (bits - end + start));
    }
};
struct permute {
    uint32_t operator()(uint32_t a, uint32_t b, uint32_t selector) const {
        return gpu_model_permute_bytes(a, b, selector);
    }
};
struct funnel_left {
    uint32_t operator()(uint32_t low, uint32_t high, uint32_t by) const {
        return (uint32_t)(((uint64_t)high << 32 | low) << (by & 31) >> 32);
    }
};
struct funnel_right {
    uint32_t operator()(uint32_t low, uint32_t high, uint32_t by) const {
        return (uint32_t)(((uint64_t)high << 32 | low) >> (by & 31));
    }
};

void execute_insert(ptx_warp &warp, const ptx_instruction &in) {
    uint32_t *const d = ptx_lanes<uint32_t>(warp, in.targets[0]);
    const uint32_t *source[4];
    for (uint32_t i = 0; i < 4; i++)
        source[i] = ptx_lanes<uint32_t>(warp, in.sources[i]);
    ptx_each_lane(warp, [&](uint32_t i) {
        const uint32_t start = source[2][i] & 255, count = source[3][i] & 255;
        const uint32_t field = count < 32 ? ((uint32_t)1 << count) - 1 : PTX_ALL_LANES;
        const uint32_t mask = shift_left()(field, start);
        d[i] = (shift_left()(source[0][i], start) & mask) | (source[1][i] & ~mask);
    });
}

/* Bit 4 a + 2 b + c of the table is the result where the three inputs have bits a, b and c. */
void execute_logic(ptx_warp &warp, const ptx_instruction &in) {
    uint32_t *const d = ptx_lanes<uint32_t>(warp, in.targets[0]);
    const uint32_t *const a = ptx_lanes<uint32_t>(warp, in.sources[0]);
    const uint32_t *const b = ptx_lanes<uint32_t>(warp, in.sources[1]);
    const uint32_t *const c = ptx_lanes<uint32_t>(warp, in.sources[2]);
    ptx_each_lane(warp, [&](uint32_t i) {
        uint32_t out = 0;
        for (uint32_t row = 0; row < 8; row++)
            if ((in.number >> row & 1) != 0)
                out |= ((row & 4) != 0 ? a[i] : ~a[i]) & ((row & 2) != 0 ? b[i] : ~b[i]) &
                       ((row & 1) != 0 ? c[i] : ~c[i]);
        d[i] = out;
    });
}

/* U computes, T names and compares. */
template <class U, class T> void add_type(ptx_opcodes &table, const std::string &type) {
    ptx_add_binary<add, U, U, U>(table, "add" + type, PTX_INTEGER);
    ptx_add_binary<subtract, U, U, U>(table, "sub" + type, PTX_INTEGER);
    ptx_add_binary<multiply_low, U, U, U>(table, "mul.lo" + type, PTX_INTEGER);
    ptx_add_ternary<multiply_add_low, U, U, U, U>(table, "mad.lo" + type, PTX_INTEGER);
    ptx_add_binary<divide, T, T, T>(table, "div" + type, PTX_INTEGER);
    ptx_add_binary<remainder, T, T, T>(table, "rem" + type, PTX_INTEGER);
    ptx_add_binary<smaller, T, T, T>(table, "min" + type, PTX_INTEGER);
    ptx_add_binary<larger, T, T, T>(table, "max" + type, PTX_INTEGER);
    ptx_add_binary<shift_right, T, T, uint32_t>(table, "shr" + type, PTX_INTEGER);
    if (std::is_signed<T>::value) {
        ptx_add_unary<negate, U, U>(table, "neg" + type, PTX_INTEGER);
        ptx_add_unary<absolute, T, T>(table, "abs" + type, PTX_INTEGER);
    }
}

template <class T> void add_bits(ptx_opcodes &table, const std::string &type) {
    ptx_add_binary<bit_and, T, T, T>(table, "and" + type, PTX_INTEGER);
    ptx_add_binary<bit_or, T, T, T>(table, "or" + type, PTX_INTEGER);
    ptx_add_binary<bit_xor, T, T, T>(table, "xor" + type, PTX_INTEGER);
    ptx_add_unary<bit_not, T, T>(table, "not" + type, PTX_INTEGER);
    ptx_add_binary<shift_left, T, T, uint32_t>(table, "shl" + type, PTX_INTEGER);
    ptx_add_binary<shift_right, T, T, uint32_t>(table, "shr" + type, PTX_INTEGER);
}

template <class W, class T> void add_wide(ptx_opcodes &table, const std::string &type) {
    ptx_add_binary<multiply_wide<W>, W, T, T>(table, "mul.wide" + type, PTX_INTEGER);
    ptx_add_ternary<multiply_add_wide<W>, W, T, T, W>(table, "mad.wide" + type, PTX_INTEGER);
}

} // namespace

void ptx_add_integer(ptx_opcodes &table) {
    add_type<uint16_t, uint16_t>(table, ".u16");
    add_type<uint16_t, int16_t>(table, ".s16");
    add_type<uint32_t, uint32_t>(table, ".u32");
    add_type<uint32_t, int32_t>(table, ".s32");
    add_type<uint64_t, uint64_t>(table, ".u64");
    add_type<uint64_t, int64_t>(table, ".s64");
    add_bits<uint16_t>(table, ".b16");
    add_bits<uint32_t>(table, ".b32");
    add_bits<uint64_t>(table, ".b64");
    add_wide<uint32_t, uint16_t>(table, ".u16");
    add_wide<int32_t, int16_t>(table, ".s16");
    add_wide<uint64_t, uint32_t>(table, ".u32");
    add_wide<int64_t, int32_t>(table, ".s32");
    ptx_add_binary<multiply_high, uint16_t, uint16_t, uint16_t>(table, "mul.hi.u16", PTX_INTEGER);
    ptx_add_binary<multiply_high, uint32_t, uint32_t, uint32_t>(table, "mul.hi.u32", PTX_INTEGER);
    ptx_add_binary<multiply_high, int32_t, int32_t, int32_t>(table, "mul.hi.s32", PTX_INTEGER);
    ptx_add_ternary<extract, uint32_t, uint32_t, uint32_t, uint32_t>(table, "bfe.u32", PTX_INTEGER);
    ptx_add_ternary<extract, int32_t, int32_t, uint32_t, uint32_t>(table, "bfe.s32", PTX_INTEGER);
    ptx_add_ternary<permute, uint32_t, uint32_t, uint32_t, uint32_t>(table, "prmt.b32",
                                                                     PTX_INTEGER);
    ptx_add_ternary<funnel_left, uint32_t, uint32_t, uint32_t, uint32_t>(table, "shf.l.wrap.b32",
                                                                         PTX_INTEGER);
    ptx_add_ternary<funnel_right, uint32_t, uint32_t, uint32_t, uint32_t>(table, "shf.r.wrap.b32",
                                                                          PTX_INTEGER);
    ptx_add_unary<leading_zeros, uint32_t, uint32_t>(table, "clz.b32", PTX_INTEGER);
    ptx_add_unary<ones, uint32_t, uint32_t>(table, "popc.b32", PTX_INTEGER);
    table["popc.b64"] = {ptx_unary<ones, uint32_t, uint64_t>, "=wl", PTX_INTEGER};
    table["bfi.b32"] = {execute_insert, "=wwwww", PTX_INTEGER};
    table["lop3.b32"] = {execute_logic, "=wwwwN", PTX_INTEGER};
}
