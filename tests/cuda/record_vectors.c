/* Runs every instruction wrapper on a GPU and writes what comes out:
 *   record_vectors FILE
 * The file goes to tests/cuda/vectors_sm_NN.txt, where replay_vectors holds the host's model of the
 * instructions to it. Exit 77 without a GPU. */
#include <cuda_runtime_api.h>

#include <stdio.h>
#include <string.h>

#include "vectors.h"

static int fail(const char *what, cudaError_t error) {
    (void)fprintf(stderr, "record_vectors: %s: %s (%s)\n", what, cudaGetErrorName(error),
                  cudaGetErrorString(error));
    return error == cudaErrorInsufficientDriver || error == cudaErrorNoDevice ? 77 : 1;
}

static int write_header(FILE *file) {
    struct cudaDeviceProp properties;
    int driver = 0, runtime = 0;
    cudaError_t error = cudaGetDeviceProperties(&properties, 0);
    if (error == cudaSuccess)
        error = cudaDriverGetVersion(&driver);
    if (error == cudaSuccess)
        error = cudaRuntimeGetVersion(&runtime);
    if (error != cudaSuccess)
        return fail("the device's name", error);
    (void)fprintf(file, "# %s, compute capability %d.%d, driver %d, runtime %d\n", properties.name,
                  properties.major, properties.minor, driver, runtime);
    return 0;
}

static cudaError_t run(const uint32_t *in, uint32_t *out, uint32_t op, uint32_t *dev_in,
                       uint32_t *dev_out) {
    cudaError_t error =
        cudaMemcpy(dev_in, in, VECTORS_IN_COUNT * sizeof *in, cudaMemcpyHostToDevice);
    if (error == cudaSuccess)
        error = cudaMemset(dev_out, 0xFF, VECTORS_OUT_COUNT * sizeof *out);
    struct vectors_arguments arguments = {.dev_in = dev_in, .dev_out = dev_out, .op = op};
    void *pointers[] = {&arguments};
    if (error == cudaSuccess)
        error = cudaLaunchKernel(vectors_entry(), (dim3){1, 1, 1}, (dim3){VECTORS_LANES, 1, 1},
                                 pointers, VECTORS_SHARED_BYTES, 0);
    if (error == cudaSuccess)
        error = cudaMemcpy(out, dev_out, VECTORS_OUT_COUNT * sizeof *out, cudaMemcpyDeviceToHost);
    return error;
}

static int record(FILE *file) {
    uint32_t *dev_in = NULL;
    cudaError_t error =
        cudaMalloc((void **)&dev_in, (VECTORS_IN_COUNT + VECTORS_OUT_COUNT) * sizeof *dev_in);
    if (error != cudaSuccess)
        return fail("cudaMalloc", error);
    uint32_t in[VECTORS_IN_COUNT], out[VECTORS_OUT_COUNT];
    uint32_t written = 0, absent = 0;
    for (uint32_t op = 0; op < VECTORS_COUNT; op++) {
        for (uint32_t vector = 0; vector < VECTORS_PER_OP; vector++) {
            vectors_inputs((enum vectors_op)op, vector, in);
            error = run(in, out, op, dev_in, dev_in + VECTORS_IN_COUNT);
            if (error != cudaSuccess)
                return fail(vectors_name((enum vectors_op)op), error);
            const uint32_t done = out[VECTORS_OUT_COUNT - 1];
            if (done == 1)
                vectors_write(file, (enum vectors_op)op, vector, in, out);
            written += done == 1;
            absent += done != 1;
        }
    }
    (void)fprintf(stderr, "record_vectors: %u vectors, %u of instructions this target lacks\n",
                  written, absent);
    error = cudaFree(dev_in);
    return error == cudaSuccess ? 0 : fail("cudaFree", error);
}

int main(int argc, char **argv) {
    if (argc != 2) {
        (void)fprintf(stderr, "usage: record_vectors FILE\n");
        return 2;
    }
    int count = 0;
    const cudaError_t error = cudaGetDeviceCount(&count);
    if (error != cudaSuccess)
        return fail("cudaGetDeviceCount", error);
    FILE *file = fopen(argv[1], "w");
    if (file == NULL) {
        perror(argv[1]);
        return 2;
    }
    int code = write_header(file);
    if (code == 0)
        code = record(file);
    if (fclose(file) != 0) {
        perror(argv[1]);
        code = 2;
    }
    return code;
}
