/* Fuzz target: a GGUF header from memory. Whatever the bytes, the answer is a model that holds
 * together, or one printable line. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "model_source.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool claim) {
    if (!claim)
        abort();
}

static void check_line(const char *line) {
    require(line[0] != '\0');
    for (; *line != '\0'; line++)
        require((unsigned char)*line >= 0x20 && *line != 0x7F);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct model model;
    struct model_trace trace;
    struct status_text text = {""};
    if (model_gguf_parse((const char *)data, size, "fuzz", &model, &trace, &text) != STATUS_OK) {
        check_line(text.line);
        return 0;
    }
    require(model_check(&model, NULL) == STATUS_OK);
    for (uint32_t g = 0; g < model.group_count; g++) {
        char words[96];
        model_group_words(&model.groups[g], words, sizeof words);
        check_line(words);
    }
    for (size_t i = 0; i < trace.count; i++) {
        check_line(trace.entries[i].field);
        check_line(trace.entries[i].key);
    }
    return 0;
}
