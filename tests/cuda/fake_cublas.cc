/* The few functions of cuBLAS and cublasLt that kernels/cuda calls, in loops on the host: results,
 * what they must be given, and nothing of how fast. A library of its own; work goes to the fake
 * runtime's streams. */
#include <cublasLt.h>
#include <cublas_v2.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "fake_runtime.h"

struct cublasContext {
    cudaStream_t stream;
    void *workspace;
    size_t workspace_bytes;
};
struct cublasLtContext {
    int unused;
};

namespace {

struct matrix {
    const void *values; /* or, of a batch, pointers to them */
    cudaDataType type;
    int ld;
    bool transposed;
};

struct product {
    int m, n, k, batch; /* batch 0: pointers are the matrices themselves */
    float alpha, beta;
    matrix a, b;
    void *c;
    int c_ld;
    unsigned char *workspace;
    size_t workspace_bytes;
};

/* As the library asks of a workspace, and of matrices where no preference says otherwise. */
bool on_256(const void *address) {
    return reinterpret_cast<uintptr_t>(address) % 256 == 0;
}

float e4m3(unsigned char code) {
    const int exponent = code >> 3 & 15, mantissa = code & 7;
    float value = exponent == 0 ? (float)mantissa / 512 : (float)(8 + mantissa) / 8;
    for (int i = 7; exponent > 0 && i < exponent; i++)
        value *= 2;
    for (int i = exponent; exponent > 0 && i < 7; i++)
        value /= 2;
    return (code & 128) != 0 ? -value : value;
}

float load(const matrix &from, const void *values, size_t index) {
    if (from.type == CUDA_R_32F)
        return static_cast<const float *>(values)[index];
    if (from.type == CUDA_R_8F_E4M3)
        return e4m3(static_cast<const unsigned char *>(values)[index]);
    const unsigned bits = (unsigned)static_cast<const unsigned short *>(values)[index] << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

void multiply(const product &p, const void *a, const void *b, float *c) {
    for (int j = 0; j < p.n; j++)
        for (int i = 0; i < p.m; i++) {
            float sum = 0;
            for (int l = 0; l < p.k; l++)
                sum +=
                    load(p.a, a, p.a.transposed ? l + (size_t)i * p.a.ld : i + (size_t)l * p.a.ld) *
                    load(p.b, b, l + (size_t)j * p.b.ld);
            float *to = c + i + (size_t)j * p.c_ld;
            *to = p.alpha * sum + (p.beta != 0 ? p.beta * *to : 0);
        }
    for (int j = 0; j < p.n; j++)
        fake_runtime_written(c + (size_t)j * p.c_ld, (uint64_t)p.m * sizeof(float));
}

/* When the stream comes to it. The workspace is written, as the library may. */
void run(const void *arguments) {
    product p;
    memcpy(&p, arguments, sizeof p);
    memset(p.workspace, 0xA5, 64);
    memset(p.workspace + p.workspace_bytes - 64, 0xA5, 64);
    fake_runtime.products++;
    if (p.batch == 0)
        multiply(p, p.a.values, p.b.values, static_cast<float *>(p.c));
    for (int i = 0; i < p.batch; i++)
        multiply(p, static_cast<void *const *>(p.a.values)[i],
                 static_cast<void *const *>(p.b.values)[i], static_cast<float *const *>(p.c)[i]);
}

cublasStatus_t give(cudaStream_t stream, const product &p) {
    const bool bad_a = p.a.ld < (p.a.transposed ? p.k : p.m);
    if (p.m <= 0 || p.n <= 0 || p.k <= 0 || bad_a || p.b.ld < p.k || p.c_ld < p.m ||
        p.b.transposed || p.a.type != p.b.type || p.workspace == nullptr)
        return CUBLAS_STATUS_INVALID_VALUE;
    return fake_runtime_give(stream, run, &p, sizeof p) == cudaSuccess
               ? CUBLAS_STATUS_SUCCESS
               : CUBLAS_STATUS_EXECUTION_FAILED;
}

#define ENTER()                                                                                    \
    do {                                                                                           \
        if (fake_runtime_enter(__func__) != cudaSuccess)                                           \
            return CUBLAS_STATUS_EXECUTION_FAILED;                                                 \
    } while (0)

/* cublasLt's descriptions keep their numbers in the opaque words. */
template <class T> cublasStatus_t make(T **out) {
    *out = static_cast<T *>(calloc(1, sizeof **out));
    fake_runtime.blas_objects++;
    return CUBLAS_STATUS_SUCCESS;
}
template <class T> cublasStatus_t unmake(T *object) {
    free(object);
    fake_runtime.blas_objects--;
    return CUBLAS_STATUS_SUCCESS;
}
enum { WORD_TYPE, WORD_ROWS, WORD_COLS, WORD_LD };

} // namespace

extern "C" {

cublasStatus_t cublasCreate_v2(cublasHandle_t *out) {
    ENTER();
    *out = new cublasContext{};
    fake_runtime.blas_handles++;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
    delete handle;
    fake_runtime.blas_handles--;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasGetVersion_v2(cublasHandle_t, int *version) {
    ENTER();
    *version = CUBLAS_VERSION;
    return CUBLAS_STATUS_SUCCESS;
}
/* As the library does: a stream of its own takes the workspace away. */
cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
    ENTER();
    *handle = {stream, nullptr, 0};
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void *workspace, size_t bytes) {
    ENTER();
    if (!on_256(workspace))
        return CUBLAS_STATUS_INVALID_VALUE;
    handle->workspace = workspace;
    handle->workspace_bytes = bytes;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGemmBatchedEx(cublasHandle_t handle, cublasOperation_t transa,
                                   cublasOperation_t transb, int m, int n, int k, const void *alpha,
                                   const void *const a[], cudaDataType a_type, int lda,
                                   const void *const b[], cudaDataType b_type, int ldb,
                                   const void *beta, void *const c[], cudaDataType c_type, int ldc,
                                   int batch, cublasComputeType_t compute, cublasGemmAlgo_t) {
    ENTER();
    if (batch <= 0 || c_type != CUDA_R_32F || compute != CUBLAS_COMPUTE_32F)
        return CUBLAS_STATUS_INVALID_VALUE;
    const product p = {m,
                       n,
                       k,
                       batch,
                       *static_cast<const float *>(alpha),
                       *static_cast<const float *>(beta),
                       {a, a_type, lda, transa == CUBLAS_OP_T},
                       {b, b_type, ldb, transb == CUBLAS_OP_T},
                       (void *)c,
                       ldc,
                       static_cast<unsigned char *>(handle->workspace),
                       handle->workspace_bytes};
    return give(handle->stream, p);
}
cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t transa,
                            cublasOperation_t transb, int m, int n, int k, const void *alpha,
                            const void *a, cudaDataType a_type, int lda, const void *b,
                            cudaDataType b_type, int ldb, const void *beta, void *c,
                            cudaDataType c_type, int ldc, cublasComputeType_t compute,
                            cublasGemmAlgo_t) {
    ENTER();
    if (c_type != CUDA_R_32F || compute != CUBLAS_COMPUTE_32F || a_type == CUDA_R_8F_E4M3)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    const product p = {m,
                       n,
                       k,
                       0,
                       *static_cast<const float *>(alpha),
                       *static_cast<const float *>(beta),
                       {a, a_type, lda, transa == CUBLAS_OP_T},
                       {b, b_type, ldb, transb == CUBLAS_OP_T},
                       c,
                       ldc,
                       static_cast<unsigned char *>(handle->workspace),
                       handle->workspace_bytes};
    return give(handle->stream, p);
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *out) {
    ENTER();
    *out = reinterpret_cast<cublasLtHandle_t>(new cublasLtContext{});
    fake_runtime.blas_handles++;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
    delete reinterpret_cast<cublasLtContext *>(handle);
    fake_runtime.blas_handles--;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *out, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
    ENTER();
    if (compute != CUBLAS_COMPUTE_32F || scale != CUDA_R_32F)
        return CUBLAS_STATUS_INVALID_VALUE;
    return make(out);
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
    return unmake(desc);
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void *value, size_t bytes) {
    ENTER();
    if (attribute != CUBLASLT_MATMUL_DESC_TRANSA || bytes != sizeof(int32_t))
        return CUBLAS_STATUS_INVALID_VALUE;
    desc->data[0] = *static_cast<const int32_t *>(value) == CUBLAS_OP_T;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out, cudaDataType type,
                                          uint64_t rows, uint64_t cols, int64_t ld) {
    ENTER();
    (void)make(out);
    (*out)->data[WORD_TYPE] = type;
    (*out)->data[WORD_ROWS] = rows;
    (*out)->data[WORD_COLS] = cols;
    (*out)->data[WORD_LD] = (uint64_t)ld;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
    return unmake(layout);
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *out) {
    ENTER();
    return make(out);
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
    return unmake(preference);
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void *, size_t bytes) {
    ENTER();
    return attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES && bytes == sizeof(uint64_t)
               ? CUBLAS_STATUS_SUCCESS
               : CUBLAS_STATUS_INVALID_VALUE;
}
/* fp8 needs the first matrix transposed, and rows on 16 bytes. */
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t, int,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int *found) {
    ENTER();
    const bool good = desc->data[0] != 0 && a->data[WORD_LD] % 16 == 0 &&
                      b->data[WORD_LD] % 16 == 0 && d->data[WORD_LD] % 4 == 0 &&
                      a->data[WORD_TYPE] == CUDA_R_8F_E4M3 && !fake_runtime.no_fp8_product;
    *found = good ? 1 : 0;
    results[0].algo.data[0] = 0xF8;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void *alpha,
                              const void *a, cublasLtMatrixLayout_t a_layout, const void *b,
                              cublasLtMatrixLayout_t b_layout, const void *beta, const void *c,
                              cublasLtMatrixLayout_t, void *d, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t *algorithm, void *workspace, size_t bytes,
                              cudaStream_t stream) {
    ENTER();
    if (algorithm == nullptr || algorithm->data[0] != 0xF8 || c != d ||
        d_layout->data[WORD_TYPE] != CUDA_R_32F || !on_256(a) || !on_256(b) || !on_256(d) ||
        !on_256(workspace))
        return CUBLAS_STATUS_INVALID_VALUE;
    const product p = {
        (int)d_layout->data[WORD_ROWS],
        (int)d_layout->data[WORD_COLS],
        (int)a_layout->data[WORD_ROWS],
        0,
        *static_cast<const float *>(alpha),
        *static_cast<const float *>(beta),
        {a, (cudaDataType)a_layout->data[WORD_TYPE], (int)a_layout->data[WORD_LD],
         desc->data[0] != 0},
        {b, (cudaDataType)b_layout->data[WORD_TYPE], (int)b_layout->data[WORD_LD], false},
        d,
        (int)d_layout->data[WORD_LD],
        static_cast<unsigned char *>(workspace),
        bytes};
    return give(stream, p);
}

} // extern "C"
