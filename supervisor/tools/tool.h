/*
 * The interface between a tool and the rest of the server.
 *
 * A call belongs to the MCP side, which embeds `struct tool_call` in its own struct. The tool's
 * run() starts it; exactly one tool_finish() or tool_fail() ends it, in run() or later. After that
 * the call may be freed.
 *
 * Thread: the loop thread. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_TOOLS_TOOL_H
#define CLOISTER_SUPERVISOR_TOOLS_TOOL_H

#include <cjson/cJSON.h>
#include <stdbool.h>

#include "common/buf.h"
#include "common/err.h"
#include "supervisor/fleet/fleet.h"
#include "supervisor/packages/packages.h"
#include "supervisor/results/result.h"

struct config;
struct languages;
struct links;
struct principal;
struct tool_call;

/* JSON as a C string, without a backslash before every quote. schema_text.c joins adjacent strings
 * and fills in @names@. */
#define JSON_TEXT(...) #__VA_ARGS__

struct tool {
    const char *name;
    const char *title;
    const char *description;   /* for models: precise, with units and defaults; may have @names@ */
    const char *input_schema;  /* JSON_TEXT */
    const char *output_schema; /* JSON_TEXT; failures are added to it by tools.c. NULL: the result
                                  is its content only, as other servers' tools have it */
    bool read_only;
    bool destructive;
    bool idempotent;
    bool open_world;   /* it reaches other systems */
    bool takes_long;   /* it may become a task */
    bool long_results; /* its texts may be longer than hosts accept by default */
    bool has_view;     /* its results are those of executions, which the view shows */
    void (*run)(struct tool_call *call);
};

/* The sandbox of calls that name none. */
enum tool_default {
    TOOL_DEFAULT_OWNER,   /* one for the owner; it outlives this server if sandboxes do */
    TOOL_DEFAULT_SESSION, /* one for this session; it ends with the session */
    TOOL_DEFAULT_FRESH,   /* a new one for each call; the result has its id */
};

/* What the calls of all sessions share. */
struct tool_services {
    struct packages *packages;
    const struct languages *languages;
    struct links *links; /* NULL without HTTP */
    /* for ports; the same with HTTP. NULL: they cannot be reached */
    struct links *port_links;
    /* Sees to it that somebody listens where they lead. NULL: that is so */
    int (*open_ports)(void *arg, struct err *err);
    void *ports_arg;
    uv_loop_t *loop;
};

/* State of the calls that share a default sandbox: those of one client session, or all of a
 * principal. */
struct tool_session {
    struct fleet *fleet;
    const struct config *config;
    const struct tool_services *services;
    const struct principal *principal;
    const char *owner; /* the principal's name */
    enum tool_default kind;
    /* TOOL_DEFAULT_SESSION: the session's name, by which the next server finds its sandbox; "" if
     * it has none. Borrowed. */
    const char *name;
    bool resumed; /* its client began it earlier, and may expect its sandbox */
    /* The first call that needs the default sandbox creates it; others wait. */
    char default_id[FLEET_ID_SIZE]; /* "" if there is none */
    char lost_id[FLEET_ID_SIZE];    /* the last one that has ended */
    bool default_opening;
    bool default_lost; /* a default sandbox has ended, and the client has not been told */
    /* the client disconnected without ending the session, and may come back */
    bool lost;
    struct tool_call *waiting;              /* first in, first out */
    uint64_t progress_seq;                  /* number of the latest progress message about it */
    void (*unused)(struct tool_session *s); /* called after tool_session_end() */
};

typedef void (*tool_ready_fn)(struct tool_call *call);
typedef void (*tool_file_fn)(struct tool_call *call, const struct fleet_outcome *outcome);

/* Whether the call may become a task, or is one. */
enum tool_task { TOOL_TASK_NO, TOOL_TASK_MAY, TOOL_TASK_IS };

struct tool_call {
    /* Set by the MCP side before run(). */
    struct tool_session *session;
    const cJSON *args; /* object that fits the tool's schema; NULL: none */
    void (*done)(struct tool_call *call, struct result *result); /* result is borrowed */
    /* Called any number of times before done(), by tool_tell(); NULL: the client wants no
     * progress. */
    void (*progress)(struct tool_call *call, const struct fleet_progress *progress);
    /* Sends a log message to the client; NULL: there is nobody. tool_log() calls it. */
    void (*log)(struct tool_call *call, const char *level, const char *text);
    /* The same for output of the code, as a fleet_output_fn. */
    bool (*output)(struct tool_call *call, const struct fleet_output *output);
    /* Turns a long call into a task; NULL: not this call. tool_is_task() calls it, and passes the
     * status. */
    enum tool_task (*task)(struct tool_call *call);
    void (*tell_task)(struct tool_call *call, const char *status);
    uint64_t begun_ms; /* clock_ms() */
    /* ---- set by tools ---- */
    char sandbox_id[FLEET_ID_SIZE];
    struct fleet_call *running; /* tool_cancel() stops it */
    char execution_id[FLEET_ID_SIZE];
    struct fleet_await *await; /* waits for this execution */
    struct packages_wait *package_wait;
    package_report_fn package_done; /* called when the installation has ended */
    /* tool_cancel() stops the execution; otherwise it only ends the wait */
    bool stops;
    bool cancelled;
    fleet_outcome_fn outcome; /* called when the execution has ended */
    tool_file_fn file_done;   /* called when the file operation has ended */
    bool in_fresh;            /* sandbox_id was opened for this call */
    const char *notice;       /* a string literal to show with the result, or NULL */
    struct result held;       /* a result that waits for something else */
    struct buf scratch;       /* bytes that the tool made */
    void *own;                /* the tool's own state, … */
    void (*own_free)(void *own);
    tool_ready_fn ready;
    struct tool_call *next_waiting;
    uint64_t told_seq; /* number of the latest one that this call was sent */
};

