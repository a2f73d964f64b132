/* Private to ranks: what differs between a build with MPI and one without. */
#ifndef RANKS_PARTS_H
#define RANKS_PARTS_H

#include "ranks.h"

/* Starts MPI in a program that is one of `launched` > 1 processes. */
enum status ranks_start(uint32_t launched, struct ranks *out, struct status_text *text);

#endif
