/* Ctrl-C, SIGTERM and SIGHUP (the terminal is gone; not under nohup), asked for instead of
 * delivered: long work looks at interrupt_asked between pieces, ends what it is doing and leaves
 * whole lines behind. Asked again two seconds later, the program ends at once. */
#ifndef INTERRUPT_H
#define INTERRUPT_H

#include <stdbool.h>

void interrupt_install(void);
bool interrupt_asked(void);

#endif
