/*
 * Structs and functions that the files of the protocol layer share. session.h and request.h declare
 * some of the structs without their members.
 *
 * Ownership: a server owns sessions, a session its requests, a request its message. An ended
 * session lives until its last request has ended; a request may go on without a sink.
 *
 * A sink may end sessions and requests inside its callbacks. After calling one, code may use only
 * objects that it holds.
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
#include "supervisor/mcp/wire/capabilities.h"
#include "supervisor/mcp/wire/jsonrpc.h"
#include "supervisor/mcp/wire/revision.h"

#define MCP_META              "io.modelcontextprotocol/"
#define MCP_META_VERSION      MCP_META "protocolVersion"
#define MCP_META_CAPABILITIES MCP_META "clientCapabilities"
#define MCP_META_CLIENT_INFO  MCP_META "clientInfo"
#define MCP_META_SERVER_INFO  MCP_META "serverInfo"
#define MCP_META_LOG_LEVEL    MCP_META "logLevel"

#define MCP_PAGE_ITEMS  100    /* of a list that the layer divides into pages */
#define MCP_LIST_TTL_MS 300000 /* how long clients may cache a list that never changes */

/* ---- server.c ------------------------------------------------------------------------------- */

struct mcp_tasks;
struct mcp_inputs;
struct mcp_subscriptions;

struct mcp_server {
    uv_loop_t *loop;
    const struct mcp_app *app;
    bool stopping;
    struct mcp_session *sessions;
    size_t kept;                /* bytes of unfinished requests */
    char *info[REVISION_COUNT]; /* serverInfo as JSON, made when first needed */
    char *signature;            /* mcp_server_signature(), likewise */
    /* cached lists that never change */
    char *lists[MCP_LIST_COUNT][MCP_LIST_FORMS][REVISION_COUNT];
    uv_timer_t heartbeat;
    size_t watched; /* requests that want progress; if there are any, the timer runs */
    /* Data of other files; each creates it in its …_open(). */
    struct mcp_tasks *tasks;
    struct mcp_inputs *inputs;
    struct mcp_subscriptions *subscriptions;
    /* handles of all files that are not closed yet */
    size_t holds;
    void (*closed)(void *arg);
    void *closed_arg;
};

/* Count a handle that was put on the loop, or that was closed. When the server is being closed, the
 * last release() frees it. */
void mcp_server_hold(struct mcp_server *s);
void mcp_server_release(struct mcp_server *s);

/* serverInfo in the shape of that revision: JSON text, borrowed. */
const char *mcp_server_info(struct mcp_server *s, enum revision revision);

/* The part of it that goes with every result: name and version. Borrowed. */
const char *mcp_server_signature(struct mcp_server *s);

/* The server's capabilities in the shape of that revision. */
cJSON *mcp_server_capabilities(const struct mcp_request *r);

/* Start and stop the repetition of progress for a request; the heartbeat runs as long as needed. */
void mcp_watch(struct mcp_request *r);
void mcp_unwatch(struct mcp_request *r);

/* ---- session.c ------------------------------------------------------------------------------ */

#define MCP_LOG_NONE (-1)
#define CLIENT_SIZE  64

struct mcp_subscriber;

struct mcp_session {
    struct mcp_server *server;
    struct mcp_session *prev, *next; /* list of the server */
    enum mcp_session_kind kind;
    struct principal *principal;
    void *data;              /* the application's */
    struct mcp_sink *stream; /* for messages that belong to no request; NULL: none */
    char *name;              /* "" if it has none */
    bool ended;              /* waits only for its requests; no sink is called */
    unsigned busy;           /* number of holds by callers further up the stack */

    /* ---- set by `initialize` ---- */
    bool initialized;
    bool ready; /* notifications/initialized has arrived: unrequested messages are allowed */
    enum revision revision;
    unsigned negotiation; /* how often it has been initialized again */
    struct mcp_client_capabilities capabilities;
    char client[CLIENT_SIZE]; /* the client's name, cut to fit */

    enum result_form results; /* the form that the transport set */

    struct mcp_request *requests; /* unfinished requests, latest first */
    size_t calls;                 /* calls in flight among them */
    struct mcp_batch *reading;    /* the batch that is being read */

    /* Legacy: the level of logging/setLevel, or MCP_LOG_NONE, and the subscriptions. Owned by
     * logging.c and subscriptions.c. */
    int log_level;
    struct mcp_subscriber *subscriber;
};

/* Sends a notification or request on the session's stream; takes ownership of the text. False:
 * there was no reader. */
bool mcp_session_send(struct mcp_session *s, char *json);

/* From now on the session calls no sink; it is freed when it has neither holds nor requests. */
void mcp_session_mute(struct mcp_session *s);

/* A client that has the pipe from now on initializes it once more, with this request. What its
 * predecessor has agreed on ends: subscriptions, the level of logs, questions. Requests in flight
 * go on, but those that wait for its answers are given up, and one with the same id is disowned. */
