/* What tests of the sampling loop measure: three contenders over a backend whose clock the test
 * writes, and the wall's clock and the user's interrupt, which are the test's too. No real time is
 * looked at. Stands in for host/interrupt.c and host/progress.c in the programs it is linked to. */
#ifndef MEASURE_WORLD_H
#define MEASURE_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "measure.h"

enum {
    WORLD_CONTENDERS = 3,
    WORLD_TRACE_BYTES = 200000,
    WORLD_APPEND_NS = 10,
    WORLD_ATTEND_NS = 100,
    WORLD_STEP_NS = 1000, /* unless scripted */
    WORLD_LAUNCH_NS = 7,
};

/* The world as the test has it: one clock for the device, one for the wall. */
struct world {
    char trace[WORLD_TRACE_BYTES]; /* l launch, s canary, p its pace, A B C steps, . a look */
    size_t traced;
    bool timing; /* between the first mark and the wait behind the last one */
    uint64_t device_ns, marks[BACKEND_MARKS];
    uint64_t wall_ns, wall_step_ns;                           /* added at each look */
    bool wall_back;                                           /* it goes back instead */
    uint64_t canary_ns, canary_faster_from, canary_faster_ns; /* from that reading on */
    uint64_t canaries;
    uint64_t steps, interrupt_at, fail_at;
    const char *fail_what; /* "mark", "sync", "step", "canary", "canary sync" */
    uint64_t (*step_ns)(char who, uint64_t nth);
    uint64_t nth[WORLD_CONTENDERS];           /* steps of each, warm-up included */
    uint64_t stuck_from, stuck_to, back_at;   /* steps during which the clock misbehaves */
    uint64_t append_back_at, attend_still_at; /* steps of which it does in one part */
};

extern struct world world;
extern struct measure_contender world_contenders[WORLD_CONTENDERS];
extern struct backend_ops world_ops;
extern struct backend_device *world_device;
extern uint64_t world_pool_bytes; /* of each contender, and what the canary reads */

/* A group's set-up and tear-down of cmocka. */
int world_make(void **state);
int world_free(void **state);

/* Time begins again: no samples, steps of WORLD_STEP_NS, a canary as long as a step. */
void world_start(void);
/* measure_run over the first `count` contenders; the second fails the test where that fails. */
enum status world_run(uint32_t count, const struct measure_limits *limits,
                      struct status_text *text);
void world_run_well(uint32_t count, const struct measure_limits *limits);
/* The trace behind launches and warm-up. */
const char *world_rounds(uint32_t count);

/* For measure_limits.look, with &world: fails the test where a step is being timed. */
void world_look(void *context);
/* For world_ops.pace, which is NULL unless the test sets it: a nanosecond for each round, from the
 * third reading of the canary on two. */
enum status world_pace(struct backend_device *on, uint64_t rounds, struct status_text *text);

/* Scripts for world.step_ns: always the same; up to a fifth more or less; every second step twice
 * as long, which no number of samples makes narrow; that for B alone. */
uint64_t world_constant(char who, uint64_t nth);
uint64_t world_scattered(char who, uint64_t nth);
uint64_t world_never_narrow(char who, uint64_t nth);
uint64_t world_b_never_narrow(char who, uint64_t nth);

#endif
