/* Five keys of /proc/meminfo, read strictly. */
#include "cuda_meminfo.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum meminfo_key {
    KEY_TOTAL,
    KEY_AVAILABLE,
    KEY_HUGE_TOTAL,
    KEY_HUGE_FREE,
    KEY_HUGE_SIZE,
    KEY_COUNT
};

static const struct {
    const char *name;
    bool kib; /* "123 kB"; otherwise a plain count */
} keys[KEY_COUNT] = {
    [KEY_TOTAL] = {"MemTotal:", true},
    [KEY_AVAILABLE] = {"MemAvailable:", true},
    [KEY_HUGE_TOTAL] = {"HugePages_Total:", false},
    [KEY_HUGE_FREE] = {"HugePages_Free:", false},
    [KEY_HUGE_SIZE] = {"Hugepagesize:", true},
};

struct meminfo_value {
    bool found;
    uint64_t value; /* bytes, or the count */
};

/* "  123 kB\n" or "  123\n"; false for anything else. */
static bool parse_value(const char *text, bool kib, uint64_t *out) {
    text += strspn(text, " \t");
    if (*text < '0' || *text > '9')
        return false;
    char *end;
    errno = 0;
    const unsigned long long number = strtoull(text, &end, 10);
    if (errno != 0 || (kib && number > UINT64_MAX / 1024))
        return false;
    if (kib && strncmp(end, " kB", 3) != 0)
        return false;
    end += kib ? 3 : 0;
    if (end[strspn(end, " \t\n")] != '\0')
        return false;
    *out = kib ? (uint64_t)number * 1024 : (uint64_t)number;
    return true;
}

/* False when a line of a known key is garbled. */
static bool parse_line(const char *line, struct meminfo_value *values) {
    for (int key = 0; key < KEY_COUNT; key++) {
        const size_t length = strlen(keys[key].name);
        if (strncmp(line, keys[key].name, length) != 0)
            continue;
        values[key].found = true;
        return parse_value(line + length, keys[key].kib, &values[key].value);
    }
    return true;
}

bool cuda_meminfo_read(const char *path, struct cuda_meminfo *out) {
    *out = (struct cuda_meminfo){0};
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return false;
    struct meminfo_value values[KEY_COUNT] = {{false, 0}};
    char line[256];
    bool good = true;
    while (good && fgets(line, sizeof line, file) != NULL)
        good = parse_line(line, values);
    good = good && ferror(file) == 0;
    (void)fclose(file);
    if (!good || !values[KEY_TOTAL].found)
        return false;
    struct cuda_meminfo info = {.total_bytes = values[KEY_TOTAL].value};
    if (values[KEY_HUGE_TOTAL].value > 0) {
        const uint64_t pages = values[KEY_HUGE_FREE].value, size = values[KEY_HUGE_SIZE].value;
        if (!values[KEY_HUGE_FREE].found || size == 0 || pages > UINT64_MAX / size)
            return false;
        info.huge_pages = true;
        info.available_bytes = pages * size;
    } else if (values[KEY_AVAILABLE].found) {
        info.available_bytes = values[KEY_AVAILABLE].value;
    } else {
        return false;
    }
    if (info.available_bytes > info.total_bytes)
        return false;
    *out = info;
    return true;
}

uint64_t cuda_meminfo_floor_bytes(const struct cuda_meminfo *info) {
    return info->total_bytes / 32;
}
