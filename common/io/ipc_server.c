/*
 * The side that answers: a dialling REP socket with a fixed number of contexts.
 *
 * Only one context receives at a time, and the next one begins after the event of the one before is
 * queued. Otherwise two of nng's threads could swap two requests.
 *
 * nng runs each callback on a thread that it wakes for it. So most answers are sent without one:
 * nng takes the message away from an operation as soon as it sends it, which is at once unless an
 * earlier answer is still under way. Only one answer at a time waits like that, and only while a
 * context receives; any other is sent with a callback. So whenever nothing receives, a request is
 * unanswered or a callback is to come, and each of them begins the next receive.
 *
 * When the link of a request is lost, its answer has no receiver. So its context is freed at once,
 * and the owner keeps a request without a context. A client that dies and reconnects any number of
 * times finds all contexts free.
 *
 * nng reports an answer as sent when it begins to write it. So before closing, this side waits
 * until the kernel tells that the peer has read everything.
 *
 * nng 1.5 has two bugs in closing a dialer. A connection that has completed the handshake but is no
 * pipe yet leaks, with memory and descriptor. And while a pipe arrives or an attempt fails, dialer
 * and socket may deadlock. A dialer whose pipe has arrived is in neither state, and does not dial
 * before that pipe is removed. So it is closed while there is a link, or as soon as the next one
 * comes, at the latest during that link's removal. If no link comes for a while, the dialer mostly
 * sleeps between attempts.
 *
 * Between attempts nng waits for a random part of the maximum, so it finds a new listener within
 * RECONNECT_MAX_MS, and after half of that on average. Ten attempts a second take 1 to 2 % of a
 * CPU, only while there is no link.
 */
#include <nng/nng.h>
#include <nng/protocol/reqrep0/rep.h>
#include <nng/transport/ipc/ipc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/clock.h"
#include "common/io/ipc_endpoint.h"
#include "common/io/unix_link.h"
#include "common/kernel/waited.h"

#define RECONNECT_MIN_MS 10
#define RECONNECT_MAX_MS 200
#define REDIAL_MS        3000  /* after this time without a link the dialer is replaced */
#define REDIAL_LOST_MS   1000  /* the same after a lost link: the next peer waits */
#define SEEN_MS          250   /* a connection that is no link for so long is cut off */
#define SEEN_MOST_MS     10000 /* the same by the clock, if our threads get no CPU */
#define FLUSH_MS         500   /* limit for the peer to read the last answers */
#define FLUSH_BLIND_MS   20    /* the same if the kernel cannot tell */
#define ARRIVAL_MS       400   /* when closing without a link: limit for the next one */
#define HANG_UP_MS       100   /* limit for nng to release a link; usually 0.1 ms */

/* What the timer for a new dialer has done about the connection that it has found. */
enum attempt { ATTEMPT_UNSEEN, ATTEMPT_SEEN, ATTEMPT_CUT_OFF };

enum context_phase { CONTEXT_RECEIVING, CONTEXT_ARRIVED, CONTEXT_SENDING, CONTEXT_ENDED };

struct context {
    struct ipc_event event; /* first */
    struct ipc_server *server;
    nng_ctx ctx;
    nng_aio *aio;             /* receives, and sends with a callback */
    nng_aio *quiet_aio;       /* sends without one; its message is NULL once nng sends it */
    enum context_phase phase; /* written only by the thread that holds the context */
    struct context *next_idle;
};

/* A request that the owner holds. */
struct ipc_request {
    struct ipc_request *prev, *next;
    struct ipc_server *server;
    struct context *context; /* NULL once its link is lost */
};

struct ipc_server {
    struct ipc_endpoint ep; /* first */
    ipc_request_fn on_request;
    struct context *contexts;
    size_t context_count;
    struct ipc_request *requests; /* unanswered */
    nng_msg *arriving;            /* while on_request runs; NULL once it is taken */
    uint64_t flush_end_ms;
    uint64_t flush_blind_ms;
    nng_dialer dialer;      /* not used by the loop once `stopped` is set */
    uv_mutex_t dialer_lock; /* makes sure that it is closed only once */
    bool had_link;
    enum attempt attempt;
    uint64_t seen_ms;     /* since when it is ATTEMPT_SEEN */
    struct waited waited; /* our own threads, since then */
    char url[IPC_URL_SIZE];

