/* Holds the host's model of the instructions (tests/gpu_model, as tests/simt runs it) to what GPUs
 * did with the same inputs:
 *   replay_vectors FILES...      exit 1 where the model differs; 77 without files
 *   replay_vectors --model FILE  writes what the model gives, in the same form */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "simt.h"
#include "vectors.h"

static uint32_t *dev_in, *dev_out;

static bool run(enum vectors_op op, uint32_t vector, const uint32_t **out) {
    vectors_inputs(op, vector, dev_in);
    simt_memory_written(dev_in, VECTORS_IN_COUNT * sizeof *dev_in);
    const struct vectors_arguments arguments = {.dev_in = dev_in, .dev_out = dev_out, .op = op};
    const struct gpu_launch launch = {
        .name = vectors_name(op),
        .entry = vectors_entry(),
        .blocks = 1,
        .threads = VECTORS_LANES,
        .shared_bytes = VECTORS_SHARED_BYTES,
        .arguments = &arguments,
        .arguments_bytes = sizeof arguments,
    };
    struct status_text text = {""};
    *out = dev_out;
    if (simt_launch(&launch, &text) == STATUS_OK)
        return true;
    (void)fprintf(stderr, "%s %u: %s\n", vectors_name(op), vector, text.line);
    return false;
}

static int write_model(const char *path) {
    FILE *file = fopen(path, "w");
    if (file == NULL) {
        perror(path);
        return 2;
    }
    int code = 0;
    (void)fprintf(file, "# the host's model, no GPU\n");
    for (int op = 0; op < VECTORS_COUNT && code == 0; op++) {
        for (uint32_t vector = 0; vector < VECTORS_PER_OP && code == 0; vector++) {
            const uint32_t *out;
            if (!run((enum vectors_op)op, vector, &out))
                code = 1;
            else if (out[VECTORS_OUT_COUNT - 1] == 1)
                vectors_write(file, (enum vectors_op)op, vector, dev_in, out);
        }
    }
    if (fclose(file) != 0)
        code = 2;
    return code;
}

/* False when a line is garbled or the model differs. */
static bool replay_line(const char *path, const char *line, uint32_t *replayed, uint32_t *absent) {
    enum vectors_op op;
    uint32_t vector, recorded[VECTORS_OUT_COUNT];
    if (!vectors_parse(line, &op, &vector, recorded)) {
        (void)fprintf(stderr, "%s: garbled, or made of other inputs: %.40s\n", path, line);
        return false;
    }
    const uint32_t *out;
    if (!run(op, vector, &out))
        return false;
    if (out[VECTORS_OUT_COUNT - 1] != 1) {
        ++*absent;
        return true;
    }
    ++*replayed;
    uint32_t lane, word;
    if (vectors_equal(op, recorded, out, &lane, &word))
        return true;
    const uint32_t at = VECTORS_OUT_WORDS * lane + word;
    (void)fprintf(stderr, "%s: %s, vector %u, lane %u, word %u: recorded %08x, the model %08x\n",
                  path, vectors_name(op), vector, lane, word, recorded[at], out[at]);
    return false;
}

static bool replay_file(const char *path) {
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        perror(path);
        return false;
    }
    static char line[VECTORS_LINE_BYTES];
    uint32_t replayed = 0, absent = 0, wrong = 0;
    while (fgets(line, sizeof line, file) != NULL) {
        if (line[0] == '#')
            (void)printf("%s: %s", path, line);
        else
            wrong += !replay_line(path, line, &replayed, &absent);
    }
    (void)fclose(file);
    (void)printf("%s: %u vectors replayed, %u wrong, %u that this build's model lacks\n", path,
                 replayed, wrong, absent);
    return wrong == 0 && replayed > 0;
}

int main(int argc, char **argv) {
    dev_in = simt_memory_allocate(VECTORS_IN_COUNT * sizeof *dev_in, "inputs");
    dev_out = simt_memory_allocate(VECTORS_OUT_COUNT * sizeof *dev_out, "outputs");
    if (dev_in == NULL || dev_out == NULL)
        return 2;
    int code = 0;
    if (argc == 3 && strcmp(argv[1], "--model") == 0) {
        code = write_model(argv[2]);
    } else if (argc < 2) {
        (void)printf("skipped: no vectors recorded on a GPU yet (tests/cuda/vectors_*.txt)\n");
        code = 77;
    }
    for (int i = 1; i < argc && code != 77 && strcmp(argv[1], "--model") != 0; i++)
        code = replay_file(argv[i]) ? code : 1;
    simt_memory_free(dev_in);
    simt_memory_free(dev_out);
    return code;
}
