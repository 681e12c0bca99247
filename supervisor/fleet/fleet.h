/*
 * The fleet: all sandboxes of this server, each behind a worker process, as the rooms above see
 * them.
 *
 * Callers know sandboxes by id, request operations, and get each outcome exactly once. Worker
 * processes, restarts, generations and sockets stay behind this header.
 *
 * Thread: the loop thread only. Nothing blocks. Callbacks never run inside the call that registers
 * them. Arguments are copied if they are needed longer than the call; what a callback gets is
 * borrowed during it. A `hint` (may be NULL or "") says what to do about an error.
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

#define FLEET_EVICT_IDLE_MS 60000 /* for sandboxes that were not requested explicitly */

#define FLEET_ID_SIZE 32 /* bytes of a sandbox or operation id with its NUL */

/* Progress of something that takes long. Borrowed during the callback. */
struct fleet_progress {
    const char *text;     /* one line for people, from another process, so any bytes */
    uint64_t done, total; /* bytes; total 0: unknown */
};
typedef void (*fleet_progress_fn)(void *arg, const struct fleet_progress *progress);

/* A caller's choices; zero or NULL means the configured default. */
struct fleet_spec {
    const char *name; /* unique per owner, or NULL */
    const char *image;
    /* true: a reference for an engine, which oci refuses; false: a directory */
    bool image_is_reference;
    uint64_t memory_mb;
    double cpus;
    uint64_t pids;
    uint64_t disk_mb;
    uint64_t timeout_ms;  /* default deadline of executions in this sandbox */
    uint64_t ttl_ms;      /* closed after this long without a call */
    struct view_list env; /* "K=V" */
    bool is_default;      /* the default sandbox, for calls without a sandbox_id */
    const char *session;  /* … of this session of the owner; NULL: of all the owner's calls */
    /* it may be evicted for another sandbox when it has been idle for this long; 0: never */
    uint64_t evict_idle_ms;
    /* it has network; the caller decides whether a client may ask for that */
    bool network;
    /* its workspace is /app/results, and /app a small writable directory, for code that expects
     * that
     */
    bool app_dir;
    /* For an installer: the sandbox (id) whose packages it writes. An installer is in no list, is
     * found by its id only, counts against no owner's limits, and has a door. NULL: no installer.
     */
    const char *installs_for;
    /* Where that door leads, two texts each: "host:port", "own" or "public"; all of it by the proxy
     * ("host:port"), if there is one, which is given `proxy_auth` (may be NULL). */
    struct view_list door;
    const char *door_proxy, *door_proxy_auth;
    struct view_list mounts; /* for an installer: pairs of host path and inside path */
    struct view_list shares; /* names of directories that it asks for, besides those for all */
    /* Limits of this owner, including the new sandbox: number of sandboxes, and memory of all
     * together. 0: a share of what the server has, if it is shared (fleet_set_shared()). */
    uint64_t owner_sandboxes, owner_memory_mb;
    /* If it takes long, called with the `arg` of fleet_open() any number of times before `done`. */
    fleet_progress_fn progress;
};

/* A snapshot, borrowed during the callback that gets it. */
struct fleet_info {
    const char *id;
    const char *owner;
    const char *name; /* "" if none */
    const char *backend;
    const char *runtime;
    const char *image;
    const char *state;  /* "creating" "ready" "recovering" "closing" "closed" "failed" */
    const char *reason; /* why "failed", else "" */
    const char *workspace;
    const char *network; /* "none" "full" */
    /* directories of the host at /shared, three texts each: host path, name, "ro" or "rw" */
    struct view_list shares;
    const char *const *languages;
    size_t language_count;
    const char *const *unapplied; /* limits that this host cannot enforce, "name: reason" */
    size_t unapplied_count;
    uint64_t memory_mb, pids, disk_mb, files, timeout_ms, ttl_ms;
    double cpus;
    uint64_t created_wall_ms;
    uint64_t expires_wall_ms; /* when it closes unless it is used before */
    uint64_t lifetime_ms;     /* it closes at this age in any case */
    uint64_t ends_wall_ms;    /* when that is */
    int worker_pid;           /* 0 if it has no worker now */
    uint64_t worker_restarts;
    uint64_t executions; /* number of executions started so far */
    bool has_usage;      /* the following figures are known */
    uint64_t memory_bytes, cpu_us, processes, disk_bytes;
};

