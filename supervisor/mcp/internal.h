/*
 * What the files of the protocol layer share: the structs behind the names of session.h and
 * request.h, and what one file calls of another.
 *
 * Ownership: a server owns sessions, a session its requests, a request its message. A session that
 * was ended lives until its last request has ended; a request may live on without a sink.
 *
 * Sinks may end sessions and requests from inside their callbacks: whoever calls one touches
 * nothing afterwards that it does not hold.
 */
#ifndef CLOISTER_SUPERVISOR_MCP_INTERNAL_H
#define CLOISTER_SUPERVISOR_MCP_INTERNAL_H

#include "common/buf.h"
#include "supervisor/base/principal.h"
#include "supervisor/base/result_form.h"
#include "supervisor/mcp/app.h"
#include "supervisor/mcp/progress.h"
#include "supervisor/mcp/request.h"
#include "supervisor/mcp/session.h"
#include "supervisor/mcp/wire/jsonrpc.h"
#include "supervisor/mcp/wire/revision.h"

#define MCP_META              "io.modelcontextprotocol/"
#define MCP_META_VERSION      MCP_META "protocolVersion"
#define MCP_META_CAPABILITIES MCP_META "clientCapabilities"
#define MCP_META_CLIENT_INFO  MCP_META "clientInfo"
#define MCP_META_SERVER_INFO  MCP_META "serverInfo"
#define MCP_META_LOG_LEVEL    MCP_META "logLevel"
#define MCP_EXTENSION_TASKS   MCP_META "tasks"

#define MCP_PAGE_ITEMS  100    /* of a list that the layer pages */
#define MCP_LIST_TTL_MS 300000 /* how long a list that never changes may be kept */

/* ---- server.c ------------------------------------------------------------------------------- */

struct mcp_tasks;
struct mcp_inputs;
struct mcp_subscriptions;

struct mcp_server {
    uv_loop_t *loop;
    const struct mcp_app *app;
    bool stopping;
    struct mcp_session *sessions;
    size_t kept;                /* bytes of requests that have not ended */
    char *info[REVISION_COUNT]; /* JSON of serverInfo, made when first asked for */
    char *signature;            /* the same of mcp_server_signature() */
    char *lists[MCP_LIST_COUNT][MCP_LIST_FORMS][REVISION_COUNT]; /* of lists that never change */
    uv_timer_t heartbeat;
    size_t watched; /* requests that want progress; the timer runs while there are any */
    /* Parts that have something of their own; each makes it in its …_open(). */
    struct mcp_tasks *tasks;
    struct mcp_inputs *inputs;
    struct mcp_subscriptions *subscriptions;
    /* Handles that are still to be closed: whoever has one counts itself in. */
    size_t holds;
    void (*closed)(void *arg);
    void *closed_arg;
};

/* A handle of yours is on the loop / is closed. The last release() of a server that is being closed
 * frees it. */
void mcp_server_hold(struct mcp_server *s);
void mcp_server_release(struct mcp_server *s);

/* serverInfo as that revision has it: JSON text, borrowed. */
const char *mcp_server_info(struct mcp_server *s, enum revision revision);

/* Of it what goes with every result: name and version. Likewise. */
const char *mcp_server_signature(struct mcp_server *s);

/* What the server can do, as that revision says it. */
cJSON *mcp_server_capabilities(const struct mcp_server *s, enum revision revision);

/* The request wants progress (or not any more): keeps the heartbeat going as long as needed. */
void mcp_watch(struct mcp_request *r);
void mcp_unwatch(struct mcp_request *r);

/* ---- session.c ------------------------------------------------------------------------------ */

#define MCP_LOG_NONE (-1)
#define CLIENT_SIZE  64

struct mcp_subscriber;

struct mcp_session {
    struct mcp_server *server;
    struct mcp_session *prev, *next; /* of the server */
    enum mcp_session_kind kind;
    struct principal *principal;
    void *data;              /* the application's */
    struct mcp_sink *stream; /* for what belongs to no request; NULL: nowhere */
    bool ended;              /* lives only for its requests; no sink is called */
    unsigned busy;           /* somebody up the stack is using it */

    /* Agreed on by `initialize`. */
    bool initialized;
    bool ready; /* notifications/initialized has come: it may be told what it did not ask for */
    enum revision revision;
    cJSON *capabilities;      /* of the client */
    char client[CLIENT_SIZE]; /* its name, as much as there is room for */

    enum result_form results; /* what its transport was told */

    struct mcp_request *requests; /* all that have not ended, latest first */
    size_t calls;                 /* those of them that count as calls in flight */
    struct mcp_batch *reading;    /* the batch that is being taken */

