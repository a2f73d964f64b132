/* Readings of the canary and the memory that keeps them. */
#include "canary.h"

#include <stdlib.h>

#include "measure.h"

/* One go at pace: little beside a step, long beside the start of the threads. */
enum { CANARY_LEAST_PIECES = 16384, CANARY_MOST_GOES = 64, CANARY_PACE_PART = 5 };

static bool grow(struct canary *canary) {
    if (canary->count < canary->capacity)
        return true;
    const uint64_t capacity = canary->capacity == 0 ? 64 : canary->capacity * 2;
    uint64_t *read = realloc(canary->read_kb_per_s, capacity * sizeof *read);
    if (read != NULL)
        canary->read_kb_per_s = read;
    uint64_t *pace = realloc(canary->pace_kb_per_s, capacity * sizeof *pace);
    if (pace != NULL)
        canary->pace_kb_per_s = pace;
    if (read == NULL || pace == NULL)
        return false;
    canary->capacity = capacity;
    return true;
}

static uint64_t as_kb_per_s(double gb_per_s) {
    return gb_per_s < 1e-6 ? 1 : (uint64_t)(gb_per_s * 1e6);
}

static uint64_t choose_pieces(const struct canary *canary, double since_ns) {
    const uint64_t there = canary->bytes / BACKEND_PACE_BYTES;
    const uint64_t once = there < CANARY_LEAST_PIECES ? there : CANARY_LEAST_PIECES;
    const double go_ns = canary->piece_ns * (double)once;
    const double goes = go_ns > 0 ? since_ns / CANARY_PACE_PART / go_ns : 1;
    return once * (goes < 1 ? 1 : goes > CANARY_MOST_GOES ? CANARY_MOST_GOES : (uint64_t)goes);
}

static enum status keep_pace(struct canary *canary, double since_ns, struct status_text *text) {
    canary->pace_kb_per_s[canary->count] = 0;
    const uint64_t pieces = choose_pieces(canary, since_ns);
    if (canary->ops->pace == NULL || pieces == 0)
        return STATUS_OK;
    double gb_per_s;
    const enum status status =
        measure_pace(canary->ops, canary->device, canary->dev_from, canary->bytes,
                     canary->next_piece, pieces, &gb_per_s, text);
    if (status != STATUS_OK)
        return status;
    canary->next_piece += pieces;
    canary->pace_kb_per_s[canary->count] = as_kb_per_s(gb_per_s);
    canary->piece_ns = BACKEND_PACE_BYTES / gb_per_s;
    canary->took_ns += canary->piece_ns * (double)pieces;
    return STATUS_OK;
}

enum status canary_sing(struct canary *canary, double since_ns, struct status_text *text) {
    if (!grow(canary))
        return status_set(text, STATUS_OUT_OF_MEMORY, "no host memory for canary samples");
    double gb_per_s;
    enum status status = measure_stream(canary->ops, canary->device, canary->dev_from,
                                        canary->bytes, &gb_per_s, text);
    if (status != STATUS_OK)
        return status;
    canary->read_kb_per_s[canary->count] = as_kb_per_s(gb_per_s);
    canary->took_ns = (double)canary->bytes / gb_per_s;
    status = keep_pace(canary, since_ns, text);
    if (status == STATUS_OK)
        canary->count++;
    return status;
}

uint64_t canary_mean_mb_per_s(const uint64_t *kb_per_s, uint64_t i, uint64_t j) {
    return (kb_per_s[i] + kb_per_s[j]) / 2000;
}

void canary_free(struct canary *canary) {
    free(canary->read_kb_per_s);
    free(canary->pace_kb_per_s);
}
