/* The commands: each takes the parsed options and returns the program's exit code. */
#ifndef COMMANDS_H
#define COMMANDS_H

#include "options.h"
#include "ranks.h"

int command_models(const struct options *options);
int command_predict(const struct options *options);
int command_fill(const struct options *options);
/* Called by all ranks together; the exit code is the same on all of them. */
int command_run(const struct options *options, const struct ranks *ranks, int argc,
                char *const *argv);
int command_device(const struct options *options);

#endif
