/*
 * The states of a worker's sandbox.
 *
 *     NEW --OPEN--> OPENING --agent's hello--> OPEN
 *      |               |  |                    |  |
 *      |         close |  | it ended by itself |  | close
 *      |               v  v                    v  v
 *      |            CLOSING  GONE  <--------- GONE  CLOSING
 *      |               |      |
 *      |               v      v       all of it removed, or out of patience
 *      +------------> LEAVING <-----  (or: the supervisor broke the protocol, the sandbox lives on)
 *
 * "close" is a CLOSE of the supervisor, a signal, or the end of the grace period without a
 * supervisor. In CLOSING running operations are cancelled first, so that pending requests get their
 * outcome; in GONE they get the reason, and a memory kill if the backend knows of one. Then the
 * backend removes everything. A sandbox that ends because its whole instance ends (common/ending.h)
 * is not GONE: its worker waits for CLOSE.
 *
 * What is under way within a state is a machine of its own (step.c), and so is leaving (leave.c).
 */
#include "worker/life.h"

#include <stdlib.h>

#include "common/alloc.h"
#include "common/ending.h"
#include "common/log.h"
#include "proto/codec.h"
#include "worker/spec.h"

#define CREATE_PATIENCE_MS 1000 /* a creation under way may finish before it is torn down */
#define FIGURES_MS         500  /* to learn why a sandbox ended */

static const struct sm_state states[] = {
    [WORKER_NEW] = {"not open", SM_BIT(WORKER_OPENING) | SM_BIT(WORKER_LEAVING)},
    [WORKER_OPENING] = {"opening", SM_BIT(WORKER_OPEN) | SM_BIT(WORKER_CLOSING) |
                                       SM_BIT(WORKER_GONE) | SM_BIT(WORKER_LEAVING)},
    [WORKER_OPEN] = {"open", SM_BIT(WORKER_CLOSING) | SM_BIT(WORKER_GONE) | SM_BIT(WORKER_LEAVING)},
    [WORKER_CLOSING] = {"closing", SM_BIT(WORKER_LEAVING)},
    [WORKER_GONE] = {"gone", SM_BIT(WORKER_LEAVING)},
    [WORKER_LEAVING] = {"leaving", 0},
};

static bool agent_is_there(const void *owner)
{
    const struct worker *w = owner;
    return w->step.state == STEP_AGENT && agent_link_is_up(w->link);
}

static bool nothing_is_told_yet(const void *owner)
{
    const struct worker *w = owner;
    return w->step.state == STEP_NONE && w->backend == NULL && w->opened.len == 0;
}

static bool cause_is_known(const void *owner)
{
    const struct worker *w = owner;
    return w->step.state == STEP_AGENT && w->gone_cause.code != 0;
}

static const struct sm_invariant state_invariants[] = {
    {"a sandbox is opened once", SM_BIT(WORKER_OPENING), nothing_is_told_yet},
    {"a sandbox is open when its agent has said hello", SM_BIT(WORKER_OPEN), agent_is_there},
    {"only an agent's sandbox ends by itself, of a cause", SM_BIT(WORKER_GONE), cause_is_known},
};

static const struct sm_guard state_guard = {"worker", state_invariants,
                                            sizeof(state_invariants) / sizeof(state_invariants[0])};

void life_set_state(struct worker *w, enum worker_state next, const char *cause)
{
    if (w->sm.state == WORKER_OPENING) {
        progress_over(w->progress);
    }
    const char *from = sm_move(&w->sm, next);
    log_debug("sandbox %s: %s -> %s: %s", w->setup->sandbox, from, sm_name(&w->sm), cause);
}

/* ---- askers --------------------------------------------------------------------------------- */

void life_answer_askers(struct worker *w, struct asker **list, struct msg *m, const struct err *err,
                        const char *hint)
{
    while (*list != NULL) {
        struct asker *asker = *list;
        *list = asker->next;
        if (m != NULL) {
            m->seq = asker->seq;
            worker_answer(w, asker->request, m);
        } else {
            worker_answer_failed(w, asker->request, asker->seq, err, hint);
        }
        free(asker);
    }
}

/* The supervisor cannot be told what it waits for. It is told that the worker has left, and the
 * next one takes the sandbox over, or removes it. */
