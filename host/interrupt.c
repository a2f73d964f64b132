/* One flag, set by the first signal. A later one ends the program at once, unless it comes right
 * behind the first: some tools signal a process and then its whole group. */
#include "interrupt.h"

#include <signal.h>
#include <time.h>

static volatile sig_atomic_t asked;
static volatile sig_atomic_t asked_at_s;

static sig_atomic_t seconds_now(void) {
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (sig_atomic_t)now.tv_sec;
}

static void on_signal(int number) {
    if (!asked) {
        asked_at_s = seconds_now();
        asked = 1;
    } else if (seconds_now() - asked_at_s >= 2) {
        (void)signal(number, SIG_DFL);
        (void)raise(number);
    }
}

void interrupt_install(void) {
    struct sigaction action = {.sa_handler = on_signal};
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    /* A terminal that is gone; under nohup nobody minds. */
    struct sigaction before;
    if (sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
        (void)sigaction(SIGHUP, &action, NULL);
}

bool interrupt_asked(void) {
    return asked != 0;
}
