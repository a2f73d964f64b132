/* cp.async, as late as a program may find it: what is copied is what the source held when the copy
 * was issued, the target is poison until a wait of the issuing thread covers the copy. */
#include "simt_block.h"
#include "simt_race.h"

#include <cstring>

#include "simt_ptx.h"

void simt_copies_reset(struct simt_thread *thread) {
    thread->copies.clear();
    thread->group_ends.clear();
    thread->copies_landed = 0;
    thread->groups_landed = 0;
}

bool simt_copies_pending(const struct simt_thread *thread) {
    return thread->copies_landed < thread->copies.size();
}

void simt_cp_async(uint32_t shared_to, const void *from, uint32_t bytes, bool real,
                   simt_place place) {
    const void *pc = __builtin_return_address(0);
    struct simt_copy copy = {simt_shared_at(shared_to, bytes, "cp.async", place), bytes, {}};
    if (real) {
        simt_check_global(from, bytes, "cp.async", place);
        simt_race_touch(from, bytes, SIMT_RACE_READ, pc);
        memcpy(copy.data, from, bytes);
    }
    simt_race_touch(copy.to, bytes, SIMT_RACE_ISSUE, pc);
    memset(copy.to, simt_poison, bytes);
    simt_block.now->copies.push_back(copy);
}

void simt_cp_async_commit() {
    simt_block.now->group_ends.push_back(simt_block.now->copies.size());
}

static void land(const struct simt_copy &copy, const void *pc) {
    simt_race_touch(copy.to, copy.bytes, SIMT_RACE_LAND, pc);
    memcpy(copy.to, copy.data, copy.bytes);
}

void simt_cp_async_wait(uint32_t newest) {
    struct simt_thread *me = simt_block.now;
    while (me->group_ends.size() - me->groups_landed > newest) {
        const size_t end = me->group_ends[me->groups_landed++];
        for (; me->copies_landed < end; me->copies_landed++)
            land(me->copies[me->copies_landed], __builtin_return_address(0));
    }
    if (me->copies_landed == me->copies.size() && me->groups_landed == me->group_ends.size())
        simt_copies_reset(me);
    /* a ring never runs empty: drop what has landed from time to time */
    constexpr size_t worth_dropping = 64;
    if (me->groups_landed > worth_dropping) {
        for (size_t &end : me->group_ends)
            end -= end >= me->copies_landed ? me->copies_landed : end;
        me->copies.erase(me->copies.begin(), me->copies.begin() + (ptrdiff_t)me->copies_landed);
        me->group_ends.erase(me->group_ends.begin(),
                             me->group_ends.begin() + (ptrdiff_t)me->groups_landed);
        me->copies_landed = 0;
        me->groups_landed = 0;
    }
}
