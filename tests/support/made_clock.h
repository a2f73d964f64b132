/* A backend's marks over a clock that the test sets: what stands in for mark and elapsed_ns where
 * no real time is to be looked at. One device. */
#ifndef MADE_CLOCK_H
#define MADE_CLOCK_H

#include <string.h>

#include "backend.h"

static struct { uint64_t now_ns, marks[BACKEND_MARKS]; } made_clock;

/* Not at 0: a clock that began at 0 could hide one that was never set. */
static inline void made_clock_start(void) {
    memset(&made_clock, 0, sizeof made_clock);
    made_clock.now_ns = 1000;
}

static inline enum status made_clock_mark(struct backend_device *on, uint32_t which,
                                          struct status_text *text) {
    (void)on, (void)text;
    made_clock.marks[which] = made_clock.now_ns;
    return STATUS_OK;
}

static inline uint64_t made_clock_elapsed_ns(struct backend_device *on, uint32_t from,
                                             uint32_t to) {
    (void)on;
    return made_clock.marks[to] - made_clock.marks[from];
}

#endif