    /* Legacy: what logging/setLevel said, or MCP_LOG_NONE; what is subscribed to. They belong to
     * logging.c and subscriptions.c. */
    int log_level;
    struct mcp_subscriber *subscriber;
};

/* Sends a notification or request on the session's stream; takes the text. False: nobody got it. */
bool mcp_session_send(struct mcp_session *s, char *json);

/* From now on it calls no sink, and is freed when it is released without requests. */
void mcp_session_mute(struct mcp_session *s);

/* Keep it alive while it is worked with. */
void mcp_session_hold(struct mcp_session *s);
void mcp_session_release(struct mcp_session *s);

/* ---- request.c ------------------------------------------------------------------------------ */

/* Answers to the requests of one array, gathered until the last one is there. */
struct mcp_batch {
    struct mcp_sink *sink; /* NULL: gone */
    size_t open;           /* answers to come, and one for the array still being read */
    size_t count;
    struct buf text;
};

struct mcp_task;
struct mcp_round;
struct mcp_method;

struct mcp_request {
    struct mcp_session *session;     /* alive at least as long */
    struct mcp_request *prev, *next; /* of the session */
    struct mcp_sink *sink;           /* NULL: nobody waits for the answer any more */
    struct mcp_batch *batch;         /* the answer goes there, other messages to the sink */
    enum revision revision;
    char *id; /* JSON text */
    const struct mcp_method *method;
    const char *method_name;     /* also of one that there is not */
    const struct mcp_tool *tool; /* tools/call */
    cJSON *message;              /* what those below borrow from */
    const cJSON *params;         /* object or NULL */
    const cJSON *capabilities;   /* of the client, object or NULL */
    size_t bytes;                /* of its text */
    size_t kept;                 /* memory of the message, about; 0 without one */
    bool counted;                /* as a call in flight */
    bool cancelled;
    void (*on_cancel)(struct mcp_request *r);
    bool *gone; /* set when it is freed, for who is cancelling it; or NULL */
    void *data; /* the application's */
    struct progress progress;
    bool watched;
    int log_level;           /* modern: what the request itself says, or MCP_LOG_NONE */
    struct mcp_task *task;   /* it has become one (tasks.c): no sink; kept from others */
    struct mcp_task *awaits; /* tasks/result: whose end it waits for */
    struct mcp_round *round; /* input that came with it, or is waited for (input.c) */
};

/* Takes the message; what `m` borrows from it must be in there. `m` gives its id. */
struct mcp_request *mcp_request_create(struct mcp_session *s, struct mcp_sink *sink,
                                       struct mcp_batch *batch, enum revision revision,
                                       struct jsonrpc_message *m, cJSON *owned_message,
                                       size_t bytes);

/* It goes on without its message: params and what the client declared in them are gone. */
void mcp_request_lighten(struct mcp_request *r);

/* An answer of a batch, taken over. If it does not fit, an error of this id (JSON text, or NULL)
 * says so. */
void mcp_batch_add(struct mcp_batch *b, const char *id, char *json);

/* Called once for every answer that has come or will never come, and when the array has been read.
 * The last one sends and frees it. */
void mcp_batch_settle(struct mcp_batch *b);

/* The request of this id that is in flight and not cancelled, or NULL. Tasks are not found. */
struct mcp_request *mcp_request_find(const struct mcp_session *s, const char *id);

/* Ends the request with an error and this status for transports that have one. */
void mcp_refuse(struct mcp_request *r, enum mcp_status status, int code, const char *message,
                cJSON *owned_data);

/* Ends the request with an error. False, for who returns whether it goes on. */
bool mcp_fail(struct mcp_request *r, enum jsonrpc_code code, const char *message);

/* The same of params: "Invalid params: " and the problem. */
bool mcp_bad_params(struct mcp_request *r, const char *problem);

/* Ends a call of a tool with a failure that the model sees. */
void mcp_answer_failure(struct mcp_request *r, const char *text);

/* Ends the request with a result that is complete as it is: neither shaped nor sealed. */
void mcp_answer_as_is(struct mcp_request *r, cJSON *owned_result);

/* Sends this answer to the client, but does not end the request: it has no sink from now on, and
 * its id is free. */
void mcp_answer_early(struct mcp_request *r, cJSON *owned_result);

/* Sends a message that is no answer on the request's sink; takes the text. False: nobody got it. */
bool mcp_request_send(struct mcp_request *r, char *json);

/* Nobody wants its answer any more. It may have ended when this returns. A task is cancelled by its
 * own file, which calls this. */
void mcp_request_cancel(struct mcp_request *r);

/* Frees it without an answer: the server is closed. */
void mcp_request_drop(struct mcp_request *r);

/* ---- classify.c ----------------------------------------------------------------------------- */

