/* Preloaded: a CPU with one package that draws 100 W, whatever this machine is. Its counter is
 * made of the clock that nobody can set, so that every process reads the same one. The folder
 * POWERCAP_FOLDER stands for /sys/class/powercap and has an entry intel-rapl:0. */
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FOLDER "/sys/class/powercap"
#define ZONE FOLDER "/intel-rapl:0/"

/* 100 W are a microjoule in ten nanoseconds. */
static unsigned long long energy_uj(void) {
    struct timespec now;
    if (clock_gettime(CLOCK_MONOTONIC, &now) != 0)
        abort();
    return ((unsigned long long)now.tv_sec * 1000000000u + (unsigned long long)now.tv_nsec) / 10;
}

static FILE *zone_file(const char *name) {
    static char line[64];
    if (strcmp(name, "name") == 0)
        (void)snprintf(line, sizeof line, "package-0\n");
    else if (strcmp(name, "max_energy_range_uj") == 0)
        (void)snprintf(line, sizeof line, "1000000000000000000\n");
    else if (strcmp(name, "energy_uj") == 0)
        (void)snprintf(line, sizeof line, "%llu\n", energy_uj());
    else
        return NULL;
    return fmemopen(line, strlen(line), "r");
}

FILE *fopen(const char *restrict path, const char *restrict mode) {
    static FILE *(*real)(const char *, const char *);
    if (strncmp(path, ZONE, strlen(ZONE)) == 0)
        return zone_file(path + strlen(ZONE));
    if (real == NULL) {
        void *found = dlsym(RTLD_NEXT, "fopen");
        memcpy(&real, &found, sizeof real);
    }
    return real(path, mode);
}

DIR *opendir(const char *path) {
    static DIR *(*real)(const char *);
    const char *folder = getenv("POWERCAP_FOLDER");
    if (real == NULL) {
        void *found = dlsym(RTLD_NEXT, "opendir");
        memcpy(&real, &found, sizeof real);
    }
    return real(folder != NULL && strcmp(path, FOLDER) == 0 ? folder : path);
}
