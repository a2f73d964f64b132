/* Vectors of fp32 lanes over GCC's and clang's vector extensions, sized for the instruction set a
 * file is compiled for, and the few conversions that need an intrinsic (with a portable path). */
#ifndef CPU_VECTOR_H
#define CPU_VECTOR_H

#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#if defined(__AVX512F__)
#include <immintrin.h>
#define CPU_LANES 16
#define CPU_REGISTERS 32
#elif defined(__AVX2__)
#include <immintrin.h>
#define CPU_LANES 8
#define CPU_REGISTERS 16
#else
#if defined(__aarch64__)
#include <arm_neon.h>
#define CPU_REGISTERS 32
#else
#define CPU_REGISTERS 16
#endif
#define CPU_LANES 4
#endif

#define CPU_INLINE static inline __attribute__((always_inline))

#define CPU_PREFETCH(address) __builtin_prefetch(address, 0, 2) /* into the second level */

typedef float vf __attribute__((vector_size(CPU_LANES * 4)));
typedef float vf_unaligned __attribute__((vector_size(CPU_LANES * 4), aligned(1), may_alias));
typedef int32_t vi __attribute__((vector_size(CPU_LANES * 4)));
typedef uint32_t vu __attribute__((vector_size(CPU_LANES * 4)));
typedef uint16_t vh __attribute__((vector_size(CPU_LANES * 2)));
typedef uint16_t vh_unaligned __attribute__((vector_size(CPU_LANES * 2), aligned(1), may_alias));
typedef uint8_t vb __attribute__((vector_size(CPU_LANES)));
typedef uint8_t vb_unaligned __attribute__((vector_size(CPU_LANES), aligned(1), may_alias));
typedef int8_t vsb __attribute__((vector_size(CPU_LANES)));

CPU_INLINE vf vf_load(const float *from) {
    return *(const vf *)from;
}

CPU_INLINE void vf_store(float *to, vf v) {
    *(vf *)to = v;
}

CPU_INLINE vf vf_all(float x) {
    const vf zeros = {0};
    return x - zeros;
}

CPU_INLINE vh vh_load(const uint8_t *from) {
    return (vh) * (const vh_unaligned *)from;
}

CPU_INLINE vb vb_load(const uint8_t *from) {
    return (vb) * (const vb_unaligned *)from;
}

/* Widening loads: compilers split the generic conversion into halves where one instruction does. */
CPU_INLINE vi vi_from_u8(vb codes) {
#if defined(__AVX512F__)
    return (vi)_mm512_cvtepu8_epi32((__m128i)codes);
#elif defined(__AVX2__)
    return (vi)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)&codes));
#else
    return __builtin_convertvector(codes, vi);
#endif
}

CPU_INLINE vi vi_from_s8(vb codes) {
#if defined(__AVX512F__)
    return (vi)_mm512_cvtepi8_epi32((__m128i)codes);
#elif defined(__AVX2__)
    return (vi)_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)&codes));
#else
    return __builtin_convertvector((vsb)codes, vi);
#endif
}

CPU_INLINE vi vi_from_u16(vh codes) {
#if defined(__AVX512F__)
    return (vi)_mm512_cvtepu16_epi32((__m256i)codes);
#elif defined(__AVX2__)
    return (vi)_mm256_cvtepu16_epi32((__m128i)codes);
#else
    return __builtin_convertvector(codes, vi);
#endif
}

CPU_INLINE vh vh_from_u8(vb codes) {
#if defined(__AVX512F__)
    return (vh)_mm256_cvtepu8_epi16((__m128i)codes);
#elif defined(__AVX2__)
    return (vh)_mm_cvtepu8_epi16(_mm_loadl_epi64((const __m128i *)(const void *)&codes));
#else
    return __builtin_convertvector(codes, vh);
#endif
}

/* Sign-extended. */
CPU_INLINE vh vh_from_s8(vb codes) {
#if defined(__AVX512F__)
    return (vh)_mm256_cvtepi8_epi16((__m128i)codes);
#elif defined(__AVX2__)
    return (vh)_mm_cvtepi8_epi16(_mm_loadl_epi64((const __m128i *)(const void *)&codes));
#else
    typedef int16_t vsh __attribute__((vector_size(CPU_LANES * 2)));
    return (vh) __builtin_convertvector((vsb)codes, vsh);
#endif
}

