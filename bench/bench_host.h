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

extern "C" {
#include "interrupt.h"
#include "options.h"
#include "progress.h"
#include "result.h"
#include "run_case.h"
#include "run_weights.h"
#include "runner.h"
#include "session.h"
#include "status.h"
}

#endif
