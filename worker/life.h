/*
 * The inside of a worker, shared by worker.c (what it is asked) and life.c (what becomes of its
 * sandbox), and by nothing else.
 */
#ifndef CLOISTER_WORKER_LIFE_H
#define CLOISTER_WORKER_LIFE_H

#include "common/buf.h"
#include "common/io/ipc.h"
#include "common/sm.h"
#include "worker/agent_link.h"
#include "worker/backend/backend.h"
#include "worker/figures.h"
#include "worker/operations.h"
#include "worker/progress.h"
#include "worker/worker.h"

/* A request that is answered later. */
struct asker {
    struct asker *next;
    struct ipc_request *request;
    uint64_t seq;
};

/* A PROBE or SWEEP under way, each with a backend object of its own. */
struct oneshot {
    struct oneshot *next;
    struct worker *worker;
    struct backend *backend;
    struct asker *asker;
    bool closing;
};

struct worker {
    uv_loop_t *loop;
    const struct worker_setup *setup;
    worker_ended_fn ended;
    void *ended_arg;
    struct sm sm;
    enum exit_code exit_code;

    struct ipc_server *server;
    bool link_up;
    bool supervisor_died; /* the one that started us */
    bool expects_end;     /* … with all of its instance, and has been given more time for that */
    bool greeted;         /* HELLO has been said on the present link */
    bool mute;            /* leaving a live sandbox to the next worker: who asked asks that one */
    struct buf answer;    /* scratch for encoding */

    struct backend_spec spec; /* strings owned */
    struct view_list runners; /* for the agent, whoever asks for it; owned, too */
    bool attached;
    struct backend *backend;
    struct progress *progress;
    bool creating;   /* create or attach has not called back yet */
    bool destroying; /* destroy has been called */
    struct agent_link *link;
    struct figures *figures;
    struct operations *operations;
    struct buf opened; /* the OPENED that everybody gets, encoded */
    struct asker *open_askers, *close_askers;
    struct err gone_cause; /* why the sandbox ended by itself */
    bool gone_told;
    struct oneshot *oneshots;

    uv_timer_t orphan_timer; /* runs while nobody has said a fitting HELLO */
    uv_timer_t step_timer;   /* the end of the present step's patience */
    bool backend_closing, parts_closing, server_closing;
    unsigned timers_left;
};

/* ---- worker.c ---- */
void worker_answer(struct worker *w, struct ipc_request *request, const struct msg *m);
void worker_answer_failed(struct worker *w, struct ipc_request *request, uint64_t seq,
                          const struct err *err, const char *hint);

/* As much of text, which may be NULL, as a STR field of at most max bytes can hold: other programs'
 * words may be long, or cut off within a character. Borrowed from text. */
struct view worker_text(const char *text, size_t max);

/* ---- life.c ---- */
void life_init(struct worker *w);
void life_open(struct worker *w, const struct msg_open *m);
void life_answer_opened(struct worker *w); /* to all who asked, once it is open */
void life_close(struct worker *w, enum exit_code code, uint64_t grace_ms);
void life_leave(struct worker *w, enum exit_code code); /* leaves the sandbox as it is */
void life_oneshot_done(struct oneshot *e);

/* Its supervisor is dead, or its link lost, and the end of the whole instance has begun: no other
 * will come. Nothing in any other case. */
void life_hang_up(struct worker *w);

#endif
