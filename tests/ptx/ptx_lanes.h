/* How instructions get at the lanes of their operands. */
#ifndef PTX_LANES_H
#define PTX_LANES_H

#include <cstring>
#include <type_traits>

#include "ptx_opcode.h"
#include "ptx_warp.h"

/* The type that a register of T's width keeps in each lane. */
template <class T> using ptx_slot = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

template <class T> ptx_slot<T> *ptx_lanes(const ptx_warp &warp, const ptx_operand &operand) {
    return reinterpret_cast<ptx_slot<T> *>(warp.bases[operand.base] + operand.at);
}

/* Narrow numbers lie in the low bits, with zeros above them. */
template <class T> inline T ptx_from_slot(ptx_slot<T> slot) {
    if constexpr (std::is_floating_point<T>::value) {
        T value;
        memcpy(&value, &slot, sizeof value);
        return value;
    } else {
        return static_cast<T>(slot);
    }
}
template <class T> inline ptx_slot<T> ptx_to_slot(T value) {
    if constexpr (std::is_floating_point<T>::value) {
        ptx_slot<T> slot;
        memcpy(&slot, &value, sizeof slot);
        return slot;
    } else {
        return static_cast<std::make_unsigned_t<T>>(value);
    }
}

/* A register of any width as 64 bits, and back. */
inline uint64_t ptx_lane_bits(const ptx_warp &warp, const ptx_operand &operand, uint32_t lane) {
    return operand.bits == 64 ? ptx_lanes<uint64_t>(warp, operand)[lane]
                              : ptx_lanes<uint32_t>(warp, operand)[lane];
}
inline void ptx_set_lane_bits(const ptx_warp &warp, const ptx_operand &operand, uint32_t lane,
                              uint64_t bits) {
    if (operand.bits == 64)
        ptx_lanes<uint64_t>(warp, operand)[lane] = bits;
    else if (operand.bits == 32)
        ptx_lanes<uint32_t>(warp, operand)[lane] = (uint32_t)bits;
    else
        ptx_lanes<uint32_t>(warp, operand)[lane] =
            (uint32_t)bits & (operand.bits == 16 ? 0xFFFFu : 0xFFu);
}

/* Each lane is on its own: a target may be a source too. */
template <class Body> inline void ptx_each_lane(const ptx_warp &warp, Body body) {
    if (warp.now == PTX_ALL_LANES) {
        for (uint32_t lane = 0; lane < PTX_LANES; lane++)
            body(lane);
        return;
    }
    for (uint32_t lanes = warp.now; lanes != 0; lanes &= lanes - 1)
        body((uint32_t)__builtin_ctz(lanes));
}

/* Target = Operation()(sources...), R from A, B and C. */
template <class Operation, class R, class A>
void ptx_unary(ptx_warp &warp, const ptx_instruction &in) {
    ptx_slot<R> *const d = ptx_lanes<R>(warp, in.targets[0]);
    const ptx_slot<A> *const a = ptx_lanes<A>(warp, in.sources[0]);
    ptx_each_lane(warp, [=](uint32_t i) {
        d[i] = ptx_to_slot<R>(static_cast<R>(Operation()(ptx_from_slot<A>(a[i]))));
    });
}
template <class Operation, class R, class A, class B>
void ptx_binary(ptx_warp &warp, const ptx_instruction &in) {
    ptx_slot<R> *const d = ptx_lanes<R>(warp, in.targets[0]);
    const ptx_slot<A> *const a = ptx_lanes<A>(warp, in.sources[0]);
    const ptx_slot<B> *const b = ptx_lanes<B>(warp, in.sources[1]);
    ptx_each_lane(warp, [=](uint32_t i) {
        d[i] = ptx_to_slot<R>(
            static_cast<R>(Operation()(ptx_from_slot<A>(a[i]), ptx_from_slot<B>(b[i]))));
    });
}
template <class Operation, class R, class A, class B, class C>
void ptx_ternary(ptx_warp &warp, const ptx_instruction &in) {
    ptx_slot<R> *const d = ptx_lanes<R>(warp, in.targets[0]);
    const ptx_slot<A> *const a = ptx_lanes<A>(warp, in.sources[0]);
    const ptx_slot<B> *const b = ptx_lanes<B>(warp, in.sources[1]);
    const ptx_slot<C> *const c = ptx_lanes<C>(warp, in.sources[2]);
    ptx_each_lane(warp, [=](uint32_t i) {
        d[i] = ptx_to_slot<R>(static_cast<R>(
            Operation()(ptx_from_slot<A>(a[i]), ptx_from_slot<B>(b[i]), ptx_from_slot<C>(c[i]))));
    });
}

/* The letter of a shape. */
template <class T> constexpr char ptx_letter() {
    return sizeof(T) == 8 ? 'l' : sizeof(T) == 4 ? 'w' : 'h';
}
/* "=www" for one 32-bit target and two sources. */
template <class R, class... Sources> std::string ptx_shape() {
    return std::string{'=', ptx_letter<R>(), ptx_letter<Sources>()...};
}

template <class Operation, class R, class A>
void ptx_add_unary(ptx_opcodes &table, const std::string &name, ptx_class kind) {
    table[name] = {ptx_unary<Operation, R, A>, ptx_shape<R, A>(), kind};
}
template <class Operation, class R, class A, class B>
void ptx_add_binary(ptx_opcodes &table, const std::string &name, ptx_class kind) {
    table[name] = {ptx_binary<Operation, R, A, B>, ptx_shape<R, A, B>(), kind};
}
template <class Operation, class R, class A, class B, class C>
void ptx_add_ternary(ptx_opcodes &table, const std::string &name, ptx_class kind) {
    table[name] = {ptx_ternary<Operation, R, A, B, C>, ptx_shape<R, A, B, C>(), kind};
}

#endif
