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

void read(ptx_warp &warp, space where, uint32_t lane, uint64_t at, uint32_t bytes, void *to) {
    warp.lane = lane;
    if (where == SHARED) {
        warp.block->shared.read(ptx_thread(warp, lane), (uint32_t)at, bytes, to);
    } else if (where == PARAMETER) {
        read_parameter(*warp.block, at, bytes, to);
    } else {
        ptx_memory_check(at, bytes, "read");
        memcpy(to, reinterpret_cast<const void *>(at), bytes);
    }
}

/* As many values as there are targets; signed ones fill wider registers by their sign. */
template <class T, space where> void execute_load(ptx_warp &warp, const ptx_instruction &in) {
    const addresses at(warp, in, where);
    const uint32_t bytes = in.target_count * (uint32_t)sizeof(T);
    count(warp, in, where, at, bytes);
    ptx_each_lane(warp, [&](uint32_t lane) {
        T values[4];
        read(warp, where, lane, at.of[lane], bytes, values);
        for (uint32_t i = 0; i < in.target_count; i++)
            ptx_set_lane_bits(warp, in.targets[i], lane, (uint64_t)(int64_t)values[i]);
    });
}

template <class T, space where> void execute_store(ptx_warp &warp, const ptx_instruction &in) {
    const addresses at(warp, in, where);
    const uint32_t values_count = in.source_count - 1u;
    const uint32_t bytes = values_count * (uint32_t)sizeof(T);
    count(warp, in, where, at, bytes);
    ptx_each_lane(warp, [&](uint32_t lane) {
        T values[4];
        for (uint32_t i = 0; i < values_count; i++)
            values[i] = (T)ptx_lane_bits(warp, in.sources[1 + i], lane);
        warp.lane = lane;
        if (where == SHARED) {
            warp.block->shared.write(ptx_thread(warp, lane), (uint32_t)at.of[lane], bytes, values);
        } else {
            ptx_memory_check(at.of[lane], bytes, "write");
            memcpy(reinterpret_cast<void *>(at.of[lane]), values, bytes);
        }
    });
}

/* One lane after the other. The target, where there is one, gets what was there before. */
template <class T> void execute_add(ptx_warp &warp, const ptx_instruction &in) {
    const addresses at(warp, in, GLOBAL);
    count(warp, in, GLOBAL, at, sizeof(T));
    ptx_each_lane(warp, [&](uint32_t lane) {
        T value;
        read(warp, GLOBAL, lane, at.of[lane], sizeof value, &value);
        const T sum = (T)(value + (T)ptx_lane_bits(warp, in.sources[1], lane));
        memcpy(reinterpret_cast<void *>(at.of[lane]), &sum, sizeof sum);
        if (in.target_count == 1)
            ptx_set_lane_bits(warp, in.targets[0], lane, value);
    });
}

template <class T, space where>
void add_space(ptx_opcodes &table, const std::string &infix, const std::string &type) {
    const ptx_class kind = where == SHARED ? PTX_SHARED : where == GLOBAL ? PTX_GLOBAL : PTX_PARAM;
    const char *const vectors[] = {"", ".v2", ".v4"};
    const char *const values[] = {"x", "{xx}", "{xxxx}"};
    for (uint32_t i = 0; i < 3; i++) {
        if (sizeof(T) << i > 16)
            continue;
        table["ld" + infix + vectors[i] + type] = {execute_load<T, where>,
                                                   std::string("=") + values[i] + "A", kind};
        if (where != PARAMETER)
            table["st" + infix + vectors[i] + type] = {execute_store<T, where>,
                                                       std::string("A") + values[i], kind};
    }
}

template <class T> void add_type(ptx_opcodes &table, const std::string &type) {
    add_space<T, PARAMETER>(table, ".param", type);
    if (sizeof(T) > 1) /* the shared memory's history has cells of two bytes */
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
}
