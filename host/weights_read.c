/* Cuts, fills, checks and runs what --weights-read asks for. */
#include "weights_read.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "checked.h"
#include "generate.h"
#include "page.h"
#include "words.h"

enum {
    ROWS_MULTIPLE = 16,     /* of rows and of the hidden size: what tensor cores take */
    HIDDEN_MOST = 16384,    /* of one that is taken from the heads: a latent's are wide */
    BANK_VALUES = 1048573,  /* a prime: no two rows of a matrix begin alike */
    CHECKED_ROWS = 5,       /* of every matrix */
    INPUT_STREAM = 0x57524E /* beside the caches' own */
};
/* Matrices are at least this large where the hidden size is small, so that what a call costs by
 * itself stays small beside what it reads. */
#define MATRIX_LEAST_BYTES ((uint64_t)16 << 20)

struct weights_read {
    const struct backend_ops *ops;
    struct backend_device *device;
    struct weights_read_shape shape;
    struct backend_memory memory; /* weights, inputs, outputs, workspace */
    uint64_t inputs_offset_bytes, outputs_offset_bytes, workspace_offset_bytes;
    float *bank;   /* [BANK_VALUES]: value i of the weights, row after row, is bank[i mod values] */
    float *inputs; /* [batch][hidden] */
    struct backend_recording *recorded;
};

static uint32_t value_bytes(enum backend_weights format) {
    return format == BACKEND_WEIGHTS_F32 ? 4 : format == BACKEND_WEIGHTS_BF16 ? 2 : 1;
}

const char *weights_read_format_name(enum backend_weights format) {
    static const char *const names[] = {"none", "f32", "bf16", "fp8_e4m3"};
    return names[format];
}

enum status weights_read_format(const struct backend_ops *ops, enum backend_weights asked,
                                enum backend_weights *out, struct status_text *text) {
    *out = asked;
    if (ops->weights_formats == NULL)
        return status_set(text, STATUS_REFUSED, "--weights-read: the %s backend has no products",
                          ops->name);
    if (asked == BACKEND_WEIGHTS_NONE)
        *out = ops->weights_formats[0];
    char known[64] = "";
    for (const enum backend_weights *one = ops->weights_formats; *one != BACKEND_WEIGHTS_NONE;
         one++) {
        if (*one == *out)
            return STATUS_OK;
        words_add(known, sizeof known, ", ", "%s", weights_read_format_name(*one));
    }
    return status_set(text, STATUS_REFUSED, "--weights-format %s: the %s backend multiplies %s",
                      weights_read_format_name(*out), ops->name, known);
}

static uint32_t whole_rows(uint64_t rows) {
    return (uint32_t)(rows / ROWS_MULTIPLE * ROWS_MULTIPLE);
}

/* The width that heads and their dim make of the first attended group, in all ranks together. */
static uint64_t heads_width(const struct model *model, uint32_t tp) {
    for (uint32_t g = 0; g < model->group_count; g++) {
        const struct model_group *group = &model->groups[g];
        const uint64_t dim = group->k_dim > 0 ? group->k_dim : group->latent_dim + group->entry_dim;
        if (group->query_heads > 0 && group->kind != MODEL_INDEX && dim > 0)
            return group->query_heads * dim * tp;
    }
    for (uint32_t g = 0; g < model->group_count; g++)
        if (model->groups[g].heads > 0)
            return (uint64_t)model->groups[g].heads * model->groups[g].state_rows * tp;
    return 4096;
}

