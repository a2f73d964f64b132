/* Weighted least squares, crossings of two lines, and both in words. */
#include "fit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum which { WHICH_MEDIAN, WHICH_LOW, WHICH_HIGH };
enum { TOKENS_TEXT_BYTES = 32, INTERVAL_TEXT_BYTES = 80 };

static double time_of(const struct fit_point *point, enum which which) {
    return which == WHICH_LOW ? point->low_ns : which == WHICH_HIGH ? point->high_ns : point->ns;
}

static struct fit_line line_of(const struct fit_point *points, size_t count, enum which which) {
    double weights = 0, tokens = 0, ns = 0;
    for (size_t i = 0; i < count; i++) {
        const double weight = 1 / (points[i].ns * points[i].ns);
        weights += weight;
        tokens += weight * points[i].tokens;
        ns += weight * time_of(&points[i], which);
    }
    tokens /= weights;
    ns /= weights;
    double spread = 0, both = 0;
    for (size_t i = 0; i < count; i++) {
        const double weight = 1 / (points[i].ns * points[i].ns);
        const double apart = points[i].tokens - tokens;
        spread += weight * apart * apart;
        both += weight * apart * (time_of(&points[i], which) - ns);
    }
    const double per_token_ns = both / spread;
    return (struct fit_line){.fixed_ns = ns - per_token_ns * tokens, .per_token_ns = per_token_ns};
}

static double at_tokens(const struct fit_line *line, double tokens) {
    return line->fixed_ns + line->per_token_ns * tokens;
}

bool fit_make(const struct fit_point *points, size_t count, struct fit *out) {
    *out = (struct fit){.has_interval = true, .first_tokens = INFINITY};
    for (size_t i = 0; i < count; i++) {
        bool seen = false;
        for (size_t j = 0; j < i; j++)
            seen = seen ||
                   !(points[j].tokens < points[i].tokens || points[j].tokens > points[i].tokens);
        out->lengths += !seen;
        out->first_tokens = fmin(out->first_tokens, points[i].tokens);
        out->last_tokens = fmax(out->last_tokens, points[i].tokens);
        out->has_interval = out->has_interval && points[i].high_ns > 0;
    }
    if (out->lengths < FIT_LEAST_LENGTHS)
        return false;
    out->line = line_of(points, count, WHICH_MEDIAN);
    if (out->has_interval) {
        out->low = line_of(points, count, WHICH_LOW);
        out->high = line_of(points, count, WHICH_HIGH);
    }
    for (size_t i = 0; i < count; i++) {
        const double off = at_tokens(&out->line, points[i].tokens) / points[i].ns - 1;
        out->worst_percent = fmax(out->worst_percent, fabs(off) * 100);
    }
    return true;
}

/* As the command line takes them: k is 1,024. */
static void tokens_text(double tokens, char out[TOKENS_TEXT_BYTES]) {
    const double k = tokens / 1024, m = k / 1024;
    const double shown = tokens < 1024 ? tokens : k < 1024 ? k : m;
    (void)snprintf(out, TOKENS_TEXT_BYTES, "%.*f", tokens >= 1024 && shown < 100 ? 1 : 0, shown);
    const size_t length = strlen(out);
    if (length > 2 && strcmp(out + length - 2, ".0") == 0)
        out[length - 2] = '\0';
    (void)strcat(out, tokens < 1024 ? "" : k < 1024 ? "k" : "m");
}

void fit_words(const struct fit *fit, char out[FIT_WORDS_BYTES]) {
    char first[TOKENS_TEXT_BYTES], last[TOKENS_TEXT_BYTES];
    tokens_text(fit->first_tokens, first);
    tokens_text(fit->last_tokens, last);
    (void)snprintf(out, FIT_WORDS_BYTES,
                   "%.1f us + %.3f ns per token (%u lengths, %s to %s; off by %.1f %% at most)",
                   fit->line.fixed_ns * 1e-3, fit->line.per_token_ns, fit->lengths, first, last,
                   fit->worst_percent);
}

static struct fit_line less(const struct fit_line *a, const struct fit_line *b) {
    return (struct fit_line){.fixed_ns = a->fixed_ns - b->fixed_ns,
                             .per_token_ns = a->per_token_ns - b->per_token_ns};
}

/* Where a line that goes the way of `slope` crosses 0; `none` where it does not, or below 0. */
static double root(const struct fit_line *line, double slope, double none) {
    const double at = -line->fixed_ns / line->per_token_ns;
    return line->per_token_ns * slope > 0 && at > 0 ? at : none;
}

/* The ends of the crossing: the difference as large and as small as the intervals let it be. */
static void bracket(const struct fit *mine, const struct fit *baseline, double slope,
                    struct fit_crossing *out) {
    const struct fit_line best = less(&mine->low, &baseline->high);
    const struct fit_line worst = less(&mine->high, &baseline->low);
    out->has_interval = true;
    out->early = root(slope < 0 ? &best : &worst, slope, 0);
    out->late = root(slope < 0 ? &worst : &best, slope, INFINITY);
    /* Away from the lengths the lines of the ends cross those of the medians: no ends there. */
    if (out->early > out->at)
        out->early = 0;
    if (out->late < out->at)
        out->late = INFINITY;
}

