/* The BLAS library of the distribution, opened when it is first needed. */
#ifndef CPU_BLAS_H
#define CPU_BLAS_H

#include <stdint.h>

/* BLAS as Fortran has it: column-major, everything by address, the lengths of the letters last. */
typedef void cpu_blas_sgemm(const char *transpose_a, const char *transpose_b, const int32_t *m,
                            const int32_t *n, const int32_t *k, const float *alpha, const float *a,
                            const int32_t *lda, const float *b, const int32_t *ldb,
                            const float *beta, float *c, const int32_t *ldc, uint64_t length_a,
                            uint64_t length_b);
typedef void cpu_blas_sgemv(const char *transpose, const int32_t *m, const int32_t *n,
                            const float *alpha, const float *a, const int32_t *lda, const float *x,
                            const int32_t *step_x, const float *beta, float *y,
                            const int32_t *step_y, uint64_t length);

struct cpu_blas {
    void *library; /* NULL until it is opened */
    char name[64];
    cpu_blas_sgemm *sgemm;
    cpu_blas_sgemv *sgemv;
};

void cpu_blas_close(struct cpu_blas *blas);

#endif
