/*
 * A request of the supervisor's is kept as `asked`: what is needed to answer it once the agent has
 * spoken. The agent's answer is passed on field by field, since it was decoded and is encoded
 * again, so nothing that the agent sends reaches the supervisor unread.
 *
 * The worker adds two things. A job (job.h) keeps the deadline of each operation; one timer serves
 * all of them and does not run without jobs. And an operation that seems to have crashed may have
 * been killed for memory: only the backend knows (figures.h), so the answer is held until the
 * backend has answered. An outcome may be sent more than once, and is always the same.
 *
 * What waits for its turn is the agent's business: it says by RUNNING what runs, also what a START
 * has only joined, and that begins the deadline.
 */
#include "worker/operations.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "common/buf.h"
#include "common/io/ipc.h"
#include "common/log.h"
#include "common/str.h"
#include "proto/codec.h"
#include "worker/job.h"

#define CHARGED_KEPT 16  /* operations killed for memory whose outcome must stay the same */
#define EXIT_SIGKILL 137 /* 128 + 9: a child of a shell was killed, perhaps for memory */

struct operations {
    struct operations_setup setup;
    struct jobs jobs;
    uv_timer_t timer;
    size_t asked; /* requests that are unanswered */
    char charged[CHARGED_KEPT][LIMIT_NAME + 1];
    size_t charged_count; /* in all; the next one takes place charged_count % CHARGED_KEPT */

    void (*stopped)(void *arg);
    void *stopped_arg;
    void (*closed)(void *arg);
    void *closed_arg;
};

struct asked {
    struct operations *operations;
    struct ipc_request *request;
    uint64_t seq;
    char op[LIMIT_NAME + 1];
    bool began;            /* this one made the job */
    uint64_t kills_before; /* as noted when its operation began */
    struct buf held;       /* encoded answer that waits for the backend's figures */
};

static void on_operations_timer(uv_timer_t *timer);

/* ---- what is asked -------------------------------------------------------------------------- */

static struct asked *asked_create(struct operations *o, struct ipc_request *request, uint64_t seq,
                                  struct view op)
{
    struct asked *asked = alloc_one(struct asked);
    asked->operations = o;
    asked->request = request;
    asked->seq = seq;
    if (op.len > 0) {
        memcpy(asked->op, op.data, op.len); /* decoding has checked it against LIMIT_NAME */
    }
    buf_init(&asked->held, LIMIT_AGENT_FRAME);
    o->asked++;
    return asked;
}

static void check_stopped(struct operations *o)
{
    if (o->stopped != NULL && o->asked == 0) {
        void (*stopped)(void *arg) = o->stopped;
        o->stopped = NULL;
        uv_timer_stop(&o->timer);
        stopped(o->stopped_arg);
    }
}

static void answer_asked(struct asked *asked, const struct msg *reply)
{
    struct operations *o = asked->operations;
    struct msg m = *reply;
    m.seq = asked->seq;
    o->asked--;
    o->setup.answer(o->setup.arg, asked->request, &m);
    buf_finish(&asked->held);
    free(asked);
    check_stopped(o);
}

static void answer_failed(struct asked *asked, const struct err *err)
{
    struct msg m = {.type = MSG_FAILED};
    m.failed.code = (uint64_t)err->code;
    m.failed.message = view_bytes(err->text, utf8_valid_prefix(err->text, strlen(err->text)));
    answer_asked(asked, &m);
}

/* ---- deadlines ------------------------------------------------------------------------------ */

static void arm_operations(struct operations *o)
{
    uint64_t due = jobs_next_due_ms(&o->jobs);
    uint64_t now = uv_now(o->setup.loop);
    if (o->stopped != NULL) {
        return; /* the timer counts down to the end */
    }
    if (due == 0) {
        uv_timer_stop(&o->timer);
    } else {
        uv_timer_start(&o->timer, on_operations_timer, due > now ? due - now : 0, 0);
    }
}

static void on_cancelled(void *arg, const struct msg *reply, const struct err *err)
{
    if (reply != NULL && reply->type == MSG_FAILED) {
        log_debug("the agent does not stop an operation: %.*s", VIEW_ARG(reply->failed.message));
    }
}

