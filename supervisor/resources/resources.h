/*
 * What clients can read without a tool: the files of their sandboxes, and what their code wrote.
 *
 * The functions that take a request end it, at once or later. Other people's sandboxes, files that
 * are not there and names that mean nothing get the same answer.
 * Thread: the loop thread. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_RESOURCES_RESOURCES_H
#define CLOISTER_SUPERVISOR_RESOURCES_RESOURCES_H

#include <stdbool.h>
#include <stddef.h>

struct fleet;
struct mcp_completion;
struct mcp_request;
struct mcp_server;
struct principal;

/* Most bytes of a file that resources/read returns; larger ones are for read_file, in pieces. */
#define RESOURCE_MAX_BYTES (1u << 20)

/* Code of the error for those. (Codes of our own lie outside of what JSON-RPC reserves.) */
#define RESOURCE_TOO_LARGE 413

/* A page of the files in the workspaces of the caller's sandboxes. */
void resources_list(struct fleet *f, struct mcp_request *r, const char *cursor);

void resources_templates(struct mcp_request *r);

void resources_read(struct fleet *f, struct mcp_request *r, const char *uri);

/* Values for the variables of the templates. */
void resources_complete(struct fleet *f, struct mcp_request *r, const struct mcp_completion *what);

bool resources_may_subscribe(struct fleet *f, const struct principal *principal, const char *uri);

/* From now on tells the server's subscribers what changes in the fleet; server NULL: no more. */
void resources_observe(struct fleet *f, struct mcp_server *server);

#endif