    /* Under the lock. */
    struct context *idle;
    struct context *waiting; /* its answer is with nng, without a callback */
    bool receiving;
    bool stopped;   /* the socket is being closed */
    size_t active;  /* contexts in use by nng or with a queued event */
    size_t sending; /* answers that nng has not sent yet */
};

static void close_dialer(struct ipc_server *s)
{
    uv_mutex_lock(&s->dialer_lock);
    nng_dialer_close(s->dialer);
    uv_mutex_unlock(&s->dialer_lock);
}

/* On a thread of nng. Reports a link before the first message can arrive on it. */
static void on_server_pipe(nng_pipe pipe, nng_pipe_ev ev, void *arg)
{
    struct ipc_server *s = arg;
    ipc_endpoint_lock(&s->ep);
    bool last = ev == NNG_PIPE_EV_REM_POST && s->stopped && s->ep.pipe_settled &&
                s->ep.pipe == nng_pipe_id(pipe);
    ipc_endpoint_unlock(&s->ep, false);
    if (last) {
        close_dialer(s); /* before it redials */
    }
    if (ipc_endpoint_take_pipe(&s->ep, pipe, ev, NNG_PIPE_EV_ADD_PRE)) {
        nng_pipe_close(pipe);
    }
}

/* ---- requests ------------------------------------------------------------------------------- */

/* Needs the lock. Marks a context that neither nng nor the loop uses. */
static void make_idle(struct ipc_server *s, struct context *c)
{
    c->next_idle = s->idle;
    s->idle = c;
}

/* Needs the lock. A context whose answer nng sends is free again. */
static void check_waiting(struct ipc_server *s)
{
    struct context *c = s->waiting;
    if (c != NULL && nng_aio_get_msg(c->quiet_aio) == NULL) {
        s->waiting = NULL;
        make_idle(s, c);
    }
}

/* Needs the lock. Returns the context with which the caller must call receive_request() after
 * unlocking, or NULL. */
static struct context *next_receiver(struct ipc_server *s)
{
    check_waiting(s);
    struct context *c = s->idle;
    if (s->receiving || s->stopped || c == NULL) {
        return NULL;
    }
    s->idle = c->next_idle;
    s->receiving = true;
    s->active++;
    c->phase = CONTEXT_RECEIVING;
    return c;
}

static void receive_request(struct context *c)
{
    if (c != NULL) {
        nng_ctx_recv(c->ctx, c->aio); /* drops an unanswered request */
    }
}

static struct ipc_request *request_create(struct ipc_server *s, struct context *c)
{
    struct ipc_request *r = alloc_one(struct ipc_request);
    r->server = s;
    r->context = c;
    r->next = s->requests;
    if (r->next != NULL) {
        r->next->prev = r;
    }
    s->requests = r;
    return r;
}

static void free_ipc_request(struct ipc_request *r)
{
    *(r->prev != NULL ? &r->prev->next : &r->server->requests) = r->next;
    if (r->next != NULL) {
        r->next->prev = r->prev;
    }
    free(r);
}

/* Frees the contexts of all requests: their link is lost, and requests of the next link are
 * reported later. */
static void release_requests(struct ipc_server *s)
{
    ipc_endpoint_lock(&s->ep);
    for (struct ipc_request *r = s->requests; r != NULL; r = r->next) {
        if (r->context != NULL) {
            make_idle(s, r->context);
            r->context = NULL;
        }
    }
    struct context *next = next_receiver(s);
    ipc_endpoint_unlock(&s->ep, false);
    receive_request(next);
}

/* On a thread of nng's. */
static void on_context_aio(void *arg)
{
    struct context *c = arg;
    struct ipc_server *s = c->server;
    bool failed = nng_aio_result(c->aio) != 0;
    nng_msg *unsent = NULL;
    bool queue = true;
    bool wake = false;
    if (c->phase == CONTEXT_SENDING) {
        unsent = failed ? nng_aio_get_msg(c->aio) : NULL;
        nng_aio_set_msg(c->aio, NULL);
    }
    ipc_endpoint_lock(&s->ep);
    if (c->phase == CONTEXT_SENDING) {
        s->sending--;
        queue = s->stopped; /* when closing, the loop waits for the last context */
        c->phase = CONTEXT_ENDED;
    } else {
        s->receiving = false;
        c->phase = failed ? CONTEXT_ENDED : CONTEXT_ARRIVED;
    }
    if (queue) {
        wake = loop_queue_append(&s->ep.queue, &c->event.item);
    } else {
        s->active--;
        make_idle(s, c);
    }
    struct context *next = next_receiver(s);
    ipc_endpoint_unlock(&s->ep, wake);
    receive_request(next);
    if (unsent != NULL) {
        nng_msg_free(unsent);
    }
}

