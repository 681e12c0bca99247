/*
 * The requests of a worker, and the states in which they are legal. The rules are a table: a
 * message, its legal states, its handler. An illegal message is refused with a reason and has no
 * effect. Malformed bytes end the process, but not the sandbox: the supervisor starts another
 * worker, which takes it over.
 */
#include "worker/worker.h"

#include <stdlib.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/ending.h"
#include "common/log.h"
#include "common/str.h"
#include "config.h"
#include "proto/codec.h"
#include "proto/version.h"
#include "worker/front.h"
#include "worker/life.h"
#include "worker/probed.h"
#include "worker/relimit.h"
#include "worker/spec.h"

#define CONTEXTS  64    /* requests without an answer at a time */
#define ENDING_MS 90000 /* longer than the grace period, in case a sweeper is at work */

#define NEW     SM_BIT(WORKER_NEW)
#define OPENING SM_BIT(WORKER_OPENING)
#define OPEN    SM_BIT(WORKER_OPEN)
#define CLOSING SM_BIT(WORKER_CLOSING)
#define GONE    SM_BIT(WORKER_GONE)
#define ANY     (NEW | OPENING | OPEN | CLOSING | GONE)

struct rule {
    enum msg_type type;
    uint32_t states;
    void (*handle)(struct worker *w, struct ipc_request *request, const struct msg *m);
};

/* ---- answers -------------------------------------------------------------------------------- */

void worker_answer(struct worker *w, struct ipc_request *request, const struct msg *m)
{
    struct err err = ERR_INIT;
    if (w->supervisor.mute) {
        return;
    }
    w->supervisor.answer.len = 0;
    if (msg_encode(&w->supervisor.answer, m, &err) < 0) {
        log_error("cannot answer with %s: %s", msg_name(m->type), err.text);
        life_leave(w, err.code == ERR_NO_MEMORY ? EXIT_CODE_NO_MEMORY : EXIT_CODE_PROTOCOL);
        return;
    }
    ipc_reply(request, w->supervisor.answer.data, w->supervisor.answer.len);
    buf_reset(&w->supervisor.answer, LIMIT_CHUNK);
}

void worker_answer_failed(struct worker *w, struct ipc_request *request, uint64_t seq,
                          const struct err *err, const char *hint)
{
    struct msg m = {.type = MSG_FAILED, .seq = seq};
    m.failed.code = (uint64_t)err->code;
    m.failed.message = worker_text(err->text, LIMIT_TEXT);
    m.failed.hint = worker_text(hint, LIMIT_TEXT);
    worker_answer(w, request, &m);
}

struct view worker_text(const char *text, size_t max)
{
    struct view v = view_of(text);
    v.len = utf8_valid_prefix(v.data, v.len < max ? v.len : max);
    return v;
}

struct asker *worker_asker(struct ipc_request *request, uint64_t seq)
{
    struct asker *asker = alloc_one(struct asker);
    asker->request = request;
    asker->seq = seq;
    return asker;
}

/* ---- handlers ------------------------------------------------------------------------------- */

static void handle_hello(struct worker *w, struct ipc_request *request, const struct msg *m)
{
    struct err err = ERR_INIT;
    const struct msg_hello *hello = &m->hello;
    if (!view_is(hello->protocol, PROTO_WORKER_NAME) || hello->version != PROTO_VERSION) {
        err_set(&err, ERR_VERSION, "this worker speaks %s version %d, not %.*s version %llu",
                PROTO_WORKER_NAME, PROTO_VERSION, VIEW_ARG(hello->protocol),
                (unsigned long long)hello->version);
    } else if (!view_is(hello->sandbox, w->setup->sandbox)) {
        err_set(&err, ERR_PROTOCOL, "this is the worker of sandbox %s, not %.*s", w->setup->sandbox,
                VIEW_ARG(hello->sandbox));
    } else if (hello->generation != w->setup->generation) {
        err_set(&err, ERR_PROTOCOL, "this is worker number %llu of its sandbox, not %llu",
                (unsigned long long)w->setup->generation, (unsigned long long)hello->generation);
    }
    if (err.code != 0) {
        log_error("refused the supervisor: %s", err.text);
        worker_answer_failed(w, request, m->seq, &err, NULL);
        /* A supervisor of another build cannot use this sandbox, but can end it by a signal.
         * Otherwise the sandbox ends by itself when no fitting HELLO has come within the grace
         * period. */
        if (err.code != ERR_VERSION || w->sm.state == WORKER_NEW) {
            life_leave(w, EXIT_CODE_PROTOCOL);
        }
        return;
    }
    uv_timer_stop(&w->supervisor.orphan_timer);
    if (w->supervisor.sm.state != SUPERVISOR_GREETED) {
        supervisor_link_set(w, SUPERVISOR_GREETED);
    }
    struct msg ok = msg_answer(m->type, m->seq);
    ok.hello_ok.protocol = view_of(PROTO_WORKER_NAME);
    ok.hello_ok.version = PROTO_VERSION;
    ok.hello_ok.build = view_of(CLOISTER_VERSION);
    ok.hello_ok.pid = (uint64_t)getpid();
    worker_answer(w, request, &ok);
}