static void leave_untold(struct worker *w, const struct err *err)
{
    log_error("cannot tell about the sandbox: %s", err->text);
    life_leave(w, err->code == ERR_NO_MEMORY ? EXIT_CODE_NO_MEMORY : EXIT_CODE_PROTOCOL);
}

static void on_answer(void *arg, struct ipc_request *request, const struct msg *answer)
{
    worker_answer(arg, request, answer);
}

void life_answer_opened(struct worker *w)
{
    struct msg m;
    struct err err = ERR_INIT;
    if (msg_decode(MSG_LINK_W, w->opened.data, w->opened.len, &m, &err) < 0) {
        leave_untold(w, &err);
        return;
    }
    life_answer_askers(w, &w->open_askers, &m, NULL, NULL);
    msg_finish(&m);
}

/* ---- removing a sandbox --------------------------------------------------------------------- */

static void on_destroyed(void *arg, int rc, const struct err *err, const char *hint)
{
    struct worker *w = arg;
    struct msg ok = msg_answer(MSG_CLOSE, 0);
    if (w->step.state != STEP_DESTROY) {
        return;
    }
    if (rc < 0) {
        log_error("sandbox %s could not be removed: %s", w->setup->sandbox, err->text);
    } else if (ending_has_begun(w->setup->dir)) { /* the link may be lost: the next one reads it */
        ending_mark_destroyed(w->setup->dir);
    }
    life_answer_askers(w, &w->close_askers, rc < 0 ? NULL : &ok, err, hint);
    life_leave(w, w->exit_code);
}

static void on_destroy_timeout(uv_timer_t *timer)
{
    struct worker *w = timer->data;
    struct err err = ERR_INIT;
    err_set(&err, ERR_TIMEOUT, "the sandbox could not be removed within %d ms", TIME_CLOSE_MS);
    on_destroyed(w, -ERR_TIMEOUT, &err, "");
}

static void destroy_sandbox(struct worker *w)
{
    if (!sm_may(&w->step, STEP_DESTROY)) {
        return; /* it leaves, since it could not answer */
    }
    uv_timer_start(&w->step_timer, on_destroy_timeout, TIME_CLOSE_MS, 0);
    worker_set_step(w, STEP_DESTROY);
    w->backend->ops->destroy(w->backend, &w->spec, on_destroyed, w);
}

static void on_create_patience(uv_timer_t *timer)
{
    struct worker *w = timer->data;
    log_warn("sandbox %s is removed while it is still being created", w->setup->sandbox);
    destroy_sandbox(w);
}

/* Whoever keeps the sandbox may take seconds to end it, or not answer at all; its agent takes
 * milliseconds. */
static void tell_agent_to_end(struct worker *w)
{
    const struct msg m = {.type = MSG_SHUTDOWN};
    if (w->backend->ops->ends_late && !w->is_others) {
        agent_link_post(w->link, &m);
    }
}

static void on_stopped(void *arg)
{
    struct worker *w = arg;
    struct err err = ERR_INIT;
    if (w->step.state != STEP_STOP) {
        return;
    }
    tell_agent_to_end(w);
    err_set(&err, ERR_SHUTTING_DOWN, "the sandbox is being closed");
    agent_link_end(w->link, &err);
    destroy_sandbox(w);
}

void life_close(struct worker *w, enum exit_code code, uint64_t grace_ms)
{
    struct err err = ERR_INIT;
    struct msg ok = msg_answer(MSG_CLOSE, 0);
    unsigned from = w->sm.state;
    err_set(&err, ERR_SHUTTING_DOWN, "the sandbox is being closed");
    if (from == WORKER_NEW) {
        life_answer_askers(w, &w->close_askers, &ok, NULL, NULL);
        life_leave(w, code);
        return;
    }
    if (from != WORKER_OPENING && from != WORKER_OPEN) {
        return; /* already closing; answered at its end */
    }
    life_set_state(w, WORKER_CLOSING, code == EXIT_CODE_ORPHANED ? "orphaned" : "asked to close");
    w->exit_code = code;
    if (from == WORKER_OPEN) {
        worker_set_step(w, STEP_STOP);
        operations_stop(w->operations, grace_ms < TIME_INTERRUPT_MS ? grace_ms : TIME_INTERRUPT_MS,
                        on_stopped, w);
        return;
    }
    life_answer_askers(w, &w->open_askers, NULL, &err, NULL);
    if (w->sm.state != WORKER_CLOSING) {
        return; /* it leaves, since it could not answer */
    }
    if (w->step.state == STEP_CREATE) {
        uv_timer_start(&w->step_timer, on_create_patience, CREATE_PATIENCE_MS, 0);
    } else {
        agent_link_end(w->link, &err);
        destroy_sandbox(w);
    }
}

