/* One flag, set by the first signal; the second one has the default effect. */
#include "interrupt.h"

#include <signal.h>

static volatile sig_atomic_t asked;

static void on_signal(int number) {
    asked = 1;
    (void)signal(number, SIG_DFL);
}

void interrupt_install(void) {
    (void)signal(SIGINT, on_signal);
    (void)signal(SIGTERM, on_signal);
}

bool interrupt_asked(void) {
    return asked != 0;
}
