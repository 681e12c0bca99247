/*
 * Only workers touch engines and runtimes, because that code may crash or hang. So a question about
 * a runtime, or the cleanup after a dead server, also runs in an ordinary worker with an ordinary
 * link; only its life is short: HELLO, one request, CLOSE, exit.
 */
#include "supervisor/fleet/workers/oneshot.h"

#include <stdlib.h>

#include "common/alloc.h"
#include "common/log.h"
#include "supervisor/base/config.h"
#include "supervisor/fleet/host/host.h"

#define EXIT_MS 1000 /* from the answer to CLOSE to the exit */

struct oneshot {
    struct worker_link *link;
    enum msg_type type;
    char *backend;
    struct view_list place;
    char *runtime, *image;
    bool pull, asked;
    const struct config *config; /* what sandboxes will ask for */
    worker_reply_fn done;        /* NULL once called */
    void *arg;
};

struct msg_probe oneshot_question(const struct oneshot_target *target, const struct config *config)
{
    return (struct msg_probe){
        .backend = view_of(target->backend),
        .place = target->place,
        .runtime = view_of(target->runtime),
        .image = view_of(target->image != NULL ? target->image : ""),
        .pull = target->pull,
        .packages_bytes = config_packages_bytes(config),
        .io_read_bytes = config->io_read_mbps << 20,
        .io_write_bytes = config->io_write_mbps << 20,
        .io_ops = config->io_iops,
        .io_device = view_of(config->io_device),
    };
}

static void free_oneshot(struct oneshot *e)
{
    free(e->backend);
    alloc_listfree(&e->place);
    free(e->runtime);
    free(e->image);
    free(e);
}

static void finish_oneshot(struct oneshot *e, int rc, const struct msg *reply,
                           const struct err *err, const char *hint)
{
    worker_reply_fn done = e->done;
    e->done = NULL;
    if (done != NULL) {
        done(e->arg, rc, reply, err, hint);
    }
}

static void on_oneshot_close_answered(void *arg, int rc, const struct msg *reply,
                                      const struct err *err, const char *hint)
{
    struct oneshot *e = arg;
    (void)reply, (void)err, (void)hint;
    if (rc == 0) {
        worker_link_retire(e->link, EXIT_MS);
    } else {
        worker_link_kill(e->link, "did not end after its request");
    }
}

static void on_oneshot_answer(void *arg, int rc, const struct msg *reply, const struct err *err,
                              const char *hint)
{
    struct oneshot *e = arg;
    if (rc < 0 && err == NULL) {
        return; /* on_oneshot_dead() has the reason */
    }
    worker_link_keep(e->link);
    finish_oneshot(e, rc, reply, err, hint);
    if (worker_link_is_ending(e->link)) {
        return; /* the worker was stopped in the same moment */
    }
    struct msg m = {.type = MSG_CLOSE};
    if (worker_link_ask(e->link, &m, TIME_CLOSE_MS, on_oneshot_close_answered, e, NULL) < 0) {
        worker_link_kill(e->link, "could not be told to end");
    }
}

static void on_oneshot_ready(void *arg)
{
    struct oneshot *e = arg;
    struct msg m = {.type = e->type};
    uint64_t timeout_ms = ONESHOT_SWEEP_MS;
    if (e->type == MSG_PROBE) {
        const struct oneshot_target target = {e->backend, e->place, e->runtime, e->image, e->pull};
        m.probe = oneshot_question(&target, e->config);
        timeout_ms = ONESHOT_PROBE_MS;
    } else {
        m.sweep.backend = view_of(e->backend);
        m.sweep.place = e->place;
        m.sweep.runtime = view_of(e->runtime);
    }
    struct err err = ERR_INIT;
    e->asked = true;
    if (worker_link_ask(e->link, &m, timeout_ms, on_oneshot_answer, e, &err) < 0) {
        worker_link_kill(e->link, "%s", err.text);
    }
}

static void on_oneshot_dead(void *arg, const struct worker_death *death)
{
    struct oneshot *e = arg;
    struct err err = ERR_INIT;
    err_set(&err, e->asked ? ERR_ENGINE : ERR_GONE, "the worker died before it %s: %s",
            e->asked ? "answered" : "was asked", death->reason);
    finish_oneshot(e, -err.code, NULL, &err, "");
    worker_link_destroy(e->link);
    free_oneshot(e);
}

int worker_oneshot_start(struct fleet_host *host, const struct worker_args *args,
                         enum msg_type type, const struct oneshot_target *target,
                         worker_reply_fn done, void *arg, struct err *err)
{
    static const struct worker_link_events events = {.ready = on_oneshot_ready,
                                                     .dead = on_oneshot_dead};
    struct oneshot *e = alloc_one(struct oneshot);
    e->type = type;
    e->backend = alloc_strdup(target->backend);
    e->place = alloc_listdup(target->place);
    e->runtime = alloc_strdup(target->runtime);
    e->image = alloc_strdup(target->image != NULL ? target->image : "");
    e->pull = target->pull;
    e->config = host->config;
    e->done = done;
    e->arg = arg;
    struct worker_args own = *args;
    own.backend = e->backend[0] != '\0' ? e->backend : NULL;
    int rc = worker_link_start(host, &own, &events, e, &e->link, err);
    if (rc < 0) {
        free_oneshot(e);
    }
    return rc;
}
