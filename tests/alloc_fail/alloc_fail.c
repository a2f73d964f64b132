/* Preloaded into kvgauge: the Nth allocation fails, N from ALLOC_FAIL_NTH (0: none), and every
 * later one too if ALLOC_FAIL_STICKY is set. One line to the file ALLOC_FAIL_REPORT says that it
 * happened.
 *
 * Counted are the calls made by kvgauge itself, by cJSON, and by the C library on their behalf
 * (fopen, strdup, getline); with ALLOC_FAIL_OWN set kvgauge's own alone. Not counted are the OpenMP
 * runtime and the dynamic loader: they end the process where they find no memory, and no program
 * can do anything about it. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The allocator behind the names replaced here, as glibc exports it. */
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *old, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

struct range {
    uintptr_t begin, end; /* [begin, end) */
    uintptr_t base;       /* where addr2line counts from */
    const char *name;     /* the loader's, which outlives us */
};
static struct range counted[16];
static size_t counted_count;
static long fail_nth; /* 0 until the constructor has run: nothing fails before main is near */
static bool sticky;
static atomic_long calls;

static int add_ranges(struct dl_phdr_info *info, size_t bytes, void *unused) {
    (void)bytes;
    (void)unused;
    const char *slash = strrchr(info->dlpi_name, '/');
    const char *name = slash != NULL ? slash + 1 : info->dlpi_name;
    /* The program itself comes first, without a name. */
    if (name[0] != '\0' && getenv("ALLOC_FAIL_OWN") != NULL)
        return 0;
    if (name[0] != '\0' && strncmp(name, "libcjson.", 9) != 0 && strncmp(name, "libc.so", 7) != 0)
        return 0;
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type != PT_LOAD || (segment->p_flags & PF_X) == 0)
            continue;
        if (counted_count == sizeof counted / sizeof counted[0])
            abort();
        const uintptr_t begin = info->dlpi_addr + segment->p_vaddr;
        counted[counted_count++] = (struct range){
            .begin = begin, .end = begin + segment->p_memsz, .base = info->dlpi_addr, .name = name};
    }
    return 0;
}

__attribute__((constructor)) static void start(void) {
    (void)dl_iterate_phdr(add_ranges, NULL);
    const char *later = getenv("ALLOC_FAIL_STICKY");
    sticky = later != NULL && later[0] != 0;
    const char *nth = getenv("ALLOC_FAIL_NTH");
    fail_nth = nth != NULL ? strtol(nth, NULL, 10) : 0;
}

/* Raw system calls: nothing here may allocate. */
static void report(const char *what, const struct range *from, uintptr_t caller) {
    const char *path = getenv("ALLOC_FAIL_REPORT");
    if (path == NULL)
        return;
    const int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (file < 0)
        return;
    char line[128];
    const int length =
        snprintf(line, sizeof line, "%s in %s at %#zx\n", what,
                 from->name[0] != '\0' ? from->name : "the program", (size_t)(caller - from->base));
    if (length > 0 && write(file, line, (size_t)length) < 0)
        abort();
    (void)close(file);
}

static bool fails(const char *what, const void *return_address) {
    if (fail_nth == 0)
        return false;
    const uintptr_t caller = (uintptr_t)return_address;
    const struct range *from = NULL;
    for (size_t i = 0; i < counted_count; i++)
        if (caller >= counted[i].begin && caller < counted[i].end)
            from = &counted[i];
    if (from == NULL)
        return false;
    const long call = atomic_fetch_add(&calls, 1) + 1;
    if (call < fail_nth || (call > fail_nth && !sticky))
        return false;
    if (call == fail_nth)
        report(what, from, caller);
    errno = ENOMEM;
    return true;
}

void *malloc(size_t bytes) {
    return fails("malloc", __builtin_return_address(0)) ? NULL : __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes) {
    return fails("calloc", __builtin_return_address(0)) ? NULL : __libc_calloc(count, bytes);
}

void *realloc(void *old, size_t bytes) {
    return fails("realloc", __builtin_return_address(0)) ? NULL : __libc_realloc(old, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes) {
    return fails("aligned_alloc", __builtin_return_address(0)) ? NULL
                                                               : __libc_memalign(alignment, bytes);
}

int posix_memalign(void **out, size_t alignment, size_t bytes) {
    if (fails("posix_memalign", __builtin_return_address(0)))
        return ENOMEM;
    *out = __libc_memalign(alignment, bytes);
    return *out != NULL ? 0 : ENOMEM;
}

void *mmap(void *address, size_t bytes, int protection, int flags, int file, off_t offset) {
    if (fails("mmap", __builtin_return_address(0)))
        return MAP_FAILED;
    /* The kernel returns addresses, or -errno in the last page; syscall() has made that -1. */
    return (void *)syscall(SYS_mmap, address, bytes, protection, flags, file, offset);
}
