/*
 * The languages that are run by programs: how, and which of them this sandbox has. The table comes
 * with the first HELLO and stays as it is.
 *
 * Several rows may have the same language: the first whose programs are there is the one.
 * Thread: the agent has one. Nothing here blocks.
 */
#ifndef CLOISTER_WORKER_AGENT_RUN_RUNNERS_H
#define CLOISTER_WORKER_AGENT_RUN_RUNNERS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"
#include "common/view.h"
#include "worker/agent/process/spawn.h"

#define RUNNER_EXE "program" /* {exe} is a file of this name beside the code */

/* One row. Words are NULL-terminated. `env NAME=value… program …` sets variables for the program,
 * which is the first word behind them. */
struct runner {
    char *language;
    char *file;     /* what the code is written to; never RUNNER_EXE */
    char **compile; /* NULL: nothing to compile */
    char **run;
    char **needs;           /* other programs; NULL: none */
    enum spawn_found there; /* all these programs */
};

struct runners {
    struct runner *items; /* owned */
    size_t count;
    bool known; /* there has been a HELLO */
};

/* Takes encoded RUNNER messages. -ERR_PROTOCOL for malformed ones, and nothing is kept. */
int runners_load(struct runners *r, struct view_list list, struct err *err) WARN_UNUSED;

void runners_finish(struct runners *r);

/* Looks which of the programs there are, as far as that is not known. */
void runners_look(struct runners *r, const struct spawn_config *c);

/* The row of a language that can be used; NULL if there is none. Borrowed. */
const struct runner *runners_find(const struct runners *r, struct view language);

/* The first word that is not `env` or a variable for it. */
char *const *runner_command(char *const *words);

#endif
