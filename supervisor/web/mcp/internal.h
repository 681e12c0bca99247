/*
 * What the files of the endpoint share.
 *
 * A client is one legacy client with its session: it has a name (the session id), one standing
 * stream for what nobody asked for, and a stream for each request of its that is in flight or whose
 * events are kept. A request of the latest revision is a stream alone, with a session of its own.
 *
 * Ownership: the endpoint owns clients and single streams, a client its streams. An exchange is
 * ended by whoever takes it from a stream.
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

#define CLIENT_ID_CHARS 26 /* of 5 random bits each */

#define STREAM_BEHIND  (256u << 10) /* queued bytes above which a reader gets only answers */
#define STREAM_QUEUE   (8u << 20)   /* … above which a stream of many answers is closed */
#define STANDING_BYTES (16u << 10)  /* kept of a standing stream: some 100 notifications */
#define STREAM_KEPT    (64u << 10)  /* kept notifications of a request in flight */
#define CLIENT_KEPT    (2u << 20)   /* kept for one client, all streams together */
#define ENDPOINT_KEPT  (64u << 20)  /* kept for all */
#define STREAMS_KEPT   64           /* of one client, whose request has been answered */
#define KEEP_MS        300000       /* how long events of a request wait for a client to resume */
#define RETRY_MS       1000         /* what we tell clients to wait before they come back */
#define RESUMABLE_MS   1000  /* a request that takes longer gets a stream that can be resumed */
#define EVICT_USED_MS  10000 /* a session that was used must be idle for so long to make room */
#define EVICT_IDLE_MS  60000 /* … and another principal's for so long */
#define OLD_IN_FLIGHT                                                                              \
    64 /* requests of a client of the old transport, which come without their reader */
#define WARN_EVERY_MS 60000
#define RETRY_LATER_S "10"

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
    struct mcp_client *client;   /* NULL: single */
    struct mcp_session *session; /* of the client; a single stream has its own */
    struct web_exchange *x;      /* NULL: the reader has gone, or was never there */
    TAILQ_ENTRY(mcp_stream) node;
    struct timeout timeout; /* heartbeat, or for how long its events are kept */
    bool taking;            /* inside mcp_session_take(): must not go */
    bool streaming;         /* the response has been begun */
    bool may_stream;        /* the client can read one */
    bool only_stream;       /* … and nothing else */
    bool opens;             /* carries the answer to initialize: gets the session id */
    bool answered;
    bool has_id;        /* the client has seen an event id: it can resume */
    uint64_t number;    /* within the client; 0 is the standing one */
    uint64_t events;    /* number of the latest event */
    uint64_t delivered; /* of the latest one that was given to a reader */
    struct event_log log;
};
TAILQ_HEAD(mcp_streams, mcp_stream);

/* What one principal has of the table of clients. */
struct mcp_share {
    LIST_ENTRY(mcp_share) node;
    struct principal *principal;
    size_t sessions;
};
LIST_HEAD(mcp_shares, mcp_share);

struct mcp_client {
    LIST_ENTRY(mcp_client) node; /* of its bucket */
    struct mcp_endpoint *endpoint;
    struct mcp_share *share;
    struct mcp_session *session; /* holds the principal; NULL: it has ended */
    bool null_id;                /* … and this is what its errors without id had */
    char id[CLIENT_ID_CHARS + 1];
    bool old;  /* came by /sse */
    bool used; /* for more than initialize */
    struct mcp_stream standing;
    struct mcp_streams streams; /* of requests, oldest first */
    size_t attached;            /* streams with a reader, the standing one included */
    size_t answered;            /* streams that are only kept */
    size_t kept_bytes;
    uint64_t numbers;    /* given to streams */
    struct timeout idle; /* also the order in which clients were last heard of */
};
LIST_HEAD(mcp_bucket, mcp_client);

struct mcp_admission;
LIST_HEAD(mcp_admissions, mcp_admission);

struct mcp_endpoint {
    struct mcp_endpoint_config config;
    struct mcp_bucket *buckets;
    size_t bucket_count; /* a power of two */
    size_t clients;
    struct mcp_shares shares; /* of those who have any */
    size_t share_count;
    uint64_t warn_again_ms; /* that there is no room */
    struct mcp_streams singles;
    struct mcp_admissions admissions;
    size_t kept_bytes;
    struct timeout_list heartbeat, resumable, kept, idle;
    unsigned open_handles;
    bool closing;
    void (*closed)(void *arg);
    void *closed_arg;
};

/* ---- endpoint.c ------------------------------------------------------------------------- */

/* Answers with a JSON-RPC error without id; with null for it where the client's revision wants
 * that. `c` NULL: it is nobody's yet. */
void mcp_endpoint_refuse(struct web_exchange *x, const struct mcp_client *c, int status, int code,
                         const char *why);

