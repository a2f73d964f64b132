/* Configs of no known family. Plain keys (layers, heads, head dim, or an MLA latent) say enough to
 * read them like llama or DeepSeek-V3, and the model says that it was a guess. Any key by which
 * other families make layers differ means that there is more to it: refused, with that key. */
#include <stdio.h>
#include <string.h>

#include "model_families.h"

/* Parts of the names of such keys. Those of experts, vision and rotation are not among them. */
static const char telling[] =
    "mamba ssm linear_attn linear_num linear_key linear_value linear_con hybrid conv_ "
    "short_conv _conv block_type block_conf attn_type attn_layer attn_conf attention_conf "
    "full_attn full_attent global_att local_att compress sparse_att sparse_block "
    "sparse_index sparse_topk index_head index_topk index_n_ indexer window swa_ _swa "
    "pattern chunk_size cross_att cla_ use_cla kv_shar shared_kv share_kv global_head rwkv "
    "recurrent lru_ state_size d_state expand_v gdn kda lightning time_mix retention "
    "kv_heads_per key_value_heads_per v_head_dim linear_head memory_slot attention_types "
    "att_type layer_group group_norm_size loop ut_steps is_encoder_decoder";

static bool holds(const char *name, const char *part) {
    return strstr(name, part) != NULL;
}

static bool is_telling(const char *name) {
    char part[32];
    for (const char *at = telling; *at != '\0'; at += at[0] == ' ') {
        const size_t length = strcspn(at, " ");
        (void)snprintf(part, sizeof part, "%.*s", (int)length, at);
        if (holds(name, part))
            return true;
        at += length;
    }
    return false;
}

/* A key that is there but says no: null, false, 0, or nothing in it. */
static bool is_off(const cJSON *item) {
    return cJSON_IsNull(item) || cJSON_IsFalse(item) ||
           (cJSON_IsNumber(item) && item->valuedouble == 0.0) ||
           ((cJSON_IsArray(item) || cJSON_IsObject(item)) && item->child == NULL);
}

/* A window that is switched off, or longer than the longest context, changes nothing. */
static bool window_is_idle(const struct reader *reader, const cJSON *item) {
    const cJSON *use = reader_find(reader, "use_sliding_window", NULL);
    const cJSON *longest = reader_find(reader, "max_position_embeddings", NULL);
    return cJSON_IsFalse(use) || (cJSON_IsNumber(item) && cJSON_IsNumber(longest) &&
                                  strcmp(item->string, "sliding_window") == 0 &&
                                  item->valuedouble >= longest->valuedouble);
}

/* MLA's own keys, where there is a latent. */
static bool is_mla_key(const struct reader *reader, const char *name) {
    return holds(name, "v_head_dim") && reader_has(reader, "kv_lora_rank");
}

/* The first key that says layers differ; NULL: none does. */
static const cJSON *find_telling(const struct reader *reader) {
    const cJSON *item;
    cJSON_ArrayForEach(item, reader->config) {
        if (is_telling(item->string) && !is_off(item) && !is_mla_key(reader, item->string) &&
            !(holds(item->string, "window") && window_is_idle(reader, item)))
            return item;
    }
    return NULL;
}

enum status model_guess(struct reader *reader, const char *named) {
    const cJSON *strange = find_telling(reader);
    if (strange != NULL) {
        char key[64], value[64];
        json_text_printable(strange->string, key, sizeof key);
        reader_describe(strange, value, sizeof value);
        return reader->status = status_set(
                   reader->text, STATUS_REFUSED,
                   "%s: %s is not a family this version knows, and %s%s (%s) says that its layers "
                   "differ in a way that is not understood",
                   reader->origin, named, reader->where, key, value);
    }
    const bool latent = reader_has(reader, "kv_lora_rank");
    const enum status status = latent ? family_mla(reader) : family_plain(reader);
    if (status == STATUS_OK) {
        char remark[160];
        (void)snprintf(remark, sizeof remark, "a guess: %s is not known, read as plain %s", named,
                       latent ? "MLA" : "attention");
        reader_remark(reader, remark);
        reader_assume(reader, "layout");
    } else if (status == STATUS_BAD_INPUT && reader->text != NULL) {
        const struct status_text why = *reader->text;
        reader->status = status_set(reader->text, STATUS_REFUSED,
                                    "%.400s (%s is not a family this "
                                    "version knows)",
                                    why.line, named);
    }
    return reader->status;
}
