/*
 * The fleet: all sandboxes of this server, each behind a worker process, as the MCP side sees them.
 *
 * The MCP side knows sandboxes by id, asks for operations by tool argument, and gets each outcome
 * exactly once. Worker processes, restarts, generations and sockets stay behind this header.
 *
 * Threads: the loop thread only. Nothing blocks. Callbacks never run inside the call that takes
 * them. Everything passed in is copied if needed longer than the call; everything passed to a
 * callback is borrowed during it.
 */
#ifndef CLOISTER_SUPERVISOR_FLEET_FLEET_H
#define CLOISTER_SUPERVISOR_FLEET_FLEET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "common/err.h"
#include "common/view.h"
#include "proto/msg.h"

struct config;
struct fleet;
struct fleet_call;

#define FLEET_GIVES_WAY_MS 60000 /* for sandboxes that nobody has asked for */

#define FLEET_ID_SIZE 32 /* bytes of a sandbox or operation id with its NUL */

/* What something that takes long is busy with. Borrowed during the callback. */
struct fleet_progress {
    const char *text;     /* one line for people; other processes' words, so any bytes */
    uint64_t done, total; /* bytes; total 0: unknown */
};
typedef void (*fleet_progress_fn)(void *arg, const struct fleet_progress *progress);

/* What a caller may choose; zero or NULL means the configured default. */
struct fleet_spec {
    const char *name; /* unique per owner, or NULL */
    const char *image;
    bool image_is_reference; /* for an engine: with oci it is refused; else a directory */
    uint64_t memory_mb;
    double cpus;
    uint64_t pids;
    uint64_t disk_mb;
    uint64_t timeout_ms;   /* default deadline of executions in this sandbox */
    uint64_t ttl_ms;       /* closed after this long without a call */
    struct view_list env;  /* "K=V" */
    bool is_default;       /* the one that the owner's calls without a sandbox_id share */
    uint64_t gives_way_ms; /* closed for another one that there is no room for, once it has been
                              idle for so long; 0: never */
    bool network;          /* it reaches the network; whether clients may ask is not decided here */
    bool app_dir;          /* it has a small writable directory /app, for code that expects one */
    /* For an installer: the sandbox (id) whose packages it writes. Such a sandbox is in no list, is
     * found by its id only, counts for no owner's limits, and has network. NULL: none. */
    const char *installs_for;
    struct view_list mounts; /* for an installer: pairs of host path and inside path */
    /* What this owner may have, with this one: so many sandboxes, with so much memory together. 0:
     * no limit but the server's own. */
    uint64_t owner_sandboxes, owner_memory_mb;
    /* Called with the `arg` of fleet_open(), if it takes long, any number of times before `done`.
     */
    fleet_progress_fn progress;
};

/* A snapshot, borrowed during the callback that hands it over. */
struct fleet_info {
    const char *id;
    const char *name; /* "" if none */
    const char *backend;
    const char *runtime;
    const char *image;
    const char *state;  /* "creating" "ready" "recovering" "closing" "closed" "failed" */
    const char *reason; /* why "failed", else "" */
    const char *workspace;
    const char *network; /* "none" "full" */
    const char *const *languages;
    size_t language_count;
    const char *const *unapplied; /* limits this host could not enforce, "name: reason" */
    size_t unapplied_count;
    uint64_t memory_mb, pids, disk_mb, files, timeout_ms, ttl_ms;
    double cpus;
    uint64_t created_wall_ms;
    uint64_t expires_wall_ms; /* when it closes if nobody calls it meanwhile */
    uint64_t lifetime_ms;     /* it closes so long after its creation in any case */
    uint64_t ends_wall_ms;    /* when that is */
    int worker_pid;           /* 0 if none at the moment */
    uint64_t worker_restarts;
    uint64_t executions; /* code executions ever started */
    bool has_usage;      /* the following are known */
    uint64_t memory_bytes, cpu_us, processes, disk_bytes;
};

/* One operation to run. */
struct fleet_op {
    enum op_kind kind;
    const char *language; /* OP_EVAL */
    struct view data;     /* code, or file content */
    bool has_stdin;
    struct view stdin_data;
    struct view_list env, args;
    const char *path;
    uint64_t offset, length, mode, flags;
    uint64_t timeout_ms; /* 0 = the sandbox's default */
    size_t keep_bytes;   /* most bytes of each stream to keep; the rest is counted, not kept */
    bool is_look;        /* does not count as use of the sandbox, so it lives no longer by it */
};

/* One representation of something that code displayed. Those of the same thing have the same number
 * and follow each other. */
struct fleet_display {
    uint64_t number;
    const char *mime; /* "type/subtype" in small letters */
    const char *path; /* absolute, of a file in the sandbox, as long as that and the file exist */
    uint64_t size;    /* of the file */
    struct view data; /* its bytes if they are kept; else empty */
};