/* What the request says it can read, by its Accept headers. */
struct mcp_accept {
    bool json, stream, any;
};
struct mcp_accept mcp_accept_read(const struct web_exchange *x);

/* The form of results that ?results= asks for, RESULT_FORM_AUTO without it. False, and answered, if
 * there is no such form. */
bool mcp_endpoint_results(struct web_exchange *x, const struct mcp_client *c,
                          enum result_form *ret);

/* The client that this request names by Mcp-Session-Id; NULL: none. */
struct mcp_client *mcp_endpoint_named(struct mcp_endpoint *e, const struct web_exchange *x,
                                      const struct principal *p);

/* … and if there is none, that is answered. */
struct mcp_client *mcp_endpoint_client(struct mcp_endpoint *e, struct web_exchange *x,
                                       const struct principal *p);

/* Checks MCP-Protocol-Version of a legacy request: false, and answered, if it is none of ours. */
bool mcp_endpoint_check_version(struct web_exchange *x, const struct mcp_client *c);

/* ---- post.c ----------------------------------------------------------------------------- */

/* POST /mcp */
void mcp_post(struct mcp_endpoint *e, struct web_exchange *x, struct principal *p);

/* The body as JSON: false, and answered, if it is none. `ret` gets everything but the sink. */
bool mcp_post_read(struct web_exchange *x, const struct mcp_client *c, struct mcp_incoming *ret);

/* ---- stream.c --------------------------------------------------------------------------- */

/* `client` NULL: single. With a reader from the beginning, and in the list of its owner. */
struct mcp_stream *mcp_stream_create(struct mcp_endpoint *e, struct mcp_client *client,
                                     struct web_exchange *x);

/* In the memory of its client, without a reader. */
void mcp_stream_init_standing(struct mcp_client *c);

/* This is its reader now; one that it had is sent away. */
void mcp_stream_attach(struct mcp_stream *s, struct web_exchange *x);

/* Begins the response as an event stream, if that has not been done. */
void mcp_stream_begin(struct mcp_stream *s);

/* Gives the reader what is kept after this event. A stream whose answer is among it ends. */
void mcp_stream_replay(struct mcp_stream *s, uint64_t after);

/* Gives the message to the session. Afterwards the stream may be gone. */
void mcp_stream_take(struct mcp_stream *s, struct mcp_incoming *in);

/* Writes an event that is no message (of the old transport). */
void mcp_stream_write_event(struct mcp_stream *s, const char *name, const char *data);

/* Its reader gets this status and reason if the response has not been begun, else the end. */
void mcp_stream_send_away(struct mcp_stream *s, int status, const char *why);

/* Not of a standing one; its reader must have been sent away. A single one ends its session. */
void mcp_stream_destroy(struct mcp_stream *s);

/* For timeout lists. */
void mcp_stream_on_heartbeat(void *owner);
void mcp_stream_on_resumable(void *owner);
void mcp_stream_on_kept(void *owner);

/* ---- keep.c ----------------------------------------------------------------------------- */

/* Keeps the latest event, unless there is no room for it. For an answer others may have to go. */
void mcp_stream_keep(struct mcp_stream *s, const char *json, bool is_answer);

/* Forgets what is kept. */
void mcp_stream_forget(struct mcp_stream *s);

/* The oldest stream that is only kept makes room; false if there is none. */
bool mcp_client_drop_answered(struct mcp_client *c);

/* ---- clients.c -------------------------------------------------------------------------- */

void mcp_clients_init(struct mcp_endpoint *e);
void mcp_clients_finish(struct mcp_endpoint *e);

/* A new one with a session, which gets results in this form; NULL if there is no room, or no
 * randomness. */
struct mcp_client *mcp_client_create(struct mcp_endpoint *e, struct principal *p, bool old,
                                     enum result_form results);

/* Ends the session and everything of it. */
void mcp_client_end(struct mcp_client *c, int status, const char *why);

/* The same, of a client that went without a word, or had to make room. */
void mcp_client_lose(struct mcp_client *c, int status, const char *why);

/* NULL also if it is another principal's. */
struct mcp_client *mcp_client_find(struct mcp_endpoint *e, const char *id, bool old,
                                   const struct principal *p);

/* It was heard of. */
void mcp_client_touch(struct mcp_client *c);

/* Ends those of a principal; NULL: all. */
void mcp_clients_end(struct mcp_endpoint *e, const struct principal *p, int status,
                     const char *why);

size_t mcp_clients_open_requests(const struct mcp_endpoint *e);

void mcp_client_on_idle(void *owner); /* for timeout lists */

/* ---- old_sse.c ------------------------------------------------------------------------------ */

void old_sse_get(struct mcp_endpoint *e, struct web_exchange *x, struct principal *p);
void old_sse_post(struct mcp_endpoint *e, struct web_exchange *x, struct principal *p);

#endif
