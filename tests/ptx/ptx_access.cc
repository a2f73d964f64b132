/* Loads, stores and atomic additions. */
#include "ptx_counter.h"
#include "ptx_lanes.h"
#include "ptx_memory.h"

namespace {

enum space { GLOBAL, SHARED, PARAMETER };

/* Where each lane's bytes start. */
struct addresses {
    uint64_t of[PTX_LANES];

    addresses(const ptx_warp &warp, const ptx_instruction &in, space where) {
        ptx_each_lane(warp, [&](uint32_t i) {
            of[i] = ptx_lane_bits(warp, in.sources[0], i) + (uint64_t)in.offsets[0];
            if (where == SHARED)
                of[i] = (uint32_t)of[i];
        });
    }
};

void count(const ptx_warp &warp, const ptx_instruction &in, space where, const addresses &at,
           uint32_t bytes) {
    if (warp.block->counter == nullptr || where == PARAMETER)
        return;
    if (where == SHARED)
        ptx_count_shared(warp, in, at.of, bytes);
    else
        ptx_count_global(warp, in, at.of, warp.now, bytes);
}

void read_parameter(const ptx_block &block, uint64_t at, uint32_t bytes, void *to) {
    const uint32_t size = block.kernel->parameter_bytes;
    if (at >= size || bytes > size - at)
        ptx_fail("read of %u bytes at byte %lld of %u bytes of parameters: out of bounds", bytes,
                 (long long)at, size);
    if (at % bytes != 0)
        ptx_fail("read of %u bytes at byte %llu of the parameters: misaligned", bytes,
                 (unsigned long long)at);
    memcpy(to, block.arguments + at, bytes);
}

template <space where, uint32_t bytes>
void read(ptx_warp &warp, uint32_t lane, uint64_t at, void *to) {
    warp.lane = lane;
    if constexpr (where == SHARED) {
        warp.block->shared.read<bytes>(ptx_thread(warp, lane), (uint32_t)at, to);
    } else if constexpr (where == PARAMETER) {
        read_parameter(*warp.block, at, bytes, to);
    } else {
        ptx_memory_check(at, bytes, "read");
        memcpy(to, reinterpret_cast<const void *>(at), bytes);
    }
}
template <space where, uint32_t bytes>
void write(ptx_warp &warp, uint32_t lane, uint64_t at, const void *from) {
    warp.lane = lane;
    if constexpr (where == SHARED) {
        warp.block->shared.write<bytes>(ptx_thread(warp, lane), (uint32_t)at, from);
    } else {
        ptx_memory_check(at, bytes, "write");
        memcpy(reinterpret_cast<void *>(at), from, bytes);
    }
}

template <class T, uint32_t many>
void set_targets(ptx_warp &warp, const ptx_instruction &in, uint32_t lane, const T *values) {
    for (uint32_t i = 0; i < many; i++)
        ptx_set_lane_bits(warp, in.targets[i], lane, (uint64_t)(int64_t)values[i]);
}

/* Signed values fill wider registers by their sign. */
template <class T, space where, uint32_t many>
void execute_load(ptx_warp &warp, const ptx_instruction &in) {
    constexpr uint32_t bytes = many * (uint32_t)sizeof(T);
    T values[many];
    if (where == PARAMETER && in.sources[0].base == PTX_BASE_CONSTANTS) { /* one for all lanes */
        read<where, bytes>(warp, 0, ptx_lane_bits(warp, in.sources[0], 0) + (uint64_t)in.offsets[0],
                           values);
        ptx_each_lane(warp, [&](uint32_t lane) { set_targets<T, many>(warp, in, lane, values); });
        return;
    }
    const addresses at(warp, in, where);
    count(warp, in, where, at, bytes);
    ptx_each_lane(warp, [&](uint32_t lane) {
        read<where, bytes>(warp, lane, at.of[lane], values);
        set_targets<T, many>(warp, in, lane, values);
    });
}

template <class T, space where, uint32_t many>
void execute_store(ptx_warp &warp, const ptx_instruction &in) {
    constexpr uint32_t bytes = many * (uint32_t)sizeof(T);
    const addresses at(warp, in, where);
    count(warp, in, where, at, bytes);
    ptx_each_lane(warp, [&](uint32_t lane) {
        T values[many];
        for (uint32_t i = 0; i < many; i++)
            values[i] = (T)ptx_lane_bits(warp, in.sources[1 + i], lane);
        write<where, bytes>(warp, lane, at.of[lane], values);
    });
}

/* One lane after the other. The target, where there is one, gets what was there before. */
template <class T> void execute_add(ptx_warp &warp, const ptx_instruction &in) {
    const addresses at(warp, in, GLOBAL);
    count(warp, in, GLOBAL, at, sizeof(T));
    ptx_each_lane(warp, [&](uint32_t lane) {
        T value;
        read<GLOBAL, sizeof value>(warp, lane, at.of[lane], &value);
        const T sum = (T)(value + (T)ptx_lane_bits(warp, in.sources[1], lane));
        memcpy(reinterpret_cast<void *>(at.of[lane]), &sum, sizeof sum);
        if (in.target_count == 1)
            ptx_set_lane_bits(warp, in.targets[0], lane, value);
    });
}

void execute_shared_add(ptx_warp &warp, const ptx_instruction &in) {
    const addresses at(warp, in, SHARED);
    count(warp, in, SHARED, at, sizeof(uint32_t));
    ptx_each_lane(warp, [&](uint32_t lane) {
        uint32_t before;
        warp.lane = lane;
        warp.block->shared.add(ptx_thread(warp, lane), (uint32_t)at.of[lane],
                               (uint32_t)ptx_lane_bits(warp, in.sources[1], lane), &before);
        if (in.target_count == 1)
            ptx_set_lane_bits(warp, in.targets[0], lane, before);
    });
}

/* vector: ".v2", values: "{xx}" for two of them. */
template <class T, space where, uint32_t many>
void add_vector(ptx_opcodes &table, const std::string &infix, const std::string &type,
                const std::string &vector, const std::string &values) {
    const ptx_class kind = where == SHARED ? PTX_SHARED : where == GLOBAL ? PTX_GLOBAL : PTX_PARAM;
    if constexpr (many * sizeof(T) <= 16) {
        table["ld" + infix + vector + type] = {execute_load<T, where, many>, "=" + values + "A",
                                               kind};
        if constexpr (where != PARAMETER)
            table["st" + infix + vector + type] = {execute_store<T, where, many>, "A" + values,
                                                   kind};
    }
}
template <class T, space where>
void add_space(ptx_opcodes &table, const std::string &infix, const std::string &type) {
    add_vector<T, where, 1>(table, infix, type, "", "x");
    add_vector<T, where, 2>(table, infix, type, ".v2", "{xx}");
    add_vector<T, where, 4>(table, infix, type, ".v4", "{xxxx}");
}

template <class T> void add_type(ptx_opcodes &table, const std::string &type) {
    add_space<T, PARAMETER>(table, ".param", type);
    if constexpr (sizeof(T) > 1) /* the shared memory's history has cells of two bytes */
        add_space<T, SHARED>(table, ".shared", type);
    /* Nothing here is both written by a kernel and read through .nc. */
    for (const char *infix : {"", ".global", ".global.nc", ".global.nc.L1::no_allocate"})
        add_space<T, GLOBAL>(table, infix, type);
}

} // namespace

