/*
 * Serves MCP, from the first message to the last sandbox: on stdin and stdout, over HTTP, or both.
 */
#ifndef CLOISTER_SUPERVISOR_FRONT_SERVE_H
#define CLOISTER_SUPERVISOR_FRONT_SERVE_H

#include "supervisor/base/config.h"

/* Blocks until the client on stdio hangs up (without HTTP), or SIGTERM or SIGINT arrives. Returns
 * the exit status of the process. */
int serve_run(const struct config *config);

#endif
