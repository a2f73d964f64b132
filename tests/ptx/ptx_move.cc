/* Moves, choices, comparisons and predicates. */
#include "gpu_model.h"
#include "ptx_lanes.h"

namespace {

void set_predicate(ptx_warp &warp, const ptx_operand &target, uint32_t value) {
    uint32_t &predicate = warp.predicates[target.number];
    predicate = (predicate & ~warp.now) | (value & warp.now);
}

struct same {
    template <class T> T operator()(T a) const {
        return a;
    }
};

/* Registers joined or split, the first in the low bits: mov.b32 r, {h, h} and the like. */
void execute_bits(ptx_warp &warp, const ptx_instruction &in) {
    ptx_each_lane(warp, [&](uint32_t lane) {
        uint64_t whole = 0;
        for (uint32_t i = 0, at = 0; i < in.source_count; at += in.sources[i++].bits)
            whole |= ptx_lane_bits(warp, in.sources[i], lane) << at;
        for (uint32_t i = 0, at = 0; i < in.target_count; at += in.targets[i++].bits)
            ptx_set_lane_bits(warp, in.targets[i], lane, whole >> at);
    });
}
/* The clocks of the model, the same for all lanes, into their registers. */
struct gpu_model_clock model_clock = GPU_MODEL_CLOCK;
void read_clock(ptx_warp &warp, const ptx_operand &source) {
    const uint64_t now = source.number == PTX_CLOCK64 ? gpu_model_clock64(&model_clock)
                                                      : gpu_model_globaltimer(&model_clock);
    for (uint32_t i = 0; i < PTX_LANES; i++)
        ptx_lanes<uint64_t>(warp, source)[i] = now;
}
bool is_clock(const ptx_operand &source) {
    return source.base == PTX_BASE_REGISTERS &&
           (source.number == PTX_CLOCK64 || source.number == PTX_GLOBALTIMER);
}
template <class T> void execute_move(ptx_warp &warp, const ptx_instruction &in) {
    if (sizeof(T) == 8 && in.source_count == 1 && is_clock(in.sources[0]))
        read_clock(warp, in.sources[0]);
    if (in.target_count == 1 && in.source_count == 1)
        ptx_unary<same, T, T>(warp, in);
    else
        execute_bits(warp, in);
}
void execute_move_predicate(ptx_warp &warp, const ptx_instruction &in) {
    set_predicate(warp, in.targets[0], warp.predicates[in.sources[0].number]);
}

template <class T> void execute_select(ptx_warp &warp, const ptx_instruction &in) {
    ptx_slot<T> *const d = ptx_lanes<T>(warp, in.targets[0]);
    const ptx_slot<T> *const a = ptx_lanes<T>(warp, in.sources[0]);
    const ptx_slot<T> *const b = ptx_lanes<T>(warp, in.sources[1]);
    const uint32_t chosen = warp.predicates[in.sources[2].number];
    ptx_each_lane(warp, [=](uint32_t i) { d[i] = (chosen >> i & 1) != 0 ? a[i] : b[i]; });
}

struct equal {
    template <class T> bool operator()(T a, T b) const {
        return a == b;
    }
};
struct not_equal {
    template <class T> bool operator()(T a, T b) const {
        return a < b || a > b; /* false for NaN */
    }
};
struct less {
    template <class T> bool operator()(T a, T b) const {
        return a < b;
    }
};
struct less_equal {
    template <class T> bool operator()(T a, T b) const {
        return a <= b;
    }
};
struct greater {
    template <class T> bool operator()(T a, T b) const {
        return a > b;
    }
};
struct greater_equal {
    template <class T> bool operator()(T a, T b) const {
        return a >= b;
    }
};
/* True for NaN too. */
template <class Opposite> struct unless {
    template <class T> bool operator()(T a, T b) const {
        return !Opposite()(a, b);
    }
};

template <class Comparison, class T>
void execute_compare(ptx_warp &warp, const ptx_instruction &in) {
    const ptx_slot<T> *const a = ptx_lanes<T>(warp, in.sources[0]);
    const ptx_slot<T> *const b = ptx_lanes<T>(warp, in.sources[1]);
    uint32_t out = 0;
    for (uint32_t i = 0; i < PTX_LANES; i++)
        out |= (uint32_t)Comparison()(ptx_from_slot<T>(a[i]), ptx_from_slot<T>(b[i])) << i;
    set_predicate(warp, in.targets[0], out);
}

template <class T, class Comparison>
void add_compare(ptx_opcodes &table, const char *how, const std::string &type) {
    table[std::string("setp.") + how + type] = {
        execute_compare<Comparison, T>, std::string("=p") + ptx_letter<T>() + ptx_letter<T>(),
        std::is_floating_point<T>::value ? PTX_FLOAT : PTX_INTEGER};
}
template <class T> void add_equalities(ptx_opcodes &table, const std::string &type) {
    add_compare<T, equal>(table, "eq", type);
    add_compare<T, not_equal>(table, "ne", type);
}
template <class T> void add_orders(ptx_opcodes &table, const std::string &type) {
    add_equalities<T>(table, type);
    add_compare<T, less>(table, "lt", type);
    add_compare<T, less_equal>(table, "le", type);
    add_compare<T, greater>(table, "gt", type);
    add_compare<T, greater_equal>(table, "ge", type);
}

template <uint32_t (*operation)(uint32_t, uint32_t)>
void execute_predicates(ptx_warp &warp, const ptx_instruction &in) {
    set_predicate(warp, in.targets[0],
                  operation(warp.predicates[in.sources[0].number],
                            warp.predicates[in.sources[in.source_count - 1].number]));
}
uint32_t both(uint32_t a, uint32_t b) {
    return a & b;
}
uint32_t either(uint32_t a, uint32_t b) {
    return a | b;
}
uint32_t one_of(uint32_t a, uint32_t b) {
    return a ^ b;
}
uint32_t neither(uint32_t a, uint32_t b) {
    return ~(a | b);
}

template <class T> void add_moves(ptx_opcodes &table, std::initializer_list<const char *> types) {
    for (const std::string type : types) {
        table["mov" + type] = {execute_move<T>, ptx_shape<T, T>(), PTX_MOVE};
        table["selp" + type] = {execute_select<T>, ptx_shape<T, T, T>() + "p", PTX_MOVE};
    }
}

} // namespace

