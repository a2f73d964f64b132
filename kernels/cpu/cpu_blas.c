/* Products with weights through the distribution's BLAS. Each of the backend's threads multiplies
 * rows of its own and the library keeps to one thread: it then follows --threads whatever library
 * it is, and its own threads, which wait for more work by spinning, do not take the processor from
 * what is timed next. */
#include "cpu_blas.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu_device.h"
#include "library.h"

const enum backend_weights cpu_weights_formats[] = {BACKEND_WEIGHTS_F32, BACKEND_WEIGHTS_NONE};

/* The tuned one first: libblas.so.3 may be the reference implementation. */
static const char *const libraries[] = {"libopenblas.so.0", "libblas.so.3"};

static enum status open_named(struct cpu_blas *blas, const char *name, struct status_text *text) {
    const enum status status = library_open(name, &blas->library, text);
    if (status != STATUS_OK)
        return status;
    const char *slash = strrchr(name, '/');
    (void)snprintf(blas->name, sizeof blas->name, "%s", slash != NULL ? slash + 1 : name);
    if (library_find(blas->library, "sgemm_", (void *)&blas->sgemm) &&
        library_find(blas->library, "sgemv_", (void *)&blas->sgemv))
        return STATUS_OK;
    cpu_blas_close(blas);
    return status_set(text, STATUS_MISSING, "%s has no sgemm_ and sgemv_", name);
}

/* One thread: ours are all there are. What has no such function is one-threaded, or sees that it is
 * called from within a parallel region. */
static void keep_to_one_thread(const struct cpu_blas *blas) {
    static const char *const names[] = {"openblas_set_num_threads", "MKL_Set_Num_Threads"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        void (*set_threads)(int count);
        if (library_find(blas->library, names[i], (void *)&set_threads))
            set_threads(1);
    }
}

/* OpenBLAS keeps a buffer of its own for every thread that calls it, 128 MiB with 0.3.21, and asks
 * for it for ever where there is no room. So room is looked for first, and then every thread calls
 * it once: what the library keeps is taken before memory is planned. */
#define CPU_BLAS_BUFFER_BYTES ((size_t)160 << 20)

static enum status take_buffers(const struct cpu_blas *blas, uint32_t threads,
                                struct status_text *text) {
    void *room = malloc(threads * CPU_BLAS_BUFFER_BYTES);
    if (room == NULL)
        return status_set(text, STATUS_OUT_OF_MEMORY,
                          "%s keeps up to %zu bytes for each of %u threads, and there is no room",
                          blas->name, CPU_BLAS_BUFFER_BYTES, threads);
    free(room);
#pragma omp parallel num_threads((int)threads)
    {
        const float one = 1.0f, zero = 0.0f;
        const int32_t single = 1;
        float output = 0;
        blas->sgemv("T", &single, &single, &one, &one, &single, &one, &single, &zero, &output,
                    &single, 1);
    }
    return STATUS_OK;
}

enum status cpu_libraries_open(struct backend_device *device, const char *kernel,
                               enum backend_weights weights, struct status_text *text) {
    (void)kernel; /* ours need none */
    struct cpu_blas *blas = &device->blas;
    if (weights == BACKEND_WEIGHTS_NONE)
        return STATUS_OK;
    if (weights != BACKEND_WEIGHTS_F32)
        return status_set(text, STATUS_REFUSED, "the cpu backend multiplies weights in f32 alone");
    if (blas->library != NULL)
        return STATUS_OK;
    /* OpenBLAS' own threads are made when it is loaded, and would wait for work by spinning. */
    (void)setenv("OPENBLAS_NUM_THREADS", "1", 0);
    struct status_text why = {""};
    const char *told = getenv("KVGAUGE_BLAS");
    enum status status = STATUS_MISSING;
    if (told != NULL)
        status = open_named(blas, told, &why);
    for (size_t i = 0; i < sizeof libraries / sizeof libraries[0]; i++)
        if (told == NULL && status != STATUS_OK)
            status = open_named(blas, libraries[i], i == 0 ? &why : NULL);
    if (status != STATUS_OK)
        return status_set(text, STATUS_MISSING,
                          "weights are read through BLAS, and there is no %s (%.160s); the package "
                          "libopenblas0 brings it, KVGAUGE_BLAS names another library",
                          told != NULL ? told : "libopenblas.so.0 or libblas.so.3", why.line);
    keep_to_one_thread(blas);
    status = take_buffers(blas, device->threads, text);
    if (status != STATUS_OK)
        cpu_blas_close(blas);
    return status;
}

void cpu_blas_close(struct cpu_blas *blas) {
    library_close(blas->library);
    *blas = (struct cpu_blas){0};
}

/* Rows [first, end): outputs are [batch][rows], a column of rows for each of the batch. */
static void multiply_rows(const struct cpu_blas *blas, const struct backend_product *work,
                          uint32_t first, uint32_t end) {
    const float one = 1.0f, zero = 0.0f;
    const int32_t rows = (int32_t)(end - first), cols = (int32_t)work->cols, step = 1;
    const int32_t batch = (int32_t)work->batch, all_rows = (int32_t)work->rows;
    const float *weights = (const float *)work->dev_weights + (uint64_t)first * work->cols;
    const float *inputs = work->dev_inputs;
    float *outputs = work->dev_outputs + first;
    if (rows == 0)
        return;
    if (batch == 1)
        blas->sgemv("T", &cols, &rows, &one, weights, &cols, inputs, &step, &zero, outputs, &step,
                    1);
    else
        blas->sgemm("T", "N", &rows, &batch, &cols, &one, weights, &cols, inputs, &cols, &zero,
                    outputs, &all_rows, 1, 1);
}

enum status cpu_product(struct backend_device *device, const struct backend_product *work,
                        struct status_text *text) {
    const struct cpu_blas *blas = &device->blas;
    if (blas->library == NULL || work->format != BACKEND_WEIGHTS_F32)
        return status_set(text, STATUS_REFUSED, "no BLAS library is open for this product");
    if (work->rows > INT32_MAX || work->cols > INT32_MAX || work->batch > INT32_MAX)
        return status_set(text, STATUS_REFUSED, "a product of %u x %u x %u: BLAS counts in 31 bits",
                          work->batch, work->rows, work->cols);
    const int32_t threads = (int32_t)device->threads;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int32_t t = 0; t < threads; t++)
        multiply_rows(blas, work,
                      (uint32_t)((uint64_t)work->rows * (uint32_t)t / (uint32_t)threads),
                      (uint32_t)((uint64_t)work->rows * ((uint32_t)t + 1) / (uint32_t)threads));
    return STATUS_OK;
}

uint64_t cpu_product_workspace_bytes(struct backend_device *device) {
    (void)device;
    return 0;
}
