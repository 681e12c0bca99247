/*
 * A deadline counts from the moment an operation begins to run, and only the agent knows that
 * moment: it decides what waits for its turn. So a job has no timer until the agent says by RUNNING
 * or by an OUTPUT that the operation runs, and for how long it has done so already. An operation
 * that is over sooner than TIME_RUNNING_MS is not reported, and needs no timer.
 *
 *             reported              deadline, or cancelled                 2 s later
 *   STARTED -----------> RUNNING ----------------------------> INTERRUPTED -----------> KILLED
 *      |                                                            ^
 *      +--------------------- cancelled ----------------------------+
 *
 * After the loss of a stream, and to the next worker, the agent reports again what runs. A job is
 * removed from any state, but only when its operation has ended: a killed one may take a while to
 * die.
 */
#include "worker/job.h"

#include <stdlib.h>

#include "common/alloc.h"

static const struct sm_state states[] = {
    [JOB_STARTED] = {"started", SM_BIT(JOB_RUNNING) | SM_BIT(JOB_INTERRUPTED) | SM_BIT(JOB_KILLED)},
    [JOB_RUNNING] = {"running", SM_BIT(JOB_INTERRUPTED) | SM_BIT(JOB_KILLED)},
    [JOB_INTERRUPTED] = {"interrupted", SM_BIT(JOB_KILLED)},
    [JOB_KILLED] = {"killed", 0},
};

void jobs_init(struct jobs *jobs)
{
    jobs->first = NULL;
    jobs->count = 0;
}

void jobs_finish(struct jobs *jobs)
{
    while (jobs->first != NULL) {
        jobs_remove(jobs, jobs->first);
    }
}

struct job *jobs_find(const struct jobs *jobs, struct view op)
{
    for (struct job *job = jobs->first; job != NULL; job = job->next) {
        if (view_is(op, job->op)) {
            return job;
        }
    }
    return NULL;
}

static void copy_name(char out[LIMIT_NAME + 1], struct view name)
{
    size_t len = name.len < LIMIT_NAME ? name.len : LIMIT_NAME;
    if (len > 0) {
        memcpy(out, name.data, len);
    }
    out[len] = '\0';
}

/* Removes a killed job whose outcome was never requested. */
static bool forget_killed(struct jobs *jobs)
{
    for (struct job *job = jobs->first; job != NULL; job = job->next) {
        if (job->sm.state == JOB_KILLED) {
            jobs_remove(jobs, job);
            return true;
        }
    }
    return false;
}

struct job *jobs_start(struct jobs *jobs, struct view op, bool runs_code, uint64_t timeout_ms)
{
    struct job *known = jobs_find(jobs, op);
    if (known != NULL) {
        return known;
    }
    if (jobs->count >= JOBS_MAX && !forget_killed(jobs)) {
        return NULL;
    }
    struct job *job = alloc_one(struct job);
    copy_name(job->op, op);
    job->runs_code = runs_code;
    job->timeout_ms = timeout_ms;
    job->reason = OP_STOP_TIMEOUT;
    sm_init(&job->sm, states, sizeof(states) / sizeof(states[0]), JOB_STARTED);
    struct job **end = &jobs->first;
    while (*end != NULL) {
        end = &(*end)->next;
    }
    *end = job;
    jobs->count++;
    return job;
}

bool job_runs(struct job *job, uint64_t ran_us, uint64_t now_ms)
{
    if (job->sm.state != JOB_STARTED) {
        return false;
    }
    uint64_t used_ms = ran_us / 1000;
    sm_move(&job->sm, JOB_RUNNING);
    if (job->timeout_ms > 0) {
        job->due_ms = now_ms + (used_ms < job->timeout_ms ? job->timeout_ms - used_ms : 0);
    }
    return true;
}

void job_cancel(struct job *job, enum op_stop reason, bool force, uint64_t now_ms)
{
    if (job->sm.state == JOB_STARTED || job->sm.state == JOB_RUNNING) {
        job->reason = reason;
        job->due_ms = now_ms + TIME_INTERRUPT_MS;
        sm_move(&job->sm, JOB_INTERRUPTED);
    }
    if (force && job->sm.state == JOB_INTERRUPTED) {
        job->due_ms = 0;
        sm_move(&job->sm, JOB_KILLED);
    }
}

uint64_t jobs_next_due_ms(const struct jobs *jobs)
{
    uint64_t next = 0;
    for (const struct job *job = jobs->first; job != NULL; job = job->next) {
        if (job->due_ms != 0 && (next == 0 || job->due_ms < next)) {
            next = job->due_ms;
        }
    }
    return next;
}

enum job_action jobs_tick(struct jobs *jobs, uint64_t now_ms, struct job **ret_job)
{
    for (struct job *job = jobs->first; job != NULL; job = job->next) {
        if (job->due_ms == 0 || job->due_ms > now_ms) {
            continue;
        }
        *ret_job = job;
        if (job->sm.state == JOB_RUNNING) {
            sm_move(&job->sm, JOB_INTERRUPTED);
            job->due_ms = now_ms + TIME_INTERRUPT_MS;
            return JOB_INTERRUPT;
        }
        sm_move(&job->sm, JOB_KILLED);
        job->due_ms = 0;
        return JOB_KILL;
    }
    return JOB_NOTHING;
}

void jobs_killed(struct jobs *jobs, struct job *job)
{
    if (!job->runs_code) {
        jobs_remove(jobs, job);
    }
}

void jobs_remove(struct jobs *jobs, struct job *job)
{
    for (struct job **link = &jobs->first; *link != NULL; link = &(*link)->next) {
        if (*link == job) {
            *link = job->next;
            jobs->count--;
            free(job);
            return;
        }
    }
}
