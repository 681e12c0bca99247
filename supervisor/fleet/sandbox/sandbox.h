/*
 * One sandbox as seen from outside: its state, its worker, the calls that wait in it.
 *
 * Private to the fleet and to the calls. Loop thread only; nothing blocks. Unless said
 * otherwise no callback of a client runs inside a function of this header.
 */
#ifndef CLOISTER_SUPERVISOR_FLEET_SANDBOX_SANDBOX_H
#define CLOISTER_SUPERVISOR_FLEET_SANDBOX_SANDBOX_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <uv.h>

#include "common/err.h"
#include "common/sm.h"
#include "supervisor/fleet/engine/engine.h"
#include "supervisor/fleet/fleet.h"
#include "supervisor/fleet/host/host.h"
#include "supervisor/fleet/host/turns.h"
#include "supervisor/fleet/state/record.h"
#include "supervisor/fleet/workers/link.h"
#include "supervisor/fleet/workers/policy.h"

#define SANDBOX_CALLS_MAX 32 /* operations in flight in one sandbox */
#define SANDBOX_ACKS_MAX                                                                           \
    64 /* outcomes the agent may forget: as many as it remembers (LIMIT_OPS)                       \
        */

#define SANDBOX_LATE_ACKS 16   /* executions whose outcome stays with the agent all the same */
#define SANDBOX_MARGIN_MS 2000 /* for the worker to be the first to say that it took too long */

#define HINT_NEW_SANDBOX "create a new sandbox; files and variables of this one are lost"

/*
 *               opened              worker died
 *     CREATING ───────▶ READY ─────────────────────▶ RECOVERING
 *        │               │ ▲       adopted again      │     │
 *        │               │ └──────────────────────────┘     │ gone, or given up
 *        │ closed,       │ gone                             ▼
 *        │ or failed     ├──────────────────────────────▶ FAILED
 *        ▼               ▼ closed, idle       closed        │
 *     CLOSING ◀─────────────────────────────────────────────┘   (RECOVERING too)
 *        │ nothing left
 *        ▼
 *     CLOSED
 *
 * A sandbox that an earlier server left begins in RECOVERING. READY and RECOVERING may become LEFT:
 * this server ends, and the sandbox goes on without it.
 */
enum sandbox_state {
    SANDBOX_CREATING,
    SANDBOX_READY,
    SANDBOX_RECOVERING,
    SANDBOX_FAILED,
    SANDBOX_CLOSING,
    SANDBOX_CLOSED,
    SANDBOX_LEFT,
    SANDBOX_STATE_COUNT,
};
extern const struct sm_state sandbox_states[SANDBOX_STATE_COUNT];

/* The way to nothing left, for CLOSING and FAILED alike. */
enum sandbox_cleanup {
    CLEANUP_NONE,       /* not begun */
    CLEANUP_INSTALLERS, /* those that write its packages end first */
    CLEANUP_WORKER,     /* the worker is asked or made to end */
    CLEANUP_SWEEP,      /* another worker removes what that one left */
    CLEANUP_FILES,      /* the directory is being removed */
    CLEANUP_DONE,
};

/* Texts owned by the list. */
struct text_list {
    char **items;
    size_t count;
};

struct adopt;

struct status_wait; /* info.c */

struct sandbox_waiter {
    TAILQ_ENTRY(sandbox_waiter) node;
    fleet_done_fn done;
    void *arg;
};

/* How a creation goes on, by what its worker tells. Times are monotonic milliseconds. */
struct sandbox_progress {
    uint64_t seen;      /* number of the latest news */
    uint64_t moved_ms;  /* when there were any, or when it began */
    uint64_t logged_ms; /* 0: never */
};

struct sandbox {
    TAILQ_ENTRY(sandbox) node; /* the fleet's list */
    struct fleet_host *host;
    struct engine *engine;
    void (*on_gone)(void *arg, struct sandbox *s);
    void *on_gone_arg;