/* An operation to run. */
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
    size_t keep_bytes;   /* limit of kept output for each stream; the rest is only counted */
    /* does not count as use of the sandbox, so it does not delay its idle end */
    bool is_look;
};

/* One representation of something that code displayed. Representations of the same thing have the
 * same number and are adjacent. */
struct fleet_display {
    uint64_t number;
    const char *mime; /* "type/subtype" in lower case */
    const char *path; /* absolute path of a file in the sandbox; valid while both exist */
    uint64_t size;    /* of the file */
    struct view data; /* its bytes if they are kept; else empty */
};

/* A file that code created or changed. */
struct fleet_file {
    struct view path; /* below the workspace; any bytes */
    uint64_t size;
};

/* The state or outcome of an operation. */
struct fleet_outcome {
    const char *op;       /* the execution id */
    const char *sandbox;  /* id */
    const char *owner;    /* of executions, else NULL */
    const char *language; /* of OP_EVAL, else "" */
    enum op_state state;  /* always OP_DONE, except in callbacks of fleet_await() */
    struct view out, err; /* kept output: the first bytes of each stream */
    /* the last bytes, if there is a gap between; they end at out_bytes and err_bytes */
    struct view out_tail, err_tail;
    uint64_t out_bytes, err_bytes; /* all that the program has written so far */
    const struct msg_output
        *end; /* fields of the outcome, zero before OP_DONE; its out, err and lists are unused */
    uint64_t duration_us; /* of the run, as the agent says; before OP_DONE with the time since */
    uint64_t started_wall_ms;
    /* ---- of executions, with OP_DONE ---- */
    const struct fleet_display *displays;
    size_t display_count;
    const struct fleet_file *files; /* latest first */
    size_t file_count;
    bool files_more;  /* there were more */
    bool unconfirmed; /* before OP_DONE: it is unknown whether the sandbox has received it */
    bool silent;      /* before OP_DONE: the sandbox does not answer at the moment */
    uint64_t told_out, told_err; /* of executions: as set by fleet_told() */
    bool sandbox_ended;          /* it crashed because its sandbox ended by itself */
};

/* rc < 0: err and hint explain it, and nothing else is valid. */
typedef void (*fleet_info_fn)(void *arg, int rc, const struct fleet_info *info,
                              const struct err *err, const char *hint);
typedef void (*fleet_outcome_fn)(void *arg, int rc, const struct fleet_outcome *outcome,
                                 const struct err *err, const char *hint);
typedef void (*fleet_done_fn)(void *arg, int rc, const struct err *err, const char *hint);

/* Does not touch the system: directories, lock, probe and workers wait for the first sandbox. */
struct fleet *fleet_create(uv_loop_t *loop, const struct config *config);

/* Sets how programs run languages, for sandboxes opened from now on: encoded RUNNER messages,
 * borrowed for the life of the fleet. None at first. */
void fleet_set_runners(struct fleet *f, struct view_list runners);

/* Whether several principals use this server, so that none of them without limits of its own may
 * take everything; at first not. */
void fleet_set_shared(struct fleet *f, bool shared);
bool fleet_is_shared(const struct fleet *f);

/* Changes, for an observer. Called by the loop soon after the change; several changes of a sandbox
 * may be reported as one. */
struct fleet_events {
    /* The owner has one sandbox more or less, or the state of one has changed. */
    void (*sandboxes)(void *arg, const char *owner);
    /* An operation has ended that may have written files there, or the sandbox has ended with its
     * files. */
    void (*files)(void *arg, const char *owner, const char *sandbox, const char *name);
    /* An execution has ended. */
    void (*execution)(void *arg, const char *owner, const char *execution);
};

/* The table is borrowed for the life of the fleet. NULL: no observer any more. */
void fleet_observe(struct fleet *f, const struct fleet_events *events, void *arg);

/* Code in the owner's sandbox wants packages. Called inside of an answer of its worker, so it must
 * only make notes and post, and again with every further answer until an OP_TELL has answered the
 * wish, whose number is `id`. Returns whether it is new. Borrowed during the call. */
typedef bool (*fleet_install_fn)(void *arg, const char *owner, const char *sandbox,
                                 const struct msg_install *wish);
void fleet_on_install(struct fleet *f, fleet_install_fn install, void *arg);