void ptx_add_memory(ptx_opcodes &table) {
    add_type<uint8_t>(table, ".u8");
    add_type<uint8_t>(table, ".b8");
    add_type<int8_t>(table, ".s8");
    add_type<uint16_t>(table, ".u16");
    add_type<uint16_t>(table, ".b16");
    add_type<int16_t>(table, ".s16");
    add_type<uint32_t>(table, ".u32");
    add_type<uint32_t>(table, ".b32");
    add_type<uint32_t>(table, ".f32");
    add_type<int32_t>(table, ".s32");
    add_type<uint64_t>(table, ".u64");
    add_type<uint64_t>(table, ".b64");
    add_type<int64_t>(table, ".s64");
    table["atom.global.add.u64"] = {execute_add<uint64_t>, "=lAl", PTX_GLOBAL};
    table["red.global.add.u64"] = {execute_add<uint64_t>, "Al", PTX_GLOBAL};
    table["atom.global.add.u32"] = {execute_add<uint32_t>, "=wAw", PTX_GLOBAL};
    table["red.global.add.u32"] = {execute_add<uint32_t>, "Aw", PTX_GLOBAL};
    table["atom.shared.add.u32"] = {execute_shared_add, "=wAw", PTX_SHARED};
    table["red.shared.add.u32"] = {execute_shared_add, "Aw", PTX_SHARED};
}
