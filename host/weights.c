/* One allocation, touched piece by piece. */
#include "weights.h"

/* Between two pieces an interrupt is heard. */
#define WEIGHTS_PIECE_BYTES ((uint64_t)256 << 20)

enum status weights_take(const struct backend_ops *ops, struct backend_device *device,
                         uint64_t bytes, const struct memory_budget *budget,
                         bool (*should_stop)(void), struct backend_memory *out,
                         struct status_text *text) {
    *out = (struct backend_memory){0};
    if (bytes == 0)
        return STATUS_OK;
    if (bytes > budget->budget_bytes)
        return status_set(
            text, STATUS_OUT_OF_MEMORY, "--weights %llu: the budget is %llu bytes (%s)",
            (unsigned long long)bytes, (unsigned long long)budget->budget_bytes, budget->source);
    struct status_text why = {""};
    enum status status = ops->memory_allocate(device, bytes, "the weights", out, &why);
    for (uint64_t done = 0; done < bytes && status == STATUS_OK; done += WEIGHTS_PIECE_BYTES) {
        const uint64_t left = bytes - done;
        const uint64_t piece = left < WEIGHTS_PIECE_BYTES ? left : WEIGHTS_PIECE_BYTES;
        if (should_stop != NULL && should_stop())
            status = status_set(&why, STATUS_INTERRUPTED, "interrupted while they were written");
        else
            status =
                ops->memory_fill(device, (uint8_t *)out->dev_address + done, 0x5a, piece, &why);
    }
    if (status == STATUS_OK)
        status = ops->synchronize(device, &why);
    if (status == STATUS_OK)
        return STATUS_OK;
    ops->memory_free(device, out);
    return status_set(text, status, "--weights %llu: %s", (unsigned long long)bytes, why.line);
}
