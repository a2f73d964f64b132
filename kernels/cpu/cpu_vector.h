/* Vectors of fp32 lanes over GCC's and clang's vector extensions, sized for the instruction set a
 * file is compiled for, and the few conversions that need an intrinsic (with a portable path). */
#ifndef CPU_VECTOR_H
#define CPU_VECTOR_H

#include <stdint.h>
#include <string.h>

#if defined(__AVX512F__)
#include <immintrin.h>
#define CPU_LANES 16
#define CPU_BLOCK_TOKENS 4 /* score block: tokens x heads accumulators, and room for operands */
#elif defined(__AVX2__)
#include <immintrin.h>
#define CPU_LANES 8
#define CPU_BLOCK_TOKENS 4
#else
#if defined(__aarch64__)
#include <arm_neon.h>
#endif
#define CPU_LANES 4
#define CPU_BLOCK_TOKENS 4
#endif

typedef float vf __attribute__((vector_size(CPU_LANES * 4)));
typedef float vf_unaligned __attribute__((vector_size(CPU_LANES * 4), aligned(1), may_alias));
typedef int32_t vi __attribute__((vector_size(CPU_LANES * 4)));
typedef uint32_t vu __attribute__((vector_size(CPU_LANES * 4)));
typedef uint16_t vh __attribute__((vector_size(CPU_LANES * 2)));
typedef uint16_t vh_unaligned __attribute__((vector_size(CPU_LANES * 2), aligned(1), may_alias));
typedef uint8_t vb __attribute__((vector_size(CPU_LANES)));
typedef uint8_t vb_unaligned __attribute__((vector_size(CPU_LANES), aligned(1), may_alias));
typedef int8_t vsb __attribute__((vector_size(CPU_LANES)));

static inline vf vf_load(const float *from) {
    return *(const vf *)from;
}

static inline void vf_store(float *to, vf v) {
    *(vf *)to = v;
}

static inline vf vf_all(float x) {
    const vf zeros = {0};
    return x - zeros;
}

static inline vh vh_load(const uint8_t *from) {
    return (vh) * (const vh_unaligned *)from;
}

static inline vb vb_load(const uint8_t *from) {
    return (vb) * (const vb_unaligned *)from;
}

/* Widening loads: compilers split the generic conversion into halves where one instruction does. */
static inline vi vi_from_u8(vb codes) {
#if defined(__AVX512F__)
    return (vi)_mm512_cvtepu8_epi32((__m128i)codes);
#elif defined(__AVX2__)
    return (vi)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)&codes));
#else
    return __builtin_convertvector(codes, vi);
#endif
}

static inline vi vi_from_s8(vb codes) {
#if defined(__AVX512F__)
    return (vi)_mm512_cvtepi8_epi32((__m128i)codes);
#elif defined(__AVX2__)
    return (vi)_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)&codes));
#else
    return __builtin_convertvector((vsb)codes, vi);
#endif
}

static inline vi vi_from_u16(vh codes) {
#if defined(__AVX512F__)
    return (vi)_mm512_cvtepu16_epi32((__m256i)codes);
#elif defined(__AVX2__)
    return (vi)_mm256_cvtepu16_epi32((__m128i)codes);
#else
    return __builtin_convertvector(codes, vi);
#endif
}

static inline vh vh_from_u8(vb codes) {
#if defined(__AVX512F__)
    return (vh)_mm256_cvtepu8_epi16((__m128i)codes);
#elif defined(__AVX2__)
    return (vh)_mm_cvtepu8_epi16(_mm_loadl_epi64((const __m128i *)(const void *)&codes));
#else
    return __builtin_convertvector(codes, vh);
#endif
}

/* f16 codes to fp32. */
static inline vf vf_from_f16(vh codes) {
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

/* Selects table[index & 15]; only the low four bits of each index count. */
static inline vf vf_table16(const float table[16], vi index) {
#if defined(__AVX512F__)
    return (vf)_mm512_permutexvar_ps((__m512i)index, _mm512_loadu_ps(table));
#elif defined(__AVX2__)
    const __m256 low = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table), (__m256i)index);
    const __m256 high = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table + 8), (__m256i)index);
    return (vf)_mm256_blendv_ps(low, high,
                                _mm256_castsi256_ps(_mm256_slli_epi32((__m256i)index, 28)));
#else
    vf out;
    for (int i = 0; i < CPU_LANES; i++)
        out[i] = table[index[i] & 15];
    return out;
#endif
}

/* 2^x for x <= 0 (anything below -126 gives 0). Error below 2 ulp: a polynomial of degree 6 on
 * [-0.5, 0.5] and an exponent put in by hand. */
static inline vf vf_exp2(vf x) {
    const vf magic = vf_all(0x1.8p23f); /* adding it rounds to an integer */
    const vi alive = x > -126.0f;
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
    return (vf)(((vi)p + exponent) & alive);
}

static inline vf vf_max(vf a, vf b) {
    const vi greater = a > b;
    return (vf)(((vi)a & greater) | ((vi)b & ~greater));
}

static inline float vf_sum(vf v) {
    float sum = 0;
    for (int i = 0; i < CPU_LANES; i++)
        sum += v[i];
    return sum;
}

/* The sums of four vectors, side by side: out[i] = sum of all lanes of v_i. */
static inline void vf_sum4(vf a, vf b, vf c, vf d, float out[4]) {
    typedef float v4 __attribute__((vector_size(16)));
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
    const v4 sums = (v4)_mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
#elif CPU_LANES == 8
    const __m256 ab = _mm256_hadd_ps((__m256)a, (__m256)b);
    const __m256 cd = _mm256_hadd_ps((__m256)c, (__m256)d);
    const __m256 abcd = _mm256_hadd_ps(ab, cd);
    const v4 sums = (v4)_mm_add_ps(_mm256_castps256_ps128(abcd), _mm256_extractf128_ps(abcd, 1));
#else
    const v4 sums = {vf_sum(a), vf_sum(b), vf_sum(c), vf_sum(d)};
#endif
    memcpy(out, &sums, sizeof sums);
}

#endif
