/*
 * MCP over HTTP: /mcp in both eras (Streamable HTTP), and /sse with /messages for the oldest
 * clients. Connects exchanges with sessions of the protocol layer, and adds what only HTTP has:
 * session ids, event streams that can be resumed, and the status of an answer.
 *
 * Thread: the loop thread. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_WEB_MCP_ENDPOINT_H
#define CLOISTER_SUPERVISOR_WEB_MCP_ENDPOINT_H

#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "common/err.h"

struct mcp_endpoint;
struct mcp_server;
struct principal;
struct web_auth;
struct web_exchange;

struct mcp_endpoint_config {
    struct mcp_server *server;
    struct web_auth *auth;
    const char *base_path; /* path of our public URL before /mcp: "" or "/path"; copied */
    size_t max_sessions;
    uint64_t session_idle_ms; /* a session without requests and streams ends after this */
    uint64_t heartbeat_ms;    /* a waiting client gets something at least this often */
    /* Copies the key of the instance, SESSION_KEY_BYTES, with which session ids are signed. Returns
     * a negative error if there is none. NULL: ids are not signed, and no session is resumed. */
    int (*key)(void *arg, unsigned char *ret, struct err *err);
    void *key_arg;
};

/* Copies the configuration, and borrows its server. */
struct mcp_endpoint *mcp_endpoint_create(uv_loop_t *loop, const struct mcp_endpoint_config *config);

/* Handler of a listener: takes every exchange, and answers 404 to unknown paths. */
void mcp_endpoint_handle(struct mcp_endpoint *e, struct web_exchange *x);

/* Ends the sessions of a principal. */
void mcp_endpoint_revoke(struct mcp_endpoint *e, const struct principal *p);

/* Ends all sessions and closes their streams. `closed` is called when nothing of it is on the loop
 * any more. */
void mcp_endpoint_close(struct mcp_endpoint *e, void (*closed)(void *arg), void *arg);

/* The number of requests that will still be answered, of all sessions. */
size_t mcp_endpoint_open_requests(const struct mcp_endpoint *e);

#endif
