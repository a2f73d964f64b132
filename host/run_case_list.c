/* Questions about a whole list of cases: what to remark on, and whether two lists are the same. */
#include <stdio.h>
#include <string.h>

#include "rotate.h"
#include "run_case.h"

/* As in llama.cpp, no error: such rows are stored as they are. */
static void say_unrotated(const struct model *model) {
    for (uint32_t g = 0; g < model->group_count; g++) {
        char words[96];
        if (!rotate_unfit(&model->groups[g]))
            continue;
        model_group_words(&model->groups[g], words, sizeof words);
        (void)fprintf(
            stderr,
            "kvgauge: %s: --rotate hadamard leaves rows that are no multiple of 64 values "
            "as they are: %s\n",
            model->name, words);
    }
}

void run_case_list_remarks(const struct run_case_list *list) {
    for (size_t i = 0; i < list->count; i++) {
        const struct model *whole = &list->cases[i].whole;
        if (i > 0 && list->cases[i].options == list->cases[i - 1].options &&
            strcmp(whole->name, list->cases[i - 1].whole.name) == 0)
            continue;
        if (whole->remark[0] != '\0')
            (void)fprintf(stderr, "kvgauge: %s: %s\n", whole->name, whole->remark);
        if (list->cases[i].options->rotate)
            say_unrotated(whole);
    }
}

/* FNV-1a, a 64-bit number at a time. */
static void mix(uint64_t *signature, uint64_t number) {
    for (int byte = 0; byte < 8; byte++, number >>= 8)
        *signature = (*signature ^ (number & 0xFF)) * 1099511628211u;
}

static void mix_text(uint64_t *signature, const char *text) {
    for (; *text != '\0'; text++)
        mix(signature, (unsigned char)*text);
    mix(signature, 0);
}

static void mix_options(uint64_t *signature, const struct options *options) {
    for (size_t i = 0; i < options->format_count; i++)
        mix_text(signature, options->formats[i].name);
    mix_text(signature, options->baseline.name);
    const uint64_t numbers[] = {
        options->index_given ? (uint64_t)options->index + 1 : 0,
        options->state_value_bytes,
        options->kv_scale_amax,
        options->share_prefix_tokens,
        options->window_as_full,
        options->tp,
        options->page_order_sequential,
        options->data,
        options->rotate,
        options->seed,
        options->samples,
        options->weights_read_bytes,
        options->weights_format,
        (uint64_t)(options->max_noise_percent * 1e6),
        options->list,
        (uint64_t)(options->min_time_s * 1e6),
        (uint64_t)(options->max_time_s * 1e6),
    };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        mix(signature, numbers[i]);
}

uint64_t run_case_list_signature(const struct run_case_list *list) {
    uint64_t signature = 14695981039346656037u;
    for (size_t i = 0; i < list->count; i++) {
        const struct run_case *one = &list->cases[i];
        mix_text(&signature, one->whole.name);
        for (uint32_t g = 0; g < one->whole.group_count; g++) {
            char words[96];
            model_group_words(&one->whole.groups[g], words, sizeof words);
            mix_text(&signature, words);
            mix(&signature, one->whole.groups[g].query_heads);
            mix(&signature, one->whole.groups[g].read_by_layers);
        }
        mix(&signature, one->seqs);
        mix(&signature, one->page_tokens);
        for (uint64_t s = 0; s < one->seqs; s++)
            mix(&signature, one->lengths[s]);
        mix_options(&signature, one->options);
    }
    return signature;
}
