/*
 * The protocol layer as transports see it: servers, sessions, and messages in both directions.
 *
 * A session is the scope of request ids, and for older revisions what `initialize` has agreed on.
 * stdio has one for its life; HTTP has one for each legacy client, and one for each single request
 * of the latest revision, which knows no sessions.
 *
 * A sink is where messages go. The transport embeds it in its own struct: a pipe, an HTTP exchange,
 * an event stream. Several requests may share one.
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

/* State that all sessions share: tasks, subscriptions. The app is borrowed for the server's
 * life. */
struct mcp_server *mcp_server_create(uv_loop_t *loop, const struct mcp_app *app);

/* Refuses new work from now on, and ends all listeners. Requests in flight go on. */
void mcp_server_stop(struct mcp_server *s);

/* Drops all requests that have not ended. `closed` is called when nothing of the server is on the
 * loop any more; the server is freed then. */
void mcp_server_close(struct mcp_server *s, void (*closed)(void *arg), void *arg);

/* ---- changes, reported to all subscribers ---- */

/* owner NULL: for every principal. */
void mcp_list_changed(struct mcp_server *s, const char *owner, enum mcp_list list);

/* A resource has changed or, if the URI ends in a slash, something below it. */
void mcp_resource_updated(struct mcp_server *s, const char *owner, const char *uri);

/* ---- sinks ---- */

/* The outcome of a request as an HTTP status; other transports ignore it. */
enum mcp_status {
    MCP_STATUS_OK = 200,
    MCP_STATUS_BAD_REQUEST = 400, /* the envelope was wrong, and nothing was done */
    MCP_STATUS_NOT_FOUND = 404,   /* no such method */
};

struct mcp_sink;
struct mcp_sink_ops {
    /* Sends a message that is no answer: a notification, or a request to the client. `json` is one
     * line; the sink takes ownership. False: it was dropped, because the reader is too slow or
     * gone. */
    bool (*send)(struct mcp_sink *sink, char *json);
    /* Sends an answer. NULL: there is none, since the request was cancelled. A batch has one
     * answer. */
    void (*answer)(struct mcp_sink *sink, char *json, enum mcp_status status);
};
struct mcp_sink {
    const struct mcp_sink_ops *ops;
};

/* ---- sessions ---- */

enum mcp_session_kind {
    /* both eras, for the life of a connection; messages that belong to no request go to the sink of
     * the first message */
    MCP_SESSION_PIPE,
    MCP_SESSION_LEGACY, /* one legacy client, over any number of connections */
    MCP_SESSION_SINGLE, /* one request of the latest revision */
};

/* Holds a reference to the principal. */
struct mcp_session *mcp_session_create(struct mcp_server *server, enum mcp_session_kind kind,
                                       struct principal *principal);

/* What a client has agreed on by `initialize`. */
struct mcp_agreed {
    enum revision revision;
    const char *client; /* its name, "" if it has none */
};

/* Creates a legacy session with a name, by which the next server of the instance finds its sandbox.
 * `agreed` not NULL: the session began under an earlier server and is resumed. The client's
 * capabilities are not known any more, so the client is asked nothing. Copies both. */
struct mcp_session *mcp_session_create_named(struct mcp_server *server, struct principal *principal,
                                             const char *name, const struct mcp_agreed *agreed);

/* Resumes a legacy session that has not been initialized, as if its client had agreed on this. */
void mcp_session_agree(struct mcp_session *s, const struct mcp_agreed *agreed);

/* Calls no sink from now on, and cancels the requests in flight; tasks go on. The session is freed
 * with its last request. NULL is fine. */
void mcp_session_end(struct mcp_session *s);

/* Called before mcp_session_end(): the client disconnected without ending the session. */
void mcp_session_set_lost(struct mcp_session *s);

/* Sets the form of results that the transport's URL asked for; RESULT_FORM_AUTO at first. */
void mcp_session_set_results(struct mcp_session *s, enum result_form form);

/* Sets the sink for messages that belong to no request; NULL: none. */
void mcp_session_set_stream(struct mcp_session *s, struct mcp_sink *sink);

/* This sink no longer exists. Requests of the latest revision that would answer there are
 * cancelled; others go on, and their answers go nowhere. */
void mcp_session_sink_gone(struct mcp_session *s, struct mcp_sink *sink);

/* Headers in which an HTTP request of the latest revision repeats parts of its body. */
struct mcp_head {
    const char *version, *method, *name; /* NULL: absent */
    /* The value of Mcp-Param-<name>, or NULL. */
    const char *(*param)(void *arg, const char *name);
    void *arg;
};

struct mcp_incoming {
    cJSON *message; /* or an array of messages; the session takes ownership */
    size_t bytes;   /* its size as text */
    bool has_nul;   /* contains \u0000, so its strings are not what the client wrote */
    struct mcp_sink *sink;
    const struct mcp_head *head; /* NULL: the transport has no headers. Borrowed during the call */
};

/* Whether the sink has got or will get an answer. False: none will come (notifications,
 * responses). */
bool mcp_session_take(struct mcp_session *s, const struct mcp_incoming *in);

/* Answers input that is not JSON (-32700) or not a message (-32600). */
void mcp_session_reject(struct mcp_session *s, struct mcp_sink *sink, int code, const char *why);

/* The same for input whose id is known (raw_id.h): JSON text, borrowed; NULL: it is not. */
void mcp_session_reject_id(struct mcp_session *s, struct mcp_sink *sink, const char *id, int code,
                           const char *why);

/* The same as text, for a transport that refuses a message itself; the caller frees it. */
char *mcp_reject_text(bool null_id, int code, const char *why);
char *mcp_reject_id_text(const char *id, bool null_id, int code, const char *why);

/* Whether errors of this session without a request have the id null; in later revisions they have
 * no id. */
bool mcp_session_null_id(const struct mcp_session *s);

/* How a message is routed over HTTP, before it is checked. */
enum mcp_path {
    MCP_PATH_SINGLE,     /* latest revision, or meant as such: a session of its own */
    MCP_PATH_INITIALIZE, /* opens a legacy session */
    MCP_PATH_LEGACY,     /* belongs to a legacy session */
};
enum mcp_path mcp_classify(const cJSON *message, const struct mcp_head *head);

enum mcp_session_kind mcp_session_kind(const struct mcp_session *s);
bool mcp_session_is_initialized(const struct mcp_session *s);
enum revision mcp_session_revision(const struct mcp_session *s); /* as negotiated */
const char *mcp_session_client(const struct mcp_session *s);     /* its name, "" before that */
const char *mcp_session_name(const struct mcp_session *s);       /* "" if it has none */
struct principal *mcp_session_principal(const struct mcp_session *s);

/* Requests that will still be answered; listeners do not count, since the server ends them. */
size_t mcp_session_open_requests(const struct mcp_session *s);

#endif
