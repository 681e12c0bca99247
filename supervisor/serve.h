/*
 * Serving MCP on stdin and stdout, from the first line to the last sandbox.
 */
#ifndef CLOISTER_SUPERVISOR_SERVE_H
#define CLOISTER_SUPERVISOR_SERVE_H

#include "supervisor/config.h"

/* Takes stdin and stdout for the protocol and blocks until the client hangs up or SIGTERM or SIGINT
 * comes. Returns the exit status of the process. */
int serve_stdio(const struct config *config);

#endif
