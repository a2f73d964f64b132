/* The layers of a GGUF header. llama.cpp spells the keys of every architecture the same way
 * (src/llama-arch.cpp), so one reader serves all; where layers differ without a key saying so, a
 * row of the table in model_gguf.c does (src/llama-model.cpp). */
#ifndef GGUF_LAYERS_H
#define GGUF_LAYERS_H

#include "model_reader.h"

/* Which layers keep a recurrent state. */
enum gguf_recurrence {
    GGUF_NEVER,
    GGUF_NO_KV,     /* those without KV heads */
    GGUF_NO_KV_FF,  /* those without KV heads and feed-forward; without KV heads alone: nothing */
    GGUF_INTERVAL,  /* all but every full_attention_interval-th */
    GGUF_ALONGSIDE, /* every layer, beside its attention */
    GGUF_ALWAYS     /* every layer, which has no attention */
};

/* Where a header has a window and no sliding_window_pattern that says which layers slide: all of
 * them with `slides`, all but every `period`-th, and with neither it is not understood. */
struct gguf_architecture {
    const char *name;
    enum gguf_recurrence recurrence;
    uint32_t period;
    bool slides;
    uint32_t window; /* where the header gives none; 0: then nothing slides */
    bool sinks;
    bool drafts_slide; /* draft layers attend a window, as MiMo-V2's in vllm's mimo_v2_mtp.py */
    bool gaps;         /* layers without KV heads keep nothing */
    bool shares;       /* the last layers share, and shared_kv_layers must say how many */
    bool unsaid;       /* layers share index keys, and nothing says which */
    bool pools;        /* DeepSeek-V4's layout */
};

/* Reads what every layer keeps into the reader's model; draft layers (nextn_predict_layers) are not
 * counted. The reader stands in the architecture's own keys. */
enum status gguf_layers_read(struct reader *reader, const struct gguf_architecture *arch);

#endif