/* The upper half of each lane. */
CPU_INLINE vh vh_from_upper(vu wide) {
#if defined(__AVX512F__)
    return (vh)_mm512_cvtepi32_epi16(_mm512_srli_epi32((__m512i)wide, 16));
#elif defined(__AVX2__)
    const __m256i in_halves = _mm256_shuffle_epi8(
        (__m256i)wide, _mm256_broadcastsi128_si256(_mm_setr_epi8(2, 3, 6, 7, 10, 11, 14, 15, -1, -1,
                                                                 -1, -1, -1, -1, -1, -1)));
    return (vh)_mm256_castsi256_si128(_mm256_permute4x64_epi64(in_halves, 0x08));
#else
    return __builtin_convertvector(wide >> 16, vh);
#endif
}

/* f16 codes to fp32. */
CPU_INLINE vf vf_from_f16(vh codes) {
#if defined(__AVX512F__)
    return (vf)_mm512_cvtph_ps((__m256i)codes);
#elif defined(__AVX2__)
    return (vf)_mm256_cvtph_ps((__m128i)codes);
#elif defined(__aarch64__)
    return (vf)vcvt_f32_f16(vreinterpret_f16_u16((uint16x4_t)codes));
#else
    /* Rebias by a multiplication; exact, subnormals included. Infinity and NaN keep their
     * exponent by hand. */
    const vu wide = __builtin_convertvector(codes, vu);
    const vu magnitude = (wide & 0x7FFFu) << 13;
    vf value = (vf)magnitude * 0x1p112f;
    const vu special = (vu)(magnitude >= 0x0F800000u) & 0x7F800000u;
    value = (vf)((vu)value | special | (wide & 0x8000u) << 16);
    return value;
#endif
}

/* CPU_LANES codes of CPU_LANES / 2 bytes, even element in the low nibble. Only the low four bits of
 * each lane count; the others are noise. */
CPU_INLINE vi vi_from_nibbles(const uint8_t *payload) {
    typedef uint8_t bytes __attribute__((vector_size(CPU_LANES / 2)));
    typedef uint64_t wide __attribute__((vector_size(CPU_LANES * 4)));
    bytes b;
    memcpy(&b, payload, sizeof b);
#if defined(__AVX512F__)
    const wide q = (wide)_mm512_cvtepu8_epi64(_mm_loadl_epi64((const __m128i *)(const void *)&b));
#else
    const wide q = __builtin_convertvector(b, wide);
#endif
    return (vi)(q | q << 28);
}

#if defined(__AVX2__)
/* table[index & 15] * scale, the table scaled first: vectors under one scale share that. */
CPU_INLINE vf vf_table16(const float table[16], vi index, float scale) {
#if defined(__AVX512F__)
    return (vf)_mm512_permutexvar_ps((__m512i)index, (__m512)(vf_load(table) * scale));
#else
    const __m256 low = _mm256_permutevar8x32_ps((__m256)(vf_load(table) * scale), (__m256i)index);
    const __m256 high =
        _mm256_permutevar8x32_ps((__m256)(vf_load(table + 8) * scale), (__m256i)index);
    return (vf)_mm256_blendv_ps(low, high,
                                _mm256_castsi256_ps(_mm256_slli_epi32((__m256i)index, 28)));
#endif
}
#endif

/* e2m1 by the low four bits of each lane, times `scale`. */
CPU_INLINE vf vf_from_e2m1(vi codes, float scale) {
#if defined(__AVX2__)
    alignas(64) static const float table[16] = {
        0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};
    return vf_table16(table, codes, scale);
#else
    /* Twice the magnitude, 0 1 2 3 4 6 8 12 for the codes 0 to 7, by comparisons. */
    const vi m = codes & 7;
    const vi twice = m + ((m - 4) & (vi)(m > 4)) + (2 & (vi)(m == 7));
    const vf value = __builtin_convertvector(twice, vf) * 0.5f;
    return (vf)((vi)value | (codes & 8) << 28) * scale;
#endif
}

