/* Which layer keeps what: lists of words, flags or layer numbers, and periods. */
#include <string.h>

#include "model_reader.h"

uint32_t reader_layer_count(struct reader *reader) {
    return reader_need(reader, "layers", "num_hidden_layers|n_layer|n_layers|num_layers", 1,
                       JSON_TEXT_MOST_LAYERS);
}

void layers_fill(struct layer_list *layers, uint8_t kind) {
    memset(layers->kinds, kind, layers->count);
}

void layers_every(struct layer_list *layers, uint32_t period, uint32_t offset, uint8_t kind) {
    for (uint32_t i = 0; i < layers->count; i++)
        if (i % period == offset)
            layers->kinds[i] = kind;
}

void reader_layer_words(struct reader *reader, const char *key, const struct layer_word *words,
                        struct layer_list *layers) {
    const cJSON *item = reader_list(reader, key, layers->count);
    item = item != NULL ? item->child : NULL;
    for (uint32_t i = 0; i < layers->count && item != NULL; i++, item = item->next) {
        const struct layer_word *word = words;
        while (word->word != NULL &&
               !(cJSON_IsString(item) && strcmp(word->word, item->valuestring) == 0))
            word++;
        if (word->word == NULL) {
            (void)reader_strange(reader, key, i, item);
            return;
        }
        layers->kinds[i] = word->kind;
    }
    reader_note_key(reader, "kinds of layers", key);
}

void reader_layer_flags(struct reader *reader, const char *key, uint8_t if_zero, uint8_t if_one,
                        struct layer_list *layers) {
    const cJSON *item = reader_list(reader, key, layers->count);
    item = item != NULL ? item->child : NULL;
    for (uint32_t i = 0; i < layers->count && item != NULL; i++, item = item->next) {
        const bool one = cJSON_IsTrue(item) || (cJSON_IsNumber(item) && item->valuedouble == 1.0);
        const bool zero = cJSON_IsFalse(item) || (cJSON_IsNumber(item) && item->valuedouble == 0.0);
        if (!one && !zero) {
            (void)reader_strange(reader, key, i, item);
            return;
        }
        layers->kinds[i] = one ? if_one : if_zero;
    }
    reader_note_key(reader, "kinds of layers", key);
}

void reader_layer_numbers(struct reader *reader, const char *key, uint32_t first, uint8_t kind,
                          struct layer_list *layers) {
    const cJSON *list = reader_list(reader, key, 0), *item;
    uint32_t i = 0;
    cJSON_ArrayForEach(item, list) {
        const double at = cJSON_IsNumber(item) ? item->valuedouble - first : -1;
        if (!(at >= 0 && at < layers->count) || at != (double)(uint32_t)at) {
            (void)reader_strange(reader, key, i, item);
            return;
        }
        layers->kinds[(uint32_t)at] = kind;
        i++;
    }
    reader_note_key(reader, "kinds of layers", key);
}