/* ---- a sandbox that ended by itself --------------------------------------------------------- */

static void tell_gone(struct worker *w, bool killed)
{
    struct err err = ERR_INIT;
    err_set(&err, ERR_GONE, "the sandbox has ended%s", killed ? ": it ran out of memory" : "");
    if (!killed && w->gone_cause.code != ERR_GONE) {
        err_set(&err, ERR_GONE, "the sandbox was ended: %s", w->gone_cause.text);
    } else if (!killed && strncmp(w->gone_cause.text, BACKEND_ENDED, strlen(BACKEND_ENDED)) == 0) {
        err = w->gone_cause;
    }
    log_error("sandbox %s: %s", w->setup->sandbox, err.text);
    agent_link_end(w->link, &err);
    if (!w->attached) {
        err.code = ERR_ENGINE; /* for a new sandbox this is a failed creation */
    }
    life_answer_askers(w, &w->open_askers, NULL, &err, NULL);
    destroy_sandbox(w);
}

static void on_gone_figures(void *arg, const struct backend_usage *usage, bool killed)
{
    struct worker *w = arg;
    if (w->step.state == STEP_JUDGE) {
        worker_set_step(w, STEP_TELL);
        tell_gone(w, killed);
    }
}

static void on_gone_timeout(uv_timer_t *timer)
{
    on_gone_figures(timer->data, NULL, false);
}

/* What ran in it was killed with all others of the instance. Their remains are removed by turns:
 * whoever ends the instance asks for it, or the grace period does. */
static void ended_with_server(struct worker *w)
{
    struct err err = ERR_INIT;
    log_info("sandbox %s: ended with its server", w->setup->sandbox);
    err_set(&err, ERR_GONE, "the sandbox has ended with its server");
    agent_link_end(w->link, &err);
    life_hang_up(w);
}

static void on_link_failed(void *arg, const struct err *err)
{
    struct worker *w = arg;
    if (w->sm.state == WORKER_CLOSING) {
        agent_link_end(w->link, err); /* there is no agent to ask any more; the removal goes on */
        return;
    }
    if (ending_has_begun(w->setup->dir)) {
        ended_with_server(w);
        return;
    }
    if (err->code == ERR_DENIED) {
        /* a newer worker has taken over the sandbox */
        log_error("sandbox %s: %s", w->setup->sandbox, err->text);
        life_leave(w, EXIT_CODE_REPLACED);
        return;
    }
    if (w->attached && w->sm.state == WORKER_OPENING && err->code == ERR_TIMEOUT) {
        log_error("sandbox %s could not be taken over: %s", w->setup->sandbox, err->text);
        life_answer_askers(w, &w->open_askers, NULL, err, NULL);
        life_leave(w, EXIT_CODE_SETUP); /* it may answer another worker, later */
        return;
    }
    w->gone_cause = *err;
    life_set_state(w, WORKER_GONE, err->text);
    w->exit_code = EXIT_CODE_SANDBOX_GONE;
    uv_timer_start(&w->step_timer, on_gone_timeout, FIGURES_MS, 0);
    worker_set_step(w, STEP_JUDGE);
    figures_judge(w->figures, figures_noted(w->figures), on_gone_figures, w);
}

/* ---- opening -------------------------------------------------------------------------------- */

/* Keeps the answer for all OPEN requests, also after a lost link. */
static int keep_opened(struct worker *w, const struct backend_info *info, struct err *err)
{
    struct view unapplied[BACKEND_UNAPPLIED_MAX];
    struct msg m = msg_answer(MSG_OPEN, 0);
    for (size_t i = 0; i < info->unapplied_count; i++) {
        unapplied[i] = view_of(info->unapplied[i]);
    }
    m.opened.backend = view_of(w->backend->ops->name);
    m.opened.runtime = worker_text(info->runtime, LIMIT_PATH);
    m.opened.image = worker_text(info->image, LIMIT_PATH);
    m.opened.workspace = info->workspace != NULL ? worker_text(info->workspace, LIMIT_PATH)
                                                 : view_of(backend_workspace(&w->spec));
    m.opened.unapplied.items = unapplied;
    m.opened.unapplied.count = info->unapplied_count;
    return msg_encode(&w->opened, &m, err);
}

