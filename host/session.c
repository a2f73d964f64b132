/* Opens the device the user asked for and the outputs the rows go to. */
#include "session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "measure.h"
#include "words.h"

/* Unique bytes of a sample are cold from this many times the last-level cache on. */
enum { SESSION_COLD_CACHES = 4 };

static void list_backends(char *out, size_t bytes) {
    out[0] = '\0';
    for (const struct backend_ops *const *ops = backend_list(); *ops != NULL; ops++)
        words_add(out, bytes, ", ", "%s", (*ops)->name);
}

/* The driver's device node or /proc entry: present without any CUDA library. */
static bool nvidia_driver_present(void) {
    return access("/proc/driver/nvidia/version", R_OK) == 0 || access("/dev/nvidiactl", F_OK) == 0;
}

static enum status check_kernel(const struct backend_ops *ops, const char *kernel,
                                struct status_text *text) {
    if (kernel == NULL)
        return STATUS_OK;
    char known[256] = "";
    for (const char *const *name = ops->kernels; *name != NULL; name++) {
        if (strcmp(*name, kernel) == 0)
            return STATUS_OK;
        words_add(known, sizeof known, ", ", "%s", *name);
    }
    return status_set(text, STATUS_BAD_INPUT, "--kernel %s: the %s backend has %s", kernel,
                      ops->name, known);
}

/* The first backend that is no cpu and opens; else out->fell_back says why there is none. */
static bool open_gpu(const struct backend_options *wanted, struct session *out) {
    for (const struct backend_ops *const *ops = backend_list(); *ops != NULL; ops++) {
        if (strcmp((*ops)->name, "cpu") == 0)
            continue;
        struct backend_device *device;
        if ((*ops)->open(wanted, &device, &out->fell_back) != STATUS_OK)
            continue;
        out->fell_back.line[0] = '\0';
        out->ops = *ops;
        out->device = device;
        out->ops->facts(device, &out->facts);
        return true;
    }
    if (out->fell_back.line[0] == '\0' && nvidia_driver_present())
        (void)status_set(&out->fell_back, STATUS_MISSING,
                         "an NVIDIA driver is here, but this build has no CUDA backend");
    return false;
}

/* gpu_ordinal: which GPU where --device names none. */
static enum status open_device(const struct options *options, uint32_t threads,
                               uint32_t gpu_ordinal, struct session *out,
                               struct status_text *text) {
    *out = (struct session){0};
    struct backend_options wanted = {
        .threads = threads, .ordinal = gpu_ordinal, .llc_bytes = options->llc_bytes};
    char name[32];
    (void)snprintf(name, sizeof name, "%s", options->device != NULL ? options->device : "auto");
    char *ordinal = strchr(name, ':');
    if (ordinal != NULL) {
        *ordinal++ = '\0';
        char *end;
        errno = 0;
        const unsigned long value = strtoul(ordinal, &end, 10);
        if (end == ordinal || *end != '\0' || errno != 0 || value > 1024)
            return status_set(text, STATUS_BAD_INPUT,
                              "--device %s: a device number is expected after the colon",
                              options->device);
        wanted.ordinal = (uint32_t)value;
    }
    if (strcmp(name, "auto") == 0) {
        if (open_gpu(&wanted, out))
            return check_kernel(out->ops, options->kernel, text);
        (void)strcpy(name, "cpu");
    }
    if (strcmp(name, "cpu") == 0 && ordinal == NULL)
        wanted.ordinal = 0;
    out->ops = backend_find(name);
    if (out->ops == NULL) {
        char known[128];
        list_backends(known, sizeof known);
        if (strcmp(name, "cuda") == 0)
            return status_set(text, STATUS_MISSING,
                              "--device cuda: this build has no CUDA backend (built in: %s); "
                              "build again with -DKVGAUGE_CUDA=ON",
                              known);
        return status_set(text, STATUS_BAD_INPUT, "--device %s: unknown; auto, %s are", name,
                          known);
    }
    const enum status status = check_kernel(out->ops, options->kernel, text);
    if (status != STATUS_OK)
        return status;
    const enum status opened = out->ops->open(&wanted, &out->device, text);
    if (opened == STATUS_OK)
        out->ops->facts(out->device, &out->facts);
    return opened;
}

enum status session_open(const struct options *options, struct session *out,
                         struct status_text *text) {
    return open_device(options, options->threads, 0, out, text);
}