/* A file that code created or changed. */
struct fleet_file {
    struct view path; /* below the workspace; any bytes */
    uint64_t size;
};

/* How an operation stands, or how it ended. */
struct fleet_outcome {
    const char *op;                 /* the execution id */
    const char *sandbox;            /* id */
    const char *language;           /* of OP_EVAL, else "" */
    enum op_state state;            /* OP_DONE always, but for what fleet_await() tells */
    struct view out, err;           /* what was kept: the first bytes of each stream */
    struct view out_tail, err_tail; /* and the last bytes, if there is a gap between: they end at
                                       out_bytes and err_bytes */
    uint64_t out_bytes, err_bytes;  /* what the program wrote in all, so far */
    const struct msg_output
        *end; /* outcome fields, zero before OP_DONE; its out, err and lists mean nothing */
    uint64_t duration_us; /* of the run itself, measured by the agent; so far, by us */
    uint64_t started_wall_ms;
    /* Of executions, with OP_DONE. */
    const struct fleet_display *displays;
    size_t display_count;
    const struct fleet_file *files; /* latest first */
    size_t file_count;
    bool files_more;    /* there were more */
    bool unconfirmed;   /* before OP_DONE: whether the sandbox has got it is not known */
    bool silent;        /* before OP_DONE: the sandbox does not answer at the moment */
    bool sandbox_ended; /* it crashed because its sandbox ended under it, by itself */
};

/* rc < 0: err and hint explain; nothing else is valid. */
typedef void (*fleet_info_fn)(void *arg, int rc, const struct fleet_info *info,
                              const struct err *err, const char *hint);
typedef void (*fleet_outcome_fn)(void *arg, int rc, const struct fleet_outcome *outcome,
                                 const struct err *err, const char *hint);
typedef void (*fleet_done_fn)(void *arg, int rc, const struct err *err, const char *hint);

/* No side effect on the system: directories, lock, probe and workers wait for the first sandbox. */
struct fleet *fleet_create(uv_loop_t *loop, const struct config *config);

/* How languages are run by programs, in sandboxes that are made from now on: encoded RUNNER
 * messages, borrowed for the life of the fleet. None at first. */
void fleet_set_runners(struct fleet *f, struct view_list runners);

/* What changed, for whoever shows it. Called by the loop, soon after it changed; several changes of
 * a sandbox may be told as one. */
struct fleet_events {
    /* The owner has one sandbox more or less, or its state is another. */
    void (*sandboxes)(void *arg, const char *owner);
    /* Something has ended that may have written files there, or all of them are gone. */
    void (*files)(void *arg, const char *owner, const char *sandbox, const char *name);
    /* An execution is over. */
    void (*execution)(void *arg, const char *owner, const char *execution);
};

/* The table is borrowed for the life of the fleet. NULL: nobody watches any more. */
void fleet_observe(struct fleet *f, const struct fleet_events *events, void *arg);

/* Creates a sandbox. An `owner` is any text that identifies a session or principal. */
void fleet_open(struct fleet *f, const char *owner, const struct fleet_spec *spec,
                fleet_info_fn done, void *arg);

/* Finds one of the owner's sandboxes by id or name and returns its id (borrowed until it closes);
 * -ERR_SANDBOX_NOT_FOUND otherwise, also for other owners' sandboxes. */
int fleet_find(struct fleet *f, const char *owner, const char *id_or_name, const char **ret_id,
               struct err *err) WARN_UNUSED;

/* Where relative paths begin in a sandbox (id from fleet_find()), "" as long as that is not known.
 * Borrowed until it closes. */
const char *fleet_workspace(struct fleet *f, const char *id);

/* Whose sandbox it is, by its id; NULL: there is none, or one that is nobody's. Borrowed until it
 * closes. */
const char *fleet_owner(struct fleet *f, const char *id);

/* A random key of this instance, which stays the same for the servers that take it over. It is in a
 * file of the instance, made by the first call: so it can be had once there has been a sandbox. */
#define FLEET_KEY_BYTES 32
int fleet_key(struct fleet *f, unsigned char ret[FLEET_KEY_BYTES], struct err *err) WARN_UNUSED;

/* Status of one sandbox (id from fleet_find), with usage figures if the worker can tell them. */
void fleet_status(struct fleet *f, const char *id, fleet_info_fn done, void *arg);

/* Calls `each` for every sandbox of the owner, at once, without usage figures. */
void fleet_list(struct fleet *f, const char *owner,
                void (*each)(void *arg, const struct fleet_info *info), void *arg);

/* Ends what runs in it (those calls are answered as cancelled), removes it. */
void fleet_close(struct fleet *f, const char *id, fleet_done_fn done, void *arg);

/* If something runs in it: it closes by itself soon after that has ended, and nobody called it
 * again. False: nothing does, or it is not there. */