static void on_server_aio(struct ipc_endpoint *ep, struct ipc_event *event)
{
    struct ipc_server *s = (struct ipc_server *)ep;
    struct context *c = (struct context *)event;
    nng_msg *msg = c->phase == CONTEXT_ARRIVED ? nng_aio_get_msg(c->aio) : NULL;
    struct context *next = NULL;
    ipc_endpoint_lock(ep);
    s->active--;
    bool late = msg != NULL && ep->pipe != nng_pipe_id(nng_msg_get_pipe(msg));
    if (late) { /* the link of the request is lost already */
        make_idle(s, c);
        next = next_receiver(s);
    }
    ipc_endpoint_unlock(ep, false);
    if (msg != NULL) {
        nng_aio_set_msg(c->aio, NULL);
        if (!late && !ep->closing) {
            s->arriving = msg;
            s->on_request(ep->arg, request_create(s, c), nng_msg_body(msg), nng_msg_len(msg));
            ipc_message_free((struct ipc_message *)s->arriving);
            s->arriving = NULL;
        } else {
            nng_msg_free(msg);
        }
    }
    receive_request(next);
    ipc_endpoint_check_closed(ep);
}

/* ---- link ----------------------------------------------------------------------------------- */

static bool is_given_time(struct ipc_server *s, uint64_t now_ms)
{
    if (s->attempt == ATTEMPT_UNSEEN) {
        s->attempt = ATTEMPT_SEEN;
        s->seen_ms = now_ms;
        waited_begin(&s->waited, "", getpid(), false, now_ms);
        return true;
    }
    return s->attempt == ATTEMPT_SEEN && waited_look(&s->waited, now_ms, SEEN_MS) < SEEN_MS &&
           now_ms - s->seen_ms < SEEN_MOST_MS;
}

static void on_redial(uv_timer_t *timer)
{
    struct ipc_server *s = timer->data;
    if (access(s->ep.path, F_OK) < 0) {
        return; /* there is no listener, so a new dialer would not help */
    }
    /* A peer that has not read our handshake is stopped or out of descriptors, which may pass. Its
     * nng would not recover from a hang-up before its own handshake. */
    int unread = unix_link_unread(s->ep.path, false);
    if (unread > 0) {
        return;
    }
    /* A connection may have been made in this very moment, and a listener of nng 1.5 that it is cut
     * off from before the handshake accepts no other. So it is given time first, in which nng's
     * threads, which have to write our part, wait for no CPU. Then its handshake is shut down. If a
     * connection is still there after that, nng has lost track of it, and the dialer is replaced.
     */
    if (unread == 0 && is_given_time(s, uv_now(timer->loop))) {
        uv_timer_start(timer, on_redial, SEEN_MS, uv_timer_get_repeat(timer));
        return;
    }
    bool cut_off = s->attempt == ATTEMPT_SEEN && unix_link_shutdown(s->ep.path, false) > 0;
    s->attempt = cut_off ? ATTEMPT_CUT_OFF : ATTEMPT_UNSEEN;
    if (cut_off) {
        return;
    }
    nng_dialer_close(s->dialer);
    /* If this fails, the next timer tries again. */
    (void)nng_dial(s->ep.socket, s->url, &s->dialer, NNG_FLAG_NONBLOCK);
}

static void on_server_link(struct ipc_endpoint *ep, bool up)
{
    struct ipc_server *s = (struct ipc_server *)ep;
    s->attempt = ATTEMPT_UNSEEN;
    if (up) {
        s->had_link = true;
        uv_timer_stop(&s->ep.timer);
    } else {
        uint64_t redial_ms = s->had_link ? REDIAL_LOST_MS : REDIAL_MS;
        uv_timer_start(&s->ep.timer, on_redial, redial_ms, redial_ms);
        release_requests(s);
    }
}

/* ---- birth and death ------------------------------------------------------------------------ */

