/* Plain geometry as a model:
 *   8x128          8 KV heads of 128 values, 8 query heads per KV head, 1 layer
 *   8x128/g4x32l   4 query heads per KV head, 32 layers
 *   8x192/128...   K rows of 192, V rows of 128
 *   8x128w1024...  only the last 1024 tokens kept
 *   latent512+64/g16x27l   MLA rows of 512 + 64, 16 query heads in all */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "json_text.h"
#include "model_source.h"

/* Reads a number from 1 to most; false when there is none. */
static bool read_number(const char **at, uint64_t most, uint32_t *out) {
    uint64_t value = 0;
    const char *start = *at;
    while (isdigit((unsigned char)**at) && value <= most)
        value = value * 10 + (uint64_t)(*(*at)++ - '0');
    *out = (uint32_t)value;
    return *at > start && value >= 1 && value <= most;
}

static bool skip(const char **at, const char *word) {
    const size_t length = strlen(word);
    if (strncmp(*at, word, length) != 0)
        return false;
    *at += length;
    return true;
}

static bool read_latent(const char **at, struct model_group *group) {
    group->kind = MODEL_LATENT;
    if (!read_number(at, JSON_TEXT_MOST_DIM, &group->latent_dim))
        return false;
    return !skip(at, "+") || read_number(at, JSON_TEXT_MOST_DIM, &group->rope_dim);
}

static bool read_heads(const char **at, struct model_group *group) {
    group->kind = MODEL_FULL;
    if (!read_number(at, JSON_TEXT_MOST_HEADS, &group->kv_heads) || !skip(at, "x") ||
        !read_number(at, JSON_TEXT_MOST_DIM, &group->k_dim))
        return false;
    group->v_dim = group->k_dim;
    if ((*at)[0] == '/' && isdigit((unsigned char)(*at)[1])) {
        ++*at;
        if (!read_number(at, JSON_TEXT_MOST_DIM, &group->v_dim))
            return false;
    }
    if (!skip(at, "w"))
        return true;
    uint32_t window;
    if (!read_number(at, UINT32_MAX, &window))
        return false;
    group->kind = MODEL_WINDOW;
    group->window_tokens = window;
    return true;
}

static bool read_geometry(const char *at, struct model_group *group) {
    const bool latent = skip(&at, "latent");
    if (!(latent ? read_latent(&at, group) : read_heads(&at, group)))
        return false;
    uint32_t per_head = latent ? 64 : 8;
    group->query_heads_assumed = true;
    if (skip(&at, "/g")) {
        group->query_heads_assumed = false;
        if (!read_number(&at, 1024, &per_head))
            return false;
    }
    group->query_heads = latent ? per_head : per_head * group->kv_heads;
    group->layers = 1;
    if (skip(&at, "x") &&
        (!read_number(&at, JSON_TEXT_MOST_LAYERS, &group->layers) || !skip(&at, "l")))
        return false;
    group->read_by_layers = group->layers;
    return *at == '\0';
}

enum status model_geometry_parse(const char *spec, struct model *out, struct status_text *text) {
    *out = (struct model){.group_count = 1};
    (void)snprintf(out->name, sizeof out->name, "%.90s", spec);
    (void)snprintf(out->source, sizeof out->source, "geometry given on the command line");
    if (!read_geometry(spec, &out->groups[0]))
        return status_set(text, STATUS_BAD_INPUT,
                          "--model %.80s: geometry is KV heads x head dim [w WINDOW] [/g query "
                          "heads per KV head] [x LAYERS l], as 8x128/g4x32l, or latent512+64/g16",
                          spec);
    if (out->groups[0].query_heads_assumed)
        (void)strcpy(out->assumed, "query_heads");
    return model_check(out, text);
}
