/* One line on a terminal's stderr that says what is being done, how far it is and how long it may
 * still take. Silent when stderr is not a terminal. */
#ifndef PROGRESS_H
#define PROGRESS_H

#include <stdint.h>

/* Work in all, in any unit (rows times phases, say). */
void progress_start(uint64_t total);
/* `done` of the total is finished; `what` is in hand ("llama-3.3-70b nvfp4: filling"). */
void progress_show(uint64_t done, const char *what);
/* Wipes the line, so that other output starts on a clean one. */
void progress_clear(void);

/* Monotonic nanoseconds since an arbitrary start. */
uint64_t progress_now_ns(void);

#endif
