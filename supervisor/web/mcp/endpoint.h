/*
 * MCP over HTTP: /mcp in both eras (Streamable HTTP), and /sse with /messages for the oldest
 * clients. Puts exchanges and sessions of the protocol layer together; what it adds is what
 * only HTTP has: session ids, event streams that can be resumed, and the status of an answer.
 *
 * Thread: the loop thread. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_WEB_MCP_ENDPOINT_H
#define CLOISTER_SUPERVISOR_WEB_MCP_ENDPOINT_H

#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct mcp_endpoint;
struct mcp_server;
struct principal;
struct web_auth;
struct web_exchange;

struct mcp_endpoint_config {
    struct mcp_server *server;
    struct web_auth *auth;
    const char *base_path; /* of our URL as clients see it, before /mcp: "" or "/path"; copied */
    size_t max_sessions;
    uint64_t session_idle_ms; /* a session without a request and without a stream ends after this */
    uint64_t heartbeat_ms;    /* something is sent at least this often while a client waits */
};

struct mcp_endpoint *mcp_endpoint_create(uv_loop_t *loop, const struct mcp_endpoint_config *config);

/* Handler of a listener: takes every exchange, answers 404 to what is not its own. */
void mcp_endpoint_handle(struct mcp_endpoint *e, struct web_exchange *x);

/* Ends the sessions of a principal. */
void mcp_endpoint_revoke(struct mcp_endpoint *e, const struct principal *p);

/* Ends all sessions; streams are closed. `closed` when nothing of it is on the loop any more. */
void mcp_endpoint_close(struct mcp_endpoint *e, void (*closed)(void *arg), void *arg);

/* Requests that will still be answered, of all sessions. */
size_t mcp_endpoint_open_requests(const struct mcp_endpoint *e);

#endif
