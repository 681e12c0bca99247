/*
 * The bridge between nng's threads and one libuv loop.
 *
 * nng finishes an operation on a thread of its own choice. All such a thread does here is to link a
 * record into the endpoint's queue and to wake the loop if the queue was empty; the loop then
 * drains the whole queue in one go. Everything but that queue and the id of the current pipe
 * belongs to the loop thread, so only those are locked.
 *
 * Some properties of nng (1.5, as distributions have it) shape the rest:
 *  - REQ resends by default and then would run code twice; infinite resend time turns that off, and
 *    a lost pipe then ends the receive with NNG_ECONNRESET.
 *  - A REQ context may be asked to receive as soon as it has been asked to send. Both are submitted
 *    at once, the send without a callback, which saves a thread switch per request. The price: a
 *    context whose receive failed may still hold an unsent message and must not be used again.
 *  - An answer counts as sent when nng has begun to write it. So the answering side, before it
 *    closes, waits until the kernel says that the peer has read everything.
 *  - A pipe's removal may be reported before its arrival. Which pipe is the current one is
 *    therefore decided in one place under the lock, and only what follows from it is reported.
 *  - A pipe that is closed from our side in the middle of a message may never be removed, and then
 *    nng_close() waits for ever. So a link is ended by shutting its socket down, which nng sees as
 * a hang-up of the peer and survives, and nng_close() is left to a thread of its own.
 */
#include "common/io/ipc.h"

#include <errno.h>
#include <nng/nng.h>
#include <nng/protocol/reqrep0/rep.h>
#include <nng/protocol/reqrep0/req.h>
#include <nng/transport/ipc/ipc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/clock.h"
#include "common/io/loop.h"
#include "common/io/unix_link.h"
#include "common/str.h"

#define RECONNECT_MIN_MS 10
#define RECONNECT_MAX_MS 1000
#define REDIAL_MS        3000 /* without a link: then the dialer is replaced */
#define FLUSH_MS         500  /* longest wait for the peer to read the last answers */
#define FLUSH_BLIND_MS   20   /* the same where the kernel cannot tell */
#define HEADER_ROOM      64   /* nng counts its own headers as part of a message */
#define IDLE_CALLS_MAX   16   /* contexts kept for the next request */
#define HANG_UP_MS       100  /* for nng to notice that a socket was shut down; 0.1 ms are usual */

#define URL_SIZE (sizeof(((struct sockaddr_un *)0)->sun_path) + 8)

/* What nng's threads put on the queue: a call or request that is done with, or news of the link. */
struct event {
    struct loop_item item; /* first */
    enum { EVENT_LINK_UP, EVENT_LINK_DOWN, EVENT_AIO } kind;
};

/* What both ends have in common. */
struct endpoint {
    struct loop_queue queue;
    nng_socket socket;
    char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
    ipc_link_fn on_link;
    void *arg;
    void (*on_aio)(struct endpoint *ep, struct event *event);
    void (*on_news)(struct endpoint *ep, bool up); /* of the link; may be NULL */
    size_t max_bytes;
    ipc_closed_fn closed;
    void *closed_arg;

    /* Under the queue's lock, as nng's threads look at it. */
    int pipe; /* the one peer, 0 if none */
    bool pipe_reported;
    bool closing; /* changed on the loop only, which may read it without the lock */
    uv_cond_t pipe_gone;
    atomic_int refs; /* the loop's and the socket's: late news of pipes needs the memory */
};

/* ---- link ----------------------------------------------------------------------------------- */

static void on_item(void *arg, struct loop_item *item)
{
    struct endpoint *ep = arg;
    struct event *event = (struct event *)item;
    if (event->kind == EVENT_AIO) {
        ep->on_aio(ep, event);
        return;
    }
    bool up = event->kind == EVENT_LINK_UP;
    free(event);
    if (!ep->closing) {
        if (ep->on_news != NULL) {
            ep->on_news(ep, up);
        }
        ep->on_link(ep->arg, up);
    }
}

/* With the lock held. */
static bool append_link(struct endpoint *ep, bool up)
{
    struct event *event = alloc_one(struct event);
    event->kind = up ? EVENT_LINK_UP : EVENT_LINK_DOWN;
    ep->pipe_reported = up;
    return loop_queue_append(&ep->queue, &event->item);
}

