/*
 * The view of results: a document that hosts with MCP Apps show to people beside a result.
 *
 * Only for clients of which mcp_client_shows_views() is true.
 *
 * Thread: the loop thread. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_VIEW_VIEW_H
#define CLOISTER_SUPERVISOR_VIEW_VIEW_H

#include <cjson/cJSON.h>

struct mcp_request;

#define VIEW_URI "ui://cloister/result.html"

/* Says in the entry of a tool that the view shows its results. */
void view_name_in(cJSON *tool);

/* The view's item for the list of resources. The caller owns it. */
cJSON *view_item(void);

/* Answers resources/read of VIEW_URI. */
void view_answer(struct mcp_request *r);

#endif
