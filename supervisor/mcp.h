/*
 * MCP for one client, in every revision we speak, on top of any transport.
 *
 * A transport parses messages, gives them to mcp_session_take(), and sends what the session hands
 * to its `send`. Legacy (initialize opens a session) and modern (each request carries its own
 * version) requests may be mixed on one session: each message decides for itself.
 *
 * Thread: the loop thread. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_MCP_H
#define CLOISTER_SUPERVISOR_MCP_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>

struct config;
struct fleet;
struct mcp_server;
struct mcp_session;

/* What all sessions share. Both arguments are borrowed for its life. */
struct mcp_server *mcp_server_create(const struct config *config, struct fleet *fleet);
void mcp_server_destroy(struct mcp_server *s);

/* Calls of tools are answered with ERR_SHUTTING_DOWN from now on: there may be no fleet behind them
 * any more. Those in flight go on. */
void mcp_server_stop(struct mcp_server *s);

/* `json` is one message without newline; the transport owns it now and frees it. */
typedef void (*mcp_send_fn)(void *arg, char *json);

/* `owner` names the principal whose sandboxes these are. */
struct mcp_session *mcp_session_create(struct mcp_server *server, const char *owner,
                                       mcp_send_fn send, void *arg);

/* Nothing of the fleet may call back any more: after fleet_shutdown(). Calls that are still open
 * are dropped without an answer. NULL is fine. */
void mcp_session_destroy(struct mcp_session *s);

/* One message, or an array of them; taken over. `bytes` is its size as text. `has_nul`: it contains
 * \u0000, so its strings are not what the client wrote. */
void mcp_session_take(struct mcp_session *s, cJSON *message, size_t bytes, bool has_nul);

/* Something came that is no JSON (-32700) or no message (-32600): answers so. */
void mcp_session_reject(struct mcp_session *s, int code, const char *why);

/* Tool calls that will still be answered. */
size_t mcp_session_open_calls(const struct mcp_session *s);

#endif
