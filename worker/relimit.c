/*
 * The limits of a sandbox change once in its life: when a sandbox that was made for nobody is given
 * to somebody (supervisor/fleet/pool). The backend comes first, since only it holds the sandbox to
 * them; then the agent, whose answer is also the sign that it lives. If the limits are those that
 * the sandbox has, the backend is not asked.
 */
#include "worker/relimit.h"

#include "worker/life.h"

static void relimit_failed(struct worker *w, const struct err *err, const char *hint)
{
    struct ipc_request *request = w->relimit.request;
    w->relimit.request = NULL;
    worker_answer_failed(w, request, w->relimit.seq, err, hint);
}

static void on_agent_told(void *arg, const struct msg *reply, const struct err *err)
{
    struct worker *w = arg;
    struct msg m;
    struct err refused = ERR_INIT;
    if (reply == NULL) {
        relimit_failed(w, err, "");
        return;
    }
    if (reply->type == MSG_FAILED) {
        err_set(&refused, (enum err_code)reply->failed.code, "%.*s",
                VIEW_ARG(reply->failed.message));
        relimit_failed(w, &refused, "");
        return;
    }
    m = msg_answer(MSG_LIMITS, w->relimit.seq);
    struct ipc_request *request = w->relimit.request;
    w->relimit.request = NULL;
    worker_answer(w, request, &m);
}

static void tell_agent(struct worker *w)
{
    struct err err = ERR_INIT;
    struct msg m = {.type = MSG_LIMITS};
    m.limits.memory_bytes = w->spec.limits.memory_bytes;
    m.limits.cpu_milli = w->spec.limits.cpu_milli;
    if (agent_link_ask(w->link, &m, 0, on_agent_told, w, &err) < 0) {
        relimit_failed(w, &err, "");
    }
}

static void on_backend_limited(void *arg, int rc, const struct err *err, const char *hint)
{
    struct worker *w = arg;
    if (rc < 0) {
        relimit_failed(w, err, hint);
        return;
    }
    w->spec.limits.memory_bytes = w->relimit.memory_bytes;
    w->spec.limits.cpu_milli = w->relimit.cpu_milli;
    operations_set_memory(w->operations, w->spec.limits.memory_bytes);
    tell_agent(w);
}

void relimit(struct worker *w, struct ipc_request *request, const struct msg *m)
{
    const struct msg_limits *wanted = &m->limits;
    struct err err = ERR_INIT;
    if (w->relimit.request != NULL) {
        err_set(&err, ERR_BUSY, "the limits of this sandbox are being changed");
        worker_answer_failed(w, request, m->seq, &err, "");
        return;
    }
    w->relimit.request = request;
    w->relimit.seq = m->seq;
    w->relimit.memory_bytes = wanted->memory_bytes;
    w->relimit.cpu_milli = wanted->cpu_milli;
    struct backend_spec spec = w->spec;
    spec.limits.memory_bytes = wanted->memory_bytes;
    spec.limits.cpu_milli = wanted->cpu_milli;
    if (spec.limits.memory_bytes == w->spec.limits.memory_bytes &&
        spec.limits.cpu_milli == w->spec.limits.cpu_milli) {
        tell_agent(w);
    } else if (wanted->memory_bytes == 0 || wanted->cpu_milli == 0) {
        err_set(&err, ERR_CONFIG, "a sandbox has memory and a share of the processors");
        relimit_failed(w, &err, "");
    } else if (w->backend->ops->limit == NULL) {
        err_set(&err, ERR_CONFIG, "limits of sandboxes of %s stay as they are",
                w->backend->ops->name);
        relimit_failed(w, &err, "");
    } else {
        w->backend->ops->limit(w->backend, &spec, on_backend_limited, w);
    }
}