    char id[FLEET_ID_SIZE];
    char *owner;
    char *name;             /* "" if none */
    bool is_default;        /* of its owner's calls that name no sandbox */
    uint64_t evict_idle_ms; /* as in fleet_spec */
    bool evicted;           /* it has been closed for another, and takes no room any more */
    char *dir;
    struct sm sm;
    char *reason; /* why FAILED, or why it is closed */

    /* What was asked for. */
    struct msg_open spec; /* its texts are owned here */
    struct view *env;
    struct view *mounts;
    bool image_is_reference; /* the client's choice, for an engine only */
    uint64_t timeout_ms;
    uint64_t ttl_ms;
    uint64_t lifetime_ms;

    /* What it became. */
    char *backend;
    char *engine_at; /* where the engine is, "" if there is none */
    char *runtime;
    char *image;
    char *workspace;
    struct text_list languages;
    struct text_list unapplied;
    uint64_t created_ms;      /* clock_ms() */
    uint64_t created_wall_ms; /* for people */

    /* Not NULL until it is known what became of it since its last server; then that is told. */
    struct adopt *adoption;
    TAILQ_ENTRY(sandbox) adoption_node;
    bool adoption_queued;  /* has to wait for a worker to be started */
    bool adoption_started; /* a worker is being started, for which there is not much room */
    TAILQ_HEAD(, status_wait) past_waiters; /* who asked for its status before that */
    struct deferred_task past_task;

    /* Its worker. */
    struct worker_link *link; /* NULL between two lives */
    uint64_t generation;      /* of the latest life; the first is 1 */
    struct worker_policy policy;
    uint64_t broken_ms;  /* since when there is no usable worker */
    uint64_t died_us;    /* when the last one was found dead, for the log */
    bool record_saved;   /* none is being written */
    bool open_sent;      /* to the present worker */
    bool ever_open_sent; /* so there may be something to destroy */
    bool silent;    /* refused since the sandbox does not answer, which says nothing of its end */
    bool refused;   /* the present worker cannot reach the sandbox, which may be the host's fault */
    bool remade;    /* it is being made for the second time */
    bool remaking;  /* its worker has removed the first, and ends */
    bool destroyed; /* a worker has said that nothing is left */
    unsigned sweeps; /* attempts to remove what is left */
    enum sandbox_cleanup cleanup;
    bool removing; /* the directory */
    struct turn close_turn;

    /* An installer and the sandbox it installs for, as long as both are here. */
    struct sandbox *target;
    TAILQ_ENTRY(sandbox) installer_node;
    TAILQ_HEAD(, sandbox) installers; /* that are not destroyed yet */

    /* Who waits for what. */
    struct engine_wait engine_wait;
    fleet_info_fn opened;       /* NULL once called */
    fleet_progress_fn progress; /* with opened_arg; may be NULL */
    struct sandbox_progress watch;
    void *opened_arg;
    TAILQ_HEAD(, sandbox_waiter) close_waiters;
    struct deferred_task close_task;
    unsigned changes; /* enum sandbox_change, not told yet */
    struct deferred_task change_task;
    TAILQ_HEAD(sandbox_calls, fleet_call) calls; /* unanswered, oldest first */
    size_t call_count;

    /* Operations whose outcome the agent may forget: [acks_from, acks_to) in a ring. */
    char acks[SANDBOX_ACKS_MAX][FLEET_ID_SIZE];
    uint64_t acks_from, acks_to;
    /* The latest executions, whose outcome the agent keeps for the next server: a ring, too. */
    char late_acks[SANDBOX_LATE_ACKS][FLEET_ID_SIZE];
    uint64_t late_count;

    uint64_t executions;
    uint64_t used_ms; /* last begin or end of a call */
    uv_timer_t ttl;
    uv_timer_t restart;
    uv_timer_t news;        /* next question for progress */
    uv_timer_t calls_check; /* about once a second while RECOVERING */
    unsigned timers_open;
};

struct sandbox_setup {
    struct fleet_host *host;
    struct engine *engine;
    void (*on_gone)(void *arg,
                    struct sandbox *s); /* CLOSED: take it off the list; it frees itself */
    void *on_gone_arg;
};

/* ---- sandbox.c: the state and the worker ---- */

