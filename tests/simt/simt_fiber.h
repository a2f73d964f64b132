/* Stacks and switches between them. Knows nothing of threads, warps and who should run next. */
#ifndef SIMT_FIBER_H
#define SIMT_FIBER_H

#include <cstddef>
#include <cstdint>

/* SIMT_UCONTEXT: the portable switch on any machine. */
#if defined(__x86_64__) && !defined(SIMT_UCONTEXT)
#define SIMT_OWN_SWITCH 1
#else
#include <ucontext.h>
#endif
#if defined(__SANITIZE_ADDRESS__)
#define SIMT_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SIMT_ASAN 1
#endif
#endif
#ifdef SIMT_ASAN
#include <sanitizer/asan_interface.h>
#endif

struct simt_fiber {
#ifdef SIMT_OWN_SWITCH
    void *stack_pointer;
#else
    ucontext_t context;
#endif
    void *fake_stack;         /* AddressSanitizer's */
    const void *stack_bottom; /* lowest address */
    size_t stack_bytes;
};

/* Gives fiber `number` (< SIMT_MAX_THREADS) its stack, for a run of `entry` from its start. Stacks
 * have a guard page below them and are used again. */
void simt_fiber_prepare(struct simt_fiber *fiber, uint32_t number, void (*entry)());

/* From the running fiber to another. `last`: `from` will not run again. The caller's own stack is a
 * simt_fiber too, zeroed before the first switch away from it. */
void simt_fiber_switch(struct simt_fiber *from, struct simt_fiber *to, bool last);

/* A fiber's first act. */
void simt_fiber_started(struct simt_fiber *caller);

/* In some fiber's stack? */
bool simt_fiber_owns(const void *address);

/* For memory that only AddressSanitizer must keep closed or open; nothing without it. */
static inline void simt_asan_close(const void *from, size_t bytes) {
#ifdef SIMT_ASAN
    __asan_poison_memory_region(from, bytes);
#else
    (void)from;
    (void)bytes;
#endif
}
static inline void simt_asan_open(const void *from, size_t bytes) {
#ifdef SIMT_ASAN
    __asan_unpoison_memory_region(from, bytes);
#else
    (void)from;
    (void)bytes;
#endif
}

#endif
