/* Opens and closes cuBLAS and cublasLt. */
#include "cuda_blas.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_device.h"
#include "library.h"

enum { NAMES = 3 };

struct symbol {
    const char *name;
    void *function; /* where its address goes */
};

static enum status find_all(void *library, const char *library_name, const struct symbol *symbols,
                            size_t count, struct status_text *text) {
    for (size_t i = 0; i < count; i++)
        if (!library_find(library, symbols[i].name, symbols[i].function))
            return status_set(text, STATUS_MISSING, "%s has no %s", library_name, symbols[i].name);
    return STATUS_OK;
}

/* The library of the runtime's own version first. `variable` names another one. */
static void *open_first(const char *variable, const char *stem, char *name, size_t bytes,
                        struct status_text *text) {
    const int versions[NAMES] = {CUDART_VERSION / 1000, 13, 12};
    const char *told = getenv(variable);
    struct status_text first = {""};
    void *library = NULL;
    for (int i = 0; i < NAMES && library == NULL && (told == NULL || i == 0); i++) {
        if (told != NULL)
            (void)snprintf(name, bytes, "%s", told);
        else
            (void)snprintf(name, bytes, "%s.so.%d", stem, versions[i]);
        (void)library_open(told != NULL ? told : name, &library, i == 0 ? &first : NULL);
    }
    if (library == NULL)
        (void)status_set(
            text, STATUS_MISSING,
            "there is no %s.so.%d (%.191s); NVIDIA's package libcublas-%d-%d brings it, "
            "%s names another library",
            stem, versions[0], first.line, versions[0], CUDART_VERSION % 1000 / 10, variable);
    return library;
}

static enum status open_cublas(struct backend_device *device, struct status_text *text) {
    struct cuda_blas *blas = &device->blas;
    char name[256] = "";
    blas->library = open_first("KVGAUGE_CUBLAS", "libcublas", name, sizeof name, text);
    if (blas->library == NULL)
        return STATUS_MISSING;
    const struct symbol symbols[] = {
        {"cublasCreate_v2", (void *)&blas->create},
        {"cublasDestroy_v2", (void *)&blas->destroy},
        {"cublasGetVersion_v2", (void *)&blas->get_version},
        {"cublasSetStream_v2", (void *)&blas->set_stream},
        {"cublasSetWorkspace_v2", (void *)&blas->set_workspace},
        {"cublasGemmEx", (void *)&blas->gemm},
        {"cublasGemmBatchedEx", (void *)&blas->gemm_batched},
    };
    enum status status =
        find_all(blas->library, name, symbols, sizeof symbols / sizeof symbols[0], text);
    if (status == STATUS_OK)
        status = cuda_blas_check(blas->create(&blas->handle), "cublasCreate", text);
    int version = 0;
    if (status == STATUS_OK)
        status =
            cuda_blas_check(blas->get_version(blas->handle, &version), "cublasGetVersion", text);
    if (status != STATUS_OK)
        return status;
    const char *slash = strrchr(name, '/');
    (void)snprintf(blas->name, sizeof blas->name, "%.40s %d", slash != NULL ? slash + 1 : name,
                   version);
    return STATUS_OK;
}

static enum status open_lt(struct backend_device *device, struct status_text *text) {
    struct cuda_blas *blas = &device->blas;
    char name[256] = "";
    blas->lt_library = open_first("KVGAUGE_CUBLASLT", "libcublasLt", name, sizeof name, text);
    if (blas->lt_library == NULL)
        return STATUS_MISSING;
    const struct symbol symbols[] = {
        {"cublasLtCreate", (void *)&blas->lt_create},
        {"cublasLtDestroy", (void *)&blas->lt_destroy},
        {"cublasLtMatmulDescCreate", (void *)&blas->desc_create},
        {"cublasLtMatmulDescDestroy", (void *)&blas->desc_destroy},
        {"cublasLtMatmulDescSetAttribute", (void *)&blas->desc_set},
        {"cublasLtMatrixLayoutCreate", (void *)&blas->layout_create},
        {"cublasLtMatrixLayoutDestroy", (void *)&blas->layout_destroy},
        {"cublasLtMatmulPreferenceCreate", (void *)&blas->preference_create},
        {"cublasLtMatmulPreferenceDestroy", (void *)&blas->preference_destroy},
        {"cublasLtMatmulPreferenceSetAttribute", (void *)&blas->preference_set},
        {"cublasLtMatmulAlgoGetHeuristic", (void *)&blas->heuristic},
        {"cublasLtMatmul", (void *)&blas->matmul},
    };
    const enum status status =
        find_all(blas->lt_library, name, symbols, sizeof symbols / sizeof symbols[0], text);
    return status == STATUS_OK ? cuda_blas_check(blas->lt_create(&blas->lt), "cublasLtCreate", text)
                               : status;
}