void mcp_session_begin_again(struct mcp_request *initialize);

/* Keep a session alive while it is in use. */
void mcp_session_hold(struct mcp_session *s);
void mcp_session_release(struct mcp_session *s);

/* ---- request.c ------------------------------------------------------------------------------ */

/* The answers to the requests of one batch, collected until the last one is there. */
struct mcp_batch {
    struct mcp_sink *sink; /* NULL: gone */
    size_t open;           /* missing answers, and one for the array while it is being read */
    size_t count;
    struct buf text;
};

struct mcp_task;
struct mcp_round;
struct mcp_method;

struct mcp_request {
    struct mcp_session *session;     /* outlives the request */
    struct mcp_request *prev, *next; /* list of the session */
    struct mcp_sink *sink;           /* NULL: the answer goes nowhere */
    struct mcp_batch *batch;         /* collects the answer; other messages go to the sink */
    enum revision revision;
    unsigned negotiation; /* the session's, when the request came */
    char *id;             /* as JSON text */
    const struct mcp_method *method;
    const char *method_name;     /* kept for unknown methods, too */
    const struct mcp_tool *tool; /* of a tools/call */
    cJSON *message;              /* owns the values below */
    const cJSON *params;         /* object or NULL */
    size_t bytes;                /* size of the request's text */
    size_t kept;                 /* approximate memory of the message; 0 without one */
    bool counted;                /* it counts as a call in flight */
    bool cancelled;
    bool disowned; /* nobody waits for its answer */
    void (*on_cancel)(struct mcp_request *r);
    bool *gone; /* set to true when the request is freed, for code that is cancelling it; or NULL */
    void *data; /* the application's */
    struct progress progress;
    bool watched;
    /* modern: what the request itself declares; mcp_request_capabilities() knows of both eras */
    struct mcp_client_capabilities own_capabilities;
    int log_level; /* modern: the level in the request itself, or MCP_LOG_NONE */
    /* the request has become this task (tasks.c): no sink; not found by id */
    struct mcp_task *task;
    struct mcp_task *awaits; /* tasks/result: the task whose end it waits for */
    struct mcp_round *round; /* input that came with it or is awaited (input.c) */
};

/* Takes ownership of the message; everything that `m` borrows must be in it. The id moves out of
 * `m`. */
struct mcp_request *mcp_request_create(struct mcp_session *s, struct mcp_sink *sink,
                                       struct mcp_batch *batch, enum revision revision,
                                       struct jsonrpc_message *m, cJSON *owned_message,
                                       size_t bytes);

/* What the client of this request can do. */
const struct mcp_client_capabilities *mcp_request_capabilities(const struct mcp_request *r);

/* Frees the message of a request that goes on without it; its params are gone then. */
void mcp_request_lighten(struct mcp_request *r);

/* Adds an answer to a batch, and takes ownership of it. If it does not fit, an error with this id
 * (JSON text, or NULL) is added instead. */
void mcp_batch_add(struct mcp_batch *b, const char *id, char *json);

/* Called once for each answer that was added or will never come, and once when the array has been
 * read. The last call sends the batch and frees it. */
void mcp_batch_settle(struct mcp_batch *b);

/* Returns the uncancelled request in flight with this id, or NULL. Tasks are not found. */
struct mcp_request *mcp_request_find(const struct mcp_session *s, const char *id);

/* Nobody waits for this request's answer any more; it goes on, and counts as work. A batch that
 * waited for it alone is sent. */
void mcp_request_disown(struct mcp_request *r);

/* Ends the request with an error, and with this status for transports that have one. */
void mcp_refuse(struct mcp_request *r, enum mcp_status status, int code, const char *message,
                cJSON *owned_data);

/* Ends the request with an error. Returns false, which callers return as "the request has
 * ended". */
bool mcp_fail(struct mcp_request *r, enum jsonrpc_code code, const char *message);

/* The same for wrong params: "Invalid params: " and the problem. */
bool mcp_bad_params(struct mcp_request *r, const char *problem);

/* Ends a tool call with a failure that the model sees. */
void mcp_answer_failure(struct mcp_request *r, const char *text);

/* Ends the request with a complete result: it is neither shaped nor sealed. */
void mcp_answer_as_is(struct mcp_request *r, cJSON *owned_result);

/* Sends this answer to the client, but does not end the request: from now on it has no sink, and
 * its id is free. */
void mcp_answer_early(struct mcp_request *r, cJSON *owned_result);

/* Sends a message that is no answer on the request's sink; takes ownership of the text. False:
 * there was no reader. */
bool mcp_request_send(struct mcp_request *r, char *json);

/* Cancels the request; it may have ended when this returns. A task is cancelled by tasks.c, which
 * calls this. */
void mcp_request_cancel(struct mcp_request *r);

/* Frees the request without an answer, when the server is closed. */
void mcp_request_drop(struct mcp_request *r);

/* ---- classify.c ----------------------------------------------------------------------------- */

