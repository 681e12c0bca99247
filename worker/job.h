/*
 * The deadlines of operations, as a plain data structure: no loop, no link, no clock of its own.
 *
 * A job is the worker's state of an operation that may still run. The owner reports events with
 * their time and asks what is due. Times are milliseconds of one monotonic clock. Thread: none of
 * its own; one owner at a time. Nothing blocks.
 */
#ifndef CLOISTER_WORKER_JOB_H
#define CLOISTER_WORKER_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/sm.h"
#include "common/view.h"
#include "proto/msg.h"

/* Twice the operations that an agent keeps, so that jobs whose outcome is never requested do not
 * make the table refuse a START that the agent would accept. A full table drops a killed job. */
#define JOBS_MAX (2 * LIMIT_OPS)

enum job_state { JOB_STARTED, JOB_RUNNING, JOB_INTERRUPTED, JOB_KILLED };

enum job_action {
    JOB_NOTHING,
    JOB_INTERRUPT, /* send CANCEL with the job's reason */
    JOB_KILL,      /* the same with force */
};

struct job {
    struct job *next;
    char op[LIMIT_NAME + 1];
    bool runs_code;
    struct sm sm;
    uint64_t timeout_ms;
    uint64_t due_ms; /* 0 = no timer */
    enum op_stop reason;
    uint64_t kills_before; /* for the owner: figures_note() of its beginning */
};

struct jobs {
    struct job *first; /* in the order of their START */
    size_t count;
};

void jobs_init(struct jobs *jobs);
void jobs_finish(struct jobs *jobs);

struct job *jobs_find(const struct jobs *jobs, struct view op);

/* The job of an operation that is being started or joined now; a known one is left as it is. A
 * timeout of 0 is none. NULL if there are too many. */
struct job *jobs_start(struct jobs *jobs, struct view op, bool runs_code, uint64_t timeout_ms);

/* The agent says that it runs and has done so for ran_us, which are a part of its time. Only the
 * first report counts: true then. */
bool job_runs(struct job *job, uint64_t ran_us, uint64_t now_ms);

/* Somebody asked for it to be stopped; the request itself is on its way already. */
void job_cancel(struct job *job, enum op_stop reason, bool force, uint64_t now_ms);

/* When the next job is due; 0 if none is. */
uint64_t jobs_next_due_ms(const struct jobs *jobs);

/* Advances one job that is due and returns what must be sent; JOB_NOTHING if no job is due. */
enum job_action jobs_tick(struct jobs *jobs, uint64_t now_ms, struct job **ret_job);

/* Its kill was sent. A job that runs code stays until its outcome has come, because that is judged
 * by what was noted at its beginning; any other is removed. */
void jobs_killed(struct jobs *jobs, struct job *job);

/* The operation has ended or was never accepted. */
void jobs_remove(struct jobs *jobs, struct job *job);

#endif