/* Opens a sandbox. `owner` is any text that identifies a principal. */
void fleet_open(struct fleet *f, const char *owner, const struct fleet_spec *spec,
                fleet_info_fn done, void *arg);

/* A module that sandboxes of the pool import in advance. */
struct fleet_preload {
    struct view module;
    const char *state;  /* "imported" "failed" "left out", or "" while none has tried */
    const char *reason; /* why not; "" */
};

/* The pool of sandboxes that are made in advance. */
struct fleet_pool {
    uint64_t size;         /* that it is to have; 0: there is none */
    uint64_t ready;        /* that it has */
    uint64_t hits, misses; /* sandboxes that were wanted and came out of it, or did not */
    const struct fleet_preload *preload; /* borrowed until the loop goes on */
    size_t preload_count;
};
struct fleet_pool fleet_pool(const struct fleet *f);

/* What isolates new sandboxes, when a probe has chosen it: false before that. Borrowed until the
 * next sandbox is opened. */
struct fleet_engine {
    const char *backend, *runtime; /* the runtime may be "" */
    struct view_list place;        /* as place_list_text() reads it; none if it has no engine */
};
bool fleet_engine(const struct fleet *f, struct fleet_engine *ret);

/* Finds one of the owner's sandboxes by id or name and returns its id (borrowed until it closes);
 * otherwise -ERR_SANDBOX_NOT_FOUND, also for other owners' sandboxes. */
int fleet_find(struct fleet *f, const char *owner, const char *id_or_name, const char **ret_id,
               struct err *err) WARN_UNUSED;

/* The directory of relative paths in a sandbox (id from fleet_find()); "" while it is unknown.
 * Borrowed until it closes. */
const char *fleet_workspace(struct fleet *f, const char *id);

/* How long a sandbox can live yet, however it is used; 0: there is none with this id. */
uint64_t fleet_life_left_ms(struct fleet *f, const char *id);

/* The owner of the sandbox with this id; NULL: there is none, or it has no owner. Borrowed until it
 * closes. */
const char *fleet_owner(struct fleet *f, const char *id);

/* Opens the instance if it is a named one that is not open yet: makes its directory, takes its
 * lock, and takes over what an earlier server left. The first call that needs a sandbox does the
 * same. */
int fleet_open_instance(struct fleet *f, struct err *err) WARN_UNUSED;

/* A random key of this instance. It stays the same for servers that take the instance over. The
 * first call makes it, in a file of the instance, so the instance must be open. */
#define FLEET_KEY_BYTES 32
int fleet_key(struct fleet *f, unsigned char ret[FLEET_KEY_BYTES], struct err *err) WARN_UNUSED;

/* Reports one sandbox (id from fleet_find()), with usage figures if the worker can provide them. */
void fleet_status(struct fleet *f, const char *id, fleet_info_fn done, void *arg);

/* Finds a sandbox of whoever it is, for those who operate the server; a name that several owners
 * use is -ERR_INVALID. */
int fleet_find_any(struct fleet *f, const char *id_or_name, const char **ret_id,
                   struct err *err) WARN_UNUSED;

/* Calls `each` for each sandbox of the owner (NULL: of all owners), inside this call, without usage
 * figures. */
void fleet_list(struct fleet *f, const char *owner,
                void (*each)(void *arg, const struct fleet_info *info), void *arg);

/* Ends what runs in it (those calls are answered as cancelled), and removes it. */
void fleet_close(struct fleet *f, const char *id, fleet_done_fn done, void *arg);

/* If something runs in it: closes it soon after that has ended, unless it is used again. False:
 * nothing runs, or there is no such sandbox. */
bool fleet_retire(struct fleet *f, const char *id);

/* Runs an operation. The handle is valid until `done` is called. The operation survives any number
 * of worker deaths. */
struct fleet_call *fleet_run(struct fleet *f, const char *id, const struct fleet_op *op,
                             fleet_outcome_fn done, void *arg);

/* Asks the agent to stop the operation; `done` follows in any case. */
void fleet_cancel(struct fleet_call *call);

/* ---- connections to ports of a sandbox ---- */

/* What the program says, in order, as it comes; all of it before `done`. It may cancel or pause the
 * call. Borrowed during the callback. */
typedef void (*fleet_more_fn)(void *arg, struct view bytes);

struct fleet_input;
struct fleet_input_state;
typedef void (*fleet_input_fn)(void *arg, int rc, const struct fleet_input_state *state,
                               const struct err *err, const char *hint);

