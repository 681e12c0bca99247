/*
 * Structs and functions that the files of the endpoint share.
 *
 * A client is one legacy client with its session. It has an id, one standing stream for messages
 * that answer no request, and a stream for each request that is in flight or whose events are kept.
 * A request of the latest revision is a single stream, with a session of its own.
 *
 * Ownership: the endpoint owns clients and single streams, a client owns its streams. Code that
 * takes the exchange from a stream must end it.
 */
#ifndef CLOISTER_SUPERVISOR_WEB_MCP_INTERNAL_H
#define CLOISTER_SUPERVISOR_WEB_MCP_INTERNAL_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "supervisor/mcp/session.h"
#include "supervisor/web/http/event_stream.h"
#include "supervisor/web/http/exchange.h"
#include "supervisor/web/http/timeout_list.h"
#include "supervisor/web/mcp/endpoint.h"
#include "supervisor/web/mcp/session_id.h"

#define STREAM_BEHIND  (256u << 10) /* more queued bytes: only answers are sent */
#define STREAM_QUEUE   (8u << 20)   /* … a stream of many answers is closed */
#define STANDING_BYTES (16u << 10)  /* kept of a standing stream: 100 notifications */
#define STREAM_KEPT    (64u << 10)  /* kept notifications of a request in flight */
#define CLIENT_KEPT    (2u << 20)   /* kept for one client, all streams together */
#define ENDPOINT_KEPT  (64u << 20)  /* kept for all */
#define STREAMS_KEPT   64           /* answered streams kept for a client */
#define KEEP_MS        300000       /* how long events of a request are kept */
#define RETRY_MS       1000         /* what clients are told to wait before they reconnect */
#define RESUMABLE_MS   1000         /* a request that takes longer gets a stream with event ids */
#define EVICT_USED_MS  10000        /* idle time before a used session may be evicted */
#define EVICT_IDLE_MS  60000        /* … before another principal's may be */
#define OLD_IN_FLIGHT                                                                              \
    64 /* requests of a client of the old transport, which come without their reader */
#define WARN_EVERY_MS  60000
#define FORGOTTEN_KEPT 1024 /* sessions that are not resumed and are remembered as such */
#define RETRY_LATER_S  "10"

enum mcp_stream_kind {
    MCP_STREAM_SINGLE,   /* the response to one request of the latest revision */
    MCP_STREAM_POST,     /* the response to one legacy POST */
    MCP_STREAM_STANDING, /* a client's GET */
    MCP_STREAM_OLD,      /* a client's GET of /sse, which has its answers as well */
};

struct mcp_client;

struct mcp_stream {
    struct mcp_sink sink;
    enum mcp_stream_kind kind;
    struct mcp_endpoint *endpoint;
    struct mcp_client *client;   /* NULL: single stream */
    struct mcp_session *session; /* the client's; a single stream has its own */
    struct web_exchange *x;      /* NULL: no reader */
    TAILQ_ENTRY(mcp_stream) node;
    struct timeout timeout; /* heartbeat, or the end of the time that events are kept */
    bool taking;            /* inside mcp_session_take(): must not be destroyed */
    bool streaming;         /* the response has been begun */
    bool may_stream;        /* the client accepts event streams */
    bool only_stream;       /* … and nothing but event streams */
    bool opens;             /* carries the answer to initialize, with the session id */
    bool answered;
    bool cancelled;     /* … by nothing, and its client may ask for more */
    bool has_id;        /* the client has seen an event id, so it can resume */
    uint64_t number;    /* number within the client; 0: the standing stream */
    uint64_t events;    /* number of the latest event */
    uint64_t delivered; /* number of the latest event that a reader was given */
    struct event_log log;
};
TAILQ_HEAD(mcp_streams, mcp_stream);

/* A principal's share of the table of clients. */
struct mcp_share {
    LIST_ENTRY(mcp_share) node;
    struct principal *principal;
    size_t sessions;
};
LIST_HEAD(mcp_shares, mcp_share);

