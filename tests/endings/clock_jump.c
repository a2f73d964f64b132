/* Loaded before the C library: a wall clock that somebody sets while the program runs.
 * KVGAUGE_CLOCK is what every question to it does: frozen at 10^9 s, back an hour, forward an hour.
 * Clocks that nobody can set go on as they are. */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

enum { START_S = 1000000000, HOUR_S = 3600 };

static long asked_s(void) {
    static atomic_long now_s = START_S;
    const char *way = getenv("KVGAUGE_CLOCK");
    const int hours = way == NULL || strcmp(way, "frozen") == 0 ? 0
                      : strcmp(way, "back") == 0                ? -1
                                                                : 1;
    return atomic_fetch_add(&now_s, (long)hours * HOUR_S);
}

int clock_gettime(clockid_t clock, struct timespec *out) {
    static int (*real)(clockid_t, struct timespec *);
    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI) {
        *out = (struct timespec){.tv_sec = asked_s()};
        return 0;
    }
    if (real == NULL) {
        void *found = dlsym(RTLD_NEXT, "clock_gettime");
        memcpy(&real, &found, sizeof real);
    }
    return real(clock, out);
}

time_t time(time_t *out) {
    const time_t now = asked_s();
    if (out != NULL)
        *out = now;
    return now;
}

int gettimeofday(struct timeval *restrict out, void *restrict zone) {
    (void)zone;
    *out = (struct timeval){.tv_sec = asked_s()};
    return 0;
}