/* Connects to a program that listens at this port of the sandbox's loopback (OP_CONNECT), and tells
 * it `first`, at most LIMIT_INPUT. The rest is as with fleet_run(): the outcome is OK when the
 * program has closed the connection, and the connection survives any number of worker deaths. */
struct fleet_call *fleet_connect(struct fleet *f, const char *id, uint16_t port, struct view first,
                                 uint64_t timeout_ms, fleet_more_fn more, fleet_outcome_fn done,
                                 void *arg);

/* While it is paused, nothing more comes, so that the program has to wait. A cancelled call goes on
 * to its end. */
void fleet_pause(struct fleet_call *call, bool paused);

/* Tells the program more, as fleet_input() does. `done` may come after the end of the call. */
void fleet_tell(struct fleet_call *call, const struct fleet_input *in, fleet_input_fn done,
                void *arg);

/* ---- executions: runs of code that outlive their request ----
 *
 * The latest are kept after their end, within a limit of bytes, also when their sandbox is closed,
 * so that a client that lost the answer can ask again. Only the owner finds them. */

struct fleet_await;

#define FLEET_WAIT_FOR_EVER UINT64_MAX

#define FLEET_OUTPUT_BYTES 2000 /* limit of what struct fleet_output shows of each stream */

/* Output of running code since the previous callback: its latest bytes, as whole characters, and
 * the number of all. Borrowed during the callback. */
struct fleet_output {
    const char *op; /* the execution id */
    struct view out, err;
    /* bytes since the previous callback, including those that are not shown */
    uint64_t out_new, err_new;
    uint64_t out_bytes, err_bytes; /* all that the program has written */
};
/* False: not now. It is called again, with everything up to then. */
typedef bool (*fleet_output_fn)(void *arg, const struct fleet_output *output);

/* Starts to run code (OP_EVAL or OP_RUN) in one of the owner's sandboxes (id from fleet_find()), or
 * queues it. The execution is known as ret_id from now on; fleet_await() reports what becomes of
 * it, even if it could not start. */
void fleet_execute(struct fleet *f, const char *owner, const char *id, const struct fleet_op *op,
                   char ret_id[FLEET_ID_SIZE]);

/* Calls `done` once: when the execution has ended, or with its state after wait_ms.
 * -ERR_EXECUTION_NOT_FOUND if the owner has no such execution (any more). The handle is valid until
 * `done` is called. */
struct fleet_await *fleet_await(struct fleet *f, const char *owner, const char *execution,
                                uint64_t wait_ms, fleet_outcome_fn done, void *arg);

/* Follows the awaited code: when it writes something, `output` is called soon, with the arg of
 * `done`, at most once in every_ms and never after `done`. Earlier output is not reported. Call
 * once for each wait. */
void fleet_await_output(struct fleet_await *await, uint64_t every_ms, fleet_output_fn output);

/* Ends a wait with a time limit earlier: when the code has written more than its owner has been
 * shown, and then nothing for quiet_ms. Call once, after fleet_await(). */
void fleet_await_quiet(struct fleet_await *await, uint64_t quiet_ms);

/* Ends the wait: `done` is called soon, with the present state. */
void fleet_await_end(struct fleet_await *await);

/* Bytes for the stdin of an execution that was started with OP_FLAG_STDIN_OPEN or OP_FLAG_TTY. */
struct fleet_input {
    struct view data; /* at most LIMIT_INPUT */
    bool eof;         /* nothing follows */
    /* where they belong: what has been taken from there on is passed over. Otherwise behind it. */
    bool has_at;
    uint64_t at;
    uint64_t rows, cols; /* the terminal's new size; 0: as it is */
};
struct fleet_input_state {
    uint64_t next;   /* bytes taken in all */
    uint64_t unread; /* how many of them the code has still to read, beyond what a pipe holds */
};

/* Calls `done` once, when the agent has taken them all, or none of them. Repeated to the next
 * worker if need be. -ERR_EXECUTION_NOT_FOUND as above, -ERR_INVALID if it has ended. If its
 * sandbox does not answer for as long as a call may take (-ERR_ENGINE), or the server leaves it to
 * the next one (-ERR_SHUTTING_DOWN), it is not known whether they are taken. */
