/*
 * Several servers of one engine look after each other's sandboxes. What lies there is the backend's
 * matter, so one worker more does the rounds: it says that this server lives, and brings sandboxes
 * of those that do not. There are three rounds in a lease, and another one when a server ends in
 * order, which that worker knows at once; so it is asked for the next round when one is answered,
 * and waits itself. If it dies, another one goes on; if rounds fail for longer than a lease, others
 * take our sandboxes over, which each sandbox's worker finds out for itself.
 *
 * The last deed of a server that ends is to say so, when each of its sandboxes is removed or left:
 * another one would take over what is being removed.
 *
 * This server's name among the others is random and stays with the instance, so a server that is
 * started again in time still has its sandboxes. It is a file that all workers can read.
 */
#include "supervisor/fleet/sandbox/fronts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/fd.h"
#include "common/log.h"
#include "common/str.h"
#include "proto/codec.h"
#include "proto/place.h"
#include "supervisor/base/config.h"
#include "supervisor/fleet/host/host.h"
#include "supervisor/fleet/host/instance.h"
#include "supervisor/fleet/sandbox/adoption.h"
#include "supervisor/fleet/state/disk.h"
#include "supervisor/fleet/state/removals.h"
#include "supervisor/fleet/workers/oneshot.h"

#define ROUNDS_OF_LEASE  3
#define ROUND_MS         60000 /* for one with many requests to an engine that is slow */
#define OFFERS_MS        60000 /* after which an answer comes though nothing has changed */
#define LEAVE_MS         2500  /* to say that we have ended */
#define EXIT_MS          1000
#define AGAIN_MS         1000 /* after a worker has died, a round has failed, or left more to do */
#define NAME_CHARS       16
#define SWEEP_GENERATION 1000000000

struct fronts {
    struct fronts_setup setup;
    struct view_list place;
    uv_timer_t timer;
    struct worker_link *link; /* NULL between two workers */
    char worker[17];          /* its id, and that of its directory */
    char *dir;
    uint64_t generation;
    bool failed;  /* the last round did, which was logged */
    bool stopped; /* nothing is taken over any more */
    bool ending;
    struct {
        struct buf open; /* what they have to be like, encoded; empty: nobody asks */
        fronts_offers_fn told;
        void *arg;
        bool asked;   /* an answer is waited for */
        bool refused; /* there is none to be had here */
    } offers;
};

static void start_rounds(struct fronts *f);
static void ask_round(struct fronts *f, uint64_t wait_ms);
static void ask_offers(struct fronts *f, uint64_t wait_ms);

static void on_round_time(uv_timer_t *timer)
{
    struct fronts *f = timer->data;
    start_rounds(f);
}

static void round_later(struct fronts *f, uint64_t delay_ms)
{
    if (!f->stopped) {
        uv_timer_start(&f->timer, on_round_time, delay_ms, 0);
    }
}

/* ---- what a round brings ---- */

/* What cannot be taken over is removed, since nobody else will. */
static void remove_taken(struct fronts *f, const char *id)
{
    struct fleet_host *host = f->setup.host;
    struct err err = ERR_INIT;
    const struct oneshot_target target = {f->setup.backend, f->place, ""};
    CLEANUP_FREE char *dir = alloc_printf("%s/%s", host->instance->sandboxes, id);
    if (instance_restore(host->instance, dir, &err) == 0) {
        removals_add(host, id, dir, &target, SWEEP_GENERATION, 0);
    }
}

static void take_sandbox(struct fronts *f, const struct msg_taken *taken)
{
    struct err err = ERR_INIT;
    CLEANUP_FREE char *id = alloc_viewdup(taken->sandbox);
    if (!instance_is_sandbox_id(id) || f->setup.known(f->setup.arg, id)) {
        return;
    }
    CLEANUP_FREE char *dir = alloc_printf("%s/%s", f->setup.host->instance->sandboxes, id);
    if (access(dir, F_OK) == 0) {
        log_info("what is left of the sandbox here is being removed sandbox=%s", id);
        return;
    }
    f->setup.forget(f->setup.arg, id);
    if (adopt_taken(f->setup.adopt, taken, f->setup.backend, f->place, &err) < 0) {
        log_warn("sandbox of another server cannot be taken over: %s sandbox=%s", err.text, id);
        remove_taken(f, id);
    }
}

