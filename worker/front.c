/*
 * The rounds of a server have one backend object, which remembers when it has heard of whom. It
 * stays on the worker's list of such objects, and is closed when the worker leaves. Only a CLOSE
 * makes it say that the server has ended: a worker that is stopped by somebody is replaced.
 */
#include "worker/front.h"

#include <stdlib.h>

#include "common/log.h"
#include "proto/codec.h"
#include "worker/life.h"
#include "worker/spec.h"

_Static_assert(BACKEND_RECORD_MAX <= LIMIT_RECORD, "an answer has room for each record");
_Static_assert(BACKEND_TAKEN_MAX <= LIMIT_TAKEN, "one answer has all that one round takes");

static void on_backend_kept(void *arg, int rc, const struct err *err, const char *hint)
{
    struct worker *w = arg;
    struct ipc_request *request = w->keep.request;
    struct msg m = msg_answer(MSG_KEEP, w->keep.seq);
    w->keep.request = NULL;
    w->is_others = rc == -ERR_GONE; /* or it has ended */
    if (rc < 0) {
        worker_answer_failed(w, request, w->keep.seq, err, hint);
    } else {
        worker_answer(w, request, &m);
    }
}

void front_keep(struct worker *w, struct ipc_request *request, const struct msg *m)
{
    struct err err = ERR_INIT;
    if (w->keep.request != NULL) {
        err_set(&err, ERR_BUSY, "a record is being kept");
    } else if (w->backend->ops->keep == NULL) {
        err_set(&err, ERR_CONFIG, "sandboxes of %s have no record but that of their server",
                w->backend->ops->name);
    }
    if (err.code != 0) {
        worker_answer_failed(w, request, m->seq, &err, NULL);
        return;
    }
    w->keep.request = request;
    w->keep.seq = m->seq;
    w->backend->ops->keep(w->backend, m->keep.record, on_backend_kept, w);
}

/* ---- rounds ---- */

static void answer_round(struct worker *w, struct asker *asker, const struct backend_taken *taken,
                         size_t count, bool more)
{
    struct buf texts[BACKEND_TAKEN_MAX];
    struct view items[BACKEND_TAKEN_MAX];
    struct err err = ERR_INIT;
    struct msg m = msg_answer(MSG_FRONT, asker->seq);
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        struct msg each = {.type = MSG_TAKEN};
        each.taken.sandbox = view_of(taken[i].sandbox);
        each.taken.generation = taken[i].generation;
        each.taken.record = taken[i].record;
        buf_init(&texts[used], LIMIT_ITEM);
        if (msg_encode(&texts[used], &each, &err) == 0) {
            items[used] = view_bytes(texts[used].data, texts[used].len);
            used++;
        } else {
            log_warn("a sandbox of another server cannot be told of: %s sandbox=%s", err.text,
                     taken[i].sandbox);
            buf_finish(&texts[used]); /* it is found again when this server has ended */
        }
    }
    m.front_ok.taken = (struct view_list){items, used};
    m.front_ok.more = more;
    worker_answer(w, asker->request, &m);
    for (size_t i = 0; i < used; i++) {
        buf_finish(&texts[i]);
    }
}

static void on_round(void *arg, int rc, const struct backend_taken *taken, size_t count, bool more,
                     const struct err *err)
{
    struct oneshot *e = arg;
    struct asker *asker = e->asker;
    e->asker = NULL;
    if (rc < 0) {
        worker_answer_failed(e->worker, asker->request, asker->seq, err, NULL);
    } else {
        answer_round(e->worker, asker, taken, count, more);
    }
    free(asker);
}

/* The first round makes the object. It may not have reached the engine, so each later one says
 * again where that is. */
static struct oneshot *front_object(struct worker *w, struct ipc_request *request,
                                    const struct msg *m, struct backend_spec *ret_spec)
{
    struct err err = ERR_INIT;
    if (w->front == NULL) {
        w->front = worker_oneshot(w, request, m->seq, m->front.backend, m->front.place, ret_spec);
        return w->front;
    }
    *ret_spec = (struct backend_spec){
        .id = w->setup->sandbox,
        .dir = w->setup->dir,
        .shared_dir = w->setup->shared_dir,
    };
    if (spec_take_place(ret_spec, m->front.backend, m->front.place, &err) < 0) {
        worker_answer_failed(w, request, m->seq, &err, NULL);
        return NULL;
    }
    w->front->asker = worker_asker(request, m->seq);
    return w->front;
}