void fleet_input(struct fleet *f, const char *owner, const char *execution,
                 const struct fleet_input *in, fleet_input_fn done, void *arg);

/* Notes how much of an execution's output its owner has been shown. */
void fleet_told(struct fleet *f, const char *owner, const char *execution, uint64_t out_bytes,
                uint64_t err_bytes);

/* Asks the agent to stop it; does nothing if it has ended. -ERR_EXECUTION_NOT_FOUND as above, at
 * once. */
int fleet_stop(struct fleet *f, const char *owner, const char *execution,
               struct err *err) WARN_UNUSED;

/* Whether the owner is known to have such an execution. */
bool fleet_has_execution(struct fleet *f, const char *owner, const char *execution);

/* The owner of an execution; NULL: there is none of this id (any more). Borrowed until it ends. */
const char *fleet_execution_owner(struct fleet *f, const char *execution);

/* Calls `each` for the kept executions of a sandbox, latest first, inside this call. NULL: of all
 * owners, of all sandboxes. */
void fleet_executions(struct fleet *f, const char *owner, const char *id,
                      void (*each)(void *arg, const struct fleet_outcome *outcome), void *arg);

/* ---- what happened, for those who operate the server ---- */

/* One note; all texts are "" where they do not apply. */
struct fleet_note {
    uint64_t number; /* 1 for the first since the start of the server, without gaps */
    uint64_t wall_ms;
    const char *what; /* "sandbox.STATE", "execution.started", "execution.ended" */
    const char *owner, *sandbox, *execution;
    const char *text; /* why, or how it ended; any bytes */
};

/* The first kept note with a higher number, NULL: there is none yet. Only the latest are kept, so
 * the number may be more than one higher. Borrowed until the loop goes on. */
const struct fleet_note *fleet_note_after(const struct fleet *f, uint64_t number);

/* The number of the latest note. */
uint64_t fleet_note_last(const struct fleet *f);

/* `more` is called from the loop when there are new notes; NULL: nobody watches any more. */
void fleet_watch(struct fleet *f, void (*more)(void *arg), void *arg);

/* `opened` is called once, when the instance has its directory, before it has a sandbox: at once if
 * it has it already. The path is borrowed during the call. */
typedef void (*fleet_instance_fn)(void *arg, const char *dir);
void fleet_on_instance(struct fleet *f, fleet_instance_fn opened, void *arg);

/* ---- a server and the next one ---- */

/* For a server of a named instance, at its start: takes the lock, and takes over the sandboxes of
 * an earlier server with their names, owners, limits and executions. They are listed when this
 * returns; calls to them wait until their workers have dialled. Does nothing for an instance of our
 * own. Errors (lock taken, no directory) are logged, and the first call that needs a sandbox tries
 * again. */
void fleet_adopt(struct fleet *f);

/* Finds the default sandbox of a session ("": of the owner); -ERR_GONE if it has ended,
 * -ERR_SANDBOX_NOT_FOUND if there was none. */
int fleet_find_default(struct fleet *f, const char *owner, const char *session,
                       const char **ret_id) WARN_UNUSED;

enum fleet_end {
    FLEET_END_CLOSE, /* all operations and sandboxes end */
    /* a named instance: sandboxes live on for their grace, for the next server. Waits for
     * executions are answered with the present state, other calls with -ERR_SHUTTING_DOWN. An
     * instance of our own has no next server: as CLOSE */
    FLEET_END_LEAVE,
};

/* Refuses new sandboxes and calls, ends the others as `end` says, and calls `done` when no worker
 * of ours is left (CLOSE: after 4.5 s at the latest; what is left is killed before). */
void fleet_shutdown(struct fleet *f, enum fleet_end end, void (*done)(void *arg), void *arg);

/* Whether that ended with something undone, which still uses the loop and the fleet: neither can be
 * freed then. */
bool fleet_gave_up(const struct fleet *f);

/* Call it after fleet_shutdown() has called back. */
void fleet_destroy(struct fleet *f);

/* Sets the gauges of sandboxes and workers (metrics.def) to the present figures. */
void fleet_measure(const struct fleet *f);

/* For `cloister doctor`: probes all candidate backends and runtimes, calls `each` for each, then
 * `done`. */
void fleet_doctor(struct fleet *f,
                  void (*each)(void *arg, const char *backend, const struct msg_probed *result),
                  void (*done)(void *arg), void *arg);

#endif
