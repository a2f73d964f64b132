/* Parse, dispatch, exit code. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "backend.h"
#include "backend_build.h"
#include "commands.h"
#include "options.h"
#include "options_list.h"
#include "ranks.h"
#include "session.h"
#include "version_info.h"

/* What was printed has arrived, or the exit code that says it has not. */
static int flush_output(void) {
    if (fflush(stdout) == 0 && !ferror(stdout))
        return 0;
    (void)fprintf(stderr, "kvgauge: writing to the standard output failed: %s\n", strerror(errno));
    return 2;
}

/* A stream that the caller closed is held open, so that no file that is opened later gets its
 * number and with it what is printed. Reading alone: printing fails, and is said to. */
static void keep_standard_streams(void) {
    for (int stream = 0; stream <= 2; stream++)
        if (fcntl(stream, F_GETFD) < 0 && errno == EBADF)
            (void)open("/dev/null", O_RDONLY);
}

static int print_version(void) {
    (void)printf("kvgauge %s%s%s\nbackends:", KVGAUGE_VERSION,
                 KVGAUGE_GIT[0] != '\0' ? " git " : "", KVGAUGE_GIT);
    for (const struct backend_ops *const *ops = backend_list(); *ops != NULL; ops++)
        (void)printf(" %s", (*ops)->name);
    if (backend_cuda_version()[0] != '\0')
        (void)printf("\nCUDA targets: %s (CUDA %s)\n", backend_cuda_targets(),
                     backend_cuda_version());
    else
        (void)printf("\nCUDA targets: none built in\n");
    (void)printf("MPI: %s\n", ranks_library()[0] != '\0' ? ranks_library() : "none built in");
    return flush_output();
}

static int dispatch(const struct options *options, const struct ranks *ranks, int argc,
                    char *const *argv) {
    switch (options->command) {
    case OPTIONS_MODELS:
        return command_models(options);
    case OPTIONS_PREDICT:
        return command_predict(options);
    case OPTIONS_FILL:
        return command_fill(options);
    case OPTIONS_RUN:
        return command_run(options, ranks, argc, argv);
    case OPTIONS_DEVICE:
        return command_device(options);
    }
    return 2;
}

/* What several ranks have to be clear about before anything is begun. */
static enum status check_ranks(const struct options *options, const struct ranks *ranks,
                               struct status_text *text) {
    if (ranks->count == 1)
        return STATUS_OK;
    if (options->command != OPTIONS_RUN)
        return status_set(text, STATUS_BAD_INPUT,
                          "kvgauge %s: %u ranks were started, and only kvgauge run shares its work",
                          options_command_name(options->command), ranks->count);
    if (options->tp != ranks->count)
        return status_set(text, STATUS_BAD_INPUT,
                          "--tp %u: %u ranks were started; the two must be the same", options->tp,
                          ranks->count);
    return STATUS_OK;
}

/* A command whose options were parsed, with this outcome. Rank 0 speaks for all, and its exit code
 * counts: a launcher ends the other ranks as soon as one of them fails. */
static int run_command(const struct options *options, enum status parsed, struct status_text *text,
                       int argc, char *const *argv) {
    struct ranks ranks;
    struct status_text why = {""};
    enum status status = ranks_open(&ranks, &why);
    if (status != STATUS_OK)
        *text = why;
    else
        status = ranks_agree(&ranks, parsed, text);
    /* One rank's question is everybody's: no other may wait for its measuring. */
    const bool help = ranks_any(&ranks, parsed == STATUS_OK && options->help);
    if (status == STATUS_OK && !help)
        status = ranks_agree(&ranks, check_ranks(options, &ranks, text), text);
    int code = 0;
    if (help) {
        if (ranks.rank == 0)
            options_print_help(options->command, stdout);
        code = flush_output();
    } else if (status == STATUS_OK) {
        code = dispatch(options, &ranks, argc, argv);
    } else {
        if (ranks.rank == 0)
            (void)fprintf(stderr, "kvgauge: %s\n", text->line);
        code = session_exit_code(status);
    }
    ranks_close(&ranks);
    return ranks.rank == 0 ? code : 0;
}

int main(int argc, char **argv) {
    /* A reader that goes away (head) is an output error like a full disk, not a silent death; so is
     * the end of what ulimit -f allows. */
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGXFSZ, SIG_IGN);
    keep_standard_streams();
    if (argc < 2) {
        options_print_help(0, stderr);
        return 2;
    }
    if (strcmp(argv[1], "--version") == 0)
        return print_version();
    /* for the build, which installs both */
    if (strcmp(argv[1], "--man") == 0) {
        options_print_man(KVGAUGE_VERSION, stdout);
        return flush_output();
    }
    if (strcmp(argv[1], "--completion") == 0) {
        options_print_completion(stdout);
        return flush_output();
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        options_print_help(0, stdout);
        return flush_output();
    }
    struct options options;
    struct status_text text = {""};
    const enum status status = options_parse(argc, argv, &options, &text);
    const int code = run_command(&options, status, &text, argc, argv);
    options_free(&options);
    return code;
}
