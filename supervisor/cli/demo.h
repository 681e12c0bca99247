/*
 * `cloister demo`: an MCP client that starts this program as its server, uses a sandbox through MCP
 * step by step, and prints what happened and how long it took.
 */
#ifndef CLOISTER_SUPERVISOR_CLI_DEMO_H
#define CLOISTER_SUPERVISOR_CLI_DEMO_H

#include <stdbool.h>
#include <sys/types.h>

#include "common/err.h"

struct demo_how {
    const char *self; /* path of this executable */
    int argc;         /* options for the server */
    char **argv;
    char *const *environment; /* which the server has, too */
    /* For a server over HTTP: asks the one of this pid where it listens (*ret_url, owned by the
     * caller), and whether it answers there; *ret_token says that it wants a token. NULL: it is on
     * stdio. */
    int (*reach)(void *arg, pid_t server, char **ret_url, bool *ret_token, struct err *err);
    void *arg;
};

/* Prints to stdout, and blocks until the server has ended. Returns the exit status of the process:
 * 0 if every step succeeded. */
int demo_run(const struct demo_how *how);

#endif
