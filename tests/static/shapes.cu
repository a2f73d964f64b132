/* Prints, as JSON lines, what the narrow kernel of each format holds in shared memory at head dim
 * 128: numbers that the report needs and that live in the kernels' own constants. */
#include <cstdio>

#include "attend_mma.cuh"

template <class F> static void print(const char *name) {
    typedef attend_mma_shape<F, F, 128, 128, 1> S;
    typedef typename S::parts P;
    /* a row's scales are one asynchronous copy for K and V each */
    const uint32_t scales = P::K_SCALES_ROW > 0 ? 2 * S::TOGETHER : 0;
    const uint32_t rows = S::TOGETHER * 16 * (P::K_ROW + P::V_ROW) / 512;
    if (P::RAW)
        return;
    std::printf("{\"format\": \"%s\", \"kv_values\": %u, \"copies\": %u, \"lookups\": %u, "
                "\"stage_bytes\": %u, \"beside_rings_bytes\": %u, \"ring_least_bytes\": %u, "
                "\"bytes_per_value\": %.5f}\n",
                name, S::STAGE_TOKENS * 256, rows + scales, S::TOGETHER, S::STAGE_BYTES,
                S::QUERY_BYTES, S::MERGE_BYTES, (P::K_ROW + P::K_SCALES_ROW) / 128.0);
}

int main() {
#define MMA_FORMAT(ID, id) print<decode_##id>(#id);
#include "mma_formats.def"
#undef MMA_FORMAT
    return 0;
}
