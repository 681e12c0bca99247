/*
 * What a tool is to the rest of the server, and what the rest of the server is to a tool.
 *
 * A call belongs to the MCP side, which embeds `struct tool_call` in its own. The tool's run()
 * starts it; exactly one tool_finish() or tool_fail() ends it, in run() or later. After that the
 * call may be gone.
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

/* JSON as a C string without a backslash in front of every quote. Adjacent strings in it are
 * joined and @names@ are filled in by schema_text.c. */
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
    bool open_world;   /* it reaches what is not ours */
    bool takes_long;   /* it may be a task */
    bool long_results; /* its texts may be longer than hosts take by themselves */
    void (*run)(struct tool_call *call);
};

/* The sandbox of calls that name none. */
enum tool_default {
    TOOL_DEFAULT_OWNER,   /* its owner's one, which outlives this server if any does */
    TOOL_DEFAULT_SESSION, /* one of this session's, which ends with it */
    TOOL_DEFAULT_FRESH,   /* a new one for each call, whose id is told with the result */
};

/* What the calls of all sessions share. */
struct tool_services {
    struct packages *packages;
    const struct languages *languages;
    struct links *links; /* NULL without HTTP */
    uv_loop_t *loop;
};

/* What calls share that share a default sandbox: those of one client session, or all of a
 * principal's. */
struct tool_session {
    struct fleet *fleet;
    const struct config *config;
    const struct tool_services *services;
    const struct principal *principal;
    const char *owner; /* its name */
    enum tool_default kind;
    /* The default sandbox: created by the first call that needs it, others wait for it. */
    char default_id[FLEET_ID_SIZE]; /* "" if there is none */
    char lost_id[FLEET_ID_SIZE];    /* the last one that ended */
    bool default_opening;
    bool default_lost;         /* there was one, it ended, and the client has not been told */
    bool lost;                 /* its client went without a word, and may come back as another */
    struct tool_call *waiting; /* first come, first served */
    uint64_t news;             /* of the progress with it, told so far */
    void (*unused)(struct tool_session *s); /* after tool_session_end() */
};

typedef void (*tool_ready_fn)(struct tool_call *call);
typedef void (*tool_file_fn)(struct tool_call *call, const struct fleet_outcome *outcome);

/* Whether the client waits for an answer (and could take a task instead), or has got a task. */
enum tool_task { TOOL_TASK_NO, TOOL_TASK_MAY, TOOL_TASK_IS };

struct tool_call {
    /* Set by the MCP side before run(). */
    struct tool_session *session;
    const cJSON *args; /* object, fits the tool's schema; NULL if none were given */
    void (*done)(struct tool_call *call, struct result *result); /* result is borrowed */
    /* Any number of times before done(), through tool_tell(); NULL: nobody wants to know. */
    void (*progress)(struct tool_call *call, const struct fleet_progress *progress);
    /* The same for what its code writes; as fleet_output_fn. */
    bool (*output)(struct tool_call *call, const struct fleet_output *output);
    /* Calls that take long as tasks; NULL: not this one. tell_task() makes it one, if it is none
     * yet and there is room, and says what it is busy with. */
    enum tool_task (*task)(struct tool_call *call);
    void (*tell_task)(struct tool_call *call, const char *status);
    uint64_t begun_ms; /* clock_ms() */
    /* Of the tools. */
    char sandbox_id[FLEET_ID_SIZE];
    struct fleet_call *running; /* what tool_cancel() stops */
    char execution_id[FLEET_ID_SIZE];
    struct fleet_await *await; /* for this execution */
    struct packages_wait *package_wait;
    package_report_fn package_done; /* where the wait for the installation leads */
    bool stops;                     /* tool_cancel() stops it; otherwise it ends the wait */
    bool cancelled;
    fleet_outcome_fn outcome; /* where the wait for the execution leads */
    tool_file_fn file_done;   /* where the file operation leads */
    bool in_fresh;            /* sandbox_id is of a sandbox made for this call */
    const char *notice;       /* literal for the client to see with the result, or NULL */
    struct result held;       /* a result kept while something else is awaited */
    struct buf scratch;       /* bytes of the tool's own making */
    void *own;                /* whatever else a tool needs, … */
    void (*own_free)(void *own);
    tool_ready_fn ready;
    struct tool_call *next_waiting;
    uint64_t news; /* the latest that it was told */
};

