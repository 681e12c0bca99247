/*
 * The languages that programs run: their commands, and which of them this sandbox has. The table
 * comes with the first HELLO and does not change.
 *
 * Several rows may have the same language; the first one whose programs exist is used. Thread: the
 * agent has one. Nothing here blocks.
 */
#ifndef CLOISTER_WORKER_AGENT_RUN_RUNNERS_H
#define CLOISTER_WORKER_AGENT_RUN_RUNNERS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"
#include "common/view.h"
#include "worker/agent/process/spawn.h"

#define RUNNER_EXE "program" /* {exe} stands for a file of this name beside the code */

/* One row. Words are NULL-terminated. `env NAME=value… program …` sets variables for the program,
 * which is the first word behind them. */
struct runner {
    char *language;
    char *file;     /* name of the file with the code; never RUNNER_EXE */
    char **compile; /* NULL: nothing to compile */
    char **run;
    char **needs;           /* other programs that must exist; NULL: none */
    enum spawn_found there; /* all these programs */
};

struct runners {
    struct runner *items; /* owned */
    size_t count;
    bool known; /* a HELLO has come */
};

/* Reads encoded RUNNER messages and copies them. -ERR_PROTOCOL for a malformed one; nothing is kept
 * then. */
int runners_load(struct runners *r, struct view_list list, struct err *err) WARN_UNUSED;

void runners_finish(struct runners *r);

/* Looks for the programs of rows whose state is not known yet. */
void runners_look(struct runners *r, const struct spawn_config *c);

/* Forgets which programs are absent, so that the next runners_look() looks again. */
void runners_doubt(struct runners *r);

/* The usable row of a language, borrowed; NULL if there is none. */
const struct runner *runners_find(const struct runners *r, struct view language);

/* How code of a live language is run as a program of its own, with the name under which the agent
 * knows it; NULL: it is no live language. */
const struct runner *runners_of_live(struct view language);

/* The first word that is not `env` or a variable for it. */
char *const *runner_command(char *const *words);

#endif