static bool server_is_idle(struct ipc_endpoint *ep)
{
    struct ipc_server *s = (struct ipc_server *)ep;
    ipc_endpoint_lock(ep);
    bool idle = s->active == 0;
    ipc_endpoint_unlock(ep, false);
    return idle;
}

static void server_finish(struct ipc_endpoint *ep)
{
    struct ipc_server *s = (struct ipc_server *)ep;
    for (size_t i = 0; i < s->context_count; i++) {
        struct context *c = &s->contexts[i];
        nng_msg *unread = c->phase == CONTEXT_ARRIVED ? nng_aio_get_msg(c->aio) : NULL;
        if (unread != NULL) { /* only if nng was abandoned */
            nng_msg_free(unread);
        }
        nng_aio_free(c->aio);
        nng_msg *unsent = c->quiet_aio != NULL ? nng_aio_get_msg(c->quiet_aio) : NULL;
        if (unsent != NULL) {
            nng_msg_free(unsent);
        }
        nng_aio_free(c->quiet_aio);
    }
    free(s->contexts);
    while (s->requests != NULL) {
        free_ipc_request(s->requests);
    }
    uv_mutex_destroy(&s->dialer_lock);
}

static void server_end_link(struct ipc_endpoint *ep)
{
    struct ipc_server *s = (struct ipc_server *)ep;
    uint64_t end_ms = clock_ms() + ARRIVAL_MS;
    ipc_endpoint_lock(ep);
    while (!ep->pipe_settled && clock_ms() < end_ms && access(ep->path, F_OK) == 0) {
        ipc_endpoint_wait_moment(ep);
    }
    ipc_endpoint_unlock(ep, false);
    close_dialer(s);
    end_ms = clock_ms() + HANG_UP_MS;
    ipc_endpoint_lock(ep);
    while (ep->pipe != 0 && clock_ms() < end_ms) {
        ipc_endpoint_wait_moment(ep);
    }
    ipc_endpoint_unlock(ep, false);
    for (size_t i = 0; i < s->context_count; i++) {
        nng_ctx_close(s->contexts[i].ctx);
    }
    /* The callback of a context may be about to begin the next receive of another one. nng refuses
     * that receive and calls back, unless its aio has been stopped: newer versions of nng call
     * nobody back then, and the close would wait for ever. So all callbacks end before any stop. */
    for (size_t i = 0; i < s->context_count; i++) {
        nng_aio_wait(s->contexts[i].aio);
    }
    for (size_t i = 0; i < s->context_count; i++) {
        nng_aio_stop(s->contexts[i].aio); /* waits for its callback, which wakes the loop */
        nng_aio_stop(s->contexts[i].quiet_aio);
    }
}

static const struct ipc_endpoint_ops server_ops = {
    .on_aio = on_server_aio,
    .on_link = on_server_link,
    .end_link = server_end_link,
    .is_idle = server_is_idle,
    .finish = server_finish,
};

int ipc_server_open(uv_loop_t *loop, const char *path, size_t contexts, size_t max_bytes,
                    ipc_request_fn on_request, ipc_link_fn on_link, void *arg,
                    struct ipc_server **ret, struct err *err)
{
    char url[IPC_URL_SIZE];
    int rc = ipc_endpoint_url(path, url, err);
    if (rc < 0) {
        return rc;
    }
    struct ipc_server *s = alloc_one(struct ipc_server);
    memcpy(s->url, url, sizeof(url));
    s->ep.on_link = on_link;
    s->ep.arg = arg;
    s->on_request = on_request;
    rc = ipc_endpoint_init(&s->ep, loop, path, max_bytes, &server_ops, err);
    if (rc < 0) {
        free(s);
        return rc;
    }
    uv_mutex_init(&s->dialer_lock);
    int rv = nng_rep0_open(&s->ep.socket);
    s->contexts = alloc_array(contexts, sizeof(s->contexts[0]));
    for (size_t i = 0; i < contexts && rv == 0; i++) {
        struct context *c = &s->contexts[i];
        c->event.kind = IPC_EVENT_AIO;
        c->server = s;
        rv = nng_ctx_open(&c->ctx, s->ep.socket);
        if (rv == 0) {
            rv = nng_aio_alloc(&c->aio, on_context_aio, c);
        }
        if (rv == 0) {
            rv = nng_aio_alloc(&c->quiet_aio, NULL, NULL);
        }
        if (rv != 0) {
            nng_aio_free(c->aio);
            break;
        }
        s->context_count++;
        nng_aio_set_timeout(c->aio, NNG_DURATION_INFINITE);
        nng_aio_set_timeout(c->quiet_aio, NNG_DURATION_INFINITE);
        make_idle(s, c);
    }
    if (rv != 0 ||
        (rv = nng_socket_set_ms(s->ep.socket, NNG_OPT_RECONNMINT, RECONNECT_MIN_MS)) != 0 ||
        (rv = nng_socket_set_ms(s->ep.socket, NNG_OPT_RECONNMAXT, RECONNECT_MAX_MS)) != 0 ||
        (rv = ipc_endpoint_set_up(&s->ep, on_server_pipe)) != 0 ||
        (rv = nng_dial(s->ep.socket, url, &s->dialer, NNG_FLAG_NONBLOCK)) != 0) {
        ipc_server_close(s, NULL, NULL);
        return ipc_endpoint_failed(err, rv, "cannot connect to", path);
    }
    ipc_endpoint_lock(&s->ep);
    struct context *first = next_receiver(s);
    ipc_endpoint_unlock(&s->ep, false);
    receive_request(first);
    on_server_link(&s->ep, false);
    *ret = s;
    return 0;
}

