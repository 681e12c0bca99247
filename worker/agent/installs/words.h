/*
 * What a command line of pip or npm wants: packages by name, which the installer can do, or
 * something else.
 *
 * Runs as the sandbox user, in a program that user code has started. Reads files that the command
 * line names.
 */
#ifndef CLOISTER_WORKER_AGENT_INSTALLS_WORDS_H
#define CLOISTER_WORKER_AGENT_INSTALLS_WORDS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"
#include "proto/limits.h"

enum words_kind {
    WORDS_OTHER,   /* no installation: the image's own program knows */
    WORDS_INSTALL, /* of `items` */
    WORDS_REFUSED, /* an installation that the installer cannot do: err says why */
};

struct words {
    bool npm;
    bool quiet;
    char *items[LIMIT_INSTALL_WORDS]; /* owned */
    size_t count;
};

/* argv[0] names the program. */
enum words_kind words_read(int argc, char **argv, struct words *ret, struct err *err);
void words_finish(struct words *w);

#endif
