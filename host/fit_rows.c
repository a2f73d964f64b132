/* A growing list of sets, told at the end. */
#include "fit_rows.h"

#include <stdlib.h>
#include <string.h>

static struct fit_rows_set *find_set(struct fit_rows *rows, const char *setting,
                                     const char *format) {
    for (size_t i = 0; i < rows->count; i++)
        if (strcmp(rows->sets[i].setting, setting) == 0 &&
            strcmp(rows->sets[i].format, format) == 0)
            return &rows->sets[i];
    struct fit_rows_set *wider = realloc(rows->sets, (rows->count + 1) * sizeof *wider);
    if (wider == NULL)
        return NULL;
    rows->sets = wider;
    struct fit_rows_set *set = &rows->sets[rows->count++];
    *set = (struct fit_rows_set){0};
    (void)snprintf(set->setting, sizeof set->setting, "%s", setting);
    (void)snprintf(set->format, sizeof set->format, "%s", format);
    return set;
}

bool fit_rows_add(struct fit_rows *rows, const char *setting, const char *format, bool is_baseline,
                  const struct fit_point *point) {
    struct fit_rows_set *set = find_set(rows, setting, format);
    if (set == NULL)
        return false;
    set->is_baseline = is_baseline;
    for (size_t i = 0; i < set->count; i++)
        if (set->points[i].tokens >= point->tokens && set->points[i].tokens <= point->tokens) {
            set->points[i] = *point;
            return true;
        }
    struct fit_point *wider = realloc(set->points, (set->count + 1) * sizeof *wider);
    if (wider == NULL)
        return false;
    set->points = wider;
    set->points[set->count++] = *point;
    return true;
}

static const struct fit_rows_set *baseline_of(const struct fit_rows *rows, const char *setting) {
    for (size_t i = 0; i < rows->count; i++)
        if (rows->sets[i].is_baseline && strcmp(rows->sets[i].setting, setting) == 0)
            return &rows->sets[i];
    return NULL;
}

void fit_rows_say(const struct fit_rows *rows, FILE *stream) {
    for (size_t i = 0; i < rows->count; i++) {
        const struct fit_rows_set *set = &rows->sets[i];
        const struct fit_rows_set *baseline = baseline_of(rows, set->setting);
        struct fit mine, theirs;
        char words[FIT_WORDS_BYTES];
        if (!fit_make(set->points, set->count, &mine))
            continue;
        fit_words(&mine, words);
        (void)fprintf(stream, "%s %s: %s\n", set->setting, set->format, words);
        if (baseline == NULL || baseline == set ||
            !fit_make(baseline->points, baseline->count, &theirs))
            continue;
        struct fit_crossing crossing;
        fit_cross(&mine, &theirs, &crossing);
        fit_crossing_words(&crossing, set->format, baseline->format, words);
        if (words[0] != '\0')
            (void)fprintf(stream, "%s: %s\n", set->setting, words);
    }
}

void fit_rows_free(struct fit_rows *rows) {
    for (size_t i = 0; i < rows->count; i++)
        free(rows->sets[i].points);
    free(rows->sets);
    *rows = (struct fit_rows){0};
}
