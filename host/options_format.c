/* The names of --kv-format: formats, pairs, records, and what a bare record name means. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "brief.h"
#include "nearest.h"
#include "options_list.h"

/* The names records share without their sizes; fp8 for DeepSeek-V4 is the first of them. */
static const char *const bare_names[] = {"fp8_ds_mla", "nvfp4_ds_mla"};
enum { BARE_FP8, BARE_COUNT = sizeof bare_names / sizeof bare_names[0] };

static enum status unknown_format(const char *option, const char *text,
                                  struct status_text *message) {
    const char *names[FORMAT_END];
    size_t count = 0;
    for (int id = 0; id < FORMAT_COUNT; id++)
        names[count++] = format_get((enum format_id)id)->name;
    for (int id = FORMAT_COUNT + 1; id < FORMAT_END; id++)
        if (format_get((enum format_id)id)->key_dim == 0)
            names[count++] = format_get((enum format_id)id)->name;
    char near[128], all[256] = "", shown[BRIEF_BYTES];
    nearest_names(text, names, count, near, sizeof near);
    for (int id = 0; id < FORMAT_COUNT; id++) {
        const size_t used = strlen(all);
        (void)snprintf(all + used, sizeof all - used, "%s%s", id > 0 ? " " : "", names[id]);
    }
    return status_set(message, STATUS_BAD_INPUT,
                      "%s %s: unknown%s%s; formats are %s (kvgauge run --help)", option,
                      brief_text(text, shown), near[0] != '\0' ? ", nearest: " : "", near, all);
}

/* Fills `out` with the bare record name `bare`; the formats are for models without a record. */
static void set_bare(size_t bare, const char *name, struct options_format *out) {
    out->is_bare = true;
    out->k_format = out->v_format = bare == BARE_FP8 ? FORMAT_FP8_E4M3 : FORMAT_NVFP4;
    (void)snprintf(out->name, sizeof out->name, "%s", name);
}

enum status options_parse_format(const char *option, const char *text, struct options_format *out,
                                 struct status_text *message) {
    *out = (struct options_format){0};
    if (strlen(text) >= sizeof out->name)
        return unknown_format(option, text, message);
    if (strcasecmp(text, "auto") == 0) {
        out->is_auto = true;
        (void)strcpy(out->name, "auto");
        return STATUS_OK;
    }
    for (size_t i = 0; i < BARE_COUNT; i++) {
        if (strcasecmp(text, bare_names[i]) == 0) {
            set_bare(i, bare_names[i], out);
            return STATUS_OK;
        }
    }
    if (strcasecmp(text, "fp8") == 0) {
        set_bare(BARE_FP8, "fp8", out);
        return STATUS_OK;
    }
    if (format_find_record(text, &out->k_format)) {
        const struct format_info *record = format_get(out->k_format);
        if (record->key_dim > 0)
            return status_set(message, STATUS_BAD_INPUT,
                              "%s %s: that holds index keys; use --index-format", option, text);
        out->v_format = out->k_format;
        (void)snprintf(out->name, sizeof out->name, "%s", record->name);
        return STATUS_OK;
    }
    char k[sizeof out->name];
    (void)snprintf(k, sizeof k, "%s", text);
    char *v = strchr(k, '/');
    if (v != NULL)
        *v++ = '\0';
    if (!format_find(k, &out->k_format) || !format_find(v != NULL ? v : k, &out->v_format))
        return unknown_format(option, text, message);
    const char *k_name = format_get(out->k_format)->name;
    if (out->k_format == out->v_format)
        (void)snprintf(out->name, sizeof out->name, "%s", k_name);
    else
        (void)snprintf(out->name, sizeof out->name, "%s/%s", k_name,
                       format_get(out->v_format)->name);
    return STATUS_OK;
}

static enum status add_format(struct options *options, const struct options_format *format,
                              struct status_text *message) {
    for (size_t i = 0; i < options->format_count; i++)
        if (strcmp(options->formats[i].name, format->name) == 0)
            return STATUS_OK;
    if (options->format_count == OPTIONS_MAX_LIST)
        return status_set(message, STATUS_BAD_INPUT, "--kv-format: at most %d formats",
                          OPTIONS_MAX_LIST);
    options->formats[options->format_count++] = *format;
    return STATUS_OK;
}

