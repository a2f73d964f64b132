/* What the kernels of index scores are given. Plain C: the host fills it. */
#ifndef INDEX_ARGUMENTS_H
#define INDEX_ARGUMENTS_H

#include "attend_arguments.h"

struct index_arguments {
    /* pages, table, dims; queries, of which all heads are one group; `stages` of the mma kernel */
    struct attend_arguments cache;
    const float *dev_weights;    /* [seqs][heads] */
    const uint64_t *dev_lengths; /* [seqs] */
    float *dev_scores;           /* [seqs][score_stride] */
    uint64_t score_stride;
    uint32_t heads;
    uint32_t piece_tokens; /* that a block scores, of one sequence */
    uint32_t pieces;       /* of the longest sequence: blocks per sequence */
    uint32_t tile_tokens;  /* of the simple kernel */
    float k_tensor_scale;
};

#endif
