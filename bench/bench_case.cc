/* The names, and which case and format each stands for. */
#include "bench_case.h"

#include <set>

/* What a filter's regular expression or a reader of JSON might take for something else is a hyphen.
 */
static std::string plain(const char *text) {
    static const std::string kept = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                    "0123456789_.:-";
    std::string out;
    for (; *text != '\0'; text++)
        out += kept.find(*text) != std::string::npos ? *text : '-';
    return out;
}

static std::string number_field(const char *name, uint64_t number) {
    return std::string("/") + name + ":" + std::to_string(number);
}

static std::string word_field(const char *name, const char *word) {
    return std::string("/") + name + ":" + plain(word);
}

/* What differs from the defaults of `kvgauge run`, by the names of its options. */
static std::string further_fields(const run_case &one, const formula_storage &storage,
                                  const options &line) {
    const options &asked = *one.options;
    std::string out;
    if (storage.index != formula_index_default(storage.k_format))
        out += word_field("index_format", formula_index_name(storage.index));
    if (asked.state_value_bytes != 4)
        out += word_field("state_format", "bf16");
    if (asked.kv_scale_amax)
        out += word_field("kv_scale", "amax");
    if (asked.lengths != OPTIONS_LENGTHS_EQUAL)
        out += word_field("lengths", asked.lengths == OPTIONS_LENGTHS_MIXED ? "mixed" : "file");
    if (asked.share_prefix_tokens > 0)
        out += number_field("share_prefix", asked.share_prefix_tokens);
    if (asked.window_as_full)
        out += word_field("window_as", "full");
    if (asked.draft_layers > 0)
        out += number_field("draft_layers", asked.draft_layers);
    if (asked.tp > 1)
        out += number_field("tp", asked.tp);
    if (asked.page_order_sequential)
        out += word_field("page_order", "sequential");
    if (asked.data != OPTIONS_DATA_NORMAL)
        out += word_field("data", options_data_name(asked.data));
    if (asked.rotate)
        out += word_field("rotate", "hadamard");
    if (asked.seed != 1)
        out += number_field("seed", asked.seed);
    if (asked.weights_read_bytes > 0)
        out += number_field("weights_read", asked.weights_read_bytes);
    if (asked.weights_format != BACKEND_WEIGHTS_NONE)
        out += word_field("weights_format", weights_read_format_name(asked.weights_format));
    if (line.kernel != nullptr)
        out += word_field("kernel", line.kernel);
    return out;
}

static std::string name_of(const run_case &one, const options_format &format, const options &line) {
    options_format resolved;
    const formula_storage storage = run_case_storage(&one, &format, &resolved);
    return "run/" + plain(one.model.name) + "/" + plain(resolved.name) +
           number_field("tokens", one.tokens) + number_field("seqs", one.seqs) +
           number_field("page_tokens", one.page_tokens) + further_fields(one, storage, line);
}

std::vector<bench_case> bench_cases(const run_case_list &list, const options &line) {
    std::vector<bench_case> out;
    std::set<std::string> taken;
    for (size_t i = 0; i < list.count; i++) {
        const run_case &one = list.cases[i];
        for (size_t f = 0; f < one.options->format_count; f++) {
            const options_format &format = one.options->formats[f];
            const std::string name = name_of(one, format, line);
            std::string unique = name;
            for (uint64_t again = 2; !taken.insert(unique).second; again++)
                unique = name + number_field("again", again);
            out.push_back({&one, format, unique});
        }
    }
    return out;
}
