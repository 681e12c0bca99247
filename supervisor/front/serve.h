/*
 * Serves MCP, from the first message to the last sandbox: on stdin and stdout, over HTTP, or both.
 */
#ifndef CLOISTER_SUPERVISOR_FRONT_SERVE_H
#define CLOISTER_SUPERVISOR_FRONT_SERVE_H

#include "common/err.h"
#include "supervisor/base/config.h"

/* -ERR_CONFIG: what is configured cannot be offered together. Does not block. */
int serve_check(const struct config *config, struct err *err) WARN_UNUSED;

/* Blocks until the client on stdio hangs up (without HTTP), or SIGTERM or SIGINT arrives. Returns
 * the exit status of the process. */
int serve_run(const struct config *config);

#endif
