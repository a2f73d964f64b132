/* From what the user names to a struct model: a built-in model, our model JSON, a Hugging Face
 * config.json (or its folder), the header of a GGUF file, or plain geometry such as 8x128/g4x32l.
 * Looks inside to tell.
 *
 * A built-in name wins over a file of the same name (write ./name for the file); a name with a
 * slash is a path if there is one, else `org/name`. Geometry, all counts from 1 up:
 *   HEADSxDIM[/VDIM][wTOKENS][/gQ][xLAYERSl]   Q query heads per KV head (8), 1 layer; w: a window
 *   latentDIM[+ROPE][/gQ][xLAYERSl]            Q query heads in all (64) */
#ifndef MODEL_SOURCE_H
#define MODEL_SOURCE_H

#include <stddef.h>
#include <stdint.h>

#include "format.h"
#include "model.h"
#include "status.h"

/* Where a number of a model came from: "kv_heads" <- "text_config.num_key_value_heads", for all
 * groups that have such a field, or "window.kv_heads" <- ... for one kind; "kinds of layers" <-
 * "layer_types". A default that no key states is named in words. */
struct model_trace_entry {
    char field[48];
    char key[128];
};
struct model_trace {
    size_t count;
    struct model_trace_entry entries[64];
};

/* Built-in models (layouts/models), in file-name order. */
size_t model_source_count(void);
const char *model_source_name(size_t index);

/* The whole JSON text of a built-in model, NUL-terminated: its "published" holds the figures its
 * source gave, which the tests check. */
const char *model_source_json(size_t index);

/* Loads `spec`. `trace` may be NULL. `config_format` (may be NULL) receives what
 * --kv-format auto resolves to, with a word on why in `config_format_reason` (at least 96 bytes).
 * STATUS_BAD_INPUT: unknown name (nearest ones named), unreadable or hostile file (position
 * named); STATUS_REFUSED: a model that is not understood, naming the key. A guess is loaded and
 * says so in out->remark and out->assumed. */
enum status model_source_load(const char *spec, struct model *out, struct model_trace *trace,
                              enum format_id *config_format, char *config_format_reason,
                              struct status_text *text);

/* The parsers behind it, over bytes in memory, for tests and fuzzing. Not NUL-terminated input is
 * fine. `origin` names the input in messages and becomes the source. */
enum status model_json_parse(const char *bytes, size_t size, const char *origin, struct model *out,
                             struct status_text *text);
enum status model_config_parse(const char *bytes, size_t size, const char *origin,
                               struct model *out, struct model_trace *trace,
                               enum format_id *config_format, char *config_format_reason,
                               struct status_text *text);
enum status model_gguf_parse(const char *bytes, size_t size, const char *origin, struct model *out,
                             struct model_trace *trace, struct status_text *text);
enum status model_geometry_parse(const char *spec, struct model *out, struct status_text *text);

/* A GGUF file, of which only the header is read. */
enum status model_gguf_load(const char *path, struct model *out, struct model_trace *trace,
                            struct status_text *text);

#endif