static void close_lt(struct cuda_blas *blas) {
    if (blas->lt != NULL)
        (void)blas->lt_destroy(blas->lt);
    library_close(blas->lt_library);
    blas->lt = NULL;
    blas->lt_library = NULL;
}

enum status cuda_blas_open(struct backend_device *device, bool with_lt, struct status_text *text) {
    struct cuda_blas *blas = &device->blas;
    enum status status = blas->library == NULL ? open_cublas(device, text) : STATUS_OK;
    if (status != STATUS_OK) {
        cuda_blas_close(device);
        return status;
    }
    if (!with_lt || blas->lt_library != NULL)
        return STATUS_OK;
    status = open_lt(device, text);
    if (status != STATUS_OK)
        close_lt(blas);
    return status;
}

void cuda_blas_close(struct backend_device *device) {
    struct cuda_blas *blas = &device->blas;
    close_lt(blas);
    if (blas->handle != NULL)
        (void)blas->destroy(blas->handle);
    library_close(blas->library);
    *blas = (struct cuda_blas){0};
}

enum status cuda_blas_check(cublasStatus_t error, const char *call, struct status_text *text) {
    static const struct {
        cublasStatus_t error;
        const char *words;
    } known[] = {{CUBLAS_STATUS_NOT_INITIALIZED, "not initialised"},
                 {CUBLAS_STATUS_ALLOC_FAILED, "no memory for its own needs"},
                 {CUBLAS_STATUS_INVALID_VALUE, "a value it does not take"},
                 {CUBLAS_STATUS_ARCH_MISMATCH, "this device is too old for it"},
                 {CUBLAS_STATUS_EXECUTION_FAILED, "its kernel failed"},
                 {CUBLAS_STATUS_INTERNAL_ERROR, "an internal error"},
                 {CUBLAS_STATUS_NOT_SUPPORTED, "not supported"}};
    const char *words = "an error without a name here";
    if (error == CUBLAS_STATUS_SUCCESS)
        return STATUS_OK;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        words = known[i].error == error ? known[i].words : words;
    const bool refused =
        error == CUBLAS_STATUS_NOT_SUPPORTED || error == CUBLAS_STATUS_ARCH_MISMATCH;
    return status_set(text,
                      refused                               ? STATUS_REFUSED
                      : error == CUBLAS_STATUS_ALLOC_FAILED ? STATUS_OUT_OF_MEMORY
                                                            : STATUS_IO,
                      "%s: cuBLAS status %d, %s", call, (int)error, words);
}

enum status cuda_blas_begin(struct backend_device *device, void *dev_workspace,
                            struct status_text *text) {
    const struct cuda_blas *blas = &device->blas;
    if (blas->handle == NULL)
        return status_set(text, STATUS_REFUSED, "cuBLAS is not open");
    /* The stream first: setting it takes a workspace away. */
    const enum status status =
        cuda_blas_check(blas->set_stream(blas->handle, device->stream), "cublasSetStream", text);
    return status == STATUS_OK
               ? cuda_blas_check(blas->set_workspace(blas->handle, dev_workspace,
                                                     (size_t)CUDA_BLAS_WORKSPACE_BYTES),
                                 "cublasSetWorkspace", text)
               : status;
}