/* Adds the languages, which are known only after HELLO. */
static int add_languages(struct worker *w, const struct msg_hello_ok *hello, struct err *err)
{
    struct msg m;
    struct buf out;
    int rc = msg_decode(MSG_LINK_W, w->opened.data, w->opened.len, &m, err);
    if (rc < 0) {
        return rc;
    }
    buf_init(&out, LIMIT_FRAME);
    m.opened.languages = hello->languages;
    m.opened.looked = hello->looked;
    rc = msg_encode(&out, &m, err);
    if (rc == 0) {
        struct buf old = w->opened;
        w->opened = out;
        out = old;
    }
    msg_finish(&m);
    buf_finish(&out);
    return rc;
}

/* Memory kills before this worker's start do not explain a crash now. */
static void on_baseline(void *arg, const struct backend_usage *usage, bool killed)
{
    struct worker *w = arg;
    if (w->sm.state != WORKER_LEAVING) { /* else the figures are being freed, which asks no more */
        (void)figures_note(w->figures, "", NULL, NULL);
    }
}

static void on_link_up(void *arg, const struct msg_hello_ok *hello)
{
    struct worker *w = arg;
    struct err err = ERR_INIT;
    if (w->sm.state != WORKER_OPENING) {
        return; /* a later stream, which changes nothing for the supervisor */
    }
    if (add_languages(w, hello, &err) < 0) {
        leave_untold(w, &err);
        return;
    }
    if (w->attached) {
        figures_ask(w->figures, on_baseline, w);
    }
    life_set_state(w, WORKER_OPEN, w->attached ? "taken over" : "created");
    life_answer_opened(w);
    alloc_give_back(); /* a creation needs much, and a sandbox may idle from now on */
}

static int on_link_event(void *arg, const struct msg *event, struct err *err)
{
    struct worker *w = arg;
    if (event->type == MSG_RUNNING) {
        operations_running(w->operations, &event->running);
        return 0;
    }
    if (w->door == NULL) {
        return err_set(err, ERR_PROTOCOL, "%s in a sandbox without a door", msg_name(event->type));
    }
    return door_take(w->door, event, err);
}

static void on_door_post(void *arg, const struct msg *m)
{
    struct worker *w = arg;
    agent_link_post(w->link, m);
}

static void on_link_lost(void *arg)
{
    struct worker *w = arg;
    if (w->door != NULL) {
        door_cut(w->door);
    }
    if (ending_has_begun(w->setup->dir)) { /* not a thousand requests to an engine at once */
        ended_with_server(w);
        return;
    }
    log_info("sandbox %s: lost the stream to the agent, opening another", w->setup->sandbox);
}

static const struct agent_link_events link_events = {
    .on_up = on_link_up,
    .on_event = on_link_event,
    .on_lost = on_link_lost,
    .on_failed = on_link_failed,
};

static void connect_agent(struct worker *w)
{
    const struct agent_link_greeting greeting = {
        .sandbox = w->setup->sandbox,
        .generation = w->setup->generation,
        .runners = w->runners,
    };
    w->link = agent_link_create(w->loop, w->backend, &greeting, &link_events, w);
    w->figures = figures_create(w->loop, w->backend, w->link);
    struct operations_setup setup = {
        .loop = w->loop,
        .link = w->link,
        .figures = w->figures,
        .memory_bytes = w->spec.limits.memory_bytes,
        .answer = on_answer,
        .arg = w,
    };
    w->operations = operations_create(&setup);
    if (w->spec.door) {
        const struct door_setup door = {
            .loop = w->loop,
            .sandbox = w->setup->sandbox,
            .rules = &w->rules,
            .post = on_door_post,
            .arg = w,
        };
        w->door = door_create(&door);
    }
    worker_set_step(w, STEP_AGENT);
    agent_link_open(w->link);
}

