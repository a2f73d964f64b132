/* Products with weights: bf16 and f32 by cuBLAS, fp8 by cublasLt. Column-major, a row of weights is
 * a column of `cols` values, which is transposed; outputs [batch][rows] are columns of `rows`. */
#include "cuda_blas.h"

#include <string.h>

#include "cuda_device.h"

enum { FP8_CAPABILITY = 89 }; /* in tenths */

const enum backend_weights cuda_weights_formats[] = {BACKEND_WEIGHTS_BF16, BACKEND_WEIGHTS_FP8_E4M3,
                                                     BACKEND_WEIGHTS_F32, BACKEND_WEIGHTS_NONE};

enum status cuda_libraries_open(struct backend_device *device, const char *kernel,
                                enum backend_weights weights, struct status_text *text) {
    const bool dense = kernel != NULL && strcmp(kernel, CUDA_DENSE_NAME) == 0;
    const bool fp8 = weights == BACKEND_WEIGHTS_FP8_E4M3;
    if (!dense && weights == BACKEND_WEIGHTS_NONE)
        return STATUS_OK;
    if (fp8 && device->capability < FP8_CAPABILITY)
        return status_set(
            text, STATUS_REFUSED,
            "--weights-format fp8_e4m3: %s has compute capability %d.%d, and products "
            "of fp8 need 8.9 (bf16 and f32 do not)",
            device->name, device->capability / 10, device->capability % 10);
    struct status_text why = {""};
    const enum status status = cuda_blas_open(device, fp8, &why);
    if (status == STATUS_OK)
        return STATUS_OK;
    return status_set(text, status, "%s: %s",
                      dense ? "--kernel cublas" : "weights are read through cuBLAS", why.line);
}

static enum status product_cublas(struct backend_device *device, const struct backend_product *work,
                                  cudaDataType type, struct status_text *text) {
    const struct cuda_blas *blas = &device->blas;
    const float one = 1.0f, zero = 0.0f;
    const int rows = (int)work->rows, batch = (int)work->batch, cols = (int)work->cols;
    return cuda_blas_check(blas->gemm(blas->handle, CUBLAS_OP_T, CUBLAS_OP_N, rows, batch, cols,
                                      &one, work->dev_weights, type, cols, work->dev_inputs, type,
                                      cols, &zero, work->dev_outputs, CUDA_R_32F, rows,
                                      CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
                           "cublasGemmEx", text);
}

/* What one cublasLt product is described by. */
struct lt_plan {
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t weights, inputs, outputs;
    cublasLtMatmulPreference_t preference;
    cublasLtMatmulHeuristicResult_t best;
};

static enum status lt_describe(const struct cuda_blas *blas, const struct backend_product *work,
                               struct lt_plan *plan, struct status_text *text) {
    const cublasOperation_t transposed = CUBLAS_OP_T;
    const int64_t cols = work->cols, rows = work->rows;
    const size_t workspace_bytes = (size_t)CUDA_BLAS_WORKSPACE_BYTES;
    enum status status =
        cuda_blas_check(blas->desc_create(&plan->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F),
                        "cublasLtMatmulDescCreate", text);
    if (status == STATUS_OK)
        status = cuda_blas_check(
            blas->desc_set(plan->desc, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed),
            "cublasLtMatmulDescSetAttribute", text);
    if (status == STATUS_OK)
        status = cuda_blas_check(
            blas->layout_create(&plan->weights, CUDA_R_8F_E4M3, work->cols, work->rows, cols),
            "cublasLtMatrixLayoutCreate", text);
    if (status == STATUS_OK)
        status = cuda_blas_check(
            blas->layout_create(&plan->inputs, CUDA_R_8F_E4M3, work->cols, work->batch, cols),
            "cublasLtMatrixLayoutCreate", text);
    if (status == STATUS_OK)
        status = cuda_blas_check(
            blas->layout_create(&plan->outputs, CUDA_R_32F, work->rows, work->batch, rows),
            "cublasLtMatrixLayoutCreate", text);
    if (status == STATUS_OK)
        status = cuda_blas_check(blas->preference_create(&plan->preference),
                                 "cublasLtMatmulPreferenceCreate", text);
    if (status == STATUS_OK)
        status = cuda_blas_check(blas->preference_set(plan->preference,
                                                      CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                      &workspace_bytes, sizeof workspace_bytes),
                                 "cublasLtMatmulPreferenceSetAttribute", text);
    return status;
}

static enum status lt_choose(const struct cuda_blas *blas, const struct backend_product *work,
                             struct lt_plan *plan, struct status_text *text) {
    int found = 0;
    const cublasStatus_t error =
        blas->heuristic(blas->lt, plan->desc, plan->weights, plan->inputs, plan->outputs,
                        plan->outputs, plan->preference, 1, &plan->best, &found);
    if (error == CUBLAS_STATUS_SUCCESS && found > 0)
        return STATUS_OK;
    return status_set(text, STATUS_REFUSED,
                      "cublasLt has no fp8 product of %u x %u weights with %u rows (status %d)",
                      work->rows, work->cols, work->batch, (int)error);
}

static enum status product_lt(struct backend_device *device, const struct backend_product *work,
                              struct status_text *text) {
    const struct cuda_blas *blas = &device->blas;
    const float one = 1.0f, zero = 0.0f;
    struct lt_plan plan = {0};
    if (blas->lt == NULL)
        return status_set(text, STATUS_REFUSED, "cublasLt is not open");
    enum status status = lt_describe(blas, work, &plan, text);
    if (status == STATUS_OK)
        status = lt_choose(blas, work, &plan, text);
    if (status == STATUS_OK)
        status = cuda_blas_check(blas->matmul(blas->lt, plan.desc, &one, work->dev_weights,
                                              plan.weights, work->dev_inputs, plan.inputs, &zero,
                                              work->dev_outputs, plan.outputs, work->dev_outputs,
                                              plan.outputs, &plan.best.algo, work->dev_workspace,
                                              (size_t)CUDA_BLAS_WORKSPACE_BYTES, device->stream),
                                 "cublasLtMatmul", text);
    if (plan.preference != NULL)
        (void)blas->preference_destroy(plan.preference);
    const cublasLtMatrixLayout_t layouts[] = {plan.weights, plan.inputs, plan.outputs};
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++)
        if (layouts[i] != NULL)
            (void)blas->layout_destroy(layouts[i]);
    if (plan.desc != NULL)
        (void)blas->desc_destroy(plan.desc);
    return status;
}

enum status cuda_product(struct backend_device *device, const struct backend_product *work,
                         struct status_text *text) {
    if (work->rows > INT32_MAX || work->cols > INT32_MAX || work->batch > INT32_MAX)
        return status_set(text, STATUS_REFUSED,
                          "a product of %u x %u x %u: cuBLAS counts in 31 bits", work->batch,
                          work->rows, work->cols);
    if (work->format == BACKEND_WEIGHTS_FP8_E4M3)
        return product_lt(device, work, text);
    const enum status status = cuda_blas_begin(device, work->dev_workspace, text);
    if (status != STATUS_OK)
        return status;
    return product_cublas(device, work,
                          work->format == BACKEND_WEIGHTS_BF16 ? CUDA_R_16BF : CUDA_R_32F, text);
}

uint64_t cuda_product_workspace_bytes(struct backend_device *device) {
    (void)device;
    return CUDA_BLAS_WORKSPACE_BYTES;
}