/* On any thread. The dialing side reports a link before the first message can arrive on it. */
static void on_pipe(struct endpoint *ep, nng_pipe pipe, nng_pipe_ev ev, nng_pipe_ev report_at)
{
    int id = nng_pipe_id(pipe);
    bool refuse = false;
    bool wake = false;
    loop_queue_lock(&ep->queue);
    if (ev == NNG_PIPE_EV_ADD_PRE) {
        refuse = ep->pipe != 0 || ep->closing;
        if (!refuse) {
            ep->pipe = id;
        }
    }
    if (ev == report_at && ep->pipe == id && !ep->pipe_reported && !ep->closing) {
        wake = append_link(ep, true);
    }
    if (ev == NNG_PIPE_EV_REM_POST && ep->pipe == id) {
        ep->pipe = 0;
        if (ep->pipe_reported && !ep->closing) {
            wake = append_link(ep, false);
        }
        uv_cond_signal(&ep->pipe_gone);
    }
    loop_queue_unlock(&ep->queue, wake);
    if (refuse) {
        nng_pipe_close(pipe);
    }
}

static void on_client_pipe(nng_pipe pipe, nng_pipe_ev ev, void *arg)
{
    on_pipe(arg, pipe, ev, NNG_PIPE_EV_ADD_POST);
}

static void on_server_pipe(nng_pipe pipe, nng_pipe_ev ev, void *arg)
{
    on_pipe(arg, pipe, ev, NNG_PIPE_EV_ADD_PRE);
}

/* ---- birth and death of an endpoint --------------------------------------------------------- */

static int nng_failed(struct err *err, int rv, const char *what, const char *path)
{
    return err_set(err, rv == NNG_ENOMEM ? ERR_NO_MEMORY : ERR_IO, "%s %s: %s", what, path,
                   nng_strerror(rv));
}

static int make_url(const char *path, char *url, size_t size, struct err *err)
{
    struct sockaddr_un addr;
    int n = snprintf(url, size, "ipc://%s", path);
    if (strlen(path) >= sizeof(addr.sun_path) || n < 0 || (size_t)n >= size) {
        return err_set(err, ERR_TOO_BIG, "socket path is longer than %zu bytes: %s",
                       sizeof(addr.sun_path) - 1, path);
    }
    return 0;
}

static int watch_pipes(struct endpoint *ep, nng_pipe_cb cb)
{
    static const nng_pipe_ev events[] = {NNG_PIPE_EV_ADD_PRE, NNG_PIPE_EV_ADD_POST,
                                         NNG_PIPE_EV_REM_POST};
    int rv = 0;
    for (size_t i = 0; i < sizeof(events) / sizeof(events[0]) && rv == 0; i++) {
        rv = nng_pipe_notify(ep->socket, events[i], cb, ep);
    }
    return rv;
}

static int endpoint_init(struct endpoint *ep, uv_loop_t *loop, const char *path, size_t max_bytes,
                         struct err *err)
{
    int rc = str_copy(ep->path, sizeof(ep->path), path, err);
    if (rc == 0) {
        rc = loop_queue_init(&ep->queue, loop, on_item, ep, err);
    }
    if (rc < 0) {
        return rc;
    }
    ep->queue.async.data = ep;
    ep->max_bytes = max_bytes;
    uv_cond_init(&ep->pipe_gone);
    atomic_init(&ep->refs, 2);
    return 0;
}

static void endpoint_release(struct endpoint *ep)
{
    if (atomic_fetch_sub(&ep->refs, 1) == 1) {
        uv_cond_destroy(&ep->pipe_gone);
        loop_queue_finish(&ep->queue);
        free(ep); /* the first member of the client or server */
    }
}

static void set_closing(struct endpoint *ep)
{
    loop_queue_lock(&ep->queue);
    ep->closing = true;
    loop_queue_unlock(&ep->queue, false);
}