static void on_created(void *arg, int rc, const struct backend_info *info, const struct err *err,
                       const char *hint)
{
    struct worker *w = arg;
    struct err untold = ERR_INIT;
    if (w->step.state != STEP_CREATE) {
        return; /* what there is of it is being removed, or left */
    }
    if (w->sm.state == WORKER_CLOSING) {
        destroy_sandbox(w); /* closed meanwhile */
    } else if (rc < 0) {
        log_error("sandbox %s could not be %s: %s", w->setup->sandbox,
                  w->attached ? "taken over" : "created", err->text);
        life_answer_askers(w, &w->open_askers, NULL, err, hint);
        life_leave(w, rc == -ERR_GONE ? EXIT_CODE_SANDBOX_GONE : EXIT_CODE_SETUP);
    } else if (keep_opened(w, info, &untold) < 0) {
        leave_untold(w, &untold);
    } else {
        connect_agent(w);
    }
}

static void on_open_late(void *arg, const struct err *err)
{
    struct worker *w = arg;
    log_error("sandbox %s: %s", w->setup->sandbox, err->text);
    life_answer_askers(w, &w->open_askers, NULL, err, NULL);
    if (w->attached) { /* it may answer another worker, later */
        life_leave(w, EXIT_CODE_SETUP);
    } else {
        life_close(w, EXIT_CODE_SETUP, 0);
    }
}

static void on_progress(void *arg, const char *text, uint64_t done, uint64_t total)
{
    struct worker *w = arg;
    if (w->step.state == STEP_CREATE) {
        progress_step(w->progress, text, done, total);
    }
}

/* Its new server may not have reached the agent yet, or never will: the agent ends itself then,
 * once nobody is there. */
static void on_taken(void *arg)
{
    struct worker *w = arg;
    if (w->sm.state == WORKER_OPEN) {
        log_info("sandbox %s: it is another server's now", w->setup->sandbox);
        life_leave(w, EXIT_CODE_REPLACED);
    }
}

static int keep_spec(struct worker *w, const struct msg_open *m, struct err *err)
{
    struct backend_spec *spec = &w->spec;
    spec->id = w->setup->sandbox;
    spec->dir = w->setup->dir;
    spec->shared_dir = w->setup->shared_dir;
    spec->agent_path = w->setup->agent_path;
    spec->progress = on_progress;
    spec->progress_arg = w;
    spec->taken = on_taken;
    spec->taken_arg = w;
    w->runners = alloc_listdup(m->runners);
    int rc = spec_take(spec, m, err);
    return rc < 0 || !spec->door ? rc : door_rules_take(&w->rules, m, err);
}

static void refuse_open(struct worker *w, const struct err *err)
{
    life_answer_askers(w, &w->open_askers, NULL, err, NULL);
    life_leave(w, EXIT_CODE_SETUP);
}

void life_open(struct worker *w, const struct msg_open *m)
{
    char *name = alloc_viewdup(m->backend);
    const struct backend_ops *ops = backend_find(name);
    life_set_state(w, WORKER_OPENING, m->attach ? "taking over" : "creating");
    struct err err = ERR_INIT;
    if (ops == NULL) {
        err_set(&err, ERR_ENGINE, "there is no backend called \"%s\"", name);
        refuse_open(w, &err);
    } else if (keep_spec(w, m, &err) < 0) {
        refuse_open(w, &err);
    } else {
        w->attached = m->attach;
        w->backend = ops->open(w->loop);
        worker_set_step(w, STEP_CREATE);
        progress_begin(w->progress);
        (m->attach ? ops->attach : ops->create)(w->backend, &w->spec, on_created, w);
    }
    free(name);
}

/* ---- for worker.c --------------------------------------------------------------------------- */

void life_init(struct worker *w)
{
    sm_init(&w->sm, states, sizeof(states) / sizeof(states[0]), WORKER_NEW);
    sm_watch(&w->sm, &state_guard, w);
    worker_step_init(w);
    supervisor_link_init(w);
    w->spec.grace_ms = TIME_GRACE_MS;
    struct progress_setup setup = {
        .loop = w->loop,
        .patience_ms = TIME_OPEN_MS,
        .cap_ms = TIME_OPEN_MAX_MS,
        .on_late = on_open_late,
        .answer = on_answer,
        .arg = w,
    };
    w->progress = progress_create(&setup);
    uv_timer_init(w->loop, &w->supervisor.orphan_timer);
    uv_timer_init(w->loop, &w->step_timer);
    w->supervisor.orphan_timer.data = w;
    w->step_timer.data = w;
}
