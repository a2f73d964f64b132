/* A step of the recurrent state over some rows of one head: what cpu_state_rows.c does, once per
 * instruction set, for cpu_state.c, which cuts the work. */
#ifndef CPU_STATE_H
#define CPU_STATE_H

#include <stdbool.h>
#include <stdint.h>

struct cpu_state_rows {
    uint8_t *state;                       /* [rows][cols] */
    const float *decays, *keys, *queries; /* [cols] */
    const float *values;                  /* [rows] */
    float *outputs;                       /* [rows] */
    float gain;
    uint32_t rows;
    uint32_t cols;
    bool bf16; /* else f32 */
    bool delta;
};

#endif
