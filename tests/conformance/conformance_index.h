/* A sparse index in the conformance suite: scores of the keys of a case's cache, and the choice of
 * the largest, run on a backend and judged. */
#ifndef CONFORMANCE_INDEX_H
#define CONFORMANCE_INDEX_H

#include "conformance.h"

/* Scores of a world's keys (one KV head), and what they were made from; host memory. */
struct conformance_scores {
    uint32_t heads;
    uint64_t stride;
    float *queries; /* [seqs][heads][k_dim] */
    float *weights; /* [seqs][heads], of both signs */
    float *scores;  /* [seqs][stride], as the device left them: poisoned before */
};

/* Asks the backend for them. `out` is always safe to destroy. */
enum status conformance_score(struct conformance_world *world, uint32_t heads,
                              struct conformance_scores *out, struct status_text *text);
/* Every score against double precision on the stored bytes, and nothing else written. */
enum status conformance_check_scores(const struct conformance_world *world,
                                     const struct conformance_scores *scores,
                                     struct status_text *text);
void conformance_scores_destroy(struct conformance_scores *scores);

/* A choice to be made; host memory. */
struct conformance_choice {
    const float *scores; /* [seqs][stride] */
    const uint64_t *lengths;
    uint64_t stride;
    uint32_t seqs;
    uint32_t top_k;
};

/* selected: [seqs][top_k]. */
enum status conformance_choose(const struct backend_ops *ops, struct backend_device *device,
                               const struct conformance_choice *choice, int32_t *selected,
                               struct status_text *text);
/* Against sorting all of them, bit for bit. */
enum status conformance_check_choice(const struct conformance_choice *choice,
                                     const int32_t *selected, struct status_text *text);

#endif