enum status session_open_rank(const struct options *options, const struct ranks *ranks,
                              struct session *out, struct status_text *text) {
    if (ranks->count == 1)
        return session_open(options, out, text);
    const uint32_t share = ranks_threads(ranks);
    enum status status;
    if (options->device != NULL && strchr(options->device, ':') != NULL && ranks->local_count > 1)
        status = status_set(text, STATUS_BAD_INPUT,
                            "--device %s: one device for %u ranks of a machine; cuda gives each "
                            "rank its own",
                            options->device, ranks->local_count);
    else
        status = open_device(options, options->threads > 0 ? options->threads : share,
                             ranks->local_rank, out, text);
    status = ranks_agree(ranks, status, text);
    if (status != STATUS_OK)
        return status;
    char all[RANKS_MOST][sizeof out->facts.backend];
    ranks_gather(ranks, out->facts.backend, sizeof out->facts.backend, all);
    for (uint32_t r = 1; r < ranks->count; r++)
        if (strcmp(all[r], all[0]) != 0)
            return status_set(text, STATUS_MISSING,
                              "rank 0 has %s and rank %u %s: all need the same; --device cpu or "
                              "cuda says which",
                              all[0], r, all[r]);
    return STATUS_OK;
}

void session_close(struct session *session) {
    if (session->ops != NULL && session->device != NULL)
        session->ops->close(session->device);
    *session = (struct session){0};
}

enum status session_cold_bytes(struct session *session, uint64_t *cold_bytes,
                               struct status_text *text) {
    struct measure_sweep sweep;
    enum status status = STATUS_OK;
    if (session->facts.llc_by_sweep) {
        status = measure_sweep_run(session->ops, session->device, &sweep, text);
        if (status == STATUS_OK && sweep.plateau_bytes > session->facts.llc_bytes) {
            session->facts.llc_bytes = sweep.plateau_bytes;
            (void)snprintf(session->facts.llc_source, sizeof session->facts.llc_source, "sweep");
        }
    }
    *cold_bytes = SESSION_COLD_CACHES * session->facts.llc_bytes;
    return status;
}

void session_say_fallback(const struct session *session) {
    if (session->fell_back.line[0] != '\0')
        (void)fprintf(stderr, "kvgauge: measuring the CPU, not a GPU: %s\n",
                      session->fell_back.line);
}

int session_exit_code(enum status status) {
    switch (status) {
    case STATUS_OK:
        return 0;
    case STATUS_WRONG:
        return 1;
    case STATUS_MISSING:
        return 3;
    case STATUS_INTERRUPTED:
        return 130;
    case STATUS_BAD_INPUT:
    case STATUS_REFUSED:
    case STATUS_OUT_OF_MEMORY:
    case STATUS_OVERFLOW:
    case STATUS_IO:
        break;
    }
    return 2;
}

enum status session_output_open(const struct options *options, const struct writer_field *fields,
                                size_t field_count, const char *title, struct session_output *out,
                                struct status_text *text) {
    *out = (struct session_output){0};
    enum status status =
        writer_open(options->output, stdout, fields, field_count, title, &out->shown, text);
    if (status == STATUS_OK && options->save_path != NULL) {
        status =
            writer_create_file(options->save_path, out->path, sizeof out->path, &out->file, text);
        if (status == STATUS_OK)
            status =
                writer_open(WRITER_JSONL, out->file, fields, field_count, NULL, &out->saved, text);
    }
    if (status != STATUS_OK) {
        (void)writer_close(out->shown, NULL);
        if (out->file != NULL)
            (void)fclose(out->file);
        *out = (struct session_output){0};
    }
    return status;
}

enum status session_output_append(struct session_output *output, FILE *file, const char *path,
                                  const struct writer_field *fields, size_t field_count,
                                  struct status_text *text) {
    output->file = file;
    (void)snprintf(output->path, sizeof output->path, "%s", path);
    return writer_open(WRITER_JSONL, file, fields, field_count, NULL, &output->saved, text);
}

/* Which output it was that failed. */
static enum status failed_at(enum status status, const char *where, const struct status_text *why,
                             struct status_text *text) {
    return status == STATUS_OK ? status : status_set(text, status, "%s: %s", where, why->line);
}

static const char standard_output[] = "the standard output";

enum status session_output_row(struct session_output *output, const struct writer_value *values,
                               struct status_text *text) {
    /* The file first: what is saved does not depend on who reads stdout. */
    struct status_text why = {""};
    enum status status = STATUS_OK;
    if (output->saved != NULL)
        status = failed_at(writer_row(output->saved, values, &why), output->path, &why, text);
    const enum status shown = writer_row(output->shown, values, &why);
    return status == STATUS_OK ? failed_at(shown, standard_output, &why, text) : status;
}

enum status session_output_close(struct session_output *output, struct status_text *text) {
    struct status_text why = {""};
    enum status status = failed_at(writer_close(output->shown, &why), standard_output, &why, text);
    if (output->saved != NULL) {
        enum status saved = writer_close(output->saved, &why);
        if (fclose(output->file) != 0 && saved == STATUS_OK)
            saved = status_set(&why, STATUS_IO, "%s", strerror(errno));
        if (saved != STATUS_OK && status == STATUS_OK)
            status = failed_at(saved, output->path, &why, text);
        else if (saved == STATUS_OK)
            (void)fprintf(stderr, "kvgauge: rows saved in %s\n", output->path);
    }
    *output = (struct session_output){0};
    return status;
}
