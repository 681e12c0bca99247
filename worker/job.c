/*
 * Deadlines count from the moment an operation begins to run, and only the agent knows that moment
 * if the operation had to queue for its interpreter. Asking on every start would cost the common
 * case a round trip, so a job is assumed to run at once, unless it may be queued: an earlier job of
 * the same language is not over, or there are as many jobs as programs that may run in parallel, or
 * the worker does not know the sandbox's history.
 *
 *                  START, doubtful                  START
 *                        |                            |
 *                        v   agent says: running      v
 *                     QUEUED ---------------------> RUNNING
 *                        | <---------------------     |
 *                        |    agent says: queued      | deadline, or cancelled
 *                        | cancelled                  v
 *                        +---------------------> INTERRUPTED ---- 2 s later ----> KILLED
 *
 * While such a job is unconfirmed, its requests are sent with a wait time of 0, so that the agent
 * reports the state at once. After that, RUNNING, which is sent for queued operations only, is
 * reliable until the link is lost. A job is removed from any state, but only when its operation has
 * ended: a killed one may take a while to die, and its interpreter runs no other code meanwhile.
 */
#include "worker/job.h"

#include <stdlib.h>

#include "common/alloc.h"

static const struct sm_state states[] = {
    [JOB_QUEUED] = {"queued", SM_BIT(JOB_RUNNING) | SM_BIT(JOB_INTERRUPTED) | SM_BIT(JOB_KILLED)},
    [JOB_RUNNING] = {"running", SM_BIT(JOB_QUEUED) | SM_BIT(JOB_INTERRUPTED) | SM_BIT(JOB_KILLED)},
    [JOB_INTERRUPTED] = {"interrupted", SM_BIT(JOB_KILLED)},
    [JOB_KILLED] = {"killed", 0},
};

void jobs_init(struct jobs *jobs, bool history_known)
{
    jobs->first = NULL;
    jobs->count = 0;
    jobs->history_known = history_known;
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

/* Interpreters run their operations in the order of START, and only a limited number of programs
 * run in parallel; only the agent knows which languages are programs. */
static bool must_queue(const struct jobs *jobs, struct view language)
{
    size_t running = 0;
    if (language.len == 0) {
        return false;
    }
    if (!jobs->history_known) {
        return true;
    }
    for (const struct job *job = jobs->first; job != NULL; job = job->next) {
        running += job->language[0] != '\0';
        if (view_is(language, job->language) || running == LIMIT_PROGRAMS) {
            return true;
        }
    }
    return false;
}

static void arm_job(struct job *job, uint64_t now_ms)
{
    job->due_ms = job->timeout_ms > 0 ? now_ms + job->timeout_ms : 0;
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

struct job *jobs_start(struct jobs *jobs, struct view op, struct view language, uint64_t timeout_ms,
                       uint64_t now_ms)
{
    struct job *known = jobs_find(jobs, op);
    if (known != NULL) {
        return known;
    }
    if (jobs->count >= JOBS_MAX && !forget_killed(jobs)) {
        return NULL;
    }
    bool queued = must_queue(jobs, language);
    struct job *job = alloc_one(struct job);
    copy_name(job->op, op);
    copy_name(job->language, language);
    job->timeout_ms = timeout_ms;
    job->reason = OP_STOP_TIMEOUT;
    sm_init(&job->sm, states, sizeof(states) / sizeof(states[0]),
            queued ? JOB_QUEUED : JOB_RUNNING);
    if (!queued) {
        arm_job(job, now_ms);
    }
    struct job **end = &jobs->first;
    while (*end != NULL) {
        end = &(*end)->next;
    }
    *end = job;
    jobs->count++;
    return job;
}

void job_set_state(struct job *job, enum op_state state, uint64_t now_ms)
{
    if (job->sm.state == JOB_QUEUED && state == OP_RUNNING) {
        sm_move(&job->sm, JOB_RUNNING);
        arm_job(job, now_ms);
    } else if (job->sm.state == JOB_RUNNING && state == OP_QUEUED) {
        sm_move(&job->sm, JOB_QUEUED);
        job->due_ms = 0;
    }
    if (job->sm.state == JOB_QUEUED) {
        job->confirmed = true;
    }
}

void job_cancel(struct job *job, enum op_stop reason, bool force, uint64_t now_ms)
{
    if (job->sm.state == JOB_QUEUED || job->sm.state == JOB_RUNNING) {
        job->reason = reason;
        job->due_ms = now_ms + TIME_INTERRUPT_MS;
        sm_move(&job->sm, JOB_INTERRUPTED);
    }
    if (force && job->sm.state == JOB_INTERRUPTED) {
        job->due_ms = 0;
        sm_move(&job->sm, JOB_KILLED);
    }
}

uint64_t job_wait_ms(const struct job *job, uint64_t wait_ms)
{
    if (job != NULL && job->sm.state == JOB_QUEUED && !job->confirmed) {
        return 0;
    }
    return wait_ms < TIME_WAIT_MS ? wait_ms : TIME_WAIT_MS;
}

void jobs_link_lost(struct jobs *jobs)
{
    for (struct job *job = jobs->first; job != NULL; job = job->next) {
        job->confirmed = false;
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
    if (job->language[0] == '\0') {
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
