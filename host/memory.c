/* Budgets, and what the operating system says is really there. */
#include "memory.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "number.h"

/* Left for everything else on the machine: a twentieth of what is free, but at least this much. A
 * GPU that shares the host's memory leaves a sixteenth of all of it, because taking too much there
 * can hang the machine. */
#define MEMORY_LEAST_MARGIN_BYTES ((uint64_t)512 << 20)
enum { MEMORY_FREE_PER_MARGIN = 20, MEMORY_SHARED_PER_MARGIN = 16 };

static uint64_t larger(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

void memory_budget_make(const struct backend_facts *facts, bool asked, uint64_t asked_bytes,
                        uint64_t weights_bytes, struct memory_budget *out) {
    *out = (struct memory_budget){.free_bytes = facts->memory_free_bytes};
    uint64_t margin = larger(out->free_bytes / MEMORY_FREE_PER_MARGIN, MEMORY_LEAST_MARGIN_BYTES);
    if (facts->integrated)
        margin = larger(margin, facts->memory_total_bytes / MEMORY_SHARED_PER_MARGIN);
    out->margin_bytes = margin < out->free_bytes ? margin : out->free_bytes;
    uint64_t budget = out->free_bytes - out->margin_bytes;
    char free_words[NUMBER_TEXT_BYTES], margin_words[NUMBER_TEXT_BYTES];
    number_bytes_words(out->free_bytes, free_words);
    number_bytes_words(out->margin_bytes, margin_words);
    if (asked && asked_bytes < budget) {
        budget = asked_bytes;
        (void)snprintf(out->source, sizeof out->source, "--budget");
    } else {
        (void)snprintf(out->source, sizeof out->source, "%s %s less a margin of %s",
                       facts->memory_source, free_words, margin_words);
    }
    out->budget_bytes = weights_bytes < budget ? budget - weights_bytes : 0;
}

void memory_budget_left(const struct memory_budget *whole, const struct backend_facts *now,
                        uint64_t taken_bytes, struct memory_budget *out) {
    memory_budget_make(now, false, 0, 0, out);
    const uint64_t left = whole->budget_bytes > taken_bytes ? whole->budget_bytes - taken_bytes : 0;
    if (left > out->budget_bytes)
        return;
    out->budget_bytes = left;
    (void)snprintf(out->source, sizeof out->source, "%s", whole->source);
}

bool memory_resident_bytes(const void *address, uint64_t bytes, uint64_t *out) {
    const long page_size = sysconf(_SC_PAGESIZE);
    if (page_size <= 0 || bytes == 0)
        return false;
    const uint64_t page = (uint64_t)page_size;
    const uintptr_t start = (uintptr_t)address / page * page;
    const uint64_t span = (uintptr_t)address + bytes - start;
    /* In pieces, so that a huge pool needs no large map of flags. */
    enum { PIECE_PAGES = 4096 };
    unsigned char flags[PIECE_PAGES];
    uint64_t resident = 0;
    bool known = true;
    for (uint64_t at = 0; at < span && known; at += PIECE_PAGES * page) {
        const uint64_t length = span - at < PIECE_PAGES * page ? span - at : PIECE_PAGES * page;
        known = mincore((void *)(start + at), length, flags) == 0;
        for (uint64_t i = 0; known && i < (length + page - 1) / page; i++)
            resident += (flags[i] & 1u) * page;
    }
    *out = resident;
    return known;
}