/* Waits for nng to let go of a link that has been ended. */
static void wait_pipe_gone(struct endpoint *ep)
{
    uint64_t end_ms = clock_ms() + HANG_UP_MS;
    loop_queue_lock(&ep->queue);
    while (ep->pipe != 0 && clock_ms() < end_ms) {
        err_ignore(uv_cond_timedwait(&ep->pipe_gone, &ep->queue.lock, HANG_UP_MS * 1000000u));
    }
    loop_queue_unlock(&ep->queue, false);
}

static void *close_thread(void *arg)
{
    struct endpoint *ep = arg;
    nng_close(ep->socket);
    endpoint_release(ep);
    return NULL;
}

/* What refers to the loop has been ended before, so nobody has to wait for this. */
static void close_socket(struct endpoint *ep)
{
    pthread_t thread;
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    /* Without a thread the socket stays, idle and unreachable, which is better than to hang. */
    (void)pthread_create(&thread, &attr, close_thread, ep);
    pthread_attr_destroy(&attr);
}

/* The loop's side is over. */
static void endpoint_finish(struct endpoint *ep)
{
    struct loop_item *item = loop_queue_take(&ep->queue);
    while (item != NULL) {
        struct loop_item *next = item->next;
        if (((struct event *)item)->kind != EVENT_AIO) {
            free(item);
        }
        item = next;
    }
    endpoint_release(ep);
}

/* ---- asking side ---------------------------------------------------------------------------- */

struct ipc_client {
    struct endpoint ep; /* first */
    nng_listener listener;
    struct call *idle, *busy;
    size_t idle_count;
};

struct call {
    struct event event; /* first */
    struct ipc_client *client;
    nng_ctx ctx;
    nng_aio *send_aio, *recv_aio;
    ipc_reply_fn done;
    void *arg;
    struct call *prev, *next; /* among the busy or the idle */
};

static void on_reply_aio(void *arg)
{
    struct call *call = arg;
    loop_queue_post(&call->client->ep.queue, &call->event.item);
}

/* Also ends a message that is still waiting to be sent. */
static void call_destroy(struct call *call)
{
    nng_ctx_close(call->ctx);
    nng_aio_stop(call->send_aio);
    nng_aio_stop(call->recv_aio);
    nng_msg *unsent = nng_aio_get_msg(call->send_aio);
    if (nng_aio_result(call->send_aio) != 0 && unsent != NULL) {
        nng_msg_free(unsent);
    }
    nng_aio_free(call->send_aio);
    nng_aio_free(call->recv_aio);
    free(call);
}

/* A warm context if there is one. NULL if nng cannot make another. */
static struct call *call_take(struct ipc_client *c, struct err *err)
{
    struct call *call = c->idle;
    if (call != NULL) {
        c->idle = call->next;
        c->idle_count--;
        /* A reply can overtake the end of its own send on nng's threads; that end is at hand. */
        nng_aio_wait(call->send_aio);
        return call;
    }
    call = alloc_one(struct call);
    call->event.kind = EVENT_AIO;
    call->client = c;
    int rv = nng_ctx_open(&call->ctx, c->ep.socket);
    if (rv != 0) {
        goto err_ctx;
    }
    rv = nng_aio_alloc(&call->send_aio, NULL, NULL);
    if (rv != 0) {
        goto err_send;
    }
    rv = nng_aio_alloc(&call->recv_aio, on_reply_aio, call);
    if (rv != 0) {
        goto err_recv;
    }
    nng_aio_set_timeout(call->send_aio, NNG_DURATION_INFINITE);
    return call;

err_recv:
    nng_aio_free(call->send_aio);
err_send:
    nng_ctx_close(call->ctx);
err_ctx:
    free(call);
    err_set(err, ERR_NO_MEMORY, "cannot make a request: %s", nng_strerror(rv));
    return NULL;
}

static void on_client_closed(uv_handle_t *handle)
{
    struct ipc_client *c = handle->data;
    ipc_closed_fn closed = c->ep.closed;
    void *arg = c->ep.closed_arg;
    endpoint_finish(&c->ep);
    if (closed != NULL) {
        closed(arg);
    }
}

static void client_check_closed(struct ipc_client *c)
{
    if (c->ep.closing && c->busy == NULL && !uv_is_closing((uv_handle_t *)&c->ep.queue.async)) {
        uv_close((uv_handle_t *)&c->ep.queue.async, on_client_closed);
    }
}