static void take_sandboxes(struct fronts *f, struct view_list list)
{
    struct msg m;
    struct err err = ERR_INIT;
    for (size_t i = 0; i < list.count; i++) {
        if (msg_decode(MSG_LINK_W, list.items[i].data, list.items[i].len, &m, &err) == 0) {
            if (m.type == MSG_TAKEN) {
                take_sandbox(f, &m.taken);
            }
            msg_finish(&m);
        }
    }
}

/* ---- rounds ---- */

static void on_front_answer(void *arg, int rc, const struct msg *reply, const struct err *err,
                            const char *hint)
{
    struct fronts *f = arg;
    uint64_t pause_ms = f->setup.host->config->front_lease_s * 1000 / ROUNDS_OF_LEASE;
    uint64_t brief_ms = pause_ms < AGAIN_MS ? pause_ms : AGAIN_MS;
    (void)hint;
    if ((rc < 0 && err == NULL) || f->stopped) {
        return; /* on_front_dead() follows, or fronts_end() */
    }
    if (rc < 0) {
        log_line(f->failed ? LOG_DEBUG : LOG_WARN, "among other servers: %s", err->text);
    } else if (f->failed) {
        log_info("the lease is renewed again, and other servers are seen");
    }
    f->failed = rc < 0;
    if (rc == 0) {
        take_sandboxes(f, reply->front_ok.taken);
        ask_offers(f, 0);
        ask_round(f, reply->front_ok.more ? brief_ms : pause_ms);
    } else {
        round_later(f, brief_ms);
    }
}

static void ask_round(struct fronts *f, uint64_t wait_ms)
{
    struct msg m = {.type = MSG_FRONT};
    struct err err = ERR_INIT;
    m.front.backend = view_of(f->setup.backend);
    m.front.place = f->place;
    m.front.lease_ms = f->setup.host->config->front_lease_s * 1000;
    m.front.wait_ms = wait_ms;
    if (worker_link_ask(f->link, &m, wait_ms + ROUND_MS, on_front_answer, f, &err) < 0) {
        worker_link_kill(f->link, "%s", err.text);
    }
}

/* ---- what others offer ---- */

static void on_offers_answer(void *arg, int rc, const struct msg *reply, const struct err *err,
                             const char *hint)
{
    struct fronts *f = arg;
    (void)hint;
    f->offers.asked = false;
    if (f->stopped || (rc < 0 && err == NULL)) {
        return;
    }
    if (rc == 0) {
        f->offers.told(f->offers.arg, reply->offers_ok.sandboxes, reply->offers_ok.generation);
        ask_offers(f, OFFERS_MS);
    } else { /* else the next round asks again */
        f->offers.refused = rc == -ERR_CONFIG;
        log_debug("what other servers have made in advance is not known: %s", err->text);
    }
}

/* Of a worker that has done a round. */
static void ask_offers(struct fronts *f, uint64_t wait_ms)
{
    struct msg m = {.type = MSG_OFFERS};
    struct err err = ERR_INIT;
    struct view open = view_bytes(f->offers.open.data, f->offers.open.len);
    if (open.len == 0 || f->offers.asked || f->offers.refused || f->stopped) {
        return;
    }
    m.offers.open = (struct view_list){&open, 1};
    m.offers.wait_ms = wait_ms;
    if (worker_link_ask(f->link, &m, wait_ms + ROUND_MS, on_offers_answer, f, &err) == 0) {
        f->offers.asked = true;
    }
}

void fronts_hear_offers(struct fronts *f, const struct msg_open *like, fronts_offers_fn told,
                        void *arg)
{
    struct msg m = {.type = MSG_OPEN, .open = *like};
    struct err err = ERR_INIT;
    if (f == NULL || f->offers.told != NULL) {
        return;
    }
    f->offers.told = told;
    f->offers.arg = arg;
    if (msg_encode(&f->offers.open, &m, &err) < 0) {
        log_warn("nothing that other servers have made in advance is used: %s", err.text);
        f->offers.open.len = 0;
    } else if (f->link != NULL && worker_link_is_ready(f->link)) {
        ask_offers(f, 0); /* if it has done no round yet, that asks again */
    }
}

static void on_front_ready(void *arg)
{
    struct fronts *f = arg;
    if (!f->stopped) {
        ask_round(f, 0);
    }
}

static void on_front_timer_closed(uv_handle_t *handle)
{
    struct fronts *f = handle->data;
    struct fleet_host *host = f->setup.host;
    alloc_listfree(&f->place);
    buf_finish(&f->offers.open);
    free(f->dir);
    free(f);
    fleet_host_release(host);
}

