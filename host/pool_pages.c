/* The free list is a stack; its order is the seeded permutation. All changes are checked before
 * the first one is made, so a failed call leaves everything as it was. */
#include "pool_pages.h"

#include <stdlib.h>

#include "checked.h"
#include "generate.h"

/* The logical pages [first, end) a sequence of `tokens` tokens holds. */
static void held_range(uint64_t tokens, uint32_t page_tokens, uint64_t window_tokens,
                       uint64_t *first, uint64_t *end) {
    const uint64_t oldest =
        window_tokens > 0 && tokens > window_tokens ? tokens - window_tokens : 0;
    *first = oldest / page_tokens;
    *end = checked_divide_up(tokens, page_tokens);
}

uint64_t pool_pages_needed(uint64_t tokens, uint32_t page_tokens, uint64_t window_tokens) {
    uint64_t first, end;
    held_range(tokens, page_tokens, window_tokens, &first, &end);
    return end - first;
}

uint64_t pool_pages_peak(uint64_t tokens, uint32_t page_tokens, uint64_t window_tokens) {
    const uint64_t all = checked_divide_up(tokens, page_tokens);
    if (window_tokens == 0)
        return all;
    /* W tokens touch the most pages when the first of them is a page's last. */
    const uint64_t most =
        (window_tokens - 1) / page_tokens + 1 + ((window_tokens - 1) % page_tokens != 0);
    return most < all ? most : all;
}

enum status pool_pages_create(uint32_t seqs, uint32_t columns, uint32_t page_count,
                              uint32_t page_tokens, uint64_t window_tokens, bool sequential,
                              uint64_t seed, struct pool_pages *out, struct status_text *text) {
    *out = (struct pool_pages){.page_tokens = page_tokens,
                               .window_tokens = window_tokens,
                               .seqs = seqs,
                               .columns = columns,
                               .page_count = page_count,
                               .free_count = page_count};
    const uint64_t entries = (uint64_t)seqs * columns;
    out->free_ids = malloc(((uint64_t)page_count + 1) * sizeof *out->free_ids);
    out->references = calloc((uint64_t)page_count + 1, sizeof *out->references);
    out->table = malloc((entries + 1) * sizeof *out->table);
    out->lengths = calloc((uint64_t)seqs + 1, sizeof *out->lengths);
    if (out->free_ids == NULL || out->references == NULL || out->table == NULL ||
        out->lengths == NULL) {
        pool_pages_destroy(out);
        return status_set(text, STATUS_OUT_OF_MEMORY,
                          "no host memory for page tables of %u sequences x %u pages", seqs,
                          columns);
    }
    for (uint64_t i = 0; i < entries; i++)
        out->table[i] = -1;
    /* The top of the stack is taken first: fill it downwards so that sequential means 0, 1, 2. */
    for (uint32_t i = 0; i < page_count; i++)
        out->free_ids[i] = (int32_t)(page_count - 1 - i);
    if (!sequential) {
        struct generate_random random;
        generate_random_seed(&random, seed);
        for (uint32_t i = page_count; i > 1; i--) {
            const uint32_t j = (uint32_t)generate_random_below(&random, i);
            const int32_t swapped = out->free_ids[i - 1];
            out->free_ids[i - 1] = out->free_ids[j];
            out->free_ids[j] = swapped;
        }
    }
    return STATUS_OK;
}

void pool_pages_destroy(struct pool_pages *pages) {
    free(pages->free_ids);
    free(pages->references);
    free(pages->table);
    free(pages->lengths);
    *pages = (struct pool_pages){0};
}

static int32_t *entry(const struct pool_pages *pages, uint32_t seq, uint64_t logical_page) {
    return &pages->table[(uint64_t)seq * pages->columns + logical_page % pages->columns];
}

static void drop(struct pool_pages *pages, int32_t *slot) {
    const int32_t page = *slot;
    *slot = -1;
    if (--pages->references[page] == 0)
        pages->free_ids[pages->free_count++] = page;
}