static int reply_error(const struct ipc_client *c, int rv)
{
    if (c->ep.closing) {
        return -ERR_SHUTTING_DOWN;
    }
    return rv == NNG_ETIMEDOUT ? -ERR_TIMEOUT : -ERR_IO;
}

static void on_client_aio(struct endpoint *ep, struct event *event)
{
    struct ipc_client *c = (struct ipc_client *)ep;
    struct call *call = (struct call *)event;
    ipc_reply_fn done = call->done;
    void *arg = call->arg;
    int rv = nng_aio_result(call->recv_aio);
    nng_msg *reply = rv == 0 ? nng_aio_get_msg(call->recv_aio) : NULL;
    nng_aio_set_msg(call->recv_aio, NULL);

    /* Given back first, so that a request made by `done` finds a warm context. */
    *(call->prev != NULL ? &call->prev->next : &c->busy) = call->next;
    if (call->next != NULL) {
        call->next->prev = call->prev;
    }
    if (reply != NULL && !ep->closing && c->idle_count < IDLE_CALLS_MAX) {
        call->next = c->idle;
        c->idle = call;
        c->idle_count++;
    } else {
        call_destroy(call);
    }
    if (reply != NULL) {
        done(arg, 0, nng_msg_body(reply), nng_msg_len(reply));
        nng_msg_free(reply);
    } else {
        done(arg, reply_error(c, rv), NULL, 0);
    }
    client_check_closed(c);
}

int ipc_client_open(uv_loop_t *loop, const char *path, size_t max_bytes, ipc_link_fn on_link,
                    void *arg, struct ipc_client **ret, struct err *err)
{
    char url[URL_SIZE];
    int rc = make_url(path, url, sizeof(url), err);
    if (rc < 0) {
        return rc;
    }
    /* nng would first connect to it, to see whether it is in use, and may harm a listener so. */
    if (unlink(path) < 0 && errno != ENOENT) {
        return err_sys(err, ERR_IO, errno, "cannot replace %s", path);
    }
    struct ipc_client *c = alloc_one(struct ipc_client);
    c->ep.on_link = on_link;
    c->ep.arg = arg;
    c->ep.on_aio = on_client_aio;
    rc = endpoint_init(&c->ep, loop, path, max_bytes, err);
    if (rc < 0) {
        free(c);
        return rc;
    }
    int rv;
    if ((rv = nng_req0_open(&c->ep.socket)) != 0 ||
        (rv = nng_socket_set_ms(c->ep.socket, NNG_OPT_REQ_RESENDTIME, NNG_DURATION_INFINITE)) !=
            0 ||
        (rv = nng_socket_set_size(c->ep.socket, NNG_OPT_RECVMAXSZ, max_bytes + HEADER_ROOM)) != 0 ||
        (rv = watch_pipes(&c->ep, on_client_pipe)) != 0 ||
        (rv = nng_listener_create(&c->listener, c->ep.socket, url)) != 0 ||
        (rv = nng_listener_set_int(c->listener, NNG_OPT_IPC_PERMISSIONS, 0600)) != 0 ||
        (rv = nng_listener_start(c->listener, 0)) != 0) {
        ipc_client_close(c, NULL, NULL);
        return nng_failed(err, rv, "cannot listen on", path);
    }
    *ret = c;
    return 0;
}

