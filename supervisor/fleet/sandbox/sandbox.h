/*
 * One sandbox: its state, its worker, and its calls.
 *
 * Private to the fleet and to the calls. Loop thread only; nothing blocks. Unless noted, no
 * callback of a client runs inside a function of this header.
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
#include "supervisor/fleet/sandbox/states.h"
#include "supervisor/fleet/state/record.h"
#include "supervisor/fleet/workers/link.h"
#include "supervisor/fleet/workers/policy.h"

#define SANDBOX_CALLS_MAX 32   /* operations in flight in one sandbox */
#define SANDBOX_ACKS_MAX  64   /* outcomes that the agent may drop, as many as it keeps */
#define SANDBOX_LATE_ACKS 16   /* latest executions whose outcome the agent keeps */
#define SANDBOX_MARGIN_MS 2000 /* for the worker to report a timeout before we do */

#define HINT_NEW_SANDBOX "create a new sandbox; files and variables of this one are lost"

/* What one that is made for nobody imports before it is kept (preload.c). */
struct sandbox_preload {
    const struct pool_modules *modules; /* borrowed as long as it exists */
    unsigned left_out;                  /* a bit each: those that are not, or not any more */
    /* What became of each that was not left out from the beginning, once, with the arg of the
     * opening; why NULL: it is imported. */
    void (*told)(void *arg, size_t module, const char *why);

    size_t at;                   /* which one is being imported */
    char op[FLEET_ID_SIZE];      /* by this operation, */
    uint64_t out_from, err_from; /* whose output is read up to here, */
    uint64_t until_ms;           /* and which is over by then */
    uint64_t resident_bytes;     /* most memory that its interpreter has had */
};

/* The list owns the texts. */
struct text_list {
    char **items;
    size_t count;
};

struct adopt;
struct config;
struct pool_modules;

struct status_wait; /* info.c */

struct sandbox_waiter {
    TAILQ_ENTRY(sandbox_waiter) node;
    fleet_done_fn done;
    void *arg;
};

/* Progress of a creation, as its worker reports it. Times are monotonic milliseconds. */
struct sandbox_progress {
    uint64_t seen;      /* number of the latest report */
    uint64_t moved_ms;  /* when it came, or when the creation started */
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
    bool is_default;        /* the default sandbox of its session, or of its owner */
    char *session;          /* "": of its owner */
    uint64_t evict_idle_ms; /* as in fleet_spec */
    bool evicted;           /* closed to make room for another; does not count against limits */
    char *dir;
    bool record_saved; /* in it; none is being written */
    bool unpublished;  /* other servers cannot take it over, and should be able to */
    struct sm sm;      /* enum sandbox_state */
    char *reason;      /* why it is FAILED, or why it is being closed */

    /* ---- what was requested ---- */
    struct msg_open spec; /* owns its texts */
    struct {
        struct view *env;
        struct view *mounts;
        bool image_is_reference; /* the client's choice, for an engine only */
    } asked;
    uint64_t timeout_ms;

    /* ---- what it got ---- */
    char *backend;
    char *runtime;
    char *image;
    char *workspace;
    struct text_list languages;
    struct text_list unapplied;
    struct sm made; /* enum sandbox_made */

    /* ---- who waits for its creation ---- */
    struct {
        struct engine_wait engine_wait;
        fleet_info_fn done;         /* NULL once called */
        fleet_progress_fn progress; /* may be NULL */
        void *arg;                  /* of both */
        struct sandbox_progress watch;
        uv_timer_t poll_timer; /* next poll for progress */
    } opening;

    /* ---- how long it may stay ---- */
    struct {
        uint64_t created_ms;      /* clock_ms() */
        uint64_t created_wall_ms; /* for people */
        uint64_t used_ms;         /* when a call last started or ended */
        uint64_t ttl_ms;
        uint64_t lifetime_ms;
        uv_timer_t timer;
    } clock;

    /* ---- its takeover from an earlier server ---- */
    struct {
        struct sm sm;      /* enum sandbox_adoption */
        struct adopt *run; /* not NULL during the takeover; reports its end */
        TAILQ_ENTRY(sandbox) node;
        TAILQ_HEAD(, status_wait) waiters; /* status requests that wait for the end of it */
        struct deferred_task task;
    } adoption;

    /* ---- whether it was made for nobody ---- */
    struct {
        struct sm sm;            /* enum sandbox_pooled */
        void (*kept)(void *arg); /* called when it is, with the arg of the opening */
        uint64_t claimed_us;     /* for the log */
        struct sandbox_preload preload;
        bool elsewhere; /* another server had made it */
    } pooled;

