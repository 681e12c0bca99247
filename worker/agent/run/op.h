/*
 * Operations: requests that the agent runs. An operation keeps its output until that is
 * acknowledged and its outcome until that is acknowledged; operations that run code keep the first
 * bytes of output as long as the outcome. Operations belong to the sandbox, not to the link that
 * sent START.
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
#include "worker/agent/run/input.h"

/* When a program has ended, the rest of its pipe is read even if the reader is slow, so that the
 * next one can begin. A pipe holds 64 KiB; user code may enlarge it to this. */
#define OP_TAIL_MAX (1u << 20)

/* The transitions of the drawing above, indexed by enum op_state; 0 is "unknown". */
#define OP_STATES (OP_DONE + 1)
extern const struct sm_state op_states[OP_STATES];

/* One output stream. The head stays as long as the operation, so that another supervisor can read
 * it again; after the head only unacknowledged bytes are kept. */
struct op_stream {
    struct buf head; /* bytes from offset 0 to its cap, which is 0 for file operations */
    struct buf tail; /* unacknowledged bytes after the head */
    uint64_t acked;  /* offset before which every byte has been received */
};

struct interp;
struct connect;
struct fileop;
struct program;
struct runner;
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

    const char *language; /* language of an OP_EVAL, else ""; borrowed for ever */
    struct buf request;   /* packed request; empty once handed over */
    struct input input;   /* stdin that comes while it runs */
    struct interp
        *interp; /* the interpreter that it waits for or runs in; NULL for programs and files */
    struct fileop *file;         /* owned; while a file operation runs */
    struct connect *connect;     /* owned; while a connection to a port is there */
    const struct runner *runner; /* borrowed for ever; what runs the code if programs do */
    struct program *program;     /* borrowed; while a program runs */
    struct scan *scan;           /* owned; set between the end of a run and the end of its scan */
    bool waited;                 /* it had to queue, so RUNNING is due as soon as it begins */
    bool announced;              /* RUNNING was sent since the last START and HELLO */

    uint64_t timeout_ms;   /* as asked for; 0 = none */
    uint64_t begun_us;     /* clock_us() when it began to run */
    uint64_t kill_at_ms;   /* the backstop; 0 = none */
    enum op_stop stop;     /* reason of the first CANCEL or of the backstop; 0 = none */
    uint64_t changes_seq;  /* changes.h, when it began to run */
    int64_t began_wall_ns; /* when it began to run, in the file system's clock */

    /* outcome, valid when done */
    enum op_status status;
    int64_t exit_code;
    enum op_interpreter interpreter;
    struct report report; /* result, error, and the size and type of a file */
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
    uint64_t active_ms;      /* clock_ms() when an operation last began or ended, or of the start */
    size_t held_bytes;       /* bytes of all queued requests */
    struct changes *changes; /* borrowed; NULL: changed files are not looked for */
};

static inline enum op_state op_state(const struct op *op)
{
    return (enum op_state)op->sm.state;
}

void op_table_init(struct op_table *t);
void op_table_finish(struct op_table *t);

struct op *op_find(const struct op_table *t, struct view id);

/* Creates a queued operation, owned by the table. When the table is full, the operation that
 * finished longest ago is forgotten. -ERR_BUSY if none has finished, -ERR_INVALID for an empty
 * id. */
int op_create(struct op_table *t, struct view id, enum op_kind kind, struct op **ret,
              struct err *err) WARN_UNUSED;

/* Removes and frees. The operation must not be running. */
void op_forget(struct op_table *t, struct op *op);

/* The same for an operation whose START is refused: it does not count as started. */
void op_refuse(struct op_table *t, struct op *op);

/* Moves the packed request into the operation; *request is empty on success. -ERR_BUSY if all
 * queued requests together would exceed LIMIT_AGENT_QUEUE. */
int op_hold_request(struct op_table *t, struct op *op, struct buf *request,
                    struct err *err) WARN_UNUSED;

/* Moves it out again: the caller owns *ret. */
void op_take_request(struct op_table *t, struct op *op, struct buf *ret);

/* The next queued operation of an interpreter in the order of START, or NULL. `interp` NULL asks
 * for operations that programs run. */
struct op *op_next(const struct op_table *t, const struct interp *interp);

/* Unacknowledged bytes that a running program may still add. */
size_t op_stream_room(const struct op_stream *s);

/* Appends what a program wrote. -ERR_TOO_BIG beyond LIMIT_OP_OUTPUT + OP_TAIL_MAX unacknowledged
 * bytes. */
int op_stream_add(struct op_stream *s, const void *data, size_t len, struct err *err) WARN_UNUSED;

/* Acknowledges the bytes before the waiter's offsets. -ERR_INVALID, without any change, if the
 * bytes at the offsets are forgotten or not there yet. With `skip` an offset of forgotten bytes
 * moves forward to the first byte that is kept. */
int op_ack(struct op *op, struct op_waiter *w, bool skip, struct err *err) WARN_UNUSED;

/* True if a wait from these offsets can be answered now. */
bool op_has_progress(const struct op *op, uint64_t out_from, uint64_t err_from);

/* Room for the lists of an OUTPUT message. */
struct op_lists {
    struct view displays[LIMIT_DISPLAYS];
    struct view files[LIMIT_CHANGED];
};

/* Fills an OUTPUT message that borrows from the operation and from *lists. With `bytes` false it
 * carries no output: the answer to an abandoned wait. */
void op_output(const struct op *op, const struct op_waiter *w, bool bytes, struct op_lists *lists,
               struct msg *ret);

/* Fills an OP_INFO message that borrows from the operation. */
void op_info(const struct op *op, uint64_t now_ms, struct msg *ret);

/* How long it has run so far, or ran; 0 while it is queued. */
uint64_t op_ran_us(const struct op *op);

/* A queued operation begins to run; its deadline counts from now. */
void op_run(struct op_table *t, struct op *op);

/* Fixes the end of the operation's duration; only the first call has an effect. */
void op_stop_clock(struct op *op);

/* A run is over. The caller fills in status and report before. The operation is done at once, or
 * when the scan for changed files is over; until then it counts as running. */
void op_ended(struct op_table *t, struct op *op);

/* Ends any other operation. The caller fills in status and report before. */
void op_done(struct op_table *t, struct op *op);

/* Ends an operation that could not run, with status FAILED. */
void op_fail(struct op_table *t, struct op *op, enum err_code code, const char *message);

#endif
