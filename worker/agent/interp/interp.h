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
#define INTERP_GAVE_UP  70 /* exit code of drivers that cannot go on; in drivers/, too */

struct interp;

/* What a language's `start` fills in. */
struct interp_start {
    struct keeper_job job;
    char *argv[INTERP_ARGS_MAX];
    char option[64];                               /* room for an argument that `start` makes */
    int request_end, report_end, out_end, err_end; /* theirs; borrowed */
    int null_fd;                                   /* /dev/null, both ways; borrowed */
    /* A memory file that only the interpreter reads, and only at its start; -1: none. Closed when
     * the keeper has it, because what it holds is memory of the sandbox. */
    int source_fd;
};

struct lang {
    const char *name;    /* as clients say it */
    const char *program; /* looked for in PATH */
    bool prestart;       /* start the process before the first operation */
    bool preloads;       /* it can import modules before that (OP_PRELOAD) */
    bool hold_interrupt; /* it starts with SIGINT blocked and unblocks it when it is ready */
    /* How an interrupt is sent. INTERRUPT_WITH_NOTICE and above: it is repeated while the run goes
     * on. */
    enum interrupt_by interrupt_by;
    bool exit_is_result; /* the process may end by itself in a run: its exit code is the outcome */

    /* Fills argv and descriptors. */
    int (*start)(struct interp *i, struct interp_start *s, struct err *err);
    /* Gives the interpreter its next run; takes over *request. */
    int (*submit)(struct interp *i, struct buf *request, struct err *err);
    /* For languages whose protocol an interrupt can disturb; NULL for others. `interrupted` makes
     * sure that run i->run is reported as interrupted if nothing else reports it; `sync` asks for a
     * report of run i->run without code. */
    void (*interrupted)(struct interp *i);
    void (*sync)(struct interp *i);
    /* Called after a stopped run, when all processes that it had started are gone; may be NULL. */
    void (*stopped)(struct interp *i);
    /* Called after each run; may be NULL. */
    void (*after)(struct interp *i);
    const char *blank; /* what it reads and passes over while it waits for a run; NULL: nothing */
    /* Explains a death in the middle of a run by the wait status and the text on stderr:
     * ERR_LANGUAGE (this program cannot be used) or ERR_NO_MEMORY, with a text; 0 if the reason is
     * unknown. May be NULL. */
    int (*explain_death)(int wait_status, const struct op_stream *err, char *text, size_t size);
};

extern const struct lang lang_python;
extern const struct lang lang_node;
extern const struct lang lang_bash;

struct interp {
    const struct lang *lang;
    char *path;   /* owned; NULL: not installed, or not known yet */
    bool unknown; /* to be looked for (again) */
    int look_sys; /* why the last lookup could not tell whether it is there; 0: it could */
    const struct spawn_config *spawn;
    bool last_resort; /* see killtree.h */

    struct keeper keeper;
    int request_fd, report_fd, out_fd, err_fd; /* owned, our ends; -1 while there is no process */
    int script_fd, stdin_fd;                   /* owned; shared with the shell */
    int input_fd; /* owned; the pipe for stdin that stays open: its reading end, shared as well */
    struct buf pending; /* bytes to be written to request_fd */
    size_t pending_at;  /* how many of them are written */
    struct report report;
    struct figures figures;
    uint64_t cpu_base_us;

    struct op *current;        /* borrowed; the running operation */
    uint32_t run;              /* number of the current or last run */
    bool had_state;            /* an operation has run in this process */
    bool lost_state;           /* an earlier process had state */
    bool dying;                /* the agent has ordered its kill */
    bool unfit;                /* a module could not be imported: another one takes its place */
    struct procs_moment begun; /* processes started since belong to the current run */
    bool sweeping;             /* a stopped run has ended; its processes are being killed */
    bool syncing;              /* waiting for an answer after an interrupt, before the next run */
    unsigned retries;          /* retries of an interrupt, or of syncing */
    uint64_t retry_us;         /* clock_us() of the next retry; 0 = none */
    bool unbegun;              /* the process has ended before it read the request of its run */
    bool blanked;              /* the blank was written in this run */
    uint64_t look_us;          /* clock_us() of the next look for a run that ended unreported */
    uint64_t look_after_us;    /* how long after that is the next */
    unsigned stale;            /* ends of earlier runs reported since the last run began */
    char offence[256];         /* the reason, if it misbehaved */
    char loss[256];            /* that of the process before, if no run was there to be told */

    struct poll_slot slot_status, slot_report, slot_request, slot_out, slot_err;
};

/* Initialises an interpreter that is not looked up yet; call interp_look(). */
void interp_init(struct interp *i, const struct lang *lang, const struct spawn_config *spawn,
                 bool last_resort);

/* Looks up the program unless the answer is known, and starts it if the language has `prestart`. */
void interp_look(struct interp *i);

/* If no program was found: forgets that, so that the next interp_look() looks again. */
void interp_doubt(struct interp *i);

/* Orders the end of a running process and frees the rest. */
void interp_finish(struct interp *i);

/* True if an operation could begin now. */
bool interp_is_free(const struct interp *i);

/* Starts the process if there is none, so that the next operation need not wait for that. */
int interp_prestart(struct interp *i, struct err *err) WARN_UNUSED;

/* Starts a queued operation; interp_is_free() must hold. On failure the operation ends as
 * FAILED. */
void interp_begin(struct interp *i, struct op_table *t, struct op *op);

/* Stops the running operation: by SIGINT, or with `force` by killing everything. */
void interp_stop(struct interp *i, struct op_table *t, enum op_stop reason, bool force);

/* interp_poll() adds the descriptors and returns the microseconds until the next timeout,
 * UINT64_MAX if there is none. interp_handle() handles what came. */
uint64_t interp_poll(struct interp *i, struct poll_set *set, uint64_t now_us);
void interp_handle(struct interp *i, const struct poll_set *set, struct op_table *t);

/* For struct lang: takes over *data and writes it to the request pipe, the rest when the pipe has
 * room. */
int interp_write(struct interp *i, struct buf *data, struct err *err) WARN_UNUSED;

#endif