    /* ---- its worker ---- */
    struct worker_link *link; /* NULL between two lives */
    uint64_t generation;      /* of the latest life; the first is 1 */
    struct sm attempt;        /* enum sandbox_attempt */
    struct worker_policy policy;
    struct {
        uint64_t broken_ms; /* since when it has no usable worker */
        uint64_t died_us;   /* when the death of the last one was detected, for the log */
        uv_timer_t timer;   /* to the start of the next */
    } repair;

    /* ---- installers of packages ---- */
    struct {
        struct sandbox *target;    /* of an installer: for which it installs, while both exist */
        TAILQ_ENTRY(sandbox) node; /* the target's list */
        TAILQ_HEAD(, sandbox) installers; /* its installers that still exist */
    } installing;

    /* ---- its end ---- */
    struct {
        struct sm sm;    /* enum sandbox_cleanup */
        unsigned sweeps; /* number of sweeps so far */
        struct turn turn;
        TAILQ_HEAD(, sandbox_waiter) waiters;
        struct deferred_task task;
    } end;

    /* ---- what observers have not been told yet ---- */
    struct {
        unsigned pending; /* enum sandbox_change */
        struct deferred_task task;
    } change;

    /* ---- what runs in it ---- */
    TAILQ_HEAD(sandbox_calls, fleet_call) calls; /* unanswered, oldest first */
    size_t call_count;
    uint64_t executions;
    uv_timer_t calls_check; /* about once a second while RECOVERING */
    /* Operations whose outcome the agent may drop: [acks_from, acks_to) in a ring. */
    char acks[SANDBOX_ACKS_MAX][FLEET_ID_SIZE];
    uint64_t acks_from, acks_to;
    /* The latest executions, whose outcome the agent keeps for the next server: also a ring. */
    char late_acks[SANDBOX_LATE_ACKS][FLEET_ID_SIZE];
    uint64_t late_count;

    unsigned timers_open;
};

struct sandbox_setup {
    struct fleet_host *host;
    struct engine *engine;
    void (*on_gone)(void *arg,
                    struct sandbox *s); /* CLOSED: removes it from the list; it frees itself */
    void *on_gone_arg;
};

/* ---- sandbox.c: the state and the worker ---- */

/* Starts to create a sandbox; `opened` reports the result, and before it the specification's
 * `progress` what takes long, with the same arg. */
int sandbox_create(const struct sandbox_setup *setup, const char *owner,
                   const struct fleet_spec *spec, fleet_info_fn opened, void *arg,
                   struct sandbox **ret, struct err *err) WARN_UNUSED;

/* It exists, and belongs to whoever asked for it: state READY, and the creation is answered. */
void sandbox_created(struct sandbox *s, const char *cause);

/* The same with an id that is there already, and whose workers have higher generations. */
struct sandbox *sandbox_begin(const struct sandbox_setup *setup, const char *id, const char *owner,
                              const struct fleet_spec *spec, fleet_info_fn opened, void *arg);

/* Makes the object in its first state, with nothing behind it; copies the texts. */
struct sandbox *sandbox_new(const struct sandbox_setup *setup, const char *id, const char *owner,
                            const char *name, enum sandbox_state first);

/* Sets where it was or will be made; takes ownership of the texts. */
void sandbox_take_place(struct sandbox *s, char *backend, struct view_list place, char *runtime);

/* Arguments of its worker of this generation; borrows from s. */
struct worker_args sandbox_worker_args(const struct sandbox *s, uint64_t generation);

/* Starts a worker of the next generation. A failure counts as its death. */
void sandbox_start_worker(struct sandbox *s);

/* The callbacks of its worker links. */
extern const struct worker_link_events sandbox_worker_events;

/* One that another server had, right after sandbox_restore(): writes the record, for which its
 * first worker, of this generation and on, waits. */
int sandbox_import(struct sandbox *s, uint64_t generation, struct err *err) WARN_UNUSED;

/* Nothing is left to find out: state READY, and calls continue. */
void sandbox_ready(struct sandbox *s, const char *cause);

enum sandbox_state sandbox_state(const struct sandbox *s);

/* Whether it has failed, is ending or has ended: nothing is started in it any more. */
bool sandbox_is_leaving(const struct sandbox *s);

/* The only function that writes the state; asserts that the transition is declared, and logs it. */
void sandbox_set_state(struct sandbox *s, enum sandbox_state next, const char *cause);

/* The sandbox does not exist any more, or is given up: state FAILED; code that was running has
 * crashed, other calls are answered with ERR_GONE (before this returns), and the rest is removed.
 */
void sandbox_fail(struct sandbox *s, const char *reason);

/* As sandbox_fail(), reported by the worker, which cleans up and exits by itself. */
void sandbox_gone(struct sandbox *s, const char *reason);

/* Notes an operation whose outcome was used. The outcome of an execution is acknowledged only when
 * SANDBOX_LATE_ACKS newer ones were used. */
void sandbox_ack(struct sandbox *s, const char op[FLEET_ID_SIZE], bool is_execution);