/* q4_0's -8 to 7 by the low four bits of each lane, times `scale`. */
CPU_INLINE vf vf_from_q4(vi codes, float scale) {
#if defined(__AVX2__)
    alignas(64) static const float table[16] = {-8, -7, -6, -5, -4, -3, -2, -1,
                                                0,  1,  2,  3,  4,  5,  6,  7};
    return vf_table16(table, codes, scale);
#else
    const vi value = (codes & 15) - 8;
    return __builtin_convertvector(value, vf) * scale;
#endif
}

/* 2^x for x <= 0 (anything up to -126 gives 0, NaN stays NaN). Error below 2 ulp: a polynomial of
 * degree 6 on
 * [-0.5, 0.5] and an exponent put in by hand. */
CPU_INLINE vf vf_exp2(vf x) {
    const vf magic = vf_all(0x1.8p23f); /* adding it rounds to an integer */
    const vi none = x <= -126.0f;
    const vf rounded = (x + magic) - magic;
    const vf f = x - rounded;
    vf p = vf_all(1.535336188319500e-4f);
    p = p * f + 1.339887440266574e-3f;
    p = p * f + 9.618437357674640e-3f;
    p = p * f + 5.550332471162809e-2f;
    p = p * f + 2.402264791363012e-1f;
    p = p * f + 6.931472028550421e-1f;
    p = p * f + 1.0f;
    const vi exponent = __builtin_convertvector(rounded, vi) << 23;
    return (vf)(((vi)p + exponent) & ~none);
}

CPU_INLINE vf vf_max(vf a, vf b) {
    const vi greater = a > b;
    return (vf)(((vi)a & greater) | ((vi)b & ~greater));
}

CPU_INLINE float vf_sum(vf v) {
    float sum = 0;
    for (int i = 0; i < CPU_LANES; i++)
        sum += v[i];
    return sum;
}

/* True when a lane of `v` is larger than `than`. */
CPU_INLINE bool vf_any_above(vf v, float than) {
#if defined(__AVX512F__)
    return _mm512_cmp_ps_mask((__m512)v, _mm512_set1_ps(than), _CMP_GT_OQ) != 0;
#elif defined(__AVX2__)
    return _mm256_movemask_ps(_mm256_cmp_ps((__m256)v, _mm256_set1_ps(than), _CMP_GT_OQ)) != 0;
#elif defined(__aarch64__)
    return vmaxvq_u32((uint32x4_t)(v > than)) != 0;
#else
    bool any = false;
    for (int i = 0; i < CPU_LANES; i++)
        any = any || v[i] > than;
    return any;
#endif
}

typedef float v4f __attribute__((vector_size(16)));

/* The sums of four vectors, side by side: lane i is the sum of all lanes of the i-th. */
CPU_INLINE v4f vf_sum4(vf a, vf b, vf c, vf d) {
#if CPU_LANES == 16
    const __m512 ab = _mm512_add_ps(_mm512_unpacklo_ps((__m512)a, (__m512)b),
                                    _mm512_unpackhi_ps((__m512)a, (__m512)b));
    const __m512 cd = _mm512_add_ps(_mm512_unpacklo_ps((__m512)c, (__m512)d),
                                    _mm512_unpackhi_ps((__m512)c, (__m512)d));
    const __m512d abd = _mm512_castps_pd(ab), cdd = _mm512_castps_pd(cd);
    const __m512 abcd = _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(abd, cdd)),
                                      _mm512_castpd_ps(_mm512_unpackhi_pd(abd, cdd)));
    const __m256 half =
        _mm256_add_ps(_mm512_castps512_ps256(abcd), _mm512_extractf32x8_ps(abcd, 1));
    return (v4f)_mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
#elif CPU_LANES == 8
    const __m256 ab = _mm256_hadd_ps((__m256)a, (__m256)b);
    const __m256 cd = _mm256_hadd_ps((__m256)c, (__m256)d);
    const __m256 abcd = _mm256_hadd_ps(ab, cd);
    return (v4f)_mm_add_ps(_mm256_castps256_ps128(abcd), _mm256_extractf128_ps(abcd, 1));
#elif defined(__aarch64__)
    return (v4f)vpaddq_f32(vpaddq_f32((float32x4_t)a, (float32x4_t)b),
                           vpaddq_f32((float32x4_t)c, (float32x4_t)d));
#else
    return (v4f){vf_sum(a), vf_sum(b), vf_sum(c), vf_sum(d)};
#endif
}

#endif