/* Everything is borrowed for its life. */
void tool_session_init(struct tool_session *s, struct fleet *fleet, const struct config *config,
                       const struct tool_services *services, const struct principal *principal,
                       enum tool_default kind);

/* The session has no calls any more. `unused` may free it: at once, or when the fleet is through
 * with the default sandbox that it has been asked for. Until then it can be taken back. */
void tool_session_end(struct tool_session *s, void (*unused)(struct tool_session *s));
void tool_session_revive(struct tool_session *s);

/* fleet_open() within what the session's principal may have. */
void tool_open(struct tool_session *s, const struct fleet_spec *spec, fleet_info_fn done,
               void *arg);

/* Ends the call with a result, which is finished afterwards. */
void tool_finish(struct tool_call *call, struct result *result);

/* Ends the call as failed. `hint` may be NULL. */
void tool_fail(struct tool_call *call, int code, const char *message, const char *hint);

/* As tool_fail, with what a fleet callback was given. */
void tool_fail_fleet(struct tool_call *call, int rc, const struct err *err, const char *hint);

/* Tells the client what its call is busy with, if it wants to know. A fleet_progress_fn whose
 * argument is the call. */
void tool_tell(void *call, const struct fleet_progress *progress);

/* Stops a call that nobody wants any more; it still ends as every call does. */
void tool_cancel(struct tool_call *call);

/* Finds the sandbox that the arguments name, or the session's default, puts its id into
 * call->sandbox_id and goes on with ready(); ends the call as failed if there is none. */
void tool_with_sandbox(struct tool_call *call, tool_ready_fn ready);

/* The same for tools that only look: they make no default sandbox. */
void tool_with_sandbox_there(struct tool_call *call, tool_ready_fn ready);

/* Runs an operation in call->sandbox_id; `done` gets the call as its argument and begins with
 * tool_ran(). */
void tool_run_op(struct tool_call *call, const struct fleet_op *op, fleet_outcome_fn done);

/* Whether the call is a task by now: one that may become one, and takes long, does. `status` says
 * what it is busy with. */
bool tool_is_task(struct tool_call *call, const char *status);

/* Of the time that a call which waits may take. */
uint64_t tool_budget_left_ms(const struct tool_call *call);

/* Waits for call->execution_id, at most so long; `done` as in tool_run_op(). */
void tool_await(struct tool_call *call, uint64_t wait_ms, fleet_outcome_fn done);

/* Runs a file operation in call->sandbox_id; `done` gets it only if it ended well, otherwise the
 * call ends as failed. */
void tool_run_file_op(struct tool_call *call, const struct fleet_op *op, tool_file_fn done);

/* That sandbox has ended under code: the next call of the session makes another default one. */
void tool_sandbox_ended(struct tool_session *s, const char *sandbox);

/* True if the operation came to an outcome; otherwise the call has been ended as failed. */
bool tool_ran(struct tool_call *call, int rc, const struct err *err, const char *hint);

/* Adds a link to a file of call->sandbox_id, if a URI can name it; over HTTP also as `url` of the
 * structured result. */
void tool_add_file_link(const struct tool_call *call, struct result *r, const char *path,
                        const char *mime_type, uint64_t size);

/* Frees what tools left in the call. */
void tool_call_finish(struct tool_call *call);

/* One per file in this directory. */
extern const struct tool tool_cancel_execution;
extern const struct tool tool_check_package_status;
extern const struct tool tool_close_sandbox;
extern const struct tool tool_create_run_close;
extern const struct tool tool_create_sandbox;
extern const struct tool tool_execute_code;
extern const struct tool tool_get_execution;
extern const struct tool tool_get_sandbox_status;
extern const struct tool tool_install_package;
extern const struct tool tool_list_files;
extern const struct tool tool_read_file;
extern const struct tool tool_upload_file;
extern const struct tool tool_write_file;

#endif
