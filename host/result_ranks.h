/* What the ranks of a tensor-parallel run say of one row: each rank's bytes and times, and which of
 * them is the slowest. The row's own times and circumstances become those of the slowest rank, its
 * errors the largest of any, its power and energy those of all devices together. */
#ifndef RESULT_RANKS_H
#define RESULT_RANKS_H

#include "measure.h"
#include "measure_energy.h"
#include "pool.h"
#include "ranks.h"
#include "run_case.h"
#include "telemetry_watch.h"
#include "verify.h"
#include "writer.h"

enum result_rank_field {
#define RESULT_RANK(ID, name) RESULT_RANK_##ID,
#include "result_rank_fields.def"
#undef RESULT_RANK
    RESULT_RANK_FIELD_COUNT
};

extern const struct writer_field result_rank_fields[RESULT_RANK_FIELD_COUNT];

struct result_rank {
    char device[96];
    uint32_t threads;
    uint64_t formula_bytes, pool_bytes, read_bytes;
    double step_ns, append_ns, attend_ns, kv_ns, reduce_ns, ceiling_gb_per_s;
    double weights_ns; /* 0: none were read */
};

struct result_ranks {
    uint32_t count;        /* 0: one rank alone, and nothing below holds */
    uint64_t reduce_bytes; /* what each rank gives to the sums of a step */
    /* formula_bytes of all ranks less those of the whole model: copies of latents, entries, index
     * keys, and of KV heads fewer than ranks */
    bool has_replicated;
    uint64_t replicated_bytes;
    bool has_times;
    uint32_t slowest; /* of append and attention, by the median */
    struct result_rank each[RANKS_MOST];
};

/* What follows from the case alone; `sizes` are one rank's, NULL where they are not known. */
void result_ranks_plan(const struct ranks *ranks, const struct run_case *one,
                       const struct options_format *format, const struct pool_sizes *sizes,
                       struct result_ranks *out);

/* All ranks together, after measuring: everybody's figures, and the slowest rank's samples, canary
 * and what was seen of them in place of one's own. Alone it does nothing. The status is the same on
 * all ranks. */
enum status result_ranks_share(const struct ranks *ranks, const struct backend_facts *facts,
                               const struct pool_sizes *sizes, uint64_t read_bytes,
                               struct measure_contender *contender, struct result_ranks *out,
                               struct status_text *text);

/* Group times [count] of the slowest rank in place of one's own; with result_ranks_share done. */
void result_ranks_share_groups(const struct ranks *ranks, const struct result_ranks *shared,
                               double *ns, uint32_t count);
/* The largest errors of any rank that verified, and the smallest fraction. `has` tells whether this
 * one did, and receives whether any did. */
void result_ranks_share_verify(const struct ranks *ranks, bool *has, struct verify_result *verify);
/* What the slowest rank saw of its device, and the power and energy of all devices. */
void result_ranks_share_watch(const struct ranks *ranks, const struct result_ranks *shared,
                              const struct backend_facts *facts, struct telemetry_watch *watch,
                              struct measure_energy *energy);

/* What a rank's device drew in the pass for energy. */
struct result_rank_energy {
    uint32_t machine;
    char pci_bus_id[32]; /* "": the machine's own counter, of a CPU */
    bool known;
    double power_w, step_j; /* step_j: over this rank's own steps */
};
/* Sets power and energy of *out: sums over the devices, each of which counts once. Ranks on one
 * device have read the same counter during the same second, in which each of them ran steps of its
 * own: what such a counter says of a step of all of them is its power over their mean rate. Not
 * known as soon as one rank does not know. */
void result_ranks_sum_energy(const struct result_rank_energy *each, uint32_t count,
                             struct measure_energy *out);

/* "2 ranks, the slowest is rank 1; their sum takes 12 % of its step; 1.10 GB are copies"; "" where
 * nothing was timed, or one rank is alone. */
void result_ranks_words(const struct result_ranks *ranks, char *out, size_t bytes);

/* values: [count][RESULT_RANK_FIELD_COUNT]; texts point into `ranks`. */
void result_ranks_values(const struct result_ranks *ranks, struct writer_value *values);

#endif
