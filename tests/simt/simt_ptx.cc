/* The warp-wide instructions: lanes bring their registers, tests/gpu_model computes. */
#include "simt_block.h"
#include "simt_race.h"

#include <cstring>

#include "simt_ptx.h"

struct gpu_model_clock simt_clock = GPU_MODEL_CLOCK;

uint64_t simt_globaltimer() {
    return gpu_model_globaltimer(&simt_clock);
}

uint64_t simt_clock64() {
    return gpu_model_clock64(&simt_clock);
}

namespace {

template <bool trans> void complete_ldmatrix(const void *const *in, void *const *out) {
    uint8_t rows[GPU_MODEL_LANES][GPU_MODEL_ROW_BYTES];
    uint32_t registers[GPU_MODEL_LANES][4];
    for (uint32_t lane = 0; lane < GPU_MODEL_LANES; lane++)
        memcpy(rows[lane], in[lane], sizeof rows[lane]);
    gpu_model_ldmatrix_x4(rows, trans, registers);
    for (uint32_t lane = 0; lane < GPU_MODEL_LANES; lane++)
        memcpy(out[lane], registers[lane], sizeof registers[lane]);
}

void complete_movmatrix(const void *const *in, void *const *out) {
    uint32_t values[GPU_MODEL_LANES], moved[GPU_MODEL_LANES];
    for (uint32_t lane = 0; lane < GPU_MODEL_LANES; lane++)
        values[lane] = *static_cast<const uint32_t *>(in[lane]);
    gpu_model_movmatrix_trans(values, moved);
    for (uint32_t lane = 0; lane < GPU_MODEL_LANES; lane++)
        *static_cast<uint32_t *>(out[lane]) = moved[lane];
}

struct mma_registers {
    uint32_t a[4], b[2];
    float d[4];
};

template <bool bf16> void complete_mma(const void *const *in, void *const *out) {
    struct gpu_model_mma warp;
    for (uint32_t lane = 0; lane < GPU_MODEL_LANES; lane++) {
        const auto *own = static_cast<const mma_registers *>(in[lane]);
        memcpy(warp.a[lane], own->a, sizeof own->a);
        memcpy(warp.b[lane], own->b, sizeof own->b);
        memcpy(warp.d[lane], own->d, sizeof own->d);
    }
    gpu_model_mma(&warp, bf16);
    for (uint32_t lane = 0; lane < GPU_MODEL_LANES; lane++)
        memcpy(out[lane], warp.d[lane], sizeof warp.d[lane]);
}

} // namespace

void simt_ldmatrix_x4(uint32_t (&out)[4], uint32_t shared_row, bool trans, simt_place place) {
    const char *what = trans ? "ldmatrix.trans" : "ldmatrix";
    const unsigned char *row = simt_shared_at(shared_row, GPU_MODEL_ROW_BYTES, what, place);
    simt_race_touch(row, GPU_MODEL_ROW_BYTES, SIMT_RACE_WARP_READ, __builtin_return_address(0));
    simt_meet(what, row, out, trans ? complete_ldmatrix<true> : complete_ldmatrix<false>, place);
}

uint32_t simt_movmatrix_trans(uint32_t value, simt_place place) {
    uint32_t out;
    simt_meet("movmatrix", &value, &out, complete_movmatrix, place);
    return out;
}

void simt_mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, bool bf16,
              simt_place place) {
    const mma_registers registers = {{a[0], a[1], a[2], a[3]}, {b0, b1}, {d[0], d[1], d[2], d[3]}};
    simt_meet(bf16 ? "mma.bf16" : "mma.f16", &registers, d,
              bf16 ? complete_mma<true> : complete_mma<false>, place);
}