struct mcp_client {
    LIST_ENTRY(mcp_client) node; /* in its bucket */
    struct mcp_endpoint *endpoint;
    struct mcp_share *share;
    struct mcp_session *session; /* holds the principal; NULL: ended */
    bool null_id;                /* … and its errors had "id": null */
    char id[SESSION_NAME_CHARS + 1];
    char *told;   /* the signed id that the client has; NULL: it has `id`, or none yet */
    bool old;     /* by /sse */
    bool used;    /* for more than initialize; by /sse: at all */
    bool id_sent; /* by /sse: the client has `told` as the id of an event */
    enum result_form results; /* asked for by its URL */
    struct mcp_stream standing;
    struct mcp_streams streams; /* of requests, oldest first */
    size_t attached;            /* streams with a reader, including the standing one */
    size_t answered;            /* answered streams that are only kept */
    size_t kept_bytes;
    uint64_t numbers;    /* numbers given to streams so far */
    struct timeout idle; /* its list also keeps the order of last use */
};
LIST_HEAD(mcp_bucket, mcp_client);

struct mcp_admission;
LIST_HEAD(mcp_admissions, mcp_admission);

struct mcp_endpoint {
    struct mcp_endpoint_config config;
    struct mcp_bucket *buckets;
    size_t bucket_count; /* a power of two */
    size_t clients;
    struct mcp_shares shares; /* of the principals with sessions */
    size_t share_count;
    uint64_t warn_again_ms; /* when to log again that the table is full */
    struct mcp_streams singles;
    struct mcp_admissions admissions;
    size_t kept_bytes;
    uint64_t forgotten[FORGOTTEN_KEPT]; /* hashes of the latest sessions that are not resumed */
    size_t forgotten_count;
    bool key_failed; /* and that has been told */
    struct timeout_list heartbeat, resumable, kept, idle;
    unsigned open_handles;
    bool closing;
    void (*closed)(void *arg);
    void *closed_arg;
};

/* ---- endpoint.c ------------------------------------------------------------------------- */

/* Answers with a JSON-RPC error without id, or with a null id where the client's revision wants
 * that. `c` NULL: no client is known. */
void mcp_endpoint_refuse(struct web_exchange *x, const struct mcp_client *c, int status, int code,
                         const char *why);

/* The same with the id of the request, if it is known. */
void mcp_endpoint_refuse_id(struct web_exchange *x, const struct mcp_client *c, int status,
                            const char *id, int code, const char *why);

/* The media types that the Accept headers allow. */
struct mcp_accept {
    bool json, stream, any;
};
struct mcp_accept mcp_accept_read(const struct web_exchange *x);

/* Reads the form of results that ?results= asks for; RESULT_FORM_AUTO without it. False, and
 * answered, if there is no such form. */
bool mcp_endpoint_results(struct web_exchange *x, const struct mcp_client *c,
                          enum result_form *ret);

/* Returns the client that Mcp-Session-Id names; NULL: none. */
struct mcp_client *mcp_endpoint_named(struct mcp_endpoint *e, const struct web_exchange *x,
                                      const struct principal *p);

/* … and resumes its session if it is not open; answers the exchange if there is none. */
struct mcp_client *mcp_endpoint_client(struct mcp_endpoint *e, struct web_exchange *x,
                                       struct principal *p);

/* Checks MCP-Protocol-Version of a legacy request. False, and answered, if it is not a legacy
 * revision. */
bool mcp_endpoint_check_version(struct web_exchange *x, const struct mcp_client *c);

/* ---- post.c ----------------------------------------------------------------------------- */

/* POST /mcp */
void mcp_post(struct mcp_endpoint *e, struct web_exchange *x, struct principal *p);

/* Parses the body as JSON. False, and answered, if it is none. Fills all of `ret` but the sink. */
bool mcp_post_read(struct web_exchange *x, const struct mcp_client *c, struct mcp_incoming *ret);

/* ---- stream.c --------------------------------------------------------------------------- */

/* Creates a stream in its owner's list, with `x` as its reader. `client` NULL: single. */
struct mcp_stream *mcp_stream_create(struct mcp_endpoint *e, struct mcp_client *client,
                                     struct web_exchange *x);

/* Sets up the standing stream inside `c`, without a reader. */
void mcp_stream_init_standing(struct mcp_client *c);

