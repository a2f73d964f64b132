/* The harness is C: its headers as C++ sees them, in one place. */
#ifndef BENCH_HOST_H
#define BENCH_HOST_H

/* Before them, so that nothing of the C++ library comes to lie inside extern "C". */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__GNUC__)
/* A function may have its struct's name: in C++ alone that counts as shadowing. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#endif
extern "C" {
#include "interrupt.h"
#include "options.h"
#include "progress.h"
#include "ranks.h"
#include "result.h"
#include "run_case.h"
#include "run_weights.h"
#include "runner.h"
#include "session.h"
#include "status.h"
#include "telemetry.h"
#include "weights_read.h"
}
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

#endif
