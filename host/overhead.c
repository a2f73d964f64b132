/* Allocations that are given back at once. */
#include "overhead.h"

#include <stdlib.h>

#include "checked.h"

/* The step many drivers take memory in; more where the budget would need too many of them. */
#define OVERHEAD_PIECE_BYTES ((uint64_t)2 << 20)
enum { OVERHEAD_MOST_PIECES = 1024, OVERHEAD_PARTS = 256 };

/* STATUS_OUT_OF_MEMORY is an answer here: *given is false. */
static enum status ask(const struct backend_ops *ops, struct backend_device *device, uint64_t bytes,
                       struct backend_memory *out, bool *given, struct status_text *text) {
    const enum status status = ops->memory_allocate(device, bytes, "a probe", out, text);
    *given = status == STATUS_OK;
    return status == STATUS_OUT_OF_MEMORY ? STATUS_OK : status;
}

static enum status find_largest(const struct backend_ops *ops, struct backend_device *device,
                                uint64_t budget_bytes, uint64_t *largest,
                                struct status_text *text) {
    uint64_t given_bytes = 0, refused_bytes = budget_bytes, next = budget_bytes;
    const uint64_t close = budget_bytes / OVERHEAD_PARTS;
    enum status status = STATUS_OK;
    while (status == STATUS_OK && next > given_bytes) {
        struct backend_memory memory;
        bool given;
        status = ask(ops, device, next, &memory, &given, text);
        ops->memory_free(device, &memory);
        if (given)
            given_bytes = next;
        else
            refused_bytes = next;
        next = given_bytes == budget_bytes || refused_bytes - given_bytes <= close + 1
                   ? 0
                   : given_bytes + (refused_bytes - given_bytes) / 2;
    }
    *largest = given_bytes;
    return status;
}

static enum status take_pieces(const struct backend_ops *ops, struct backend_device *device,
                               uint64_t budget_bytes, struct backend_memory *pieces,
                               bool (*should_stop)(void), struct overhead *out,
                               struct status_text *text) {
    struct backend_facts before, after;
    ops->facts(device, &before);
    enum status status = STATUS_OK;
    bool given = true;
    for (uint64_t i = 0; status == STATUS_OK && given && out->pieces_bytes < budget_bytes; i++) {
        if (should_stop != NULL && should_stop())
            return status_set(text, STATUS_INTERRUPTED, "interrupted");
        const uint64_t left = budget_bytes - out->pieces_bytes;
        const uint64_t bytes = left < out->piece_bytes ? left : out->piece_bytes;
        status = ask(ops, device, bytes, &pieces[i], &given, text);
        out->pieces_bytes += given ? bytes : 0;
    }
    ops->facts(device, &after);
    const uint64_t taken = after.memory_taken_bytes - before.memory_taken_bytes;
    out->has_rounding = after.memory_taken_bytes > 0 && taken >= out->pieces_bytes;
    out->rounding_bytes = out->has_rounding ? taken - out->pieces_bytes : 0;
    return status;
}

enum status overhead_probe(const struct backend_ops *ops, struct backend_device *device,
                           uint64_t budget_bytes, bool (*should_stop)(void), struct overhead *out,
                           struct status_text *text) {
    struct backend_facts facts;
    ops->facts(device, &facts);
    *out = (struct overhead){.piece_bytes = OVERHEAD_PIECE_BYTES};
    if (facts.memory_total_bytes > facts.memory_free_bytes)
        out->in_use_bytes = facts.memory_total_bytes - facts.memory_free_bytes;
    enum status status = find_largest(ops, device, budget_bytes, &out->largest_bytes, text);
    if (status != STATUS_OK)
        return status;
    const uint64_t least = checked_divide_up(budget_bytes, OVERHEAD_MOST_PIECES);
    if (least > out->piece_bytes &&
        !checked_round_up(least, OVERHEAD_PIECE_BYTES, &out->piece_bytes))
        out->piece_bytes = least;
    if (budget_bytes > 0 && budget_bytes < out->piece_bytes)
        out->piece_bytes = budget_bytes;
    const uint64_t count = checked_divide_up(budget_bytes, out->piece_bytes);
    struct backend_memory *pieces = calloc(count + 1, sizeof *pieces);
    if (pieces == NULL)
        return status_set(text, STATUS_OUT_OF_MEMORY, "no host memory to probe the device");
    status = take_pieces(ops, device, budget_bytes, pieces, should_stop, out, text);
    for (uint64_t i = 0; i < count; i++)
        ops->memory_free(device, &pieces[i]);
    free(pieces);
    return status;
}