/* Checks a request in the order of its era, then runs its method. */
void mcp_take_modern(struct mcp_request *r, const struct mcp_head *head);
void mcp_take_legacy(struct mcp_request *r);

/* Whether this message belongs to the latest revision. */
bool mcp_is_modern(const struct mcp_session *s, const struct jsonrpc_message *m,
                   const struct mcp_head *head);

/* ---- head.c --------------------------------------------------------------------------------- */

/* Check headers against the body. False: refused (-32020), and `r` has ended. */
bool mcp_head_check_version(struct mcp_request *r, const struct mcp_head *head);
bool mcp_head_check_method(struct mcp_request *r, const struct mcp_head *head);
bool mcp_head_check_params(struct mcp_request *r, const struct mcp_head *head);

/* ---- methods.c ------------------------------------------------------------------------------ */

struct mcp_method {
    const char *name;
    enum revision first, last; /* revisions that have it */
    /* it exists only if the application offers one of these; 0: always */
    unsigned offers;
    bool early; /* legacy: allowed before initialize */
    /* it counts as a call in flight, and is refused while the server stops */
    bool works;
    bool bulky;              /* it may carry content, so it may be large */
    bool endless;            /* it ends only when the server or client ends it: a listener */
    const char *name_member; /* member of params that Mcp-Name repeats; NULL: none */
    const char *needs;       /* capability that a modern client must have declared; NULL: none */
    /* Ends the request, at once or later. Called again when input has arrived. */
    void (*run)(struct mcp_request *r);
};

/* NULL if this revision has no such method, or the application does not offer it. */
const struct mcp_method *mcp_method_find(const struct mcp_server *s, enum revision revision,
                                         const char *name);

/* 0 "debug" … 7 "emergency"; MCP_LOG_NONE: unknown level. */
int mcp_log_level(const char *name);

/* ---- lists.c -------------------------------------------------------------------------------- */

void mcp_list_method(struct mcp_request *r);

/* Answers a request for a cached list. False if the list is not cached. */
bool mcp_list_answer_kept(struct mcp_request *r);

/* ---- shape.c -------------------------------------------------------------------------------- */

/* Removes from a result what the revision of the request does not know. */
void mcp_shape(const struct mcp_request *r, cJSON *result);

/* The same for the items of a list, in place. */
void mcp_shape_items(enum revision revision, enum mcp_list list, cJSON *items);

/* Adds type and server to a modern result; removes both from an older one. */
void mcp_seal(struct mcp_server *s, enum revision revision, cJSON *result);

/* Sets for how long a modern result may be cached and by whom, unless the result says so
 * already. */
void mcp_cacheable(enum revision revision, cJSON *result, bool by_all, double ttl_ms);

/* A string item that is printed without a copy; `text` must outlive it. */
cJSON *mcp_raw(const char *text);

/* ---- hooks: called in tasks.c, input.c and subscriptions.c ----------------------------------- */

/* Each creates and closes a file's part of the server; its handles are counted by
 * mcp_server_hold(). close() is called when no request is left. */
void mcp_tasks_open(struct mcp_server *s);
void mcp_tasks_close(struct mcp_server *s);
void mcp_inputs_open(struct mcp_server *s);
void mcp_inputs_close(struct mcp_server *s);
void mcp_subscriptions_open(struct mcp_server *s);
void mcp_subscriptions_close(struct mcp_server *s);

/* The session has a new stream: pending notifications can be sent there. */
void mcp_subscriptions_stream(struct mcp_session *s);

/* Ends all listeners, in mcp_server_stop(). */
void mcp_subscriptions_stop(struct mcp_server *s);

/* The session was ended. Its requests are cancelled after this. */
void mcp_subscriptions_end(struct mcp_session *s);
void mcp_inputs_end(struct mcp_session *s);

/* The session has a new client: gives up the requests that wait for answers of the old one. A task
 * goes on, and asks whoever waits for its result next. */
void mcp_inputs_begin_again(struct mcp_session *s);

/* Called before the handler of tools/call, with r->tool set: checks params.task against what the
 * tool supports. False: the request has ended. */
bool mcp_task_begin(struct mcp_request *r);

/* Stores the answer of a request that is a task, and takes ownership of it. The caller frees the
 * request. */
void mcp_task_result(struct mcp_request *r, cJSON *owned_shaped_result);
void mcp_task_error(struct mcp_request *r, int code, const char *message, cJSON *owned_data);

/* The request of this task is dropped without an answer, because the server is closed. */
void mcp_task_drop(struct mcp_request *r);

/* Called before the handler of tools/call, prompts/get and resources/read of a modern client: takes
 * inputResponses and requestState. False: the request has ended, because they were invalid. */
bool mcp_input_begin(struct mcp_request *r);

/* Frees the input of a request that is ending. */
void mcp_input_finish(struct mcp_request *r);

/* Handles a client's response to one of our requests; borrowed. */
void mcp_input_response(struct mcp_session *s, const cJSON *message, bool has_nul);

#endif