int ipc_client_ask(struct ipc_client *c, const void *data, size_t len, uint64_t timeout_ms,
                   ipc_reply_fn done, void *arg, struct err *err)
{
    if (c->ep.closing) {
        return err_set(err, ERR_SHUTTING_DOWN, "the link is closing");
    }
    if (len > c->ep.max_bytes) {
        return err_set(err, ERR_TOO_BIG, "a request of %zu bytes, at most %zu are allowed", len,
                       c->ep.max_bytes);
    }
    nng_msg *msg;
    int rv = nng_msg_alloc(&msg, len);
    if (rv != 0) {
        return err_set(err, ERR_NO_MEMORY, "cannot make a request: %s", nng_strerror(rv));
    }
    if (len > 0) {
        memcpy(nng_msg_body(msg), data, len);
    }
    struct call *call = call_take(c, err);
    if (call == NULL) {
        nng_msg_free(msg);
        return -ERR_NO_MEMORY;
    }
    call->done = done;
    call->arg = arg;
    call->prev = NULL;
    call->next = c->busy;
    if (c->busy != NULL) {
        c->busy->prev = call;
    }
    c->busy = call;
    nng_aio_set_msg(call->send_aio, msg);
    nng_ctx_send(call->ctx, call->send_aio);
    nng_aio_set_timeout(call->recv_aio, timeout_ms == 0 || timeout_ms > INT32_MAX
                                            ? NNG_DURATION_INFINITE
                                            : (nng_duration)timeout_ms);
    nng_ctx_recv(call->ctx, call->recv_aio);
    return 0;
}

void ipc_client_close(struct ipc_client *c, ipc_closed_fn closed, void *arg)
{
    c->ep.closed = closed;
    c->ep.closed_arg = arg;
    set_closing(&c->ep);
    (void)unlink(c->ep.path); /* so that the peer, which dials at once, is not cut off half-way */
    unix_link_shutdown(c->ep.path, true);
    wait_pipe_gone(&c->ep);
    nng_listener_close(c->listener);
    while (c->idle != NULL) {
        struct call *call = c->idle;
        c->idle = call->next;
        call_destroy(call);
    }
    for (struct call *call = c->busy; call != NULL; call = call->next) {
        nng_ctx_close(call->ctx); /* the end of each call comes through the loop */
    }
    close_socket(&c->ep);
    client_check_closed(c);
}

/* ---- answering side ------------------------------------------------------------------------- */

enum request_phase { REQUEST_RECEIVING, REQUEST_ARRIVED, REQUEST_SENDING, REQUEST_ENDED };

struct ipc_request {
    struct event event; /* first */
    struct ipc_server *server;
    nng_ctx ctx;
    nng_aio *aio;
    enum request_phase phase; /* changed only by whoever has the context at the moment */
    struct ipc_request *next_idle;
};

struct ipc_server {
    struct endpoint ep; /* first */
    ipc_request_fn on_request;
    struct ipc_request *requests;
    size_t request_count;
    uv_timer_t timer; /* for dialling again, then for flushing */
    uint64_t flush_end_ms;
    uint64_t flush_blind_ms;
    nng_dialer dialer;
    char url[URL_SIZE];
    int handles_left;

    /* Under the lock. One context receives at a time, and the next one only after the event of the
     * one before is queued: otherwise two of nng's threads could swap two requests. */
    struct ipc_request *idle;
    bool receiving;
    bool stopped;   /* the socket is being closed */
    size_t active;  /* contexts that nng works on, or whose event is queued */
    size_t sending; /* answers that nng still holds */
};

/* With the lock held. The context to call receive() with once the lock is free, if any. */
static struct ipc_request *next_receiver(struct ipc_server *s)
{
    struct ipc_request *r = s->idle;
    if (s->receiving || s->stopped || r == NULL) {
        return NULL;
    }
    s->idle = r->next_idle;
    s->receiving = true;
    s->active++;
    r->phase = REQUEST_RECEIVING;
    return r;
}

static void receive(struct ipc_request *r)
{
    if (r != NULL) {
        nng_ctx_recv(r->ctx, r->aio);
    }
}

/* With the lock held: nng is done with the context. */
static void make_idle(struct ipc_server *s, struct ipc_request *r)
{
    r->next_idle = s->idle;
    s->idle = r;
    s->active--;
}

/* On a thread of nng's. */
static void on_request_aio(void *arg)
{
    struct ipc_request *r = arg;
    struct ipc_server *s = r->server;
    bool failed = nng_aio_result(r->aio) != 0;
    nng_msg *unsent = NULL;
    bool queue = true;
    bool wake = false;
    if (r->phase == REQUEST_SENDING) {
        unsent = failed ? nng_aio_get_msg(r->aio) : NULL;
        nng_aio_set_msg(r->aio, NULL);
    }
    loop_queue_lock(&s->ep.queue);
    if (r->phase == REQUEST_SENDING) {
        s->sending--;
        queue = s->stopped; /* the loop waits for the last one */
        r->phase = REQUEST_ENDED;
    } else {
        s->receiving = false;
        r->phase = failed ? REQUEST_ENDED : REQUEST_ARRIVED;
    }
    if (queue) {
        wake = loop_queue_append(&s->ep.queue, &r->event.item);
    } else {
        make_idle(s, r);
    }
    struct ipc_request *next = next_receiver(s);
    loop_queue_unlock(&s->ep.queue, wake);
    receive(next);
    if (unsent != NULL) {
        nng_msg_free(unsent);
    }
}