static void handle_open(struct worker *w, struct ipc_request *request, const struct msg *m)
{
    struct asker *asker = worker_asker(request, m->seq);
    asker->next = w->open_askers;
    w->open_askers = asker;
    if (w->sm.state == WORKER_NEW) {
        life_open(w, &m->open);
    } else if (w->sm.state == WORKER_OPEN) {
        life_answer_opened(w);
    }
}

static void handle_close(struct worker *w, struct ipc_request *request, const struct msg *m)
{
    struct asker *asker = worker_asker(request, m->seq);
    asker->next = w->close_askers;
    w->close_askers = asker;
    if (w->sm.state != WORKER_NEW || !front_leave(w)) {
        life_close(w, EXIT_CODE_OK, m->close.grace_ms);
    }
}

struct oneshot *worker_oneshot(struct worker *w, struct ipc_request *request, uint64_t seq,
                               struct view name, struct view_list place,
                               struct backend_spec *ret_spec)
{
    struct err err = ERR_INIT;
    CLEANUP_FREE char *text = alloc_viewdup(name);
    const struct backend_ops *ops = backend_find(text);
    struct backend_spec spec = {
        .id = w->setup->sandbox,
        .dir = w->setup->dir,
        .shared_dir = w->setup->shared_dir,
        .agent_path = w->setup->agent_path,
        .image = "",
    };
    int rc = ops == NULL ? err_set(&err, ERR_ENGINE, "there is no backend called \"%s\"", text)
                         : spec_take_place(&spec, name, place, &err);
    if (rc < 0) {
        worker_answer_failed(w, request, seq, &err, NULL);
        return NULL;
    }
    *ret_spec = spec;
    struct oneshot *e = alloc_one(struct oneshot);
    e->worker = w;
    e->backend = ops->open(w->loop);
    e->asker = worker_asker(request, seq);
    e->next = w->oneshots;
    w->oneshots = e;
    return e;
}

static void on_backend_probed(void *arg, const struct backend_probe *probe)
{
    struct oneshot *e = arg;
    if (probe->left_behind) {
        struct err err = ERR_INIT;
        err_set(&err, ERR_ENGINE, "%s", probe->reason);
        worker_answer_failed(e->worker, e->asker->request, e->asker->seq, &err, NULL);
    } else {
        struct probed probed;
        probed_init(&probed, probe);
        probed.m.seq = e->asker->seq;
        worker_answer(e->worker, e->asker->request, &probed.m);
        probed_finish(&probed);
    }
    life_oneshot_done(e);
}

static void handle_probe(struct worker *w, struct ipc_request *request, const struct msg *m)
{
    struct backend_spec spec;
    CLEANUP_FREE char *runtime = alloc_viewdup(m->probe.runtime);
    CLEANUP_FREE char *image = alloc_viewdup(m->probe.image);
    CLEANUP_FREE char *device = alloc_viewdup(m->probe.io_device);
    struct oneshot *e = worker_oneshot(w, request, m->seq, m->probe.backend, m->probe.place, &spec);
    if (e != NULL) {
        spec.runtime = runtime;
        spec.image = image;
        spec.pull = m->probe.pull;
        spec.packages_bytes = m->probe.packages_bytes;
        spec.limits.io_read_bytes = m->probe.io_read_bytes;
        spec.limits.io_write_bytes = m->probe.io_write_bytes;
        spec.limits.io_ops = m->probe.io_ops;
        spec.io_device = device;
        e->backend->ops->probe(e->backend, &spec, on_backend_probed, e);
        place_finish(&spec.place);
    }
}

