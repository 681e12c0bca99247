/*
 * Resources: what clients can read without a tool, which are files of their sandboxes and output of
 * their code.
 *
 * The functions that take a request end it, at once or later. Other principals' sandboxes, missing
 * files and invalid names get the same answer.
 *
 * Thread: the loop thread. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_RESOURCES_RESOURCES_H
#define CLOISTER_SUPERVISOR_RESOURCES_RESOURCES_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>

struct fleet;
struct mcp_completion;
struct mcp_request;
struct mcp_server;
struct principal;

/* The largest file that resources/read returns; read_file reads larger ones in pieces. */
#define RESOURCE_MAX_BYTES (1u << 20)

/* Error code for larger files. (Our own codes are outside of the range that JSON-RPC reserves.) */
#define RESOURCE_TOO_LARGE 413

/* Lists a page of the files in the workspaces of the caller's sandboxes, on the first page behind
 * `first` (NULL: nothing), which it takes. */
void resources_list(struct fleet *f, struct mcp_request *r, const char *cursor, cJSON *first);

void resources_templates(struct mcp_request *r);

void resources_read(struct fleet *f, struct mcp_request *r, const char *uri);

/* Completes a variable of a template. */
void resources_complete(struct fleet *f, struct mcp_request *r, const struct mcp_completion *what);

bool resources_may_subscribe(struct fleet *f, const struct principal *principal, const char *uri);

/* From now on notifies the server's subscribers of changes in the fleet; server NULL: stops
 * that. */
void resources_observe(struct fleet *f, struct mcp_server *server);

#endif
