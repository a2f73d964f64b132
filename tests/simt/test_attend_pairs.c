/* Every pair of formats has kernels of its own: no two rows of the tables share an entry. The files
 * they come from are compiled from one source, and what is not kept apart there a linker merges. */
#include <stdio.h>
#include <stdlib.h>

#include "attend_kernel.h"

#define ATTEND_PAIR(K, V) extern const struct attend_kernel attend_pair_##K##_##V[];
#include "attend_pairs_list.h"
#undef ATTEND_PAIR

enum { MOST_KERNELS = 4096 };

int main(void) {
    static const struct {
        const char *name;
        const struct attend_kernel *kernels;
    } pairs[] = {
#define ATTEND_PAIR(K, V) {#K "/" #V, attend_pair_##K##_##V},
#include "attend_pairs_list.h"
#undef ATTEND_PAIR
    };
    static const void *seen[MOST_KERNELS];
    size_t count = 0;
    for (size_t p = 0; p < sizeof pairs / sizeof pairs[0]; p++) {
        for (const struct attend_kernel *k = pairs[p].kernels; k->entry != NULL; k++) {
            for (size_t i = 0; i < count; i++) {
                if (seen[i] == k->entry) {
                    (void)printf("%s %u/%u: another row has the same kernel\n", pairs[p].name,
                                 k->k_dim, k->v_dim);
                    return EXIT_FAILURE;
                }
            }
            if (count == MOST_KERNELS)
                return EXIT_FAILURE;
            seen[count++] = k->entry;
        }
    }
    (void)printf("%zu kernels, all different\n", count);
    return count > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
