/* Redraws at most ten times a second; the estimate is linear in the work done. */
#include "progress.h"

#include <stdbool.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static struct {
    bool shown;
    uint64_t total;
    uint64_t start_ns;
    uint64_t drawn_ns;
} state;

uint64_t progress_now_ns(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void progress_start(uint64_t total) {
    state.total = total;
    state.start_ns = progress_now_ns();
    state.drawn_ns = 0;
}

void progress_show(uint64_t done, const char *what) {
    const uint64_t now = progress_now_ns();
    if (isatty(STDERR_FILENO) == 0 || now - state.drawn_ns < 100000000u)
        return;
    state.drawn_ns = now;
    state.shown = true;
    const uint64_t percent = state.total == 0 ? 0 : done * 100 / state.total;
    const double elapsed_s = (double)(now - state.start_ns) * 1e-9;
    if (done == 0) {
        (void)fprintf(stderr, "\r\033[K%3u %%  %s", (unsigned)percent, what);
        return;
    }
    const double left_s = elapsed_s * (double)(state.total - done) / (double)done;
    (void)fprintf(stderr, "\r\033[K%3u %%  about %u:%02u left  %s", (unsigned)percent,
                  (unsigned)(left_s / 60), (unsigned)left_s % 60, what);
}

void progress_clear(void) {
    if (state.shown)
        (void)fprintf(stderr, "\r\033[K");
    state.shown = false;
}
