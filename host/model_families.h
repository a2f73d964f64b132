/* The families of config.json that are read: one row of the table in model_families.c each, and
 * one function, which turns a reader's keys into the groups of its model. A function only reads;
 * rules and defaults that no key states are those of the file named beside them. */
#ifndef MODEL_FAMILIES_H
#define MODEL_FAMILIES_H

#include "model_reader.h"

typedef enum status model_family_read(struct reader *reader);

/* The function for an architecture or model_type, or NULL. */
model_family_read *model_families_find(const char *name);

/* Every layer the same K and V (model_family_plain.c). */
model_family_read family_plain, family_falcon, family_bigcode, family_chatglm, family_mpt,
    family_dbrx, family_olmo1, family_step3, family_nas, family_hunyuan, family_mllama;
/* Windows in some layers (model_family_window.c). */
model_family_read family_mistral, family_qwen, family_gemma2, family_gemma3, family_gemma3n,
    family_gemma4, family_gpt_oss, family_cohere2, family_exaone4, family_olmo3, family_laguna,
    family_muse_glimmer, family_step3p5, family_mimo2, family_llama4;
/* Latents, sparse attention's keys, compressed entries (model_family_latent.c). */
model_family_read family_mla, family_longcat, family_mla_indexed, family_deepseek4, family_minimax3;
/* Recurrent state beside attention (model_family_state.c and model_family_mamba.c). */
model_family_read family_qwen3_next, family_kimi_linear, family_minimax, family_minimax2,
    family_lfm2, family_jet_nemotron, family_gated_deltanet;
model_family_read family_nemotron_h, family_jamba, family_zamba2, family_falcon_h1,
    family_granite_hybrid, family_mamba1, family_mamba2, family_samba;

/* What DeepSeek-V4's keys are called, in whichever file, of `count` layers. */
struct deepseek4_keys {
    const char *ratios;
    const char *heads;
    const char *dim;
    const char *window;
    const char *index_dim;
    const char *index_heads;
    const char *top_k;
};
enum status family_deepseek4_by(struct reader *reader, const struct deepseek4_keys *keys,
                                uint32_t count);

/* A config of no known family with plain keys (model_guess.c): read as such and labelled a guess;
 * refused when a key says that there is more to it. `named`: what the config calls itself. */
enum status model_guess(struct reader *reader, const char *named);

#endif