static void on_backend_swept(void *arg, int rc, const struct err *err, const char *hint)
{
    struct oneshot *e = arg;
    struct msg m = msg_answer(MSG_SWEEP, e->asker->seq);
    if (rc < 0) {
        worker_answer_failed(e->worker, e->asker->request, e->asker->seq, err, hint);
    } else {
        worker_answer(e->worker, e->asker->request, &m);
    }
    life_oneshot_done(e);
}

static void handle_sweep(struct worker *w, struct ipc_request *request, const struct msg *m)
{
    struct backend_spec spec;
    CLEANUP_FREE char *runtime = alloc_viewdup(m->sweep.runtime);
    struct oneshot *e = worker_oneshot(w, request, m->seq, m->sweep.backend, m->sweep.place, &spec);
    if (e != NULL) {
        spec.runtime = runtime;
        e->backend->ops->destroy(e->backend, &spec, on_backend_swept, e);
        place_finish(&spec.place);
    }
}

static void handle_ping(struct worker *w, struct ipc_request *request, const struct msg *m)
{
    struct msg pong = msg_answer(m->type, m->seq);
    pong.pong.value = m->ping.value;
    worker_answer(w, request, &pong);
}

static void handle_progress(struct worker *w, struct ipc_request *request, const struct msg *m)
{
    progress_ask(w->progress, request, m);
}

static void handle_start(struct worker *w, struct ipc_request *request, const struct msg *m)
{
    operations_start(w->operations, request, m);
}

static void handle_wait(struct worker *w, struct ipc_request *request, const struct msg *m)
{
    operations_wait(w->operations, request, m);
}

static void handle_cancel(struct worker *w, struct ipc_request *request, const struct msg *m)
{
    operations_cancel(w->operations, request, m);
}

static void handle_input(struct worker *w, struct ipc_request *request, const struct msg *m)
{
    operations_input(w->operations, request, m);
}

static void handle_status(struct worker *w, struct ipc_request *request, const struct msg *m)
{
    operations_status(w->operations, request, m);
}

static void handle_ops(struct worker *w, struct ipc_request *request, const struct msg *m)
{
    operations_list(w->operations, request, m);
}

/* OPEN is legal more than once because its answer may have been lost with a supervisor. */
static const struct rule rules[] = {
    {MSG_HELLO, ANY, handle_hello},       {MSG_OPEN, NEW | OPENING | OPEN, handle_open},
    {MSG_PROBE, NEW, handle_probe},       {MSG_START, OPEN, handle_start},
    {MSG_WAIT, OPEN, handle_wait},        {MSG_CANCEL, OPEN, handle_cancel},
    {MSG_PING, ANY, handle_ping},         {MSG_STATUS, OPEN, handle_status},
    {MSG_CLOSE, ANY, handle_close},       {MSG_SWEEP, NEW, handle_sweep},
    {MSG_PROGRESS, ANY, handle_progress}, {MSG_OPS, OPEN, handle_ops},
    {MSG_INPUT, OPEN, handle_input},      {MSG_LIMITS, OPEN, relimit},
    {MSG_KEEP, OPEN, front_keep},         {MSG_FRONT, NEW, front_round},
    {MSG_OFFERS, NEW, front_offers},
};

/* ---- the link to the supervisor ------------------------------------------------------------- */

static const struct rule *find_rule(enum msg_type type)
{
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        if (rules[i].type == type) {
            return &rules[i];
        }
    }
    return NULL;
}

static void refuse_request(struct worker *w, struct ipc_request *request, const struct msg *m)
{
    struct err err = ERR_INIT;
    switch (w->sm.state) {
    case WORKER_CLOSING:
        err_set(&err, ERR_SHUTTING_DOWN, "the sandbox is being closed");
        break;
    case WORKER_GONE:
        err_set(&err, ERR_GONE, "the sandbox has ended");
        break;
    default:
        err_set(&err, ERR_PROTOCOL, "%s is out of turn while the sandbox is %s", msg_name(m->type),
                sm_name(&w->sm));
        break;
    }
    worker_answer_failed(w, request, m->seq, &err, NULL);
}