void front_round(struct worker *w, struct ipc_request *request, const struct msg *m)
{
    struct backend_spec spec = {.place = {.kind = PLACE_NONE}};
    struct err err = ERR_INIT;
    if (w->front != NULL && w->front->asker != NULL) {
        err_set(&err, ERR_BUSY, "a round is under way");
        worker_answer_failed(w, request, m->seq, &err, NULL);
        return;
    }
    struct oneshot *e = front_object(w, request, m, &spec);
    if (e == NULL) {
        return;
    }
    if (e->backend->ops->front != NULL) {
        e->backend->ops->front(e->backend, &spec, m->front.lease_ms, m->front.wait_ms, on_round, e);
    } else {
        err_set(&err, ERR_CONFIG, "servers of %s know nothing of each other",
                e->backend->ops->name);
        on_round(e, -err.code, NULL, 0, false, &err);
    }
    place_finish(&spec.place);
}

/* ---- what others offer ---- */

static void on_offers(void *arg, int rc, const char *const *sandboxes, size_t count,
                      uint64_t generation, const struct err *err)
{
    struct oneshot *e = arg;
    struct asker *asker = e->offers;
    struct msg m = msg_answer(MSG_OFFERS, asker->seq);
    struct view items[BACKEND_OFFERS_MAX];
    e->offers = NULL;
    for (size_t i = 0; i < count; i++) {
        items[i] = view_of(sandboxes[i]);
    }
    m.offers_ok.sandboxes = (struct view_list){items, count};
    m.offers_ok.generation = generation;
    if (rc < 0) {
        worker_answer_failed(e->worker, asker->request, asker->seq, err, NULL);
    } else {
        worker_answer(e->worker, asker->request, &m);
    }
    free(asker);
}

static int ask_for_offers(struct worker *w, struct ipc_request *request, const struct msg *m,
                          struct err *err)
{
    struct backend_spec spec = {.agent_path = w->setup->agent_path};
    struct msg like;
    struct oneshot *e = w->front;
    if (e == NULL || e->closing || m->offers.open.count == 0) {
        return err_set(err, ERR_BUSY, "there was no round among other servers");
    }
    if (e->offers != NULL) {
        return err_set(err, ERR_BUSY, "offers are being waited for");
    }
    if (e->backend->ops->offers == NULL) {
        return err_set(err, ERR_CONFIG, "servers of %s offer each other nothing",
                       e->backend->ops->name);
    }
    struct view open = m->offers.open.items[0];
    int rc = msg_decode(MSG_LINK_W, open.data, open.len, &like, err);
    if (rc < 0) {
        return rc;
    }
    spec.id = w->setup->sandbox;
    spec.dir = w->setup->dir;
    spec.shared_dir = w->setup->shared_dir;
    rc = spec_take(&spec, &like.open, err);
    if (rc == 0) {
        e->offers = worker_asker(request, m->seq);
        e->backend->ops->offers(e->backend, &spec, m->offers.wait_ms, on_offers, e);
        spec_drop(&spec);
    }
    msg_finish(&like);
    return rc;
}

void front_offers(struct worker *w, struct ipc_request *request, const struct msg *m)
{
    struct err err = ERR_INIT;
    if (ask_for_offers(w, request, m, &err) < 0) {
        worker_answer_failed(w, request, m->seq, &err, NULL);
    }
}

/* ---- the end ---- */

static void on_front_left(void *arg, int rc, const struct err *err, const char *hint)
{
    struct worker *w = arg;
    (void)hint;
    if (rc < 0) {
        log_warn("other servers take this one for gone only later: %s", err->text);
    }
    life_close(w, EXIT_CODE_OK, 0);
}

bool front_leave(struct worker *w)
{
    struct oneshot *e = w->front;
    bool leaves = e != NULL && !e->closing && e->backend->ops->front_leave != NULL;
    if (leaves && !w->front_leaves) {
        w->front_leaves = true;
        e->backend->ops->front_leave(e->backend, on_front_left, w);
    }
    return leaves;
}