enum status weights_read_plan(const struct model *model, uint32_t tp, uint64_t asked_bytes,
                              enum backend_weights format, uint32_t seqs, uint64_t workspace_bytes,
                              struct weights_read_shape *out, struct status_text *text) {
    *out = (struct weights_read_shape){.format = format, .batch = seqs};
    uint64_t hidden = model->hidden_size;
    if (hidden == 0) {
        out->hidden_taken = true;
        hidden = heads_width(model, tp);
        hidden = hidden < HIDDEN_MOST ? hidden : HIDDEN_MOST;
    }
    hidden = checked_divide_up(hidden, ROWS_MULTIPLE) * ROWS_MULTIPLE;
    out->hidden = (uint32_t)hidden;
    const uint64_t row_bytes = hidden * value_bytes(format);
    const uint64_t rows = asked_bytes / row_bytes / ROWS_MULTIPLE * ROWS_MULTIPLE;
    if (rows == 0)
        return status_set(text, STATUS_BAD_INPUT,
                          "--weights-read %llu: less than %u rows of %llu values in %s, which are "
                          "%llu bytes",
                          (unsigned long long)asked_bytes, (unsigned)ROWS_MULTIPLE,
                          (unsigned long long)hidden, weights_read_format_name(format),
                          (unsigned long long)(ROWS_MULTIPLE * row_bytes));
    const uint64_t large = checked_divide_up(MATRIX_LEAST_BYTES, row_bytes) + ROWS_MULTIPLE - 1;
    const uint64_t full = whole_rows(large > hidden ? large : hidden);
    const uint64_t matrices = checked_divide_up(rows, full);
    const uint64_t read_bytes = rows * row_bytes;
    /* each part begins on 256 bytes */
    uint64_t output_bytes, input_bytes, total_bytes = workspace_bytes + 3 * 256;
    out->rows = (uint32_t)(rows < full ? rows : full);
    if (matrices > UINT32_MAX || !checked_multiply((uint64_t)seqs * 4, out->rows, &output_bytes) ||
        !checked_multiply((uint64_t)seqs * 4, hidden, &input_bytes) ||
        !checked_add(total_bytes, read_bytes, &total_bytes) ||
        !checked_add(total_bytes, input_bytes, &total_bytes) ||
        !checked_add(total_bytes, output_bytes, &total_bytes))
        return status_set(text, STATUS_OVERFLOW, "--weights-read %llu: more than 64 bits count",
                          (unsigned long long)asked_bytes);
    out->matrices = (uint32_t)matrices;
    out->last_rows = (uint32_t)(rows - (matrices - 1) * full);
    out->read_bytes = read_bytes;
    out->total_bytes = total_bytes;
    return STATUS_OK;
}

enum status weights_read_fits(const struct weights_read_shape *shape,
                              const struct memory_budget *budget, struct status_text *text) {
    if (shape->total_bytes <= budget->budget_bytes)
        return STATUS_OK;
    return status_set(text, STATUS_OUT_OF_MEMORY,
                      "--weights-read %llu: with inputs, outputs and workspace %llu bytes; the "
                      "budget is %llu (%s)",
                      (unsigned long long)shape->read_bytes, (unsigned long long)shape->total_bytes,
                      (unsigned long long)budget->budget_bytes, budget->source);
}

/* A value that every format holds exactly: sign, 2^-6 to 2^-1, three bits of mantissa. */
static float random_value(struct generate_random *random) {
    const uint64_t bits = generate_random_next(random) >> 32;
    const float magnitude = ldexpf((float)(8 + (bits & 7u)), -3 - 1 - (int)(bits >> 3) % 6);
    return (bits >> 20 & 1u) != 0 ? -magnitude : magnitude;
}

/* One value in `format`; exact for what random_value gives. */
static void store_value(enum backend_weights format, float value, uint8_t *to) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (format == BACKEND_WEIGHTS_F32) {
        memcpy(to, &bits, sizeof bits);
    } else if (format == BACKEND_WEIGHTS_BF16) {
        const uint16_t half = (uint16_t)(bits >> 16);
        memcpy(to, &half, sizeof half);
    } else { /* e4m3: the exponent's bias is 7, not 127 */
        const uint32_t exponent = (bits >> 23 & 0xFFu) - 127 + 7, mantissa = bits >> 20 & 7u;
        *to = (uint8_t)((bits >> 31) << 7 | exponent << 3 | mantissa);
    }
}

static uint8_t *stored(enum backend_weights format, const float *values, uint64_t count) {
    const uint32_t bytes = value_bytes(format);
    uint8_t *out = malloc(count * bytes);
    for (uint64_t i = 0; out != NULL && i < count; i++)
        store_value(format, values[i], out + i * bytes);
    return out;
}

/* The bank over and over, until all weights are written. */
static enum status write_weights(struct weights_read *weights, const uint8_t *bank,
                                 bool (*should_stop)(void), struct status_text *text) {
    const uint64_t bank_bytes = (uint64_t)BANK_VALUES * value_bytes(weights->shape.format);
    enum status status = STATUS_OK;
    for (uint64_t at = 0; at < weights->shape.read_bytes && status == STATUS_OK; at += bank_bytes) {
        const uint64_t left = weights->shape.read_bytes - at;
        if (should_stop != NULL && should_stop())
            status = status_set(text, STATUS_INTERRUPTED, "interrupted while they were written");
        else
            status = weights->ops->memory_write(weights->device,
                                                (uint8_t *)weights->memory.dev_address + at, bank,
                                                left < bank_bytes ? left : bank_bytes, text);
    }
    return status;
}

