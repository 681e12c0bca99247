/*
 * What mcp.c (sessions, messages, calls) and mcp_methods.c (what each method answers) share.
 */
#ifndef CLOISTER_SUPERVISOR_MCP_INTERNAL_H
#define CLOISTER_SUPERVISOR_MCP_INTERNAL_H

#include "common/buf.h"
#include "supervisor/jsonrpc.h"
#include "supervisor/mcp.h"
#include "supervisor/revision.h"
#include "supervisor/tools.h"
#include "supervisor/tools/tool.h"

#define MCP_META              "io.modelcontextprotocol/"
#define MCP_META_VERSION      MCP_META "protocolVersion"
#define MCP_META_CAPABILITIES MCP_META "clientCapabilities"
#define MCP_META_SERVER_INFO  MCP_META "serverInfo"
#define MCP_META_LOG_LEVEL    MCP_META "logLevel"

struct mcp_server {
    const struct config *config;
    struct fleet *fleet;
    struct tools *tools;
    char *tool_lists[REVISION_COUNT]; /* results of tools/list, printed when first asked for */
    bool stopping;
};

struct mcp_call;

struct mcp_session {
    struct mcp_server *server;
    mcp_send_fn send;
    void *send_arg;
    bool initialized;       /* legacy: by `initialize` */
    enum revision revision; /* legacy: as negotiated */
    struct mcp_call *calls; /* in flight */
    size_t call_count;
    size_t call_bytes;
    struct tool_session tools;
    char *owner;
};

/* Answers to the requests of one array, gathered until the last one is there. */
struct mcp_batch {
    size_t open; /* answers to come, and one for the array still being read */
    size_t count;
    struct buf text;
};

/* One request while it is being answered. */
struct mcp_request {
    struct mcp_session *session;
    enum revision revision;
    const char *id; /* JSON text */
    const char *method;
    const cJSON *params; /* object or NULL */
    struct mcp_batch *batch;
    cJSON **message; /* its storage: who keeps it sets it to NULL */
    size_t bytes;
};

/* Each request is answered by exactly one of these (or by a call, later). */
void mcp_answer(const struct mcp_request *r, cJSON *owned_result);
void mcp_answer_error(const struct mcp_request *r, int code, const char *message, cJSON *data);

/* Starts a checked tool call, which answers when it is done. */
void mcp_call_start(const struct mcp_request *r, const struct tool *tool, const cJSON *arguments);

/* Decorates a result as the revision wants: modern ones have a type and say who answered. */
void mcp_result_seal(enum revision revision, cJSON *result);

/* The result of a tool call as the revision wants it; takes its parts. */
cJSON *mcp_result_of_tool(enum revision revision, struct result *r);

/* Answers a request of a modern client, whose _meta has been checked. */
void mcp_dispatch_modern(const struct mcp_request *r);

/* Answers a request of a legacy client. */
void mcp_dispatch_legacy(const struct mcp_request *r);

#endif
