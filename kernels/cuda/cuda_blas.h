/* cuBLAS and cublasLt, opened when they are first needed: the program starts and does all else
 * without them. Their functions are called through this table alone. */
#ifndef CUDA_BLAS_H
#define CUDA_BLAS_H

#include <cublasLt.h>
#include <cublas_v2.h>

#include "backend.h"

/* What NVIDIA advises for Hopper and newer; given explicitly, so that products can be recorded, and
 * part of whoever's workspace asks for products. */
#define CUDA_BLAS_WORKSPACE_BYTES ((uint64_t)32 << 20)

struct cuda_blas {
    void *library, *lt_library; /* NULL until opened */
    char name[64];              /* "libcublas.so.13 13.0.2" */
    cublasHandle_t handle;
    cublasLtHandle_t lt;

    cublasStatus_t (*create)(cublasHandle_t *handle);
    cublasStatus_t (*destroy)(cublasHandle_t handle);
    cublasStatus_t (*get_version)(cublasHandle_t handle, int *version);
    cublasStatus_t (*set_stream)(cublasHandle_t handle, cudaStream_t stream);
    cublasStatus_t (*set_workspace)(cublasHandle_t handle, void *workspace, size_t bytes);
    cublasStatus_t (*gemm)(cublasHandle_t handle, cublasOperation_t transa,
                           cublasOperation_t transb, int m, int n, int k, const void *alpha,
                           const void *a, cudaDataType a_type, int lda, const void *b,
                           cudaDataType b_type, int ldb, const void *beta, void *c,
                           cudaDataType c_type, int ldc, cublasComputeType_t compute,
                           cublasGemmAlgo_t algorithm);
    cublasStatus_t (*gemm_batched)(cublasHandle_t handle, cublasOperation_t transa,
                                   cublasOperation_t transb, int m, int n, int k, const void *alpha,
                                   const void *const a[], cudaDataType a_type, int lda,
                                   const void *const b[], cudaDataType b_type, int ldb,
                                   const void *beta, void *const c[], cudaDataType c_type, int ldc,
                                   int batch, cublasComputeType_t compute,
                                   cublasGemmAlgo_t algorithm);

    cublasStatus_t (*lt_create)(cublasLtHandle_t *handle);
    cublasStatus_t (*lt_destroy)(cublasLtHandle_t handle);
    cublasStatus_t (*desc_create)(cublasLtMatmulDesc_t *desc, cublasComputeType_t compute,
                                  cudaDataType_t scale);
    cublasStatus_t (*desc_destroy)(cublasLtMatmulDesc_t desc);
    cublasStatus_t (*desc_set)(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute,
                               const void *value, size_t bytes);
    cublasStatus_t (*layout_create)(cublasLtMatrixLayout_t *layout, cudaDataType type,
                                    uint64_t rows, uint64_t cols, int64_t ld);
    cublasStatus_t (*layout_destroy)(cublasLtMatrixLayout_t layout);
    cublasStatus_t (*preference_create)(cublasLtMatmulPreference_t *preference);
    cublasStatus_t (*preference_destroy)(cublasLtMatmulPreference_t preference);
    cublasStatus_t (*preference_set)(cublasLtMatmulPreference_t preference,
                                     cublasLtMatmulPreferenceAttributes_t attribute,
                                     const void *value, size_t bytes);
    cublasStatus_t (*heuristic)(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                cublasLtMatmulPreference_t preference, int asked,
                                cublasLtMatmulHeuristicResult_t results[], int *found);
    cublasStatus_t (*matmul)(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha,
                             const void *a, cublasLtMatrixLayout_t a_layout, const void *b,
                             cublasLtMatrixLayout_t b_layout, const void *beta, const void *c,
                             cublasLtMatrixLayout_t c_layout, void *d,
                             cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t *algorithm,
                             void *workspace, size_t bytes, cudaStream_t stream);
};

/* cuda_blas_open.c: opens cuBLAS, and cublasLt where `with_lt`; what is open stays so.
 * KVGAUGE_CUBLAS and KVGAUGE_CUBLASLT name other libraries. STATUS_MISSING names the library and
 * the package that brings it. */
enum status cuda_blas_open(struct backend_device *device, bool with_lt, struct status_text *text);
void cuda_blas_close(struct backend_device *device);
/* As cuda_check. */
enum status cuda_blas_check(cublasStatus_t error, const char *call, struct status_text *text);
/* Gives the device's stream and this workspace to cuBLAS for the calls that follow. */
enum status cuda_blas_begin(struct backend_device *device, void *dev_workspace,
                            struct status_text *text);

/* cuda_blas.c */
extern const enum backend_weights cuda_weights_formats[];
enum status cuda_libraries_open(struct backend_device *device, const char *kernel,
                                enum backend_weights weights, struct status_text *text);
enum status cuda_product(struct backend_device *device, const struct backend_product *work,
                         struct status_text *text);
uint64_t cuda_product_workspace_bytes(struct backend_device *device);

/* cuda_dense.c: the kernel `cublas`. It reads contiguous K and V: bf16, one page per sequence. */
#define CUDA_DENSE_NAME "cublas"
enum status cuda_dense_check(struct backend_device *device, const struct page_layout *page,
                             uint32_t query_heads, bool selected, struct status_text *text);
uint64_t cuda_dense_workspace_bytes(const struct page_layout *page, uint32_t query_heads,
                                    uint32_t segment_count);
enum status cuda_dense_attend(struct backend_device *device, const struct backend_attend *work,
                              struct status_text *text);

#endif