enum status options_add_formats(struct options *options, const char *option, const char *text,
                                struct status_text *message) {
    char *copy = malloc(strlen(text) + 1);
    if (copy == NULL)
        return status_set(message, STATUS_OUT_OF_MEMORY, "no memory for the command line");
    (void)strcpy(copy, text);
    enum status status = STATUS_OK;
    for (char *item = copy, *next; status == STATUS_OK && item != NULL; item = next) {
        next = strchr(item, ',');
        if (next != NULL)
            *next++ = '\0';
        struct options_format format;
        if (strcasecmp(item, "all") != 0) {
            status = options_parse_format(option, item, &format, message);
            if (status == STATUS_OK)
                status = add_format(options, &format, message);
            continue;
        }
        for (int id = 0; id < FORMAT_COUNT && status == STATUS_OK; id++) {
            status = options_parse_format(option, format_get((enum format_id)id)->name, &format,
                                          message);
            if (status == STATUS_OK)
                status = add_format(options, &format, message);
        }
    }
    free(copy);
    return status;
}

/* Whether a record holds this group's rows: a latent part by part, a pooled row by its width. */
static bool record_holds(const struct format_info *record, const struct model_group *group) {
    if (group->kind == MODEL_LATENT)
        return record->latent_dim == group->latent_dim && record->rope_dim == group->rope_dim;
    const uint32_t width = group->kind == MODEL_COMPRESSED ? group->entry_dim : group->k_dim;
    return record->latent_dim + record->rope_dim == width;
}

/* The record of that bare name for the model's rows; FORMAT_COUNT when none holds them. Two hold
 * entries of 512 values: that of DeepSeek-V4.1, which pools two tokens at most, has no rotary part
 * of its own; that of DeepSeek-V4, which pools 4 and 128, has. */
static enum format_id find_bare(const char *bare, const struct model *model) {
    bool pools_few = false;
    for (uint32_t g = 0; g < model->group_count; g++)
        if (model->groups[g].kind == MODEL_COMPRESSED && model->groups[g].tokens_per_entry <= 2)
            pools_few = true;
    enum format_id found = FORMAT_COUNT;
    for (int id = FORMAT_COUNT + 1; id < FORMAT_END; id++) {
        const struct format_info *record = format_get((enum format_id)id);
        if (record->key_dim > 0 || strncmp(record->name, bare, strlen(bare)) != 0)
            continue;
        bool fits = false;
        for (uint32_t g = 0; g < model->group_count; g++) {
            const struct model_group *group = &model->groups[g];
            if (group->kind == MODEL_LATENT || group->kind == MODEL_COMPRESSED) {
                fits = record_holds(record, group);
                if (!fits)
                    break;
            }
        }
        if (fits && (found == FORMAT_COUNT || (record->rope_dim == 0) == pools_few))
            found = (enum format_id)id;
    }
    return found;
}

static bool has_entries(const struct model *model) {
    for (uint32_t g = 0; g < model->group_count; g++)
        if (model->groups[g].kind == MODEL_COMPRESSED)
            return true;
    return false;
}

void options_format_resolve(const struct options_format *asked, const struct model *model,
                            enum format_id auto_format, struct options_format *out) {
    enum format_id record = FORMAT_COUNT;
    *out = *asked;
    out->is_auto = out->is_bare = false;
    if (asked->is_auto) {
        out->k_format = out->v_format = auto_format;
    } else if (asked->is_bare && strcmp(asked->name, "fp8") == 0) {
        if (has_entries(model))
            record = find_bare(bare_names[BARE_FP8], model);
    } else if (asked->is_bare) {
        record = find_bare(asked->name, model);
        /* None holds the rows: the first one, which the formula refuses with the reason. */
        for (int id = FORMAT_COUNT + 1; record == FORMAT_COUNT && id < FORMAT_END; id++)
            if (strncmp(format_get((enum format_id)id)->name, asked->name, strlen(asked->name)) ==
                0)
                record = (enum format_id)id;
    } else {
        return;
    }
    if (record != FORMAT_COUNT)
        out->k_format = out->v_format = record;
    (void)snprintf(out->name, sizeof out->name, "%s", format_get(out->k_format)->name);
}
