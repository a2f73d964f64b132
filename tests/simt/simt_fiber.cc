/* Stacks and switches: by hand on x86-64, where a switch is a dozen instructions, by ucontext
 * elsewhere. */
#include "simt_fiber.h"

#include "simt.h"

#include <cstdio>
#include <cstdlib>
#include <sys/mman.h>

#ifdef SIMT_ASAN
#include <sanitizer/common_interface_defs.h>
#endif

namespace {

constexpr size_t guard_bytes = 4096;
#ifdef SIMT_ASAN
constexpr size_t stack_bytes = 256 * 1024; /* its frames are larger */
#else
constexpr size_t stack_bytes = 64 * 1024;
#endif
constexpr size_t slot_bytes = guard_bytes + stack_bytes;
/* Stacks start at different distances from a page's end: else the hot frames of all lanes would
 * share the few cache sets that one page offset maps to. */
constexpr size_t stagger_bytes = 128, staggers = 33;

unsigned char *stacks;

unsigned char *slot(uint32_t number) {
    if (stacks == nullptr) {
        const size_t all = slot_bytes * SIMT_MAX_THREADS;
        void *memory = mmap(nullptr, all, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) {
            std::perror("simt: no memory for the fibers' stacks");
            std::abort();
        }
        stacks = static_cast<unsigned char *>(memory);
        for (size_t i = 0; i < SIMT_MAX_THREADS; i++)
            (void)mprotect(stacks + i * slot_bytes, guard_bytes, PROT_NONE);
    }
    return stacks + number * slot_bytes + guard_bytes;
}

} // namespace

bool simt_fiber_owns(const void *address) {
    const unsigned char *at = static_cast<const unsigned char *>(address);
    return at >= stacks && at < stacks + slot_bytes * SIMT_MAX_THREADS;
}

#ifdef SIMT_OWN_SWITCH

/* Saves what the calling convention lets a function keep, changes stacks, and takes the same from
 * the other side; returns there. */
extern "C" void simt_fiber_change(void **save, void *load);
asm(R"(
.text
.globl simt_fiber_change
.type simt_fiber_change, @function
simt_fiber_change:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size simt_fiber_change, .-simt_fiber_change
)");

static void set_entry(struct simt_fiber *fiber, size_t stagger, void (*entry)()) {
    constexpr size_t kept_registers = 6;
    unsigned char *bottom =
        const_cast<unsigned char *>(static_cast<const unsigned char *>(fiber->stack_bottom));
    void **top = reinterpret_cast<void **>(bottom + fiber->stack_bytes - stagger);
    *--top = nullptr; /* where entry would return to */
    *--top = reinterpret_cast<void *>(entry);
    for (size_t i = 0; i < kept_registers; i++)
        *--top = nullptr;
    fiber->stack_pointer = top;
}

static void change(struct simt_fiber *from, struct simt_fiber *to) {
    simt_fiber_change(&from->stack_pointer, to->stack_pointer);
}

#else

static void set_entry(struct simt_fiber *fiber, size_t stagger, void (*entry)()) {
    (void)getcontext(&fiber->context);
    fiber->context.uc_stack.ss_sp = const_cast<void *>(fiber->stack_bottom);
    fiber->context.uc_stack.ss_size = fiber->stack_bytes - stagger;
    fiber->context.uc_link = nullptr;
    makecontext(&fiber->context, entry, 0);
}

static void change(struct simt_fiber *from, struct simt_fiber *to) {
    (void)swapcontext(&from->context, &to->context);
}

#endif

void simt_fiber_prepare(struct simt_fiber *fiber, uint32_t number, void (*entry)()) {
    fiber->stack_bottom = slot(number);
    fiber->stack_bytes = stack_bytes;
    fiber->fake_stack = nullptr;
    simt_asan_open(fiber->stack_bottom, stack_bytes); /* what an abandoned fiber left closed */
    set_entry(fiber, number % staggers * stagger_bytes, entry);
}

void simt_fiber_switch(struct simt_fiber *from, struct simt_fiber *to, bool last) {
#ifdef SIMT_ASAN
    __sanitizer_start_switch_fiber(last ? nullptr : &from->fake_stack, to->stack_bottom,
                                   to->stack_bytes);
#else
    (void)last;
#endif
    change(from, to);
#ifdef SIMT_ASAN
    __sanitizer_finish_switch_fiber(from->fake_stack, nullptr, nullptr);
#endif
}

void simt_fiber_started(struct simt_fiber *caller) {
#ifdef SIMT_ASAN
    const void *bottom;
    size_t bytes;
    __sanitizer_finish_switch_fiber(nullptr, &bottom, &bytes);
    if (caller->stack_bottom == nullptr) {
        caller->stack_bottom = bottom;
        caller->stack_bytes = bytes;
    }
#else
    (void)caller;
#endif
}