/* Fills `items` (room for SANDBOX_ACKS_MAX) with the acknowledgements of the next START. */
struct view_list sandbox_acks(const struct sandbox *s, struct view *items);

/* ---- asked.c: what is asked for ---- */

/* Copies all that the worker is told, but not where the sandbox is made. */
void sandbox_take_spec(struct sandbox *s, const struct fleet_spec *spec);

/* Fills in the limits that this specification asks for, or the defaults. */
void sandbox_take_limits(const struct config *c, const struct fleet_spec *spec,
                         struct msg_open *ret);

/* What its owner chooses and its worker does not know: name, session, times, eviction. */
void sandbox_take_choices(struct sandbox *s, const struct fleet_spec *spec);

/* ---- ttl.c: how long it may stay ---- */

/* Starts its idle time and its lifetime; created_ms, ttl and lifetime must be set. */
void sandbox_start_clock(struct sandbox *s);

/* Sets its idle time so far; it stays for a moment at least. */
void sandbox_set_idle(struct sandbox *s, uint64_t idle_ms);

/* How long it has not been used; 0 while a call or something else is in progress in it. */
uint64_t sandbox_idle_ms(const struct sandbox *s);

/* A call starts or ends: its idle time starts again. */
void sandbox_touch(struct sandbox *s);

/* From now on it waits only shortly for the next call. False, without effect: nothing runs in
 * it. */
bool sandbox_retire(struct sandbox *s);

/* Time until it closes unless it is used; 0: any moment. */
uint64_t sandbox_time_left_ms(const struct sandbox *s);

/* Time until it closes in any case. */
uint64_t sandbox_life_left_ms(const struct sandbox *s);

/* ---- progress.c: how creating goes on ---- */

/* OPEN was sent to create it: polls for progress from now on, and kills a worker that makes
 * none. */
void sandbox_watch(struct sandbox *s);

void sandbox_progress_begin(struct sandbox_progress *n, uint64_t now_ms);

/* True if `number` is new. */
bool sandbox_progress_take(struct sandbox_progress *n, uint64_t number, uint64_t now_ms);

/* Whether the last progress is too long ago. */
bool sandbox_progress_overdue(const struct sandbox_progress *n, uint64_t now_ms);

/* ---- mute.c: one without any language ---- */

/* Whether it was opened without any language although its image has some, or may have. Notes
 * whether the image has languages, as far as that is known now. */
bool sandbox_is_mute(struct sandbox *s);

/* Removes it and has the next worker create it again; fails the creation if that was tried before.
 * Logs what its agent has looked at. Only in CREATING. */
void sandbox_make_again(struct sandbox *s, struct view looked);

/* Logs what the agent of one that has languages had looked at before it found them, if there was
 * such a time: the cause may be one that leaves others mute. */
void sandbox_note_late(const struct sandbox *s, struct view looked);

/* ---- claim.c: one that was made for nobody ---- */

/* Right after sandbox_create(), for an owner without a name: when it is made and has imported what
 * it can of `preload`, `kept` is called with the arg of `opened`, which is not called unless it
 * cannot be made, or ends. */
void sandbox_hold_back(struct sandbox *s, const struct sandbox_preload *preload,
                       void (*kept)(void *arg));

/* It is made: keeps it if it is nobody's, and returns whether it is. */
bool sandbox_keep(struct sandbox *s);

/* Nothing is left to import: keeps it. */
void sandbox_preloaded(struct sandbox *s);

/* Whether it is nobody's: no client sees it, and it counts against nobody's limits. It stays so to
 * its end, unless it is claimed. */
static inline bool sandbox_is_entry(const struct sandbox *s)
{
    return s->pooled.sm.state == POOLED_FILLING || s->pooled.sm.state == POOLED_KEPT;
}

/* Gives one that is kept to an owner, as if it were created for this specification now, whose image
 * and reach must be those that it has. `opened` reports the result; before it returns the
 * earlier arg of the opening is out of use. */
void sandbox_claim(struct sandbox *s, const char *owner, const struct fleet_spec *spec,
                   fleet_info_fn opened, void *arg);

/* Begins to create one by claiming that of another server with this id, which was made for nobody
 * and has had workers up to this generation. `opened` reports the result. */
struct sandbox *sandbox_seek(const struct sandbox_setup *setup, const char *id, uint64_t generation,
                             const char *owner, const struct fleet_spec *spec, fleet_info_fn opened,
                             void *arg);

static inline bool sandbox_is_sought(const struct sandbox *s)
{
    return s->pooled.sm.state == POOLED_SOUGHT;
}

/* Its worker has reached it: it is ours, if it is any good. */
void sandbox_claim_found(struct sandbox *s);

/* Whether `opened` failed because what was kept is no good, so that another may be made. */
bool sandbox_claim_is_lost(const struct sandbox *s);

