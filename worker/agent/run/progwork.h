/*
 * What the process does that becomes a program: it is the sandbox user already, writes the code to
 * its file, and executes. For freshly forked children only; memory is never freed here. Blocks.
 */
#ifndef CLOISTER_WORKER_AGENT_RUN_PROGWORK_H
#define CLOISTER_WORKER_AGENT_RUN_PROGWORK_H

#include "worker/agent/link/request.h"
#include "worker/agent/run/runners.h"

#define PROGWORK_ROOT "/tmp" /* where directories are made that live as long as a run */

struct progwork {
    const struct runner *runner; /* NULL: the arguments are the program's, and `code` is where */
    bool compile;                /* the first step of two */
    bool first;                  /* nobody has made the directory yet */
    const char *dir;             /* of its own; unused without a runner */
    const char *workspace;
    struct request request;
};

/* Becomes the program of `arg`, a struct progwork. Returns only if that fails: err has the code
 * that the operation fails with, and what could not be done, as a verb. */
int progwork_become(void *arg, struct err *err);

/* Removes the directory, as far as the calling process may. */
void progwork_clear(const char *dir);

#endif