static void send_cancel(struct operations *o, const struct job *job, bool force)
{
    struct err err = ERR_INIT;
    struct msg m = {.type = MSG_CANCEL};
    m.cancel.op = view_of(job->op);
    m.cancel.reason = job->reason;
    m.cancel.force = force;
    log_debug("operation %s: %s", job->op, force ? "killed" : "interrupted");
    if (agent_link_ask(o->setup.link, &m, 0, on_cancelled, o, &err) < 0) {
        log_warn("cannot stop operation %s: %s", job->op, err.text);
    }
}

static void on_operations_timer(uv_timer_t *timer)
{
    struct operations *o = timer->data;
    struct job *job = NULL;
    enum job_action action;
    if (o->stopped != NULL) {
        void (*stopped)(void *arg) = o->stopped;
        o->stopped = NULL;
        stopped(o->stopped_arg);
        return;
    }
    while ((action = jobs_tick(&o->jobs, uv_now(o->setup.loop), &job)) != JOB_NOTHING) {
        send_cancel(o, job, action == JOB_KILL);
        if (action == JOB_KILL) {
            jobs_killed(&o->jobs, job);
        }
    }
    arm_operations(o);
}

static void forget(struct operations *o, struct job *job)
{
    if (job != NULL) {
        jobs_remove(&o->jobs, job);
        arm_operations(o);
    }
}

/* ---- answers of the agent ------------------------------------------------------------------- */

static bool was_charged(const struct operations *o, const char *op)
{
    for (size_t i = 0; i < CHARGED_KEPT && i < o->charged_count; i++) {
        if (strcmp(o->charged[i], op) == 0) {
            return true;
        }
    }
    return false;
}

/* The backend has answered whether there was a memory kill since the operation began. */
static void on_verdict(void *arg, const struct backend_usage *usage, bool charged)
{
    struct asked *asked = arg;
    struct operations *o = asked->operations;
    bool known = was_charged(o, asked->op);
    bool killed = charged || known;
    struct msg m;
    struct err err = ERR_INIT;
    char text[128];
    if (msg_decode(MSG_LINK_W, asked->held.data, asked->held.len, &m, &err) < 0) {
        answer_failed(asked, &err);
        return;
    }
    if (killed && !known) {
        snprintf(o->charged[o->charged_count++ % CHARGED_KEPT], sizeof(o->charged[0]), "%s",
                 asked->op);
    }
    if (killed) {
        snprintf(text, sizeof(text),
                 "killed for exceeding the sandbox's memory limit of %" PRIu64 " MiB",
                 o->setup.memory_bytes >> 20);
        m.output.status = OP_STATUS_MEMORY;
        m.output.error_message = view_of(text);
    }
    answer_asked(asked, &m);
    msg_finish(&m);
}

static void on_noted(void *arg, const char *op, uint64_t before)
{
    struct operations *o = arg;
    struct job *job = jobs_find(&o->jobs, view_of(op));
    if (job != NULL) {
        job->kills_before = before;
    }
}

/* Its code begins to run, or is about to. */
static void note_kills(struct operations *o, struct job *job)
{
    if (job->runs_code) {
        job->kills_before = figures_note(o->setup.figures, job->op, on_noted, o);
    }
}

static bool may_be_memory(const struct msg_output *m)
{
    return m->state == OP_DONE && (m->status == OP_STATUS_CRASHED ||
                                   (m->status == OP_STATUS_ERROR && m->exit_code == EXIT_SIGKILL));
}

static void on_output(struct asked *asked, const struct msg *reply)
{
    struct operations *o = asked->operations;
    struct job *job = jobs_find(&o->jobs, view_of(asked->op));
    asked->kills_before = job != NULL ? job->kills_before : figures_noted(o->setup.figures);
    if (reply->output.state == OP_DONE) {
        forget(o, job);
    } else if (job != NULL && reply->output.state == OP_RUNNING) {
        job_runs(job, reply->output.duration_us, uv_now(o->setup.loop));
        arm_operations(o);
    }
    struct err err = ERR_INIT;
    if (may_be_memory(&reply->output) && msg_encode(&asked->held, reply, &err) == 0) {
        if (was_charged(o, asked->op)) {
            on_verdict(asked, NULL, true);
        } else {
            figures_judge(o->setup.figures, asked->kills_before, on_verdict, asked);
        }
        return;
    }
    answer_asked(asked, reply);
}