static void on_server_handle_closed(uv_handle_t *handle)
{
    struct ipc_server *s = handle->data;
    if (--s->handles_left > 0) {
        return;
    }
    ipc_closed_fn closed = s->ep.closed;
    void *arg = s->ep.closed_arg;
    for (size_t i = 0; i < s->request_count; i++) {
        nng_aio_free(s->requests[i].aio);
    }
    free(s->requests);
    endpoint_finish(&s->ep);
    if (closed != NULL) {
        closed(arg);
    }
}

static void server_check_closed(struct ipc_server *s)
{
    loop_queue_lock(&s->ep.queue);
    bool over = s->stopped && s->active == 0;
    loop_queue_unlock(&s->ep.queue, false);
    if (over && s->handles_left == 0) {
        for (size_t i = 0; i < s->request_count; i++) {
            nng_aio_stop(s->requests[i].aio); /* its callback may still be about to wake the loop */
        }
        s->handles_left = 2;
        uv_close((uv_handle_t *)&s->ep.queue.async, on_server_handle_closed);
        uv_close((uv_handle_t *)&s->timer, on_server_handle_closed);
    }
}

static void on_server_aio(struct endpoint *ep, struct event *event)
{
    struct ipc_server *s = (struct ipc_server *)ep;
    struct ipc_request *r = (struct ipc_request *)event;
    loop_queue_lock(&ep->queue);
    s->active--;
    loop_queue_unlock(&ep->queue, false);
    if (r->phase == REQUEST_ARRIVED) {
        nng_msg *msg = nng_aio_get_msg(r->aio);
        nng_aio_set_msg(r->aio, NULL);
        if (!ep->closing) {
            s->on_request(ep->arg, r, nng_msg_body(msg), nng_msg_len(msg));
        }
        nng_msg_free(msg);
    }
    server_check_closed(s);
}

static void on_redial(uv_timer_t *timer)
{
    struct ipc_server *s = timer->data;
    nng_dialer_close(s->dialer);
    /* Should it fail, the next time is REDIAL_MS away. */
    (void)nng_dial(s->ep.socket, s->url, &s->dialer, NNG_FLAG_NONBLOCK);
}

static void on_server_news(struct endpoint *ep, bool up)
{
    struct ipc_server *s = (struct ipc_server *)ep;
    if (up) {
        uv_timer_stop(&s->timer);
    } else {
        uv_timer_start(&s->timer, on_redial, REDIAL_MS, REDIAL_MS);
    }
}