static bool is_same(const struct fit *mine, const struct fit *baseline, double from, double to) {
    const struct fit_line best = less(&mine->low, &baseline->high);
    const struct fit_line worst = less(&mine->high, &baseline->low);
    return at_tokens(&best, from) <= 0 && at_tokens(&worst, from) >= 0 &&
           at_tokens(&best, to) <= 0 && at_tokens(&worst, to) >= 0;
}

void fit_cross(const struct fit *mine, const struct fit *baseline, struct fit_crossing *out) {
    const double from = fmax(mine->first_tokens, baseline->first_tokens);
    const double to = fmin(mine->last_tokens, baseline->last_tokens);
    const bool has_interval = mine->has_interval && baseline->has_interval;
    *out = (struct fit_crossing){.from_tokens = from, .to_tokens = to};
    if (!(from < to))
        return;
    if (has_interval && is_same(mine, baseline, from, to)) {
        out->order = FIT_SAME;
        return;
    }
    const struct fit_line apart = less(&mine->line, &baseline->line);
    const bool faster_at_first = at_tokens(&apart, from) < 0;
    const bool faster_at_last = at_tokens(&apart, to) < 0;
    out->order = faster_at_first  ? faster_at_last ? FIT_ALWAYS : FIT_FALLS_BACK
                 : faster_at_last ? FIT_PASSES
                                  : FIT_NEVER;
    out->passes_there = apart.per_token_ns < 0;
    out->at = root(&apart, apart.per_token_ns, 0);
    if (out->at > to * FIT_FURTHEST || out->at < from / FIT_FURTHEST)
        out->at = 0;
    else if (has_interval)
        bracket(mine, baseline, apart.per_token_ns, out);
}

static void interval_text(const struct fit_crossing *crossing, char out[INTERVAL_TEXT_BYTES]) {
    char early[TOKENS_TEXT_BYTES], late[TOKENS_TEXT_BYTES] = "";
    out[0] = '\0';
    if (!crossing->has_interval)
        return;
    tokens_text(crossing->early, early);
    if (isfinite(crossing->late))
        tokens_text(crossing->late, late);
    if (crossing->early > 0 && late[0] != '\0')
        (void)snprintf(out, INTERVAL_TEXT_BYTES, " (%s to %s)", early, late);
    else if (late[0] != '\0')
        (void)snprintf(out, INTERVAL_TEXT_BYTES, " (%s at the latest)", late);
    else if (crossing->early > 0)
        (void)snprintf(out, INTERVAL_TEXT_BYTES, " (%s at the earliest, or never)", early);
    else
        (void)snprintf(out, INTERVAL_TEXT_BYTES, " (anywhere, by the noise)");
}

void fit_crossing_words(const struct fit_crossing *crossing, const char *mine, const char *baseline,
                        char out[FIT_WORDS_BYTES]) {
    char from[TOKENS_TEXT_BYTES], to[TOKENS_TEXT_BYTES], at[TOKENS_TEXT_BYTES];
    char interval[INTERVAL_TEXT_BYTES], beyond[160] = "";
    tokens_text(crossing->from_tokens, from);
    tokens_text(crossing->to_tokens, to);
    tokens_text(crossing->at, at);
    interval_text(crossing, interval);
    if (crossing->at > 0)
        (void)snprintf(beyond, sizeof beyond, "; extrapolated: %s %s tokens%s",
                       crossing->passes_there ? "faster from" : "faster up to", at, interval);
    switch (crossing->order) {
    case FIT_NO_ORDER:
        out[0] = '\0';
        return;
    case FIT_SAME:
        (void)snprintf(out, FIT_WORDS_BYTES,
                       "%s and %s differ by no more than their noise "
                       "between %s and %s",
                       mine, baseline, from, to);
        return;
    case FIT_PASSES:
        (void)snprintf(out, FIT_WORDS_BYTES, "%s passes %s at %s tokens%s", mine, baseline, at,
                       interval);
        return;
    case FIT_FALLS_BACK:
        (void)snprintf(out, FIT_WORDS_BYTES, "%s is faster than %s up to %s tokens%s", mine,
                       baseline, at, interval);
        return;
    case FIT_ALWAYS:
        (void)snprintf(out, FIT_WORDS_BYTES,
                       "%s is faster than %s at every length between %s "
                       "and %s%s",
                       mine, baseline, from, to, beyond);
        return;
    case FIT_NEVER:
        (void)snprintf(out, FIT_WORDS_BYTES, "%s never passes %s between %s and %s%s", mine,
                       baseline, from, to, beyond);
        return;
    }
}