static void on_agent_reply(void *arg, const struct msg *reply, const struct err *err)
{
    struct asked *asked = arg;
    struct operations *o = asked->operations;
    if (reply == NULL) {
        answer_failed(asked, err);
    } else if (reply->type == MSG_OUTPUT) {
        on_output(asked, reply);
    } else {
        /* a refused START began nothing, and an unknown operation cannot end */
        if (reply->type == MSG_FAILED &&
            (asked->began || reply->failed.code == ERR_EXECUTION_NOT_FOUND)) {
            forget(o, jobs_find(&o->jobs, view_of(asked->op)));
        }
        answer_asked(asked, reply);
    }
}

/* ---- requests ------------------------------------------------------------------------------- */

static uint64_t capped_wait_ms(uint64_t wait_ms)
{
    return wait_ms < TIME_WAIT_MS ? wait_ms : TIME_WAIT_MS;
}

/* A job for an operation that this worker has not heard of. NULL if there are too many. */
static struct job *new_job(struct operations *o, const struct msg_start *m)
{
    bool runs_code = op_is_run((enum op_kind)m->kind);
    struct job *job = jobs_start(&o->jobs, m->op, runs_code, m->timeout_ms);
    if (job == NULL && m->join) {
        log_warn("operation %.*s: too many others, the agent alone keeps its deadline",
                 VIEW_ARG(m->op));
    } else if (job != NULL && m->join) {
        job->kills_before = figures_noted(o->setup.figures); /* it may be dying already */
    } else if (job != NULL) {
        note_kills(o, job);
    }
    return job;
}

void operations_start(struct operations *o, struct ipc_request *request, const struct msg *m)
{
    struct err err = ERR_INIT;
    struct msg out = *m;
    struct asked *asked = asked_create(o, request, m->seq, m->start.op);
    struct job *job = jobs_find(&o->jobs, m->start.op);
    if (job == NULL) {
        job = new_job(o, &m->start);
        asked->began = job != NULL;
    }
    if (job == NULL && !m->start.join) {
        err_set(&err, ERR_BUSY, "more than %d operations are under way in this sandbox", JOBS_MAX);
        answer_failed(asked, &err);
        return;
    }
    out.start.wait_ms = capped_wait_ms(m->start.wait_ms);
    if (agent_link_pass_on(o->setup.link, &out, ipc_request_take(request), out.start.wait_ms,
                           on_agent_reply, asked, &err) < 0) {
        if (asked->began) {
            jobs_remove(&o->jobs, job);
        }
        answer_failed(asked, &err);
    }
}

void operations_wait(struct operations *o, struct ipc_request *request, const struct msg *m)
{
    struct err err = ERR_INIT;
    struct msg out = *m;
    struct asked *asked = asked_create(o, request, m->seq, m->wait.op);
    out.wait.wait_ms = capped_wait_ms(m->wait.wait_ms);
    if (agent_link_ask(o->setup.link, &out, out.wait.wait_ms, on_agent_reply, asked, &err) < 0) {
        answer_failed(asked, &err);
    }
}

void operations_cancel(struct operations *o, struct ipc_request *request, const struct msg *m)
{
    struct err err = ERR_INIT;
    struct asked *asked = asked_create(o, request, m->seq, m->cancel.op);
    uint64_t now = uv_now(o->setup.loop);
    if (agent_link_ask(o->setup.link, m, 0, on_agent_reply, asked, &err) < 0) {
        answer_failed(asked, &err);
        return;
    }
    /* an operation that only an earlier worker knew must get its kill two seconds later, too */
    struct job *job = jobs_find(&o->jobs, m->cancel.op);
    if (job == NULL && !m->cancel.force) {
        job = jobs_start(&o->jobs, m->cancel.op, false, 0);
    }
    if (job == NULL) {
        return;
    }
    job_cancel(job, (enum op_stop)m->cancel.reason, m->cancel.force, now);
    if (job->sm.state == JOB_KILLED) {
        jobs_killed(&o->jobs, job);
    }
    arm_operations(o);
}

