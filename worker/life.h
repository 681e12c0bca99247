/*
 * The inside of a worker, shared by worker.c (what it is asked), life.c and leave.c (what becomes
 * of its sandbox) and the tables of its states, and by nothing else.
 *
 * It is in one state of three machines: `sm` says what it can be asked, `step` what is under way in
 * that, `supervisor.sm` who is there to ask.
 */
#ifndef CLOISTER_WORKER_LIFE_H
#define CLOISTER_WORKER_LIFE_H

#include "common/buf.h"
#include "common/io/ipc.h"
#include "common/sm.h"
#include "worker/agent_link.h"
#include "worker/backend/backend.h"
#include "worker/door/door.h"
#include "worker/figures.h"
#include "worker/operations.h"
#include "worker/progress.h"
#include "worker/step.h"
#include "worker/supervisor_link.h"
#include "worker/worker.h"

/* A request that is answered later. */
struct asker {
    struct asker *next;
    struct ipc_request *request;
    uint64_t seq;
};

/* A pending PROBE or SWEEP, each with its own backend object, or what FRONT is asked of. */
struct oneshot {
    struct oneshot *next;
    struct worker *worker;
    struct backend *backend;
    struct asker *asker;
    struct asker *offers; /* an OFFERS that waits, beside a FRONT; else NULL */
    bool closing;         /* its backend is, and may still call back before it is closed */
};

struct worker {
    uv_loop_t *loop;
    const struct worker_setup *setup;
    worker_ended_fn ended;
    void *ended_arg;
    enum exit_code exit_code;

    struct sm sm;          /* enum worker_state */
    struct sm step;        /* enum worker_step */
    uv_timer_t step_timer; /* the end of the present step's patience */
    unsigned timers_left;  /* in STEP_TIMERS */

    struct {
        struct sm sm; /* enum supervisor_state */
        struct ipc_server *server;
        bool died;               /* the one that started us */
        bool ends_instance;      /* it does, and has been given more time for that */
        bool mute;               /* leaving a live sandbox to the next worker: it asks that one */
        struct buf answer;       /* scratch for encoding */
        uv_timer_t orphan_timer; /* runs while nobody has said a fitting HELLO */
    } supervisor;

    /* What OPEN said, and what is told of it. */
    struct backend_spec spec; /* strings owned */
    struct view_list runners; /* for the agent; owned, too */
    struct door_rules rules;  /* of its door */
    bool attached;
    struct buf opened;     /* the OPENED that everybody gets, encoded */
    struct err gone_cause; /* why the sandbox ended by itself */

    struct {
        struct ipc_request *request; /* a LIMITS that is being answered; else NULL */
        uint64_t seq;
        uint64_t memory_bytes, cpu_milli;
    } relimit;

    struct {
        struct ipc_request *request; /* a KEEP that is being answered; else NULL */
        uint64_t seq;
    } keep;
    bool is_others; /* the sandbox is another server's: nothing is said to its agent any more */
    struct oneshot *front; /* of the list below, if FRONT was asked */
    bool front_leaves;     /* it is saying that the server has ended */

    /* Who works for it. */
    struct backend *backend;
    struct progress *progress;
    struct agent_link *link;
    struct figures *figures;
    struct operations *operations;
    struct door *door; /* NULL: the sandbox has none */

    /* Who waits. */
    struct asker *open_askers, *close_askers;
    struct oneshot *oneshots;
};

/* ---- worker.c ---- */
void worker_answer(struct worker *w, struct ipc_request *request, const struct msg *m);
void worker_answer_failed(struct worker *w, struct ipc_request *request, uint64_t seq,
                          const struct err *err, const char *hint);

/* Freed by whoever has it (free). */
struct asker *worker_asker(struct ipc_request *request, uint64_t seq);

/* Returns a backend object for PROBE, SWEEP or FRONT, and its spec without the runtime; the caller
 * frees the place. NULL if there is no such backend or the place does not belong to it; the request
 * has been answered then. */
struct oneshot *worker_oneshot(struct worker *w, struct ipc_request *request, uint64_t seq,
                               struct view name, struct view_list place,
                               struct backend_spec *ret_spec);

/* The longest valid prefix of text (may be NULL) for a STR field of max bytes: texts of other
 * programs may be long, or end within a character. Borrowed from text. */
struct view worker_text(const char *text, size_t max);

/* ---- life.c ---- */
void life_init(struct worker *w);
void life_open(struct worker *w, const struct msg_open *m);
void life_answer_opened(struct worker *w); /* to all who asked, once it is open */
void life_close(struct worker *w, enum exit_code code, uint64_t grace_ms);

/* The only writer of the state; asserts that the move is declared, and logs it. */
void life_set_state(struct worker *w, enum worker_state next, const char *cause);

/* Answers all of a list: with m, or if that is NULL with err. */
void life_answer_askers(struct worker *w, struct asker **list, struct msg *m, const struct err *err,
                        const char *hint);

/* ---- leave.c ---- */
void life_leave(struct worker *w, enum exit_code code); /* leaves the sandbox as it is */
void life_oneshot_done(struct oneshot *e);

/* Called when the supervisor is dead or its link lost. If the whole instance is ending, no other
 * supervisor will come, so it stops dialling; otherwise it does nothing. */
void life_hang_up(struct worker *w);

#endif
