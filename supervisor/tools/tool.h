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
#include "supervisor/fleet.h"
#include "supervisor/result.h"

struct config;
struct tool_call;

/* JSON as a C string without a backslash in front of every quote. Adjacent strings in it are
 * joined and @names@ are filled in by schema_text.c. */
#define JSON_TEXT(...) #__VA_ARGS__

struct tool {
    const char *name;
    const char *title;
    const char *description;   /* for models: precise, with units and defaults; may have @names@ */
    const char *input_schema;  /* JSON_TEXT */
    const char *output_schema; /* JSON_TEXT; failures are added to it by tools.c */
    bool read_only;
    bool destructive;
    bool idempotent;
    void (*run)(struct tool_call *call);
};

/* What the calls of one client session share. */
struct tool_session {
    struct fleet *fleet;
    const struct config *config;
    const char *owner;
    /* The sandbox of calls that name none: created by the first of them, others wait for it. */
    char default_id[FLEET_ID_SIZE]; /* "" if there is none */
    char lost_id[FLEET_ID_SIZE];    /* the last one that ended */
    bool default_opening;
    bool default_lost;         /* there was one, it ended, and the client has not been told */
    struct tool_call *waiting; /* first come, first served */
};

typedef void (*tool_ready_fn)(struct tool_call *call);

struct tool_call {
    /* Set by the MCP side before run(). */
    struct tool_session *session;
    const cJSON *args; /* object, fits the tool's schema; NULL if none were given */
    void (*done)(struct tool_call *call, struct result *result); /* result is borrowed */
    /* Any number of times before done(), through tool_tell(); NULL: nobody wants to know. */
    void (*progress)(struct tool_call *call, const struct fleet_progress *progress);
    /* Of the tools. */
    char sandbox_id[FLEET_ID_SIZE];
    struct fleet_call *running; /* what tool_cancel() stops */
    char execution_id[FLEET_ID_SIZE];
    struct fleet_await *await; /* for this execution */
    bool stops;                /* tool_cancel() stops it; otherwise it ends the wait */
    bool cancelled;
    const char *notice; /* literal for the client to see with the result, or NULL */
    struct result held; /* a result kept while something else is awaited */
    struct buf scratch; /* bytes of the tool's own making */
    tool_ready_fn ready;
    struct tool_call *next_waiting;
};

void tool_session_init(struct tool_session *s, struct fleet *fleet, const struct config *config,
                       const char *owner);

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

/* Runs an operation in call->sandbox_id; `done` gets the call as its argument and begins with
 * tool_ran(). */
void tool_run_op(struct tool_call *call, const struct fleet_op *op, fleet_outcome_fn done);

/* Waits for call->execution_id, at most so long; `done` as in tool_run_op(). */
void tool_await(struct tool_call *call, uint64_t wait_ms, fleet_outcome_fn done);

/* True if the operation came to an outcome; otherwise the call has been ended as failed. */
bool tool_ran(struct tool_call *call, int rc, const struct err *err, const char *hint);

/* The same for file operations: true only if it ended well. */
bool tool_ran_well(struct tool_call *call, int rc, const struct fleet_outcome *outcome,
                   const struct err *err, const char *hint);

/* Frees what tools left in the call. */
void tool_call_finish(struct tool_call *call);

/* One per file in this directory. */
extern const struct tool tool_cancel_execution;
extern const struct tool tool_close_sandbox;
extern const struct tool tool_create_run_close;
extern const struct tool tool_create_sandbox;
extern const struct tool tool_execute_code;
extern const struct tool tool_get_execution;
extern const struct tool tool_get_sandbox_status;
extern const struct tool tool_list_files;
extern const struct tool tool_read_file;
extern const struct tool tool_write_file;

#endif