/* The agent has answered; adds the backend's figures. */
static void on_figures(void *arg, const struct backend_usage *usage, bool killed)
{
    struct asked *asked = arg;
    struct msg m;
    struct err err = ERR_INIT;
    if (msg_decode(MSG_LINK_W, asked->held.data, asked->held.len, &m, &err) < 0) {
        answer_failed(asked, &err);
        return;
    }
    if (usage != NULL) {
        m.status_ok.memory_bytes = usage->memory_bytes;
        m.status_ok.cpu_us = usage->cpu_us;
        m.status_ok.pids = usage->pids;
        if (m.status_ok.oom_kills < usage->oom_kills) {
            m.status_ok.oom_kills = usage->oom_kills;
        }
    }
    answer_asked(asked, &m);
    msg_finish(&m);
}

static void on_status(void *arg, const struct msg *reply, const struct err *err)
{
    struct asked *asked = arg;
    struct operations *o = asked->operations;
    struct err ours = ERR_INIT;
    if (reply == NULL) {
        answer_failed(asked, err);
    } else if (reply->type != MSG_STATUS_OK || msg_encode(&asked->held, reply, &ours) < 0) {
        answer_asked(asked, reply);
    } else {
        figures_ask(o->setup.figures, on_figures, asked);
    }
}

/* Asks the agent for what begins and ends no operation. */
static void ask_for(struct operations *o, struct ipc_request *request, const struct msg *m,
                    agent_reply_fn fn)
{
    struct err err = ERR_INIT;
    struct view no_op = {NULL, 0};
    struct asked *asked = asked_create(o, request, m->seq, no_op);
    if (agent_link_ask(o->setup.link, m, 0, fn, asked, &err) < 0) {
        answer_failed(asked, &err);
    }
}

void operations_status(struct operations *o, struct ipc_request *request, const struct msg *m)
{
    ask_for(o, request, m, m->status.usage ? on_status : on_agent_reply);
}

void operations_list(struct operations *o, struct ipc_request *request, const struct msg *m)
{
    ask_for(o, request, m, on_agent_reply);
}

/* Sent again after a lost stream, it is taken once: it says where its bytes belong. */
void operations_input(struct operations *o, struct ipc_request *request, const struct msg *m)
{
    ask_for(o, request, m, on_agent_reply);
}

void operations_set_memory(struct operations *o, uint64_t memory_bytes)
{
    o->setup.memory_bytes = memory_bytes;
}

/* ---- progress and life ---------------------------------------------------------------------- */

void operations_running(struct operations *o, const struct msg_running *m)
{
    struct job *job = jobs_find(&o->jobs, m->op);
    bool begins_now = m->waited && m->ran_us < TIME_RUNNING_MS * 1000;
    if (job != NULL) {
        if (job_runs(job, m->ran_us, uv_now(o->setup.loop)) && begins_now) {
            note_kills(o, job); /* earlier operations are over */
        }
        arm_operations(o);
    }
}

struct operations *operations_create(const struct operations_setup *setup)
{
    struct operations *o = alloc_one(struct operations);
    o->setup = *setup;
    jobs_init(&o->jobs);
    uv_timer_init(setup->loop, &o->timer);
    o->timer.data = o;
    return o;
}

void operations_stop(struct operations *o, uint64_t grace_ms, void (*done)(void *arg), void *arg)
{
    for (struct job *job = o->jobs.first; job != NULL; job = job->next) {
        job_cancel(job, OP_STOP_CANCEL, true, uv_now(o->setup.loop));
        send_cancel(o, job, true);
    }
    jobs_finish(&o->jobs);
    o->stopped = done;
    o->stopped_arg = arg;
    /* With nothing to wait for the timer only makes the answer come from the loop. */
    uv_timer_start(&o->timer, on_operations_timer, o->asked > 0 ? grace_ms : 0, 0);
}

static void on_operations_timer_closed(uv_handle_t *handle)
{
    struct operations *o = handle->data;
    void (*closed)(void *arg) = o->closed;
    void *arg = o->closed_arg;
    jobs_finish(&o->jobs);
    free(o);
    closed(arg);
}

void operations_destroy(struct operations *o, void (*closed)(void *arg), void *arg)
{
    o->stopped = NULL;
    o->closed = closed;
    o->closed_arg = arg;
    uv_close((uv_handle_t *)&o->timer, on_operations_timer_closed);
}
