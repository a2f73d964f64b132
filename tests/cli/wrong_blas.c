/* A BLAS whose products are wrong by a little: what a row then says, and how the program ends. */
#include <stdint.h>

void sgemm_(const char *transpose_a, const char *transpose_b, const int32_t *m, const int32_t *n,
            const int32_t *k, const float *alpha, const float *a, const int32_t *lda,
            const float *b, const int32_t *ldb, const float *beta, float *c, const int32_t *ldc);
void sgemv_(const char *transpose, const int32_t *m, const int32_t *n, const float *alpha,
            const float *a, const int32_t *lda, const float *x, const int32_t *step_x,
            const float *beta, float *y, const int32_t *step_y);

/* The last of the k terms is left out. */
void sgemm_(const char *transpose_a, const char *transpose_b, const int32_t *m, const int32_t *n,
            const int32_t *k, const float *alpha, const float *a, const int32_t *lda,
            const float *b, const int32_t *ldb, const float *beta, float *c, const int32_t *ldc) {
    (void)transpose_a, (void)transpose_b, (void)alpha, (void)beta;
    for (int32_t j = 0; j < *n; j++)
        for (int32_t i = 0; i < *m; i++) {
            float sum = 0;
            for (int32_t l = 0; l + 1 < *k; l++)
                sum += a[(int64_t)i * *lda + l] * b[(int64_t)j * *ldb + l];
            c[(int64_t)j * *ldc + i] = sum;
        }
}

void sgemv_(const char *transpose, const int32_t *m, const int32_t *n, const float *alpha,
            const float *a, const int32_t *lda, const float *x, const int32_t *step_x,
            const float *beta, float *y, const int32_t *step_y) {
    (void)step_x, (void)step_y;
    const int32_t one = 1;
    sgemm_(transpose, transpose, n, &one, m, alpha, a, lda, x, m, beta, y, n);
}
