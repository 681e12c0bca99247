/*
 * Log messages for clients; mcp_log() is in request.h. Thread: the loop thread. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_MCP_LOGGING_H
#define CLOISTER_SUPERVISOR_MCP_LOGGING_H

struct mcp_request;

/* The method logging/setLevel. */
void mcp_logging_set_level(struct mcp_request *r);

#endif
