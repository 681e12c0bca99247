/*
 * A live interpreter: one process per language that keeps its state from operation to operation.
 *
 *            first operation                       submit               DONE record
 *   (none) ------------------> starting/idle ------------------> busy -------------> idle
 *      ^                             |                             |
 *      '---- keeper: all gone <------'------------ died, killed <--'
 *
 * Thread: the agent has one. Nothing blocks.
 */
#ifndef CLOISTER_WORKER_AGENT_INTERP_INTERP_H
#define CLOISTER_WORKER_AGENT_INTERP_INTERP_H

#include <stdbool.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/err.h"
#include "worker/agent/link/poll_set.h"
#include "worker/agent/link/report.h"
#include "worker/agent/process/figures.h"
#include "worker/agent/process/keeper.h"
#include "worker/agent/run/op.h"

#define INTERP_ARGS_MAX 10

struct interp;

/* What starting a language takes. */
struct interp_start {
    struct keeper_job job;
    char *argv[INTERP_ARGS_MAX];
    char option[64];                               /* room for one that is made for the occasion */
    int request_end, report_end, out_end, err_end; /* theirs; borrowed */
    int null_fd;                                   /* /dev/null, both ways; borrowed */
};

struct lang {
    const char *name;    /* as clients say it */
    const char *program; /* looked for in PATH */
    bool prestart;       /* worth starting before anybody asked */
    bool hold_interrupt; /* it starts with SIGINT blocked and unblocks it when it is up */
    /* With a notice, an interrupt is repeated while its run goes on. */
    enum interrupt_by interrupt_by;
    bool exit_is_result; /* ending is an ordinary thing for a program to do, with an exit code */

    /* Fills argv and descriptors. */
    int (*start)(struct interp *i, struct interp_start *s, struct err *err);
    /* Hands the interpreter its next run; takes over *request. */
    int (*submit)(struct interp *i, struct buf *request, struct err *err);
    /* For those whose protocol an interrupt can disturb; NULL for others. `interrupted` makes sure
     * that run i->run is reported as interrupted if it is not reported otherwise; `sync` that it is
     * reported. */
    void (*interrupted)(struct interp *i);
    void (*sync)(struct interp *i);
    /* After a run that was stopped, when all that it had started is gone; may be NULL. */
    void (*stopped)(struct interp *i);
    /* After a run; may be NULL. */
    void (*after)(struct interp *i);
    /* Why it died in the middle of a run, if that can be told from its end and what it wrote to
     * stderr: ERR_LANGUAGE (this program cannot be used) or ERR_NO_MEMORY, with a text, or 0. May
     * be NULL. */
    int (*explain_death)(int wait_status, const struct op_stream *err, char *text, size_t size);
};

extern const struct lang lang_python;
extern const struct lang lang_node;
extern const struct lang lang_bash;

struct interp {
    const struct lang *lang;
    char *path;   /* owned; NULL: not installed, or that is not known */
    bool unknown; /* it could not be looked for */
    const struct spawn_config *spawn;
    bool last_resort; /* see killtree.h */

    struct keeper keeper;
    int request_fd, report_fd, out_fd, err_fd; /* owned, our ends; -1 while there is no process */
    int script_fd, stdin_fd;                   /* owned; shared with the shell */
    struct buf pending;                        /* what request_fd is to get */
    size_t pending_at;                         /* how much of that it has taken */
    struct report report;
    struct figures figures;
    uint64_t cpu_base_us;

    struct op *current;        /* borrowed; the operation that runs */
    uint32_t run;              /* number of the current or last run */
    bool had_state;            /* an operation has run in this process */
    bool lost_state;           /* an earlier process had state */
    bool dying;                /* we have ordered its end */
    struct procs_moment begun; /* what has started since belongs to the current run */
    bool sweeping;     /* the current run was stopped and has ended, not so what it has started */
    bool syncing;      /* finding out whether it still listens, after an interrupt */
    unsigned retries;  /* of an interrupt, or of syncing */
    uint64_t retry_us; /* clock_us() when to try again; 0 = no need to */
    char offence[256]; /* why we have, if it misbehaved */

    struct poll_slot slot_status, slot_report, slot_request, slot_out, slot_err;
};

/* One that is not known to be installed: look for it. */
void interp_init(struct interp *i, const struct lang *lang, const struct spawn_config *spawn,
                 bool last_resort);

/* Looks for its program as long as it is not known whether there is one, and starts it if the
 * language wants that. */
void interp_look(struct interp *i);

/* Orders the end of a running process and frees the rest. */
void interp_finish(struct interp *i);

/* True if an operation could begin right now. */
bool interp_is_free(const struct interp *i);

/* Starts the process if there is none, so that the next operation finds it warm. */
int interp_prestart(struct interp *i, struct err *err) WARN_UNUSED;

/* Lets a queued operation begin; interp_is_free() must hold. On failure the operation is done, as
 * failed. */
void interp_begin(struct interp *i, struct op_table *t, struct op *op);

/* Stops the running operation: by SIGINT, or with `force` by killing everything. */
void interp_stop(struct interp *i, struct op_table *t, enum op_stop reason, bool force);

/* What it waits for, and what came of it. interp_poll() returns in how many microseconds it wants
 * to be asked again at the latest; UINT64_MAX for never. */
uint64_t interp_poll(struct interp *i, struct poll_set *set, uint64_t now_us);
void interp_handle(struct interp *i, const struct poll_set *set, struct op_table *t);

/* For struct lang: takes over *data and writes it to the request pipe; what does not fit now
 * follows later. */
int interp_write(struct interp *i, struct buf *data, struct err *err) WARN_UNUSED;

#endif