/* Everything is borrowed for the session's life. */
void tool_session_init(struct tool_session *s, struct fleet *fleet, const struct config *config,
                       const struct tool_services *services, const struct principal *principal,
                       enum tool_default kind);

/* The session has no calls any more. `unused` may free it. It is called at once, or after the fleet
 * has opened the default sandbox; until then tool_session_revive() can undo this. */
void tool_session_end(struct tool_session *s, void (*unused)(struct tool_session *s));
void tool_session_revive(struct tool_session *s);

/* fleet_open() within the limits of the session's principal. */
void tool_open(struct tool_session *s, const struct fleet_spec *spec, fleet_info_fn done,
               void *arg);

/* Ends the call with a result, and finishes the result. */
void tool_finish(struct tool_call *call, struct result *result);

/* Ends the call as failed. `hint` may be NULL. */
void tool_fail(struct tool_call *call, int code, const char *message, const char *hint);

/* The same with the arguments of a fleet callback. */
void tool_fail_fleet(struct tool_call *call, int rc, const struct err *err, const char *hint);

/* Reports progress to a client that wants it. A fleet_progress_fn whose argument is the call. */
void tool_tell(void *call, const struct fleet_progress *progress);

/* Sends a log message of a level of MCP to a client that gets them. The text is valid UTF-8. */
void tool_log(struct tool_call *call, const char *level, const char *text);

/* Stops a call whose answer is no longer wanted; it still ends as every call does. */
void tool_cancel(struct tool_call *call);

/* Finds the sandbox that the arguments name, or the session's default one, stores its id in
 * call->sandbox_id and calls ready(). If there is none, the call fails. */
void tool_with_sandbox(struct tool_call *call, tool_ready_fn ready);

/* The same for tools that only take something out of it: no default sandbox is created. */
void tool_with_sandbox_there(struct tool_call *call, tool_ready_fn ready);

/* Runs an operation in call->sandbox_id. `done` gets the call as its argument, and must first call
 * tool_ran(), or tool_op_over(). */
void tool_run_op(struct tool_call *call, const struct fleet_op *op, fleet_outcome_fn done);

/* Whether the call is a task; a call that may become one becomes one here. `status` says what it is
 * doing. */
bool tool_is_task(struct tool_call *call, const char *status);

/* How much is left of the time that a call may wait. */
uint64_t tool_budget_left_ms(const struct tool_call *call);

/* The same for a call that has started code: at least a moment, even if it was slow to start. */
uint64_t tool_wait_ms(const struct tool_call *call);

/* Waits for call->execution_id, at most wait_ms; `done` as in tool_run_op(). */
void tool_await(struct tool_call *call, uint64_t wait_ms, fleet_outcome_fn done);

/* Runs a file operation in call->sandbox_id. `done` is called on success only; otherwise the call
 * fails. */
void tool_run_file_op(struct tool_call *call, const struct fleet_op *op, tool_file_fn done);

/* Tells the session that a sandbox ended under its code: if it was the default one, the next call
 * creates another. */
void tool_sandbox_ended(struct tool_session *s, const char *sandbox);

/* True if the operation has an outcome; otherwise the call has failed. */
bool tool_ran(struct tool_call *call, int rc, const struct err *err, const char *hint);

/* Notes that the operation is over. For calls that have something to do before they may fail. */
void tool_op_over(struct tool_call *call, int rc);

/* Adds a link to a file of call->sandbox_id, if a URI can name it; over HTTP also as `url` of the
 * structured result. */
void tool_add_file_link(const struct tool_call *call, struct result *r, const char *path,
                        const char *mime_type, uint64_t size);

/* Frees what tools stored in the call. */
void tool_call_finish(struct tool_call *call);

/* One per file in this directory. */
extern const struct tool tool_cancel_execution;
extern const struct tool tool_check_package_status;
extern const struct tool tool_close_sandbox;
extern const struct tool tool_create_run_close;
extern const struct tool tool_create_sandbox;
extern const struct tool tool_execute_code;
extern const struct tool tool_expose_port;
extern const struct tool tool_get_execution;
extern const struct tool tool_get_sandbox_status;
extern const struct tool tool_install_package;
extern const struct tool tool_list_files;
extern const struct tool tool_read_file;
extern const struct tool tool_upload_file;
extern const struct tool tool_save_file;
extern const struct tool tool_write_file;
extern const struct tool tool_write_stdin;

#endif
