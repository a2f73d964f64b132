/* The functions that code compiled with -fsanitize=thread calls. ThreadSanitizer's own runtime is
 * not linked; the names and what they mean are its. */
#include <cstring>

#include "simt_race.h"

#define HERE __builtin_return_address(0)

namespace {

void read(const void *at, size_t bytes, const void *pc) {
    simt_race_touch(at, bytes, SIMT_RACE_READ, pc);
}
void write(const void *at, size_t bytes, const void *pc) {
    simt_race_touch(at, bytes, SIMT_RACE_WRITE, pc);
}

} // namespace

#pragma GCC diagnostic ignored "-Wmissing-declarations"
extern "C" {

/* Every file with hooks calls it before main. */
void __tsan_init() {
    simt_race_on = true;
}
void __tsan_func_entry(void *) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void **, void *) {}
void __tsan_vptr_read(void **) {}

#define PLAIN(bytes)                                                                               \
    void __tsan_read##bytes(void *at) {                                                            \
        read(at, bytes, HERE);                                                                     \
    }                                                                                              \
    void __tsan_write##bytes(void *at) {                                                           \
        write(at, bytes, HERE);                                                                    \
    }                                                                                              \
    void __tsan_unaligned_read##bytes(void *at) {                                                  \
        read(at, bytes, HERE);                                                                     \
    }                                                                                              \
    void __tsan_unaligned_write##bytes(void *at) {                                                 \
        write(at, bytes, HERE);                                                                    \
    }                                                                                              \
    void __tsan_volatile_read##bytes(void *at) {                                                   \
        read(at, bytes, HERE);                                                                     \
    }                                                                                              \
    void __tsan_volatile_write##bytes(void *at) {                                                  \
        write(at, bytes, HERE);                                                                    \
    }                                                                                              \
    void __tsan_unaligned_volatile_read##bytes(void *at) {                                         \
        read(at, bytes, HERE);                                                                     \
    }                                                                                              \
    void __tsan_unaligned_volatile_write##bytes(void *at) {                                        \
        write(at, bytes, HERE);                                                                    \
    }
PLAIN(1)
PLAIN(2)
PLAIN(4)
PLAIN(8)
PLAIN(16)

#define ATOMIC(bits)                                                                               \
    uint##bits##_t __tsan_atomic##bits##_load(const volatile uint##bits##_t *at, int) {            \
        read(const_cast<const uint##bits##_t *>(at), sizeof *at, HERE);                            \
        return *at;                                                                                \
    }                                                                                              \
    void __tsan_atomic##bits##_store(volatile uint##bits##_t *at, uint##bits##_t value, int) {     \
        simt_race_touch(const_cast<uint##bits##_t *>(at), sizeof *at, SIMT_RACE_ATOMIC, HERE);     \
        *at = value;                                                                               \
    }                                                                                              \
    uint##bits##_t __tsan_atomic##bits##_fetch_add(volatile uint##bits##_t *at,                    \
                                                   uint##bits##_t value, int) {                    \
        simt_race_touch(const_cast<uint##bits##_t *>(at), sizeof *at, SIMT_RACE_ATOMIC, HERE);     \
        const uint##bits##_t before = *at;                                                         \
        *at = (uint##bits##_t)(before + value);                                                    \
        return before;                                                                             \
    }
ATOMIC(8)
ATOMIC(16)
ATOMIC(32)
ATOMIC(64)

void __tsan_read_range(void *at, unsigned long bytes) {
    read(at, bytes, HERE);
}
void __tsan_write_range(void *at, unsigned long bytes) {
    write(at, bytes, HERE);
}
void *__tsan_memcpy(void *to, const void *from, size_t bytes) {
    read(from, bytes, HERE);
    write(to, bytes, HERE);
    return memcpy(to, from, bytes);
}
void *__tsan_memmove(void *to, const void *from, size_t bytes) {
    read(from, bytes, HERE);
    write(to, bytes, HERE);
    return memmove(to, from, bytes);
}
void *__tsan_memset(void *to, int byte, size_t bytes) {
    write(to, bytes, HERE);
    return memset(to, byte, bytes);
}
}