int ipc_server_open(uv_loop_t *loop, const char *path, size_t contexts, size_t max_bytes,
                    ipc_request_fn on_request, ipc_link_fn on_link, void *arg,
                    struct ipc_server **ret, struct err *err)
{
    char url[URL_SIZE];
    int rc = make_url(path, url, sizeof(url), err);
    if (rc < 0) {
        return rc;
    }
    struct ipc_server *s = alloc_one(struct ipc_server);
    memcpy(s->url, url, sizeof(url));
    s->ep.on_link = on_link;
    s->ep.arg = arg;
    s->ep.on_aio = on_server_aio;
    s->ep.on_news = on_server_news;
    s->on_request = on_request;
    rc = endpoint_init(&s->ep, loop, path, max_bytes, err);
    if (rc < 0) {
        free(s);
        return rc;
    }
    int rv = nng_rep0_open(&s->ep.socket);
    uv_timer_init(loop, &s->timer);
    s->timer.data = s;
    s->requests = alloc_array(contexts, sizeof(s->requests[0]));
    for (size_t i = 0; i < contexts && rv == 0; i++) {
        struct ipc_request *r = &s->requests[i];
        r->event.kind = EVENT_AIO;
        r->server = s;
        rv = nng_ctx_open(&r->ctx, s->ep.socket);
        if (rv == 0) {
            rv = nng_aio_alloc(&r->aio, on_request_aio, r);
        }
        if (rv != 0) {
            break;
        }
        s->request_count++;
        nng_aio_set_timeout(r->aio, NNG_DURATION_INFINITE);
        r->next_idle = s->idle;
        s->idle = r;
    }
    if (rv != 0 ||
        (rv = nng_socket_set_size(s->ep.socket, NNG_OPT_RECVMAXSZ, max_bytes + HEADER_ROOM)) != 0 ||
        (rv = nng_socket_set_ms(s->ep.socket, NNG_OPT_RECONNMINT, RECONNECT_MIN_MS)) != 0 ||
        (rv = nng_socket_set_ms(s->ep.socket, NNG_OPT_RECONNMAXT, RECONNECT_MAX_MS)) != 0 ||
        (rv = watch_pipes(&s->ep, on_server_pipe)) != 0 ||
        (rv = nng_dial(s->ep.socket, url, &s->dialer, NNG_FLAG_NONBLOCK)) != 0) {
        ipc_server_close(s, NULL, NULL);
        return nng_failed(err, rv, "cannot connect to", path);
    }
    loop_queue_lock(&s->ep.queue);
    struct ipc_request *first = next_receiver(s);
    loop_queue_unlock(&s->ep.queue, false);
    receive(first);
    on_server_news(&s->ep, false);
    *ret = s;
    return 0;
}

void ipc_reply(struct ipc_request *r, const void *data, size_t len)
{
    struct ipc_server *s = r->server;
    if (s->ep.closing) {
        return;
    }
    nng_msg *msg;
    bool failed = nng_msg_alloc(&msg, len) != 0;
    loop_queue_lock(&s->ep.queue);
    nng_pipe pipe = {(uint32_t)s->ep.pipe};
    s->active++;
    if (failed) {
        make_idle(s, r);
    } else {
        s->sending++;
        r->phase = REQUEST_SENDING;
    }
    struct ipc_request *next = next_receiver(s);
    loop_queue_unlock(&s->ep.queue, false);
    if (failed) {
        /* Without its answer the asker would wait for nothing: a lost link it can deal with. */
        nng_pipe_close(pipe);
    } else {
        if (len > 0) {
            memcpy(nng_msg_body(msg), data, len);
        }
        nng_aio_set_msg(r->aio, msg);
        nng_ctx_send(r->ctx, r->aio);
    }
    receive(next);
}

static void on_flush(uv_timer_t *timer)
{
    struct ipc_server *s = timer->data;
    uint64_t now = clock_ms();
    loop_queue_lock(&s->ep.queue);
    bool linked = s->ep.pipe != 0;
    bool sending = s->sending > 0;
    loop_queue_unlock(&s->ep.queue, false);
    int unread = unix_link_unread(s->ep.path, false);
    bool wait = sending || unread > 0 || (unread < 0 && now < s->flush_blind_ms);
    if (linked && wait && now < s->flush_end_ms) {
        return;
    }
    uv_timer_stop(timer);
    loop_queue_lock(&s->ep.queue);
    s->stopped = true;
    loop_queue_unlock(&s->ep.queue, false);
    /* Not by shutting the socket down: nng would dial again, and be cut off in the middle of it. */
    nng_dialer_close(s->dialer);
    wait_pipe_gone(&s->ep);
    for (size_t i = 0; i < s->request_count; i++) {
        nng_ctx_close(s->requests[i].ctx);
    }
    close_socket(&s->ep);
    server_check_closed(s);
}

void ipc_server_close(struct ipc_server *s, ipc_closed_fn closed, void *arg)
{
    set_closing(&s->ep);
    s->ep.closed = closed;
    s->ep.closed_arg = arg;
    s->flush_end_ms = clock_ms() + FLUSH_MS;
    s->flush_blind_ms = clock_ms() + FLUSH_BLIND_MS;
    uv_timer_start(&s->timer, on_flush, 0, 1);
}