void ptx_add_move(ptx_opcodes &table) {
    add_moves<uint16_t>(table, {".b16", ".u16", ".s16"});
    add_moves<uint32_t>(table, {".b32", ".u32", ".s32", ".f32"});
    add_moves<uint64_t>(table, {".b64", ".u64", ".s64", ".f64"});
    table["mov.b32"].shape = table["mov.b64"].shape = "=VV";
    table["mov.pred"] = {execute_move_predicate, "=pp", PTX_MOVE};
    /* Global addresses are generic ones. */
    table["cvta.to.global.u64"] = table["mov.u64"];

    add_orders<uint16_t>(table, ".u16");
    add_orders<int16_t>(table, ".s16");
    add_orders<uint32_t>(table, ".u32");
    add_orders<int32_t>(table, ".s32");
    add_orders<uint64_t>(table, ".u64");
    add_orders<int64_t>(table, ".s64");
    add_orders<float>(table, ".f32");
    add_equalities<uint16_t>(table, ".b16");
    add_equalities<uint32_t>(table, ".b32");
    add_equalities<uint64_t>(table, ".b64");
    add_compare<float, unless<not_equal>>(table, "equ", ".f32");
    add_compare<float, unless<equal>>(table, "neu", ".f32");
    add_compare<float, unless<greater_equal>>(table, "ltu", ".f32");
    add_compare<float, unless<greater>>(table, "leu", ".f32");
    add_compare<float, unless<less_equal>>(table, "gtu", ".f32");
    add_compare<float, unless<less>>(table, "geu", ".f32");

    table["and.pred"] = {execute_predicates<both>, "=ppp", PTX_INTEGER};
    table["or.pred"] = {execute_predicates<either>, "=ppp", PTX_INTEGER};
    table["xor.pred"] = {execute_predicates<one_of>, "=ppp", PTX_INTEGER};
    table["not.pred"] = {execute_predicates<neither>, "=pp", PTX_INTEGER};
}
