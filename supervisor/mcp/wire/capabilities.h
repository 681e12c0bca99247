/*
 * What a client can do, as far as it concerns us: read once from what it declares, with
 * `initialize` or with each request of the latest revision, and asked from then on. Thread: any.
 * Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_MCP_WIRE_CAPABILITIES_H
#define CLOISTER_SUPERVISOR_MCP_WIRE_CAPABILITIES_H

#include <cjson/cJSON.h>
#include <stdbool.h>

#include "supervisor/mcp/wire/revision.h"

#define MCP_EXTENSION_TASKS "io.modelcontextprotocol/tasks"
#define MCP_EXTENSION_UI    "io.modelcontextprotocol/ui"

/* The type of a view: a document that the client shows to people beside a result. */
#define MCP_VIEW_TYPE "text/html;profile=mcp-app"

/* Zeroed: nothing. */
struct mcp_client_capabilities {
    bool roots;
    bool sampling;
    bool sampling_tools; /* … in which the model may call tools */
    bool elicitation;    /* declared, whatever its revision has of it: */
    bool forms, pages;
    bool tasks; /* the extension of the latest revision */
    bool ui;    /* that extension */
    bool views; /* … with documents of the type that we have (MCP_VIEW_TYPE) */
};

/* From the object that a client of this revision declares; anything else declares nothing. */
struct mcp_client_capabilities mcp_client_capabilities_read(const cJSON *declared,
                                                            enum revision revision);

/* By the name on the wire: "sampling", "elicitation", "roots", or the id of an extension. False for
 * unknown ones. */
bool mcp_client_capabilities_have(const struct mcp_client_capabilities *c, const char *name);

#endif