/* The creation has failed: if it was being claimed, that is why. */
void sandbox_claim_lose(struct sandbox *s);

/* ---- preload.c: what one that was made for nobody imports in advance ---- */

/* Has its interpreter import what it is to import; sandbox_preloaded() follows, perhaps at once. */
void sandbox_begin_preload(struct sandbox *s);

/* Whether it is importing, and which. */
bool sandbox_is_preloading(const struct sandbox *s, size_t *ret_module);

/* The least memory that it can be given to somebody with. */
uint64_t sandbox_memory_least(const struct sandbox *s);

/* ---- close.c: the end ---- */

/* State CLOSING; calls are answered as cancelled, later. `done` may be NULL. */
void sandbox_close(struct sandbox *s, const char *cause, fleet_done_fn done, void *arg);

/* Calls `opened`, if it was not called: with the failure, or (err NULL) a snapshot. Inside this
 * call. */
void sandbox_answer_opened(struct sandbox *s, const struct err *err, const char *hint);

/* Calls `opened`, if it was not called, with a failure, and closes. Inside this call. */
void sandbox_create_failed(struct sandbox *s, const struct err *err, const char *hint);

/* State LEFT: answers calls, closes the link, and leaves everything alive for the next server. Only
 * in READY or RECOVERING. Calls back later. */
void sandbox_leave(struct sandbox *s);

/* Starts or continues the removal of everything, in state FAILED or CLOSING. */
void sandbox_cleanup(struct sandbox *s);

/* The worker is dead; called in states FAILED and CLOSING. */
void sandbox_cleanup_worker_dead(struct sandbox *s);

/* ---- installers.c: sandboxes that write the packages of others ---- */

/* Whether it is an installer: found by its id, but in no list and no count. */
static inline bool sandbox_is_installer(const struct sandbox *s)
{
    return s->spec.packages_write;
}

/* From now on `target` is not removed before the installer. */
void sandbox_install_for(struct sandbox *installer, struct sandbox *target);

/* Closes the installers of s; true if there are any. The last one to end calls
 * sandbox_cleanup(s). */
bool sandbox_close_installers(struct sandbox *s);

/* It cannot write any more, or nobody can tell. Does nothing if it is no installer. */
void sandbox_installer_gone(struct sandbox *s);

/* s is about to be freed. */
void sandbox_installers_forget(struct sandbox *s);

/* ---- adopt.c: from one server to the next ---- */

/* Writes the record. `answered`: its creation is answered. */
int sandbox_save(struct sandbox *s, bool answered, disk_done_fn done, struct err *err) WARN_UNUSED;

/* Has the engine keep the record for other servers; `done` gets s. */
int sandbox_publish(struct sandbox *s, worker_reply_fn done, struct err *err) WARN_UNUSED;

/* … or that nobody knows of it yet. */
int sandbox_publish_spare(struct sandbox *s, worker_reply_fn done, struct err *err) WARN_UNUSED;

/* Makes the object of a recorded sandbox, in RECOVERING. Does not look for its worker. */
struct sandbox *sandbox_restore(const struct sandbox_setup *setup, const char *id,
                                const struct record *record);

/* Continues with the worker of the last server. False if that is impossible: the next generation
 * must be started. */
bool sandbox_adopt_worker(struct sandbox *s, const struct record_worker *worker);

/* Asks which operations ran and run; READY when that is known. */
void sandbox_ask_past(struct sandbox *s);

/* ---- change.c: reports to the observer ---- */

enum sandbox_change { SANDBOX_CHANGE_STATE = 1 << 0, SANDBOX_CHANGE_FILES = 1 << 1 };

/* Reports a change, from the loop. */
void sandbox_changed(struct sandbox *s, enum sandbox_change change);

/* Reports changes at once, before it is freed. */
void sandbox_changes_flush(struct sandbox *s);

/* ---- info.c: descriptions of it ---- */

/* A snapshot that borrows from s. */
struct fleet_info sandbox_info(const struct sandbox *s);

/* Copies the fields of OPENED. */
void sandbox_take_opened(struct sandbox *s, const struct msg_opened *opened);

/* Requests figures from the worker and calls `done` with them, or without if it has none (then
 * perhaps before this returns). During a takeover this waits, since a client whose server died asks
 * for the status to find the executions that it lost. A request that has waited for
 * fleet_host_patience_ms() is answered with the state "recovering". */
void sandbox_status(struct sandbox *s, fleet_info_fn done, void *arg);

/* Called about once a second during a takeover: answers requests that have waited too long. */
void sandbox_status_check(struct sandbox *s);

/* The takeover has ended: answers waiting status requests, later. */
void sandbox_status_known(struct sandbox *s);

/* Answers them at once, before it is freed. */
void sandbox_status_flush(struct sandbox *s);

void sandbox_free(struct sandbox *s);

#endif