bool fleet_retire(struct fleet *f, const char *id);

/* Runs an operation. The returned handle is valid until `done` is called. Survives any number of
 * worker deaths on the way. */
struct fleet_call *fleet_run(struct fleet *f, const char *id, const struct fleet_op *op,
                             fleet_outcome_fn done, void *arg);

/* Asks for the operation to be stopped; `done` follows in any case. */
void fleet_cancel(struct fleet_call *call);

/* ---- executions: runs of code that outlive the request which began them ----
 *
 * Kept after their end, the latest of them and within a bound of bytes, also when their sandbox is
 * closed, so that whoever lost the answer can ask again. Only the owner finds them. */

struct fleet_await;

#define FLEET_WAIT_FOR_EVER UINT64_MAX

#define FLEET_NEWS_BYTES 2000 /* most that struct fleet_output shows of each stream */

/* What running code has written since one was last told of it: the latest bytes of it, whole
 * characters, and how many there were in all. Borrowed during the callback. */
struct fleet_output {
    const char *op; /* the execution id */
    struct view out, err;
    uint64_t out_new, err_new;     /* bytes of news, with those that are not shown */
    uint64_t out_bytes, err_bytes; /* what the program has written since it began */
};
/* False: not now. It is told again, with what has come till then. */
typedef bool (*fleet_output_fn)(void *arg, const struct fleet_output *output);

/* Begins to run code (OP_EVAL or OP_RUN) in one of the owner's sandboxes (id from fleet_find()), or
 * makes it wait for its turn. The execution is known under ret_id from now on; what becomes of it,
 * even that it could not begin, is told by fleet_await(). */
void fleet_execute(struct fleet *f, const char *owner, const char *id, const struct fleet_op *op,
                   char ret_id[FLEET_ID_SIZE]);

/* Calls `done` once: when the execution is over, or with how it stands when wait_ms have passed.
 * -ERR_EXECUTION_NOT_FOUND if the owner has no such execution (any more). The handle is valid until
 * `done` is called. */
struct fleet_await *fleet_await(struct fleet *f, const char *owner, const char *execution,
                                uint64_t wait_ms, fleet_outcome_fn done, void *arg);

/* Follows the code that is waited for: when it writes something, `output` is called soon, with the
 * arg of `done`, at most once in every_ms and never after `done`. What was written before this call
 * is not told. Once for each wait. */
void fleet_await_output(struct fleet_await *await, uint64_t every_ms, fleet_output_fn output);

/* Nobody waits any longer: `done` is called soon, with how it stands. */
void fleet_await_end(struct fleet_await *await);

/* Asks for it to be stopped; harmless if it is over. -ERR_EXECUTION_NOT_FOUND as above, at once. */
int fleet_stop(struct fleet *f, const char *owner, const char *execution,
               struct err *err) WARN_UNUSED;

/* Whether the owner has such an execution, as far as is known now. */
bool fleet_has_execution(struct fleet *f, const char *owner, const char *execution);

/* Calls `each` for the kept executions of a sandbox, latest first, at once. */
void fleet_executions(struct fleet *f, const char *owner, const char *id,
                      void (*each)(void *arg, const struct fleet_outcome *outcome), void *arg);

/* ---- a server and the next one ---- */

/* For a server of a named instance, at its start: takes the lock and takes over the sandboxes that
 * an earlier server left, with their names, owners, limits and executions. They are listed when
 * this returns; calls to them wait until their workers are found again. Does nothing for an
 * instance of our own. Errors (lock taken, no directory) are logged, and tried again by the first
 * call that needs a sandbox. */
void fleet_adopt(struct fleet *f);

/* The owner's default sandbox; -ERR_GONE if there was one that ended, else
 * -ERR_SANDBOX_NOT_FOUND. */
int fleet_find_default(struct fleet *f, const char *owner, const char **ret_id) WARN_UNUSED;

enum fleet_end {
    FLEET_END_CLOSE, /* every operation and sandbox ends */
    FLEET_END_LEAVE, /* a named instance: they go on for their grace, for the next server. Who waits
                      * for an execution is told how it stands; other calls are answered with
                      * -ERR_SHUTTING_DOWN. An instance of our own has no next server: as CLOSE */
};

/* Refuses new sandboxes and calls, ends as `end` says, and calls done when no worker of ours is
 * left (CLOSE: or 4.5 s have passed, then what is left is killed). */
void fleet_shutdown(struct fleet *f, enum fleet_end end, void (*done)(void *arg), void *arg);

/* After fleet_shutdown() has called back. */
void fleet_destroy(struct fleet *f);

/* For `cloister doctor`: probes every candidate backend and runtime, one `each` per candidate, then
 * `done`. */
void fleet_doctor(struct fleet *f,
                  void (*each)(void *arg, const char *backend, const struct msg_probed *result),
                  void (*done)(void *arg), void *arg);

#endif