static void on_request(void *arg, struct ipc_request *request, const void *data, size_t len)
{
    struct worker *w = arg;
    struct err err = ERR_INIT;
    struct msg m;
    if (w->sm.state == WORKER_LEAVING) {
        return; /* the supervisor notices that the link is lost */
    }
    int rc = msg_decode(MSG_LINK_W, data, len, &m, &err);
    if (rc == -ERR_NO_MEMORY) { /* nobody's fault; the next worker takes the sandbox over */
        log_error("cannot read a request: %s", err.text);
        life_leave(w, EXIT_CODE_NO_MEMORY);
        return;
    }
    if (rc < 0) {
        log_error("the supervisor broke the protocol: %s", err.text);
        life_leave(w, EXIT_CODE_PROTOCOL);
        return;
    }
    const struct rule *rule = find_rule(m.type);
    if (rule == NULL) {
        log_error("the supervisor broke the protocol: %s is no request", msg_name(m.type));
        life_leave(w, EXIT_CODE_PROTOCOL);
    } else if (w->supervisor.sm.state != SUPERVISOR_GREETED && m.type != MSG_HELLO) {
        /* the peer is not at fault: a request that waited for a link is sent before HELLO */
        err_set(&err, ERR_PROTOCOL, "%s before hello", msg_name(m.type));
        worker_answer_failed(w, request, m.seq, &err, NULL);
    } else if ((rule->states & SM_BIT(w->sm.state)) == 0) {
        refuse_request(w, request, &m);
    } else {
        rule->handle(w, request, &m);
    }
    msg_finish(&m);
}

static void on_orphaned(uv_timer_t *timer)
{
    struct worker *w = timer->data;
    if (!w->supervisor.ends_instance && ending_has_begun(w->setup->dir)) {
        /* The supervisor that ends all sandboxes of the instance will ask for this one, too. */
        w->supervisor.ends_instance = true;
        uv_timer_start(timer, on_orphaned, ENDING_MS, 0);
        return;
    }
    log_warn("no supervisor for %llu ms, ending the sandbox", (unsigned long long)w->spec.grace_ms);
    life_close(w, EXIT_CODE_ORPHANED, 0);
}

static void leave_if_useless(struct worker *w)
{
    if (w->supervisor.died && !supervisor_link_is_up(w) && w->sm.state == WORKER_NEW) {
        life_leave(w, EXIT_CODE_ORPHANED);
    }
}

static void on_link(void *arg, bool up)
{
    struct worker *w = arg;
    if (!up && !uv_is_active((uv_handle_t *)&w->supervisor.orphan_timer)) {
        uv_timer_start(&w->supervisor.orphan_timer, on_orphaned, w->spec.grace_ms, 0);
    }
    supervisor_link_set(w, up ? SUPERVISOR_THERE : SUPERVISOR_AWAY);
    life_hang_up(w);
    leave_if_useless(w);
}

/* ---- for main ------------------------------------------------------------------------------- */

int worker_create(uv_loop_t *loop, const struct worker_setup *setup, worker_ended_fn ended,
                  void *arg, struct worker **ret, struct err *err)
{
    struct worker *w = alloc_one(struct worker);
    w->loop = loop;
    w->setup = setup;
    w->ended = ended;
    w->ended_arg = arg;
    int rc = ipc_server_open(loop, setup->socket, CONTEXTS, LIMIT_FRAME, on_request, on_link, w,
                             &w->supervisor.server, err);
    if (rc < 0) {
        free(w);
        return rc;
    }
    buf_init(&w->supervisor.answer, LIMIT_FRAME);
    buf_init(&w->opened, LIMIT_FRAME);
    life_init(w);
    uv_timer_start(&w->supervisor.orphan_timer, on_orphaned, w->spec.grace_ms, 0);
    *ret = w;
    return 0;
}

void worker_stop(struct worker *w)
{
    if (w->sm.state == WORKER_NEW || w->sm.state == WORKER_OPENING || w->sm.state == WORKER_OPEN) {
        log_debug("asked to stop");
        life_close(w, EXIT_CODE_OK, 0);
    }
}

void worker_supervisor_died(struct worker *w)
{
    w->supervisor.died = true;
    life_hang_up(w);
    /* The lost link is reported as well, before or after this. So a peer that has been greeted
     * since is the next supervisor, or a link whose end is not reported yet; a link that we end
     * ourselves is not reported. */
    if (w->supervisor.sm.state != SUPERVISOR_GREETED &&
        !uv_is_active((uv_handle_t *)&w->supervisor.orphan_timer)) {
        uv_timer_start(&w->supervisor.orphan_timer, on_orphaned, w->spec.grace_ms, 0);
    }
    leave_if_useless(w);
}
