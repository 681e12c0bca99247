/*
 * A backend takes one usage request at a time, and its answer describes the moment of the request.
 * So a caller that comes while a request is pending does not share its answer, which may be older
 * than the caller's event, but waits for the next request, which serves all callers that wait by
 * then.
 *
 * Some engines only remember that there was a memory kill, so the second one in a sandbox would
 * look like a crash. The agent can count, but it runs beside user code and may be gone or busy. So
 * it is asked after the backend, only if its link is up and the backend's count is coarse, and with
 * a short timeout. The higher of both counts is used.
 *
 * Kills are only counted, without the victim: a killed child that its code survived must not
 * explain the end of later code. So the count is noted when an operation begins, and the operation
 * was killed only if there is one more at its end. If several operations run in parallel, each that
 * dies is charged with one kill, which does not count for the others. Noting must not wait for an
 * engine: some backends return the count at once; for others the agent is asked, which counts
 * before it reads later requests.
 */
#include "worker/figures.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/alloc.h"

#define AGENT_MS 1000 /* timeout of the agent's answer, which usually takes microseconds */

struct asker {
    struct asker *next;
    bool judges;
    bool killed;
    uint64_t before;
    figures_fn done;
    void *arg;
};

/* A question to the agent. The answer or the timeout, whichever comes first, clears `figures`. */
struct question {
    struct figures *figures;
};

/* A count that is noted at the begin of an operation, requested from the agent. */
struct note {
    struct figures *figures;
    char op[LIMIT_NAME + 1];
    figures_noted_fn done; /* NULL: no callback */
    void *arg;
};

struct figures {
    struct backend *backend;
    struct agent_link *link;
    uv_timer_t *timer;     /* for the agent's answer; freed in its close callback */
    struct asker *waiting; /* for the next question */
    struct asker *asking;  /* callers of the pending request */
    struct question *question;
    struct backend_usage usage; /* the backend's usage for them */
    bool known;                 /* it had one */
    bool coarse;                /* as it said last */
    uint64_t seen;              /* the highest count of kills so far */
    uint64_t charged;           /* kills that operations were charged with */
    uint64_t noted;             /* uncharged kills at the last note */
};

static void on_backend_usage(void *arg, int rc, const struct backend_usage *usage,
                             const struct err *err);

static void tell(struct asker *list, const struct backend_usage *usage)
{
    while (list != NULL) {
        struct asker *next = list->next;
        list->done(list->arg, usage, list->killed);
        free(list);
        list = next;
    }
}

static void ask_usage(struct figures *f)
{
    if (f->asking == NULL && f->waiting != NULL) {
        f->asking = f->waiting;
        f->waiting = NULL;
        f->backend->ops->usage(f->backend, on_backend_usage, f);
    }
}

static void see(struct figures *f, uint64_t kills)
{
    f->seen = kills > f->seen ? kills : f->seen;
}

static void conclude(struct figures *f, uint64_t agent_kills)
{
    struct asker *list = f->asking;
    struct backend_usage usage = f->usage;
    bool known = f->known;
    if (usage.oom_kills < agent_kills) {
        usage.oom_kills = agent_kills;
    }
    see(f, usage.oom_kills);
    f->asking = NULL;
    for (struct asker *a = list; a != NULL; a = a->next) {
        a->killed = a->judges && f->seen - f->charged > a->before;
        f->charged += a->killed;
    }
    ask_usage(f);
    tell(list, known ? &usage : NULL);
}

/* ---- the agent's part ----------------------------------------------------------------------- */

static void on_agent(void *arg, const struct msg *reply, const struct err *err)
{
    struct question *q = arg;
    struct figures *f = q->figures;
    free(q);
    if (f != NULL) {
        f->question = NULL;
        uv_timer_stop(f->timer);
        conclude(f, reply != NULL && reply->type == MSG_STATUS_OK ? reply->status_ok.oom_kills : 0);
    }
}

