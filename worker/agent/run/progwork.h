/*
 * The child between fork and exec: already the sandbox user, it writes the code to its file and
 * executes the program. For freshly forked children only; memory is never freed here. Blocks.
 */
#ifndef CLOISTER_WORKER_AGENT_RUN_PROGWORK_H
#define CLOISTER_WORKER_AGENT_RUN_PROGWORK_H

#include "worker/agent/link/request.h"
#include "worker/agent/run/runners.h"

#define PROGWORK_ROOT "/tmp" /* parent of the directories of runs */

struct progwork {
    const struct runner *runner; /* NULL: OP_RUN, and `code` is the directory to run in */
    bool compile;                /* the first step of two */
    bool first;                  /* the first step: it makes the directory */
    bool terminal;               /* it runs in one */
    const char *dir;             /* directory of this run; unused without a runner */
    const char *cwd;             /* where it begins */
    struct request request;
};

/* Becomes the program of `arg`, a struct progwork. Returns only if that fails: err has the code
 * that the operation fails with and says what could not be done. */
int progwork_become(void *arg, struct err *err);

/* Removes the directory, as far as the calling process may. */
void progwork_clear(const char *dir);

#endif
