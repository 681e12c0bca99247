/*
 * A blocking MCP client over a child's stdin and stdout, with only what the demonstration needs,
 * and `run`, which has a server of its own where none runs.
 *
 * Each wait has a deadline, so a broken server causes an error rather than a hang. Several requests
 * can be in flight; early answers are kept.
 *
 * Thread: one at a time. Every function may block until its deadline.
 */
#ifndef CLOISTER_SUPERVISOR_CLI_PIPE_CLIENT_H
#define CLOISTER_SUPERVISOR_CLI_PIPE_CLIENT_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/buf.h"
#include "common/err.h"

struct pipe_client {
    pid_t pid;       /* 0 while no server runs */
    int to, from;    /* the server's stdin and stdout; -1 while closed */
    struct buf rx;   /* bytes of an incomplete line */
    cJSON *answers;  /* array of answers that were not asked for yet */
    int64_t next_id; /* of the next request */
    int watch;       /* as below */
};

/* How a server is started. */
struct pipe_client_how {
    const char *self; /* the program */
    const char *name; /* of the client */
    int option_count;
    char **options;
    bool own_group; /* Ctrl-C on our terminal is none for the server */
    int watch;      /* while this is readable, waits end with -ERR_GONE; -1: none */
};

/* Starts an MCP server on pipes, and initialises the session. On success *ret_info is the result of
 * initialize (owned by the caller, cJSON_Delete). On error no process is left. */
int pipe_client_start(struct pipe_client *c, const struct pipe_client_how *how, cJSON **ret_info,
                      struct err *err) WARN_UNUSED;

/* Sends tools/call and returns at once; *ret_id is for pipe_client_wait(). Takes ownership of
 * `arguments`, also on error. */
int pipe_client_send_call(struct pipe_client *c, const char *tool, cJSON *arguments,
                          int64_t *ret_id, struct err *err) WARN_UNUSED;

/* Waits for the result of a request (owned by the caller, cJSON_Delete). A JSON-RPC error becomes
 * -ERR_INVALID with the server's message; a tool's own failure is an ordinary result. */
int pipe_client_wait(struct pipe_client *c, int64_t id, uint64_t timeout_ms, cJSON **ret_result,
                     struct err *err) WARN_UNUSED;

/* Sends a call and waits for it. Takes ownership of `arguments`. */
int pipe_client_call(struct pipe_client *c, const char *tool, cJSON *arguments, uint64_t timeout_ms,
                     cJSON **ret_result, struct err *err) WARN_UNUSED;

/* Closes the server's stdin, waits for its end, and kills it if it does not end. Returns its exit
 * status, or -ERR_TIMEOUT if it was killed. Returns 0 for a client that never started. */
int pipe_client_stop(struct pipe_client *c, struct err *err) WARN_UNUSED;

#endif
