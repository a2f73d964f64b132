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
    return flush_output();
}

static int dispatch(const struct options *options, int argc, char *const *argv) {
    switch (options->command) {
    case OPTIONS_MODELS:
        return command_models(options);
    case OPTIONS_PREDICT:
        return command_predict(options);
    case OPTIONS_FILL:
        return command_fill(options);
    case OPTIONS_RUN:
        return command_run(options, argc, argv);
    case OPTIONS_DEVICE:
        return command_device(options);
    }
    return 2;
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
    int code;
    if (status != STATUS_OK) {
        (void)fprintf(stderr, "kvgauge: %s\n", text.line);
        code = session_exit_code(status);
    } else if (options.help) {
        options_print_help(options.command, stdout);
        code = flush_output();
    } else {
        code = dispatch(&options, argc, argv);
    }
    options_free(&options);
    return code;
}
