/* What the CUDA headers' host path makes of fp32 values: reads hexadecimal bit patterns, one a
 * line, and prints the bf16, f16, e4m3, e5m2, e2m1 and e8m0 (rounded up) codes of each. Used by
 * generate.py only; needs the toolkit's include folder and no GPU. */
#include <cstdint>
#include <cstdio>
#include <cstring>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp4.h>
#include <cuda_fp8.h>

int main() {
    unsigned bits;
    while (std::scanf("%x", &bits) == 1) {
        float value;
        std::memcpy(&value, &bits, sizeof value);
        const __nv_bfloat16_raw bf16 = __float2bfloat16_rn(value);
        const __half_raw f16 = __float2half_rn(value);
        std::printf(
            "%04x %04x %02x %02x %x %02x\n", static_cast<unsigned>(bf16.x),
            static_cast<unsigned>(f16.x),
            static_cast<unsigned>(__nv_cvt_float_to_fp8(value, __NV_SATFINITE, __NV_E4M3)),
            static_cast<unsigned>(__nv_cvt_float_to_fp8(value, __NV_SATFINITE, __NV_E5M2)),
            static_cast<unsigned>(__nv_cvt_float_to_fp4(value, __NV_E2M1, cudaRoundNearest)) & 0xFu,
            static_cast<unsigned>(__nv_cvt_float_to_e8m0(value, __NV_SATFINITE, cudaRoundPosInf)));
    }
    return 0;
}