static enum status fill(struct weights_read *weights, uint64_t seed, bool (*should_stop)(void),
                        struct status_text *text) {
    const struct weights_read_shape *shape = &weights->shape;
    const uint64_t input_values = (uint64_t)shape->batch * shape->hidden;
    struct generate_random random;
    generate_random_seed(&random, seed ^ INPUT_STREAM);
    weights->bank = malloc(BANK_VALUES * sizeof *weights->bank);
    weights->inputs = malloc(input_values * sizeof *weights->inputs);
    uint8_t *bank = NULL, *inputs = NULL;
    if (weights->bank != NULL && weights->inputs != NULL) {
        for (uint64_t i = 0; i < BANK_VALUES; i++)
            weights->bank[i] = random_value(&random);
        for (uint64_t i = 0; i < input_values; i++)
            weights->inputs[i] = random_value(&random);
        bank = stored(shape->format, weights->bank, BANK_VALUES);
        inputs = stored(shape->format, weights->inputs, input_values);
    }
    enum status status = STATUS_OK;
    if (bank == NULL || inputs == NULL)
        status = status_set(text, STATUS_OUT_OF_MEMORY, "no host memory for test values");
    if (status == STATUS_OK)
        status = write_weights(weights, bank, should_stop, text);
    if (status == STATUS_OK)
        status = weights->ops->memory_write(
            weights->device, (uint8_t *)weights->memory.dev_address + weights->inputs_offset_bytes,
            inputs, input_values * value_bytes(shape->format), text);
    free(bank);
    free(inputs);
    return status;
}

static void describe(const struct weights_read *weights, uint32_t matrix,
                     struct backend_product *out) {
    const struct weights_read_shape *shape = &weights->shape;
    uint8_t *base = weights->memory.dev_address;
    const uint64_t matrix_bytes =
        (uint64_t)shape->rows * shape->hidden * value_bytes(shape->format);
    *out = (struct backend_product){
        .format = shape->format,
        .batch = shape->batch,
        .rows = matrix + 1 == shape->matrices ? shape->last_rows : shape->rows,
        .cols = shape->hidden,
        .dev_weights = base + matrix * matrix_bytes,
        .dev_inputs = base + weights->inputs_offset_bytes,
        .dev_outputs = (float *)(void *)(base + weights->outputs_offset_bytes),
        .dev_workspace = base + weights->workspace_offset_bytes,
    };
}

static enum status give(struct weights_read *weights, struct status_text *text) {
    enum status status = STATUS_OK;
    for (uint32_t m = 0; m < weights->shape.matrices && status == STATUS_OK; m++) {
        struct backend_product work;
        describe(weights, m, &work);
        status = weights->ops->product(weights->device, &work, text);
    }
    return status;
}

enum status weights_read_run(void *weights, struct status_text *text) {
    struct weights_read *const self = weights;
    return self->recorded != NULL ? self->ops->replay(self->device, self->recorded, text)
                                  : give(self, text);
}

/* How far one matrix's checked outputs are off, the largest: against the root of the sum of squares
 * of an output's terms, which is about as large as outputs are. NaN is as far as anything. */
static double judge(const struct weights_read *weights, uint32_t matrix, uint32_t rows,
                    const float *outputs) {
    const struct weights_read_shape *shape = &weights->shape;
    const uint32_t last_batch = shape->batch - 1;
    double largest = 0;
    for (uint32_t which = 0; which < 2 * CHECKED_ROWS; which++) {
        const uint32_t b = which % 2 == 0 ? 0 : last_batch;
        const uint32_t r = (uint32_t)((uint64_t)(rows - 1) * (which / 2) / (CHECKED_ROWS - 1));
        const uint64_t first = ((uint64_t)matrix * shape->rows + r) * shape->hidden;
        double sum = 0, squares = 0;
        for (uint32_t c = 0; c < shape->hidden; c++) {
            const double term = (double)weights->bank[(first + c) % BANK_VALUES] *
                                weights->inputs[(uint64_t)b * shape->hidden + c];
            sum += term;
            squares += term * term;
        }
        const double off = fabs(outputs[(uint64_t)b * rows + r] - sum) / sqrt(squares);
        if (!(off <= largest) && !isnan(largest))
            largest = off;
    }
    return largest;
}

/* fp32 sums of exact products; tensor cores keep fewer bits of those of fp8. */
static double bound_of(enum backend_weights format) {
    return format == BACKEND_WEIGHTS_FP8_E4M3 ? 0x1p-7 : 0x1p-12;
}