/* Begins to create a sandbox; `opened` tells how that ended, and the specification's `progress`
 * before that what takes long, with the same arg. */
int sandbox_create(const struct sandbox_setup *setup, const char *owner,
                   const struct fleet_spec *spec, fleet_info_fn opened, void *arg,
                   struct sandbox **ret, struct err *err) WARN_UNUSED;

/* A sandbox without anything behind it yet, in its first state; texts are copied. */
struct sandbox *sandbox_new(const struct sandbox_setup *setup, const char *id, const char *owner,
                            const char *name, enum sandbox_state first);

/* Where it is made or was made; the texts are the sandbox's from now on. */
void sandbox_take_place(struct sandbox *s, char *backend, char *engine, char *runtime);

/* What its worker of that generation is told; borrows from s. */
struct worker_args sandbox_worker_args(const struct sandbox *s, uint64_t generation);

/* Starts a worker of the next generation. What goes wrong counts as its death. */
void sandbox_start_worker(struct sandbox *s);

/* What a worker link of s tells. */
extern const struct worker_link_events sandbox_worker_events;

/* Nothing is left to find out: state READY, and calls go on. */
void sandbox_ready(struct sandbox *s, const char *cause);

enum sandbox_state sandbox_state(const struct sandbox *s);

/* It has failed, or ends, or has ended: nothing is begun in it any more. */
bool sandbox_is_leaving(const struct sandbox *s);

/* The only writer of the state; asserts that the move is declared, and logs it. */
void sandbox_set_state(struct sandbox *s, enum sandbox_state next, const char *cause);

/* The sandbox does not exist any more, or is given up: state FAILED, code that ran has crashed and
 * other calls are answered with ERR_GONE (inside), what is left is removed. */
void sandbox_fail(struct sandbox *s, const char *reason);

/* As sandbox_fail(), on the word of the worker, which cleans up and exits by itself. */
void sandbox_gone(struct sandbox *s, const char *reason);

/* Remembers an operation whose outcome has been used. That of an execution is acknowledged only
 * when SANDBOX_LATE_ACKS newer ones have been used. */
void sandbox_ack(struct sandbox *s, const char op[FLEET_ID_SIZE], bool is_execution);

/* Fills `items` (room for SANDBOX_ACKS_MAX) with what the next START acknowledges. */
struct view_list sandbox_acks(const struct sandbox *s, struct view *items);

/* ---- ttl.c: how long it may stay ---- */

/* From here on it closes by itself; created_ms and both its times are set. */
void sandbox_start_clock(struct sandbox *s);

/* The same for one that has been idle for so long already; it stays for a moment at least. */
void sandbox_set_idle(struct sandbox *s, uint64_t idle_ms);

/* For how long nobody has called it; 0 while a call is in flight, or something else in it. */
uint64_t sandbox_idle_ms(const struct sandbox *s);

/* A call begins or ends: the idle time starts again. */
void sandbox_touch(struct sandbox *s);

/* It waits only shortly for a next call from now on. False: nothing runs in it that it would have
 * to outlive, and nothing has changed. */
bool sandbox_retire(struct sandbox *s);

/* Until it closes if nobody calls it any more; 0: any moment. */
uint64_t sandbox_time_left_ms(const struct sandbox *s);

/* Until it closes in any case. */
uint64_t sandbox_life_left_ms(const struct sandbox *s);

/* ---- progress.c: how creating goes on ---- */

/* OPEN was sent to create it: asks for progress from now on, and ends a worker that makes none. */
void sandbox_watch(struct sandbox *s);

void sandbox_progress_begin(struct sandbox_progress *n, uint64_t now_ms);

/* True if `number` is new. */
bool sandbox_progress_take(struct sandbox_progress *n, uint64_t number, uint64_t now_ms);

/* There have been none for too long. */
bool sandbox_progress_overdue(const struct sandbox_progress *n, uint64_t now_ms);

/* ---- mute.c: one without any language ---- */

/* It has just been opened, and has no language although others of its image had. Remembers that
 * this image has some, if it has. */
bool sandbox_is_mute(struct sandbox *s);