/* Makes `x` the reader; the previous reader's exchange is ended. */
void mcp_stream_attach(struct mcp_stream *s, struct web_exchange *x);

/* Begins the response as an event stream, if that has not been done. */
void mcp_stream_begin(struct mcp_stream *s);

/* Sends the reader all kept events after `after`. If the answer is among them, the stream's
 * response ends. */
void mcp_stream_replay(struct mcp_stream *s, uint64_t after);

/* Gives the message to the session. The stream may be destroyed when this returns. */
void mcp_stream_take(struct mcp_stream *s, struct mcp_incoming *in);

/* Writes an event that is no message (old transport). */
void mcp_stream_write_event(struct mcp_stream *s, const char *name, const char *data);

/* Ends the reader's exchange: with this status and reason if the response has not begun. */
void mcp_stream_send_away(struct mcp_stream *s, int status, const char *why);

/* Not for a standing stream. Its reader must have been ended before. Also ends a single stream's
 * session. */
void mcp_stream_destroy(struct mcp_stream *s);

/* For timeout lists. */
void mcp_stream_on_heartbeat(void *owner);
void mcp_stream_on_resumable(void *owner);
void mcp_stream_on_kept(void *owner);

/* ---- keep.c ----------------------------------------------------------------------------- */

/* Keeps the latest event, if there is room. An answer may evict older streams' events. */
void mcp_stream_keep(struct mcp_stream *s, const char *json, bool is_answer);

/* Drops all kept events. */
void mcp_stream_forget(struct mcp_stream *s);

/* Destroys the oldest answered stream of the client; false if there is none. */
bool mcp_client_drop_answered(struct mcp_client *c);

/* ---- clients.c -------------------------------------------------------------------------- */

void mcp_clients_init(struct mcp_endpoint *e);
void mcp_clients_finish(struct mcp_endpoint *e);

/* Creates a client with a session of this name, whose results have this form. `agreed`: as in
 * mcp_session_create_named(). NULL if there is no room. No other client may have the name. */
struct mcp_client *mcp_client_add(struct mcp_endpoint *e, struct principal *p, const char *name,
                                  bool old, enum result_form results,
                                  const struct mcp_agreed *agreed);

/* Creates a client with a new session under a random name. NULL if there is no room, or no
 * randomness. */
struct mcp_client *mcp_client_create(struct mcp_endpoint *e, struct principal *p, bool old,
                                     enum result_form results);

/* Ends the session and its streams. */
void mcp_client_end(struct mcp_client *c, int status, const char *why);

/* The same for a client that disconnected or was evicted. */
void mcp_client_lose(struct mcp_client *c, int status, const char *why);

/* Also NULL if another principal owns the session. */
struct mcp_client *mcp_client_find(struct mcp_endpoint *e, const char *id, bool old,
                                   const struct principal *p);

/* Notes that the client was active now. */
void mcp_client_touch(struct mcp_client *c);

/* Ends all clients of a principal; NULL: of all. */
void mcp_clients_end(struct mcp_endpoint *e, const struct principal *p, int status,
                     const char *why);

size_t mcp_clients_open_requests(const struct mcp_endpoint *e);

void mcp_client_on_idle(void *owner); /* for timeout lists */

/* ---- resume.c --------------------------------------------------------------------------- */

/* Opens the session of a signed id again, under the same id. NULL if the id was not signed by a
 * server of this instance, is another principal's or of the other transport, was ended by its
 * client, or there is no room. The session must not be open. */
struct mcp_client *mcp_client_resume(struct mcp_endpoint *e, const char *id, bool old,
                                     struct principal *p);

/* Returns the id that the client is to use: a signed one once `initialize` has been answered.
 * Borrowed. */
const char *mcp_client_tell_id(struct mcp_client *c);

/* This server does not resume the session once it has ended. */
void mcp_client_forget(struct mcp_client *c);

/* ---- old_sse.c ------------------------------------------------------------------------------ */

void old_sse_get(struct mcp_endpoint *e, struct web_exchange *x, struct principal *p);
void old_sse_post(struct mcp_endpoint *e, struct web_exchange *x, struct principal *p);

#endif