/* Answers a request according to its era: the order of checks, then the method. */
void mcp_take_modern(struct mcp_request *r, const struct mcp_head *head);
void mcp_take_legacy(struct mcp_request *r);

/* Whether this message belongs to the latest revision. */
bool mcp_is_modern(const struct mcp_session *s, const struct jsonrpc_message *m,
                   const struct mcp_head *head);

/* ---- head.c --------------------------------------------------------------------------------- */

/* The checks of headers against the body; false: refused (-32020), and `r` has ended. */
bool mcp_head_check_version(struct mcp_request *r, const struct mcp_head *head);
bool mcp_head_check_method(struct mcp_request *r, const struct mcp_head *head);
bool mcp_head_check_params(struct mcp_request *r, const struct mcp_head *head);

/* ---- methods.c ------------------------------------------------------------------------------ */

struct mcp_method {
    const char *name;
    enum revision first, last; /* that have it */
    unsigned offers;           /* exists only if the application offers one of these; 0: always */
    bool early;                /* legacy: also before initialize */
    bool works;                /* counts as a call in flight, and begins nothing while stopping */
    bool bulky;                /* may carry content, and so be large */
    bool endless;              /* waits for nothing that ends by itself: a listener */
    const char *name_member;   /* of params, repeated in Mcp-Name; NULL: none */
    const char *needs;         /* capability that a modern client must have declared; NULL: none */
    /* Ends the request, at once or later. Called again when input has come. */
    void (*run)(struct mcp_request *r);
};

/* NULL if this revision has no such method, or the application does not offer it. */
const struct mcp_method *mcp_method_find(const struct mcp_server *s, enum revision revision,
                                         const char *name);

/* 0 "debug" … 7 "emergency"; MCP_LOG_NONE: there is no such level. */
int mcp_log_level(const char *name);

/* ---- lists.c -------------------------------------------------------------------------------- */

void mcp_list_method(struct mcp_request *r);

/* True if it asked for a list that is kept, and has been answered. */
bool mcp_list_answer_kept(struct mcp_request *r);

/* ---- shape.c -------------------------------------------------------------------------------- */

/* Takes away what the revision of the request does not know of a result of its method. */
void mcp_shape(const struct mcp_request *r, cJSON *result);

/* Items of a list, in place. */
void mcp_shape_items(enum revision revision, enum mcp_list list, cJSON *items);

/* A modern result has a type and says who answered; takes both away from older ones. */
void mcp_seal(struct mcp_server *s, enum revision revision, cJSON *result);

/* How long a result may be kept and by whom, unless it says so itself; modern only. */
void mcp_cacheable(enum revision revision, cJSON *result, bool by_all, double ttl_ms);

/* A string item that is printed as it is and not copied: `text` outlives it. */
cJSON *mcp_raw(const char *text);

/* ---- hooks: what the rest calls of tasks.c, input.c, subscriptions.c ------------------------- */

/* Each may make its part of the server, and gives it back: handles are closed under
 * mcp_server_hold(). close() comes when no request is there any more. */
void mcp_tasks_open(struct mcp_server *s);
void mcp_tasks_close(struct mcp_server *s);
void mcp_inputs_open(struct mcp_server *s);
void mcp_inputs_close(struct mcp_server *s);
void mcp_subscriptions_open(struct mcp_server *s);
void mcp_subscriptions_close(struct mcp_server *s);

/* It has another stream: what could not be told yet is told there. */
void mcp_subscriptions_stream(struct mcp_session *s);

/* mcp_server_stop(): listeners are answered. */
void mcp_subscriptions_stop(struct mcp_server *s);

/* The session was ended; its requests are cancelled after this. */
void mcp_subscriptions_end(struct mcp_session *s);
void mcp_inputs_end(struct mcp_session *s);

/* Before the handler of tools/call, with r->tool set: what params.task wants, and what the tool
 * does. False: the request has ended. */
bool mcp_task_begin(struct mcp_request *r);

/* A request that is a task came to its end: keeps the answer, which it takes. The request is freed
 * by the caller. */
void mcp_task_result(struct mcp_request *r, cJSON *owned_shaped_result);
void mcp_task_error(struct mcp_request *r, int code, const char *message, cJSON *owned_data);

/* The request that is this task is being dropped without an answer (the server is closed). */
void mcp_task_drop(struct mcp_request *r);

/* Before the handler of tools/call, prompts/get, resources/read of a modern client: takes
 * inputResponses and requestState. False: the request has ended (they were not ours). */
bool mcp_input_begin(struct mcp_request *r);

/* The request is ending: what it has in r->round. */
void mcp_input_finish(struct mcp_request *r);

/* A response of the client to something that we asked; borrowed. */
void mcp_input_response(struct mcp_session *s, const cJSON *message, bool has_nul);

#endif