static void on_agent_late(uv_timer_t *timer)
{
    struct figures *f = timer->data;
    f->question->figures = NULL;
    f->question = NULL;
    conclude(f, 0);
}

/* False if it cannot be asked. */
static bool ask_agent(struct figures *f)
{
    struct err err = ERR_INIT;
    struct msg m = {.type = MSG_STATUS};
    if (!f->coarse || !agent_link_is_up(f->link)) {
        return false;
    }
    struct question *q = alloc_one(struct question);
    if (agent_link_ask(f->link, &m, 0, on_agent, q, &err) < 0) {
        free(q);
        return false;
    }
    q->figures = f;
    f->question = q;
    uv_timer_start(f->timer, on_agent_late, AGENT_MS, 0);
    return true;
}

static void on_backend_usage(void *arg, int rc, const struct backend_usage *usage,
                             const struct err *err)
{
    struct figures *f = arg;
    struct backend_usage none = {0};
    f->known = rc == 0;
    f->usage = rc == 0 ? *usage : none;
    f->coarse = rc == 0 ? usage->oom_kills_coarse : f->coarse;
    if (!ask_agent(f)) {
        conclude(f, 0);
    }
}

/* ---- for the owner -------------------------------------------------------------------------- */

struct figures *figures_create(uv_loop_t *loop, struct backend *backend, struct agent_link *link)
{
    struct figures *f = alloc_one(struct figures);
    f->backend = backend;
    f->link = link;
    f->timer = alloc_one(uv_timer_t);
    f->timer->data = f;
    uv_timer_init(loop, f->timer);
    return f;
}

static void add_asker(struct figures *f, struct asker asker)
{
    struct asker *a = alloc_one(struct asker);
    *a = asker;
    struct asker **end = &f->waiting;
    while (*end != NULL) {
        end = &(*end)->next;
    }
    *end = a;
    ask_usage(f);
}

void figures_ask(struct figures *f, figures_fn done, void *arg)
{
    add_asker(f, (struct asker){.done = done, .arg = arg});
}

void figures_judge(struct figures *f, uint64_t before, figures_fn done, void *arg)
{
    add_asker(f, (struct asker){.judges = true, .before = before, .done = done, .arg = arg});
}

static void on_note(void *arg, const struct msg *reply, const struct err *err)
{
    struct note *n = arg;
    struct figures *f = n->figures;
    if (reply != NULL && reply->type == MSG_STATUS_OK) {
        see(f, reply->status_ok.oom_kills);
    }
    f->noted = f->seen - f->charged;
    if (n->done != NULL) {
        n->done(n->arg, n->op, f->noted);
    }
    free(n);
}

uint64_t figures_note(struct figures *f, const char *op, figures_noted_fn done, void *arg)
{
    struct msg m = {.type = MSG_STATUS};
    uint64_t kills = 0;
    bool counts = f->backend->ops->oom_kills != NULL;
    if (counts && f->backend->ops->oom_kills(f->backend, &kills)) {
        see(f, kills);
    }
    f->noted = f->seen - f->charged;
    if (!counts && agent_link_is_up(f->link)) {
        struct note *n = alloc_one(struct note);
        *n = (struct note){.figures = f, .done = done, .arg = arg};
        snprintf(n->op, sizeof(n->op), "%s", op);
        if (agent_link_ask(f->link, &m, 0, on_note, n, NULL) < 0) {
            free(n);
        }
    }
    return f->noted;
}

uint64_t figures_noted(const struct figures *f)
{
    return f->noted;
}

void figures_destroy(struct figures *f)
{
    if (f != NULL) {
        struct asker *asking = f->asking;
        struct asker *waiting = f->waiting;
        if (f->question != NULL) {
            f->question->figures = NULL;
        }
        uv_close((uv_handle_t *)f->timer, (uv_close_cb)free);
        free(f);
        tell(asking, NULL);
        tell(waiting, NULL);
    }
}
