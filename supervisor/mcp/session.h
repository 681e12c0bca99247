/*
 * The protocol layer as transports see it: servers, sessions, messages in, messages out.
 *
 * A session is the scope of request ids, and for older revisions what `initialize` has agreed on.
 * stdio has one for its life; HTTP has one for each legacy client, and one for each single request
 * of the latest revision, which knows no sessions.
 *
 * Where messages go is a sink, which the transport embeds in whatever it has: a pipe, an HTTP
 * exchange, an event stream. Several requests may share one.
 *
 * Thread: the loop thread. Nothing blocks. A sink may be called from inside mcp_session_take().
 */
#ifndef CLOISTER_SUPERVISOR_MCP_SESSION_H
#define CLOISTER_SUPERVISOR_MCP_SESSION_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "supervisor/base/result_form.h"
#include "supervisor/mcp/app.h"
#include "supervisor/mcp/wire/revision.h"

struct mcp_server;
struct principal;

/* ---- servers ---- */

/* What all sessions share: tasks, subscriptions. The app is borrowed for its life. */
struct mcp_server *mcp_server_create(uv_loop_t *loop, const struct mcp_app *app);

/* Requests that would begin something are refused from now on; listeners are told that it is over.
 * Those in flight go on. */
void mcp_server_stop(struct mcp_server *s);

/* All requests have ended, or will never be heard of again. `closed` when nothing of it is on the
 * loop any more; it is gone then. */
void mcp_server_close(struct mcp_server *s, void (*closed)(void *arg), void *arg);

/* ---- what changed, told to all whom it concerns ---- */

/* owner NULL: for everybody. */
void mcp_list_changed(struct mcp_server *s, const char *owner, enum mcp_list list);

/* A resource, or what is below it when the URI ends in a slash. */
void mcp_resource_updated(struct mcp_server *s, const char *owner, const char *uri);

/* ---- sinks ---- */

/* What became of a request, in the words of HTTP; other transports need not look. */
enum mcp_status {
    MCP_STATUS_OK = 200,
    MCP_STATUS_BAD_REQUEST = 400, /* the envelope was wrong: nothing was done */
    MCP_STATUS_NOT_FOUND = 404,   /* no such method */
};

struct mcp_sink;
struct mcp_sink_ops {
    /* A message that is no answer: a notification, or a request to the client. `json` is one line,
     * taken over. False: the reader is too far behind, or there is none, and it was dropped. */
    bool (*send)(struct mcp_sink *sink, char *json);
    /* An answer. NULL: there will be none, the request was cancelled. A batch has one. */
    void (*answer)(struct mcp_sink *sink, char *json, enum mcp_status status);
};
struct mcp_sink {
    const struct mcp_sink_ops *ops;
};

/* ---- sessions ---- */

enum mcp_session_kind {
    MCP_SESSION_PIPE,   /* both eras, as long as a connection; what nobody asked for goes to the
                         * sink of the first message */
    MCP_SESSION_LEGACY, /* one legacy client, over any number of connections */
    MCP_SESSION_SINGLE, /* one request of the latest revision */
};

/* Holds the principal. */
struct mcp_session *mcp_session_create(struct mcp_server *server, enum mcp_session_kind kind,
                                       struct principal *principal);

/* No sink is called any more. What is in flight is cancelled, tasks go on. It is freed with its
 * last request. NULL is fine. */
void mcp_session_end(struct mcp_session *s);

/* Before its end: its client has not ended it, but went without a word. */
void mcp_session_set_lost(struct mcp_session *s);

/* The form of results that its client asked for when it came, RESULT_FORM_AUTO at first. */
void mcp_session_set_results(struct mcp_session *s, enum result_form form);

/* Where messages go that belong to no request; NULL: nowhere. */
void mcp_session_set_stream(struct mcp_session *s, struct mcp_sink *sink);

/* This sink is no more. Requests of the latest revision that would answer there are cancelled,
 * others go on and their answers go nowhere. */
void mcp_session_sink_gone(struct mcp_session *s, struct mcp_sink *sink);

/* Headers that an HTTP request of the latest revision must repeat its body in. */
struct mcp_head {
    const char *version, *method, *name; /* NULL: absent */
    /* The value of Mcp-Param-<name>, or NULL. */
    const char *(*param)(void *arg, const char *name);
    void *arg;
};

struct mcp_incoming {
    cJSON *message; /* or an array of them; taken over */
    size_t bytes;   /* its size as text */
    bool has_nul;   /* it contains \u0000, so its strings are not what the client wrote */
    struct mcp_sink *sink;
    const struct mcp_head *head; /* NULL: this transport has no headers. Borrowed during the call */
};

/* True if the sink gets an answer for it, or has got it. False: nothing will come (notifications,
 * responses). */
bool mcp_session_take(struct mcp_session *s, const struct mcp_incoming *in);

/* Something came that is no JSON (-32700) or no message (-32600): answers so. */
void mcp_session_reject(struct mcp_session *s, struct mcp_sink *sink, int code, const char *why);

/* As text, for what a transport rejects by itself; to be freed. */
char *mcp_reject_text(bool null_id, int code, const char *why);
/* Whether errors of this session that answer no request have the id null; later ones have none. */
bool mcp_session_null_id(const struct mcp_session *s);

/* Which path a message takes over HTTP, before anything of it is checked. */
enum mcp_path {
    MCP_PATH_SINGLE,     /* the latest revision, or what claims to be: a session of its own */
    MCP_PATH_INITIALIZE, /* begins a legacy session */
    MCP_PATH_LEGACY,     /* belongs to one */
};
enum mcp_path mcp_classify(const cJSON *message, const struct mcp_head *head);

enum mcp_session_kind mcp_session_kind(const struct mcp_session *s);
bool mcp_session_is_initialized(const struct mcp_session *s);
enum revision mcp_session_revision(const struct mcp_session *s); /* as negotiated */
struct principal *mcp_session_principal(const struct mcp_session *s);

/* Requests that will still be answered, but no listeners: they are when we say so. */
size_t mcp_session_open_requests(const struct mcp_session *s);

#endif