static enum status check(struct weights_read *weights, double *error, struct status_text *text) {
    const struct weights_read_shape *shape = &weights->shape;
    const uint64_t output_bytes = (uint64_t)shape->batch * shape->rows * sizeof(float);
    float *outputs = malloc(output_bytes);
    enum status status = STATUS_OK;
    if (outputs == NULL)
        status = status_set(text, STATUS_OUT_OF_MEMORY, "no host memory for outputs");
    *error = 0;
    for (uint32_t m = 0; m < shape->matrices && status == STATUS_OK; m++) {
        struct backend_product work;
        describe(weights, m, &work);
        status =
            weights->ops->memory_fill(weights->device, work.dev_outputs, 0xFF, output_bytes, text);
        if (status == STATUS_OK)
            status = weights->ops->product(weights->device, &work, text);
        if (status == STATUS_OK)
            status = weights->ops->synchronize(weights->device, text);
        if (status == STATUS_OK)
            status =
                weights->ops->memory_read(weights->device, outputs, work.dev_outputs,
                                          (uint64_t)work.rows * shape->batch * sizeof(float), text);
        const double off = status == STATUS_OK ? judge(weights, m, work.rows, outputs) : 0;
        *error = off > *error || isnan(off) ? off : *error;
        if (status == STATUS_OK && !(off <= bound_of(shape->format)))
            status = status_set(text, STATUS_WRONG,
                                "the product with matrix %u of %u is off by %.3g where %.3g is "
                                "allowed",
                                m, shape->matrices, off, bound_of(shape->format));
    }
    free(outputs);
    return status;
}

/* Checking has run every product once: whatever loads code at its first use has done so. */
static enum status record(struct weights_read *weights, struct status_text *text) {
    const struct backend_ops *ops = weights->ops;
    if (ops->record_begin == NULL)
        return STATUS_OK;
    const enum status begun = ops->record_begin(weights->device, text);
    if (begun != STATUS_OK)
        return begun;
    const enum status given = give(weights, text);
    const enum status ended =
        ops->record_end(weights->device, &weights->recorded, given == STATUS_OK ? text : NULL);
    return given == STATUS_OK ? ended : given;
}

static uint64_t on_256(uint64_t bytes) {
    return checked_divide_up(bytes, 256) * 256;
}

static enum status build(struct weights_read *weights, uint64_t seed, bool (*should_stop)(void),
                         double *error, struct status_text *text) {
    const struct weights_read_shape *shape = &weights->shape;
    weights->inputs_offset_bytes = on_256(shape->read_bytes);
    weights->outputs_offset_bytes =
        on_256(weights->inputs_offset_bytes +
               (uint64_t)shape->batch * shape->hidden * value_bytes(shape->format));
    weights->workspace_offset_bytes = on_256(weights->outputs_offset_bytes +
                                             (uint64_t)shape->batch * shape->rows * sizeof(float));
    enum status status = weights->ops->memory_allocate(
        weights->device, shape->total_bytes, "the weights that are read", &weights->memory, text);
    if (status == STATUS_OK)
        status = fill(weights, seed, should_stop, text);
    if (status == STATUS_OK)
        status = check(weights, error, text);
    return status == STATUS_OK ? record(weights, text) : status;
}

enum status weights_read_create(const struct backend_ops *ops, struct backend_device *device,
                                const struct weights_read_shape *shape, uint64_t seed,
                                const struct memory_budget *budget, bool (*should_stop)(void),
                                struct weights_read **out, double *error,
                                struct status_text *text) {
    *out = NULL;
    const enum status fits = weights_read_fits(shape, budget, text);
    if (fits != STATUS_OK)
        return fits;
    struct weights_read *weights = calloc(1, sizeof *weights);
    struct status_text why = {"no host memory"};
    enum status status = STATUS_OUT_OF_MEMORY;
    if (weights != NULL) {
        *weights = (struct weights_read){.ops = ops, .device = device, .shape = *shape};
        status = build(weights, seed, should_stop, error, &why);
    }
    if (status != STATUS_OK) {
        weights_read_destroy(weights);
        return status_set(text, status, "--weights-read %llu: %s",
                          (unsigned long long)shape->read_bytes, why.line);
    }
    *out = weights;
    return STATUS_OK;
}

void weights_read_destroy(struct weights_read *weights) {
    if (weights == NULL)
        return;
    if (weights->ops->record_free != NULL)
        weights->ops->record_free(weights->device, weights->recorded);
    weights->ops->memory_free(weights->device, &weights->memory);
    free(weights->bank);
    free(weights->inputs);
    free(weights);
}