enum status pool_pages_append(struct pool_pages *pages, uint32_t seq, uint64_t tokens,
                              struct status_text *text) {
    if (tokens == 0)
        return STATUS_OK;
    const uint64_t length = pages->lengths[seq];
    uint64_t longer, first, end, new_first, new_end;
    if (!checked_add(length, tokens, &longer))
        return status_set(text, STATUS_OVERFLOW, "sequence %u: length past 64 bits", seq);
    held_range(length, pages->page_tokens, pages->window_tokens, &first, &end);
    held_range(longer, pages->page_tokens, pages->window_tokens, &new_first, &new_end);
    if (new_end - new_first > pages->columns)
        return status_set(text, STATUS_OUT_OF_MEMORY,
                          "sequence %u: %llu tokens need %llu pages and its table has %u columns",
                          seq, (unsigned long long)longer,
                          (unsigned long long)(new_end - new_first), pages->columns);
    const uint64_t dropped_end = new_first < end ? new_first : end;
    uint64_t freed = 0;
    for (uint64_t p = first; p < dropped_end; p++)
        freed += pages->references[*entry(pages, seq, p)] == 1;
    const uint64_t take_from = end > new_first ? end : new_first;
    if (new_end - take_from > pages->free_count + freed)
        return status_set(text, STATUS_OUT_OF_MEMORY,
                          "sequence %u: %llu more pages are needed and %llu are free", seq,
                          (unsigned long long)(new_end - take_from),
                          (unsigned long long)(pages->free_count + freed));
    for (uint64_t p = first; p < dropped_end; p++)
        drop(pages, entry(pages, seq, p));
    for (uint64_t p = take_from; p < new_end; p++) {
        const int32_t page = pages->free_ids[--pages->free_count];
        *entry(pages, seq, p) = page;
        pages->references[page] = 1;
    }
    pages->lengths[seq] = longer;
    return STATUS_OK;
}

uint64_t pool_pages_share(struct pool_pages *pages, uint32_t from, uint32_t to, uint64_t tokens) {
    if (pages->window_tokens > 0 || pages->lengths[to] != 0 || from == to)
        return 0;
    const uint64_t held = pages->lengths[from] < tokens ? pages->lengths[from] : tokens;
    const uint64_t whole = held / pages->page_tokens;
    for (uint64_t p = 0; p < whole; p++) {
        const int32_t page = *entry(pages, from, p);
        *entry(pages, to, p) = page;
        pages->references[page]++;
    }
    pages->lengths[to] = whole * pages->page_tokens;
    return pages->lengths[to];
}

void pool_pages_release(struct pool_pages *pages, uint32_t seq) {
    uint64_t first, end;
    held_range(pages->lengths[seq], pages->page_tokens, pages->window_tokens, &first, &end);
    for (uint64_t p = first; p < end; p++)
        drop(pages, entry(pages, seq, p));
    pages->lengths[seq] = 0;
}

int32_t pool_pages_find(const struct pool_pages *pages, uint32_t seq, uint64_t token) {
    return *entry(pages, seq, token / pages->page_tokens);
}

/* Counts table entries per page into `seen`, complaining about entries out of place. */
static enum status count_entries(const struct pool_pages *pages, uint32_t *seen,
                                 struct status_text *text) {
    for (uint32_t s = 0; s < pages->seqs; s++) {
        uint64_t first, end, held = 0;
        held_range(pages->lengths[s], pages->page_tokens, pages->window_tokens, &first, &end);
        for (uint64_t p = first; p < end; p++)
            if (*entry(pages, s, p) < 0)
                return status_set(text, STATUS_WRONG, "sequence %u: page %llu is missing", s,
                                  (unsigned long long)p);
        for (uint32_t c = 0; c < pages->columns; c++) {
            const int32_t page = pages->table[(uint64_t)s * pages->columns + c];
            if (page < 0)
                continue;
            if ((uint32_t)page >= pages->page_count)
                return status_set(text, STATUS_WRONG, "sequence %u column %u: page id %d of %u", s,
                                  c, page, pages->page_count);
            seen[page]++;
            held++;
        }
        if (held != end - first)
            return status_set(text, STATUS_WRONG,
                              "sequence %u holds %llu pages where its length needs %llu", s,
                              (unsigned long long)held, (unsigned long long)(end - first));
    }
    return STATUS_OK;
}

enum status pool_pages_check(const struct pool_pages *pages, struct status_text *text) {
    uint32_t *seen = calloc((uint64_t)pages->page_count + 1, sizeof *seen);
    if (seen == NULL)
        return status_set(text, STATUS_OUT_OF_MEMORY, "no host memory to check the pages");
    enum status status = count_entries(pages, seen, text);
    uint64_t used = 0;
    for (uint32_t p = 0; p < pages->page_count && status == STATUS_OK; p++) {
        used += seen[p] > 0;
        if (seen[p] != pages->references[p])
            status = status_set(text, STATUS_WRONG, "page %u: %u entries and a count of %u", p,
                                seen[p], pages->references[p]);
    }
    for (uint32_t i = 0; i < pages->free_count && status == STATUS_OK; i++) {
        const int32_t page = pages->free_ids[i];
        if (page < 0 || (uint32_t)page >= pages->page_count || seen[page]++ > 0)
            status = status_set(text, STATUS_WRONG,
                                "free list: page %d is used, free twice or "
                                "out of range",
                                page);
    }
    if (status == STATUS_OK && used + pages->free_count != pages->page_count)
        status = status_set(text, STATUS_WRONG, "%llu pages used and %u free of %u",
                            (unsigned long long)used, pages->free_count, pages->page_count);
    free(seen);
    return status;
}
