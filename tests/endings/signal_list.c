/* The program's list of backends: the cpu, at one of whose calls the program gets a signal.
 * KVGAUGE_SIGNAL_AT is CALL:N:SIGNAL, as in append:3:2 for a SIGINT in the third append; stderr
 * says when it is sent. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend.h"
#include "backend_build.h"
#include "cpu.h"

static struct backend_ops endings;

enum call { ALLOCATE, WRITE, APPEND, ATTEND, STREAM_READ, MARK, CALLS };
static const char *const call_names[CALLS] = {"allocate", "write",       "append",
                                              "attend",   "stream_read", "mark"};

static void called(enum call call) {
    static unsigned long calls[CALLS];
    const char *at = getenv("KVGAUGE_SIGNAL_AT");
    const size_t length = strlen(call_names[call]);
    calls[call]++;
    if (at == NULL || strncmp(at, call_names[call], length) != 0 || at[length] != ':')
        return;
    char *end;
    if (strtoul(at + length + 1, &end, 10) != calls[call] || *end != ':')
        return;
    const int number = (int)strtol(end + 1, NULL, 10);
    (void)fprintf(stderr, "signal %d in %s %lu\n", number, call_names[call], calls[call]);
    (void)raise(number);
}

static enum status allocate(struct backend_device *device, uint64_t bytes, const char *what,
                            struct backend_memory *out, struct status_text *text) {
    called(ALLOCATE);
    return cpu_backend_ops.memory_allocate(device, bytes, what, out, text);
}

static enum status write_memory(struct backend_device *device, void *dev_to, const void *from,
                                uint64_t bytes, struct status_text *text) {
    called(WRITE);
    return cpu_backend_ops.memory_write(device, dev_to, from, bytes, text);
}

static enum status append(struct backend_device *device, const struct backend_append *work,
                          struct format_replaced *replaced, struct status_text *text) {
    called(APPEND);
    return cpu_backend_ops.append(device, work, replaced, text);
}

static enum status attend(struct backend_device *device, const struct backend_attend *work,
                          struct status_text *text) {
    called(ATTEND);
    return cpu_backend_ops.attend(device, work, text);
}

static enum status stream_read(struct backend_device *device, const void *dev_from, uint64_t bytes,
                               struct status_text *text) {
    called(STREAM_READ);
    return cpu_backend_ops.stream_read(device, dev_from, bytes, text);
}

static enum status mark(struct backend_device *device, uint32_t which, struct status_text *text) {
    called(MARK);
    return cpu_backend_ops.mark(device, which, text);
}

const struct backend_ops *const *backend_list(void) {
    static const struct backend_ops *const backends[] = {&endings, NULL};
    if (endings.name == NULL) {
        endings = cpu_backend_ops;
        endings.memory_allocate = allocate;
        endings.memory_write = write_memory;
        endings.append = append;
        endings.attend = attend;
        endings.stream_read = stream_read;
        endings.mark = mark;
    }
    return backends;
}

const struct backend_ops *backend_find(const char *name) {
    const struct backend_ops *const *only = backend_list();
    return strcmp(name, "cpu") == 0 ? *only : NULL;
}

const char *backend_cuda_version(void) {
    return "";
}

const char *backend_cuda_targets(void) {
    return "";
}
