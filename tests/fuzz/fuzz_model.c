/* Fuzz target: everything --model may be handed, from memory. The first byte chooses the parser
 * (modulo 3: 0 a config.json, 1 our own JSON, 2 plain geometry), the rest is its input. A parser
 * either gives a model that holds together, or one printable line. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "formula.h"
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

/* Whatever was accepted must be whole, printable, and countable or refused with a reason. */
static void check_model(const struct model *model) {
    struct formula_result result;
    struct formula_paged paged;
    require(model_check(model, NULL) == STATUS_OK);
    for (int format = 0; format < FORMAT_COUNT; format++) {
        const struct formula_storage storage = {
            .k_format = (enum format_id)format,
            .v_format = (enum format_id)format,
            .index = formula_index_default((enum format_id)format),
            .state_value_bytes = 4,
        };
        struct status_text text = {""};
        const enum status status = formula_compute(model, &storage, 100000, 64, &result, &text);
        if (status != STATUS_OK)
            check_line(text.line);
        else if (formula_paged_compute(model, &storage, 100000, 17, &paged, NULL) == STATUS_OK)
            require(paged.seq_bytes == result.seq_bytes + paged.tail_bytes + paged.alignment_bytes);
    }
    if (model->remark[0] != '\0')
        check_line(model->remark);
    if (model->assumed[0] != '\0')
        check_line(model->assumed);
    for (uint32_t g = 0; g < model->group_count; g++) {
        char words[96];
        model_group_words(&model->groups[g], words, sizeof words);
        check_line(words);
    }
}

static enum status parse_geometry(const uint8_t *data, size_t size, struct model *model,
                                  struct status_text *text) {
    char *spec = malloc(size + 1);
    if (spec == NULL)
        abort();
    memcpy(spec, data, size);
    spec[size] = '\0';
    /* A command line word: what holds control characters is echoed as it is. */
    for (char *c = spec; *c != '\0'; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7F)
            *c = ' ';
    const enum status status = model_geometry_parse(spec, model, text);
    free(spec);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0)
        return 0;
    const char *bytes = (const char *)data + 1;
    struct model model;
    struct model_trace trace;
    struct status_text text = {""};
    enum format_id format;
    char reason[96] = "-";
    enum status status;
    switch (data[0] % 3) {
    case 0:
        status =
            model_config_parse(bytes, size - 1, "fuzz", &model, &trace, &format, reason, &text);
        break;
    case 1:
        status = model_json_parse(bytes, size - 1, "fuzz", &model, &text);
        break;
    default:
        status = parse_geometry(data + 1, size - 1, &model, &text);
        break;
    }
    if (status == STATUS_OK)
        check_model(&model);
    else
        check_line(text.line);
    check_line(reason);
    return 0;
}
