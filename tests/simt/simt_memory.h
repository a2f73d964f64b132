/* Which ranges of device memory there are, for the race detector. */
#ifndef SIMT_MEMORY_H
#define SIMT_MEMORY_H

#include <string>
#include <vector>

#include "simt_race.h"

struct simt_range {
    unsigned char *start, *end;
    std::string what;
    std::vector<simt_race_cell> cells; /* one for each byte; none when nobody looks for races */
};

/* The range that holds this address or has it in its guard bytes; NULL for other memory. */
struct simt_range *simt_memory_find(const void *address, bool *guard);

#endif