static void remove_fronts(struct fronts *f)
{
    err_ignore(dir_remove(f->dir, NULL)); /* what stays is swept by the next server */
    uv_close((uv_handle_t *)&f->timer, on_front_timer_closed);
}

static void on_front_dead(void *arg, const struct worker_death *death)
{
    struct fronts *f = arg;
    worker_link_destroy(STEAL_PTR(f->link));
    f->offers.asked = false;
    if (f->ending) {
        remove_fronts(f);
        return;
    }
    log_warn("the worker that renews the lease has ended: %s", death->reason);
    round_later(f, AGAIN_MS);
}

/* The next round, by a new worker if there is none. */
static void start_rounds(struct fronts *f)
{
    static const struct worker_link_events events = {.ready = on_front_ready,
                                                     .dead = on_front_dead};
    struct fleet_host *host = f->setup.host;
    struct err err = ERR_INIT;
    if (f->link != NULL) {
        ask_round(f, 0);
        return;
    }
    struct worker_args args = {
        .sandbox = f->worker,
        .dir = f->dir,
        .shared_dir = host->instance->shared,
        .backend = f->setup.backend,
        .generation = ++f->generation,
    };
    int rc = instance_restore(host->instance, f->dir, &err);
    rc = rc < 0 ? rc : worker_link_start(host, &args, &events, f, &f->link, &err);
    if (rc < 0) {
        log_warn("no worker renews the lease: %s", err.text);
        round_later(f, AGAIN_MS);
    }
}

/* ---- beginning and end ---- */

/* Makes the file with our name, unless an earlier server has. */
static int choose_front_name(const struct instance *instance, struct err *err)
{
    char name[NAME_CHARS + 1];
    CLEANUP_FREE char *path = alloc_printf("%s/front", instance->shared);
    if (access(path, F_OK) == 0) {
        return 0;
    }
    int rc = random_id(name, NAME_CHARS, err);
    return rc < 0 ? rc : file_replace(path, name, NAME_CHARS, 0644, err);
}

void fronts_leave(const struct instance *instance)
{
    CLEANUP_FREE char *path = alloc_printf("%s/front", instance->shared);
    if (unlink(path) < 0 && errno != ENOENT) {
        log_warn("sandboxes are marked as those of a server among others: %s: %s", path,
                 strerror(errno));
    }
}

struct fronts *fronts_begin(const struct fronts_setup *setup)
{
    struct err err = ERR_INIT;
    struct fleet_host *host = setup->host;
    struct fronts *f = alloc_one(struct fronts);
    int rc = choose_front_name(host->instance, &err);
    rc = rc < 0 ? rc : random_id(f->worker, NAME_CHARS, &err);
    if (rc < 0) {
        log_error("no other server will take over sandboxes of this one: %s", err.text);
        free(f);
        return NULL;
    }
    f->setup = *setup;
    buf_init(&f->offers.open, LIMIT_ITEM);
    f->place = place_configured(setup->backend, host->config->engine);
    f->dir = alloc_printf("%s/%s", host->instance->sandboxes, f->worker);
    uv_timer_init(host->loop, &f->timer);
    f->timer.data = f;
    fleet_host_hold(host);
    start_rounds(f);
    return f;
}

void fronts_stop(struct fronts *f)
{
    if (f != NULL) {
        f->stopped = true;
        uv_timer_stop(&f->timer);
    }
}

static void on_left(void *arg, int rc, const struct msg *reply, const struct err *err,
                    const char *hint)
{
    struct fronts *f = arg;
    (void)reply, (void)hint;
    if (rc == 0) {
        worker_link_retire(f->link, EXIT_MS);
    } else if (err != NULL) {
        worker_link_kill(f->link, "could not say that this server has ended: %s", err->text);
    } /* else it is dying: on_front_dead() follows */
}

void fronts_end(struct fronts *f)
{
    struct msg m = {.type = MSG_CLOSE};
    struct err err = ERR_INIT;
    if (f == NULL) {
        return;
    }
    f->ending = true;
    if (f->link == NULL) {
        remove_fronts(f);
    } else if (worker_link_is_ending(f->link)) {
        log_debug("the worker that renews the lease is ending already");
    } else if (!worker_link_is_ready(f->link)) {
        worker_link_kill(f->link, "is not needed any more");
    } else if (worker_link_ask(f->link, &m, LEAVE_MS, on_left, f, &err) < 0) {
        worker_link_kill(f->link, "%s", err.text);
    }
}
