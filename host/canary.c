/* Readings of the canary and the memory that keeps them. */
#include "canary.h"

#include <math.h>
#include <stdlib.h>

#include "measure.h"

/* Rounds of one go at pace: little beside a step, long beside the start of the threads. */
enum { CANARY_GO_ROUNDS = 1 << 22, CANARY_MOST_GOES = 64, CANARY_PACE_PART = 5 };

static bool grow(struct canary *canary) {
    if (canary->count < canary->capacity)
        return true;
    const uint64_t capacity = canary->capacity == 0 ? 64 : canary->capacity * 2;
    uint64_t *read = realloc(canary->read_kb_per_s, capacity * sizeof *read);
    if (read != NULL)
        canary->read_kb_per_s = read;
    uint64_t *pace = realloc(canary->pace_kops, capacity * sizeof *pace);
    if (pace != NULL)
        canary->pace_kops = pace;
    if (read == NULL || pace == NULL)
        return false;
    canary->capacity = capacity;
    return true;
}

static uint64_t in_thousands(double per_ns) {
    return per_ns < 1e-6 ? 1 : (uint64_t)(per_ns * 1e6);
}

static enum status keep_pace(struct canary *canary, double since_ns, struct status_text *text) {
    canary->pace_kops[canary->count] = 0;
    if (canary->ops->pace == NULL)
        return STATUS_OK;
    double goes = canary->go_ns > 0 ? since_ns / CANARY_PACE_PART / canary->go_ns : 1;
    goes = goes < 1 ? 1 : goes > CANARY_MOST_GOES ? CANARY_MOST_GOES : floor(goes);
    const uint64_t rounds = (uint64_t)goes * CANARY_GO_ROUNDS;
    double per_ns;
    const enum status status = measure_pace(canary->ops, canary->device, rounds, &per_ns, text);
    if (status != STATUS_OK)
        return status;
    canary->pace_kops[canary->count] = in_thousands(per_ns);
    canary->go_ns = (double)CANARY_GO_ROUNDS * BACKEND_PACE_OPERATIONS / per_ns;
    canary->took_ns += canary->go_ns * goes;
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
    canary->read_kb_per_s[canary->count] = in_thousands(gb_per_s);
    canary->took_ns = (double)canary->bytes / gb_per_s;
    status = keep_pace(canary, since_ns, text);
    if (status == STATUS_OK)
        canary->count++;
    return status;
}

uint64_t canary_mean(const uint64_t *thousands, uint64_t i, uint64_t j) {
    return (thousands[i] + thousands[j]) / 2000;
}

void canary_free(struct canary *canary) {
    free(canary->read_kb_per_s);
    free(canary->pace_kops);
}