/* Removes what was made, and has it made again by another worker; fails the creation if that has
 * been tried. Only in CREATING. */
void sandbox_make_again(struct sandbox *s);

/* ---- close.c: the end ---- */

/* State CLOSING; calls are answered as cancelled, later. `done` may be NULL. */
void sandbox_close(struct sandbox *s, const char *cause, fleet_done_fn done, void *arg);

/* Answers `opened`, if it has not been: with the failure, or (err NULL) a snapshot. Calls back
 * inside. */
void sandbox_answer_opened(struct sandbox *s, const struct err *err, const char *hint);

/* Answers `opened`, if it has not been, with a failure, and closes. Calls back inside. */
void sandbox_create_failed(struct sandbox *s, const struct err *err, const char *hint);

/* State LEFT: answers calls, hangs up, and lets all of it live, for the next server. Only in
 * READY or RECOVERING. Calls back later. */
void sandbox_leave(struct sandbox *s);

/* Starts or continues the removal of everything, from state FAILED or CLOSING. */
void sandbox_cleanup(struct sandbox *s);

/* The worker is dead; called in states FAILED and CLOSING. */
void sandbox_cleanup_worker_dead(struct sandbox *s);

/* ---- installers.c: sandboxes that write the packages of others ---- */

/* What clients do not see: found by its id, but in no list and no count. */
static inline bool sandbox_is_installer(const struct sandbox *s)
{
    return s->spec.packages_write;
}

/* From now on `target` is not removed before the installer. */
void sandbox_install_for(struct sandbox *installer, struct sandbox *target);

/* Closes the installers of s; true if there are any. The last that is gone calls
 * sandbox_cleanup(s). */
bool sandbox_close_installers(struct sandbox *s);

/* Nothing of it can write any more, or nobody can tell. Nothing if it is no installer. */
void sandbox_installer_gone(struct sandbox *s);

/* s is about to be freed. */
void sandbox_installers_forget(struct sandbox *s);

/* ---- adopt.c: from one server to the next ---- */

/* Writes the record. `answered`: whoever asked for the sandbox is told of it. */
int sandbox_save(struct sandbox *s, bool answered, disk_done_fn done, struct err *err) WARN_UNUSED;

/* The sandbox of a record, as its last server knew it, in RECOVERING. No worker is looked for. */
struct sandbox *sandbox_restore(const struct sandbox_setup *setup, const char *id,
                                const struct record *record);

/* Goes on with the worker that the last server left. False if that one cannot be had: then the next
 * generation has to be started. */
bool sandbox_adopt_worker(struct sandbox *s, const struct record_worker *worker);

/* Asks what has been run and runs in it; READY when that is known. */
void sandbox_ask_past(struct sandbox *s);

/* ---- change.c: what whoever watches the fleet is told ---- */

enum sandbox_change { SANDBOX_CHANGE_STATE = 1 << 0, SANDBOX_CHANGE_FILES = 1 << 1 };

/* Told by the loop. */
void sandbox_changed(struct sandbox *s, enum sandbox_change change);

/* Told at once, before it is freed. */
void sandbox_changes_flush(struct sandbox *s);

/* ---- info.c: what is told about it ---- */

/* A snapshot that borrows from s. */
struct fleet_info sandbox_info(const struct sandbox *s);

/* Takes over what OPENED says. */
void sandbox_take_opened(struct sandbox *s, const struct msg_opened *opened);

/* Asks the worker for figures and calls `done` with them, or without if it cannot tell (then
 * perhaps inside). While a sandbox is being taken over this waits: a client whose server died asks
 * for the status to find the executions that it lost. Who has waited for as long as anybody does is
 * told of a sandbox that is recovering. */
void sandbox_status(struct sandbox *s, fleet_info_fn done, void *arg);

/* About once a second while it is being taken over: lets nobody wait for ever. */
void sandbox_status_check(struct sandbox *s);

/* It is known now what became of it: answers who waits for its status, later. */
void sandbox_status_known(struct sandbox *s);

/* The same at once, before it is freed. */
void sandbox_status_flush(struct sandbox *s);

void sandbox_free(struct sandbox *s);

#endif
