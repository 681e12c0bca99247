/*
 * A blocking MCP client over a child's stdin and stdout, as small as the demonstration needs it.
 *
 * Each wait has a deadline, so a broken server gives an error and never a hang. Any number of
 * requests can be in flight; answers that nobody waits for yet are kept.
 * Thread: one at a time. Everything here may block until its deadline.
 */
#ifndef CLOISTER_SUPERVISOR_CLI_DEMO_CLIENT_H
#define CLOISTER_SUPERVISOR_CLI_DEMO_CLIENT_H

#include <cjson/cJSON.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/buf.h"
#include "common/err.h"

struct demo_client {
    pid_t pid;       /* 0 while no server runs */
    int to, from;    /* the server's stdin and stdout; -1 while closed */
    struct buf rx;   /* bytes of lines that are not complete */
    cJSON *answers;  /* array of answers not yet asked for */
    int64_t next_id; /* of the next request */
};

/* Starts `self` with the options as an MCP server on pipes and shakes hands. On success *ret_info
 * is the result of initialize (caller's, cJSON_Delete). On error nothing runs any more. */
int demo_client_start(struct demo_client *c, const char *self, int option_count, char **options,
                      cJSON **ret_info, struct err *err) WARN_UNUSED;

/* Sends tools/call and returns at once; *ret_id is for demo_client_wait(). Takes `arguments`, also
 * on error. */
int demo_client_send_call(struct demo_client *c, const char *tool, cJSON *arguments,
                          int64_t *ret_id, struct err *err) WARN_UNUSED;

/* Waits for the result of a request (caller's, cJSON_Delete). A JSON-RPC error becomes -ERR_INVALID
 * with the server's words; a tool's own failure is a result like any other. */
int demo_client_wait(struct demo_client *c, int64_t id, uint64_t timeout_ms, cJSON **ret_result,
                     struct err *err) WARN_UNUSED;

/* Both in one. Takes `arguments`. */
int demo_client_call(struct demo_client *c, const char *tool, cJSON *arguments, uint64_t timeout_ms,
                     cJSON **ret_result, struct err *err) WARN_UNUSED;

/* Closes the server's stdin, waits for its end, kills it if it stays. Returns its exit status, or
 * -ERR_TIMEOUT if it had to be killed. Fine on a client that never started: 0. */
int demo_client_stop(struct demo_client *c, struct err *err) WARN_UNUSED;

#endif
