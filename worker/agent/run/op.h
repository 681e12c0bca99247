/*
 * Operations: what the agent was asked to run, its output until that is acknowledged, its outcome
 * until that is taken, and of code the first bytes of its output till then, too. They belong to the
 * sandbox, not to the link that asked for them.
 *
 *            START                 turn comes              ended
 *   (unknown) ---> OP_QUEUED ------------------> OP_RUNNING -----> OP_DONE ---> forgotten
 *                      '------------- CANCEL ----------------------^
 *
 * Thread: the agent has one. Nothing blocks.
 */
#ifndef CLOISTER_WORKER_AGENT_RUN_OP_H
#define CLOISTER_WORKER_AGENT_RUN_OP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/err.h"
#include "common/sm.h"
#include "proto/msg.h"
#include "worker/agent/link/framed.h"
#include "worker/agent/link/report.h"

/* When a program has ended, what it left in its pipe is taken whatever the reader does, so that
 * the next one can begin. A pipe holds 64 KiB; user code may enlarge it to this. */
#define OP_TAIL_MAX (1u << 20)

/* The drawing above, indexed by enum op_state; 0 is an operation that is not known. */
#define OP_STATES (OP_DONE + 1)
extern const struct sm_state op_states[OP_STATES];

/* What there is of one output stream. The head stays as long as the operation does, so that another
 * supervisor can have it again; behind it only bytes are kept that nobody has acknowledged. */
struct op_stream {
    struct buf head; /* from offset 0 on, up to its cap, which is 0 for file operations */
    struct buf tail; /* what came when the head was full, without what is acknowledged */
    uint64_t acked;  /* offset: everything before it has been received by somebody */
};

struct interp;
struct fileop;
struct program;
struct changes;
struct scan;

/* A long poll that is still unanswered. */
struct op_waiter {
    bool active;
    uint64_t seq;
    uint64_t out_from, err_from;
    uint64_t until_ms; /* clock_ms() */
};

struct op {
    char id[LIMIT_NAME + 1];
    enum op_kind kind;
    struct sm sm;        /* op_states; op_state() */
    uint64_t started_ms; /* clock_ms() of its START */
    uint64_t ended_as;   /* number in the order of ending */

    struct op_stream out;
    struct op_stream err;
    struct op_waiter waiter;

    const char *language;    /* of an OP_EVAL, else ""; borrowed for ever */
    struct buf request;      /* for the interpreter; empty once handed over */
    struct interp *interp;   /* whose turn it waits for or has; NULL for programs and files */
    struct fileop *file;     /* owned; while a file operation runs */
    struct program *program; /* borrowed; while a program runs */
    struct scan *scan;       /* owned; while the run is over but not known what it has changed */
    bool announce;           /* it had to queue, so RUNNING is due when it begins */

    uint64_t timeout_ms;   /* as asked for; 0 = none */
    uint64_t begun_us;     /* clock_us() when it began to run */
    uint64_t kill_at_ms;   /* the backstop; 0 = none */
    enum op_stop stop;     /* reason of the first CANCEL or of the backstop; 0 = none */
    uint64_t changes_seq;  /* changes.h, when it began to run */
    int64_t began_wall_ns; /* of the file system's clock */

    /* outcome, valid when done */
    enum op_status status;
    int64_t exit_code;
    enum op_interpreter interpreter;
    struct report report; /* result, error and file figures */
    struct framed files;  /* ENTRY messages: created or changed by a run */
    bool files_more;
    uint64_t duration_us;
    uint64_t cpu_us;
    uint64_t max_rss_kb;
};

struct op_table {
    struct op *items[LIMIT_OPS]; /* owned; in the order of their START */
    size_t count;
    uint64_t started;        /* operations ever accepted here */
    uint64_t evals;          /* how many of them ran code (op_is_execution()) */
    uint64_t ended;          /* source of op.ended_as */
    uint64_t active_ms;      /* clock_ms() when one began to run or ended last; at first: of
                                op_table_init() */
    size_t held_bytes;       /* sum of request bytes that wait for their turn */
    struct changes *changes; /* borrowed; NULL: what runs change is not looked for */
};

static inline enum op_state op_state(const struct op *op)
{
    return (enum op_state)op->sm.state;
}

void op_table_init(struct op_table *t);
void op_table_finish(struct op_table *t);

struct op *op_find(const struct op_table *t, struct view id);

/* A queued operation. When the table is full the operation that finished longest ago is forgotten;
 * -ERR_BUSY if all are still under way, -ERR_INVALID for an empty id. Owned by the table. */
int op_create(struct op_table *t, struct view id, enum op_kind kind, struct op **ret,
              struct err *err) WARN_UNUSED;

/* Removes and frees. The operation must not be running. */
void op_forget(struct op_table *t, struct op *op);

/* The same for one whose START is refused after all: it does not count as started. */
void op_refuse(struct op_table *t, struct op *op);

/* Hands over bytes that the operation's program will get; -ERR_BUSY when LIMIT_AGENT_QUEUE would be
 * passed by all waiting operations together. On success *request is empty. */
int op_hold_request(struct op_table *t, struct op *op, struct buf *request,
                    struct err *err) WARN_UNUSED;

/* The reverse: the caller owns *ret, the operation holds nothing any more. */
void op_take_request(struct op_table *t, struct op *op, struct buf *ret);

/* Next queued operation of an interpreter in the order of START, or NULL; with NULL of those that
 * are run by programs. */
struct op *op_next(const struct op_table *t, const struct interp *interp);

/* Unacknowledged bytes that a running program may still add. */
size_t op_stream_room(const struct op_stream *s);

/* Appends what a program wrote. -ERR_TOO_BIG beyond LIMIT_OP_OUTPUT + OP_TAIL_MAX unacknowledged
 * bytes. */
int op_stream_add(struct op_stream *s, const void *data, size_t len, struct err *err) WARN_UNUSED;

/* Acknowledges the bytes before the waiter's offsets. -ERR_INVALID if the bytes at the offsets are
 * forgotten or not there yet; nothing changes then. With `skip` an offset of forgotten bytes is
 * moved on to the first one that is there. */
int op_ack(struct op *op, struct op_waiter *w, bool skip, struct err *err) WARN_UNUSED;

/* True if a wait from these offsets has something to be told now. */
bool op_has_news(const struct op *op, uint64_t out_from, uint64_t err_from);

/* Room for the lists of an OUTPUT message. */
struct op_lists {
    struct view displays[LIMIT_DISPLAYS];
    struct view files[LIMIT_CHANGED];
};

/* Fills an OUTPUT message that borrows from the operation and from *lists. With `bytes` false it
 * has no bytes, as an abandoned wait is answered. */
void op_output(const struct op *op, const struct op_waiter *w, bool bytes, struct op_lists *lists,
               struct msg *ret);

/* Fills an OP_INFO message that borrows from the operation. */
void op_info(const struct op *op, uint64_t now_ms, struct msg *ret);

/* A queued operation begins to run now; its deadline counts from here. */
void op_run(struct op_table *t, struct op *op);

/* What comes until the operation is done is no part of its duration. The first call counts. */
void op_stop_clock(struct op *op);

/* A run is over. Status and so on are the caller's to fill first. It is done when it is known which
 * files it has changed: now, or soon, and it counts as running till then. */
void op_ended(struct op_table *t, struct op *op);

/* The end of anything else. Status and so on are the caller's to fill first. */
void op_done(struct op_table *t, struct op *op);

/* Ends an operation that never got anywhere with status FAILED. */
void op_fail(struct op_table *t, struct op *op, enum err_code code, const char *message);

#endif