struct ipc_message *ipc_request_take(struct ipc_request *r)
{
    nng_msg *msg = r->server->arriving;
    r->server->arriving = NULL;
    return (struct ipc_message *)msg;
}

void ipc_message_free(struct ipc_message *message)
{
    if (message != NULL) {
        nng_msg_free((nng_msg *)message);
    }
}

void ipc_reply(struct ipc_request *r, const void *data, size_t len)
{
    struct ipc_server *s = r->server;
    struct context *c = r->context;
    if (s->ep.closing) {
        return;
    }
    free_ipc_request(r);
    if (c == NULL) {
        return;
    }
    nng_msg *msg;
    bool failed = nng_msg_alloc(&msg, len) != 0;
    if (!failed) {
        if (len > 0) {
            memcpy(nng_msg_body(msg), data, len);
        }
        nng_aio_wait(c->quiet_aio); /* its last answer may be sent in this very moment */
        nng_aio_set_msg(c->quiet_aio, msg);
    }
    ipc_endpoint_lock(&s->ep);
    nng_pipe pipe = {(uint32_t)s->ep.pipe};
    check_waiting(s);
    bool quiet = !failed && s->receiving && s->waiting == NULL;
    if (failed) {
        make_idle(s, c);
    } else if (quiet) {
        s->waiting = c;
    } else {
        s->active++;
        s->sending++;
        c->phase = CONTEXT_SENDING;
    }
    struct context *next = next_receiver(s);
    ipc_endpoint_unlock(&s->ep, false);
    if (failed) {
        /* Without an answer the client would wait; it can handle a lost link. */
        nng_pipe_close(pipe);
    } else if (quiet) {
        nng_ctx_send(c->ctx, c->quiet_aio);
    } else {
        nng_aio_set_msg(c->quiet_aio, NULL);
        nng_aio_set_msg(c->aio, msg);
        nng_ctx_send(c->ctx, c->aio);
    }
    receive_request(next);
}

static void on_flush(uv_timer_t *timer)
{
    struct ipc_server *s = timer->data;
    uint64_t now = clock_ms();
    ipc_endpoint_lock(&s->ep);
    bool linked = s->ep.pipe != 0;
    check_waiting(s);
    bool sending = s->sending > 0 || s->waiting != NULL;
    ipc_endpoint_unlock(&s->ep, false);
    int unread = unix_link_unread(s->ep.path, false);
    bool wait = sending || unread > 0 || (unread < 0 && now < s->flush_blind_ms);
    if (linked && wait && now < s->flush_end_ms) {
        return;
    }
    uv_timer_stop(timer);
    ipc_endpoint_lock(&s->ep);
    s->stopped = true;
    ipc_endpoint_unlock(&s->ep, false);
    ipc_endpoint_close(&s->ep);
}

void ipc_server_close(struct ipc_server *s, ipc_closed_fn closed, void *arg)
{
    ipc_endpoint_set_closing(&s->ep, closed, arg);
    s->flush_end_ms = clock_ms() + FLUSH_MS;
    s->flush_blind_ms = clock_ms() + FLUSH_BLIND_MS;
    uv_timer_start(&s->ep.timer, on_flush, 0, 1);
}
