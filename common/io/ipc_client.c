/*
 * The side that sends requests: a listening REQ socket with one context for each pending request.
 *
 * REQ resends by default, which would run code twice. An infinite resend time turns that off, and a
 * lost pipe then ends the receive with NNG_ECONNRESET.
 *
 * A context may receive as soon as its send is submitted. Both are submitted at once, the send
 * without a callback, which saves a thread switch per request. In return, a context whose receive
 * failed may still hold an unsent message and must not be reused.
 *
 * nng 1.5, as distributions build it, uses the wall clock for timers: a step of it ends all waits
 * at once, or none for hours. So nng waits without a timeout, and one timer of the loop ends
 * requests whose timeout is over.
 *
 * A message that is sent in the very moment in which nng (1.5) gives up the link of its peer is
 * never freed, though the exchange fails as it should. So nothing is sent to a peer known to leave.
 *
 * Three properties of nng's listener (1.5) decide how it is closed:
 *  - A link that we close in the middle of a message may never be removed. So its socket is shut
 *    down instead, which nng handles as a hang-up of the peer.
 *  - A connection that has completed nng's handshake but is no pipe yet leaks when its listener
 *    closes, with memory and descriptors of both sides. So the path is unlinked and all connections
 *    are gone before the listener is closed.
 *  - After a peer that dies or hangs up before the listener has sent its part of the handshake, a
 *    listener accepts no further one (the failed write is NNG_ECLOSED to it, as if it were closed
 *    itself), and a connection that it has accepted already stays in it for ever. The owner notices
 *    that by its own timeout for the peer, and must close the client and open another.
 */
#include <assert.h>
#include <errno.h>
#include <nng/nng.h>
#include <nng/protocol/reqrep0/req.h>
#include <nng/transport/ipc/ipc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/clock.h"
#include "common/io/ipc_endpoint.h"
#include "common/io/unix_link.h"

#define IDLE_CALLS_MAX 16   /* idle contexts that are kept */
#define HANG_UP_MS     1500 /* limit for nng to notice shut-down sockets; usually 0.1 ms */
#define LOOKS                                                                                      \
    2 /* so often no connection has to be found: one look can miss one that is                     \
         accepted meanwhile, since descriptors are looked at one by one */

/* If a timer fires this late, the process or the loop was stopped. Answers may have come that the
 * loop could not read, so requests get as much time again. */
#define HELD_UP_MS 1000

struct ipc_client {
    struct ipc_endpoint ep; /* first */
    nng_listener listener;
    struct exchange *idle, *busy;
    size_t idle_count;
    uint64_t wake_ms; /* when the timer fires, which is not later than the first exchange is due; 0:
                         it is not running */
};

struct exchange {
    struct ipc_event event; /* first */
    struct ipc_client *client;
    nng_ctx ctx;
    nng_aio *send_aio, *recv_aio;
    ipc_reply_fn done;
    void *arg;
    uint64_t due_ms;              /* time of the loop when it has waited long enough; 0: never */
    struct exchange *prev, *next; /* among the busy or the idle */
};

static void on_client_pipe(nng_pipe pipe, nng_pipe_ev ev, void *arg)
{
    if (ipc_endpoint_take_pipe(arg, pipe, ev, NNG_PIPE_EV_ADD_POST)) {
        nng_pipe_close(pipe);
    }
}

/* ---- exchanges ------------------------------------------------------------------------------ */

static void on_reply_aio(void *arg)
{
    struct exchange *exchange = arg;
    struct ipc_endpoint *ep = &exchange->client->ep;
    ipc_endpoint_lock(ep);
    ipc_endpoint_unlock(ep, loop_queue_append(&ep->queue, &exchange->event.item));
}

/* Also ends a message that is still waiting to be sent. */
static void exchange_destroy(struct exchange *exchange)
{
    nng_ctx_close(exchange->ctx);
    nng_aio_stop(exchange->send_aio);
    nng_aio_stop(exchange->recv_aio);
    nng_msg *unsent = nng_aio_get_msg(exchange->send_aio);
    if (nng_aio_result(exchange->send_aio) != 0 && unsent != NULL) {
        nng_msg_free(unsent);
    }
    nng_aio_free(exchange->send_aio);
    nng_aio_free(exchange->recv_aio);
    free(exchange);
}

/* A warm context if there is one. NULL if nng cannot make another. */
static struct exchange *exchange_take(struct ipc_client *c, struct err *err)
{
    struct exchange *exchange = c->idle;
    if (exchange != NULL) {
        c->idle = exchange->next;
        c->idle_count--;
        /* A reply can overtake the end of its own send on nng's threads; that end is at hand. */
        nng_aio_wait(exchange->send_aio);
        return exchange;
    }
    exchange = alloc_one(struct exchange);
    exchange->event.kind = IPC_EVENT_AIO;
    exchange->client = c;
    int rv = nng_ctx_open(&exchange->ctx, c->ep.socket);
    if (rv != 0) {
        goto err_ctx;
    }
    rv = nng_aio_alloc(&exchange->send_aio, NULL, NULL);
    if (rv != 0) {
        goto err_send;
    }
    rv = nng_aio_alloc(&exchange->recv_aio, on_reply_aio, exchange);
    if (rv != 0) {
        goto err_recv;
    }
    nng_aio_set_timeout(exchange->send_aio, NNG_DURATION_INFINITE);
    nng_aio_set_timeout(exchange->recv_aio, NNG_DURATION_INFINITE);
    return exchange;

err_recv:
    nng_aio_free(exchange->send_aio);
err_send:
    nng_ctx_close(exchange->ctx);
err_ctx:
    free(exchange);
    err_set(err, ERR_NO_MEMORY, "cannot make a request: %s", nng_strerror(rv));
    return NULL;
}

/* The end of each exchange comes through the loop, as with a reply. */
static void on_ipc_deadline(uv_timer_t *timer)
{
    struct ipc_client *c = timer->data;
    uint64_t now_ms = uv_now(timer->loop);
    uint64_t least_ms = now_ms - c->wake_ms >= HELD_UP_MS ? now_ms + HELD_UP_MS : 0;
    c->wake_ms = 0;
    for (struct exchange *exchange = c->busy; exchange != NULL; exchange = exchange->next) {
        if (exchange->due_ms != 0 && exchange->due_ms < least_ms) {
            exchange->due_ms = least_ms;
        }
        if (exchange->due_ms != 0 && exchange->due_ms <= now_ms) {
            exchange->due_ms = 0;
            nng_aio_abort(exchange->recv_aio, NNG_ETIMEDOUT);
        } else if (exchange->due_ms != 0 && (c->wake_ms == 0 || exchange->due_ms < c->wake_ms)) {
            c->wake_ms = exchange->due_ms;
        }
    }
    if (c->wake_ms != 0) {
        uv_timer_start(timer, on_ipc_deadline, c->wake_ms - now_ms, 0);
    }
}

/* An exchange that nng has finished keeps its result. */
void ipc_client_end_calls(struct ipc_client *c)
{
    for (struct exchange *exchange = c->busy; exchange != NULL; exchange = exchange->next) {
        nng_aio_abort(exchange->recv_aio, NNG_ECONNRESET);
    }
}

static int reply_error(const struct ipc_client *c, int rv)
{
    if (c->ep.closing) {
        return -ERR_SHUTTING_DOWN;
    }
    return rv == NNG_ETIMEDOUT ? -ERR_TIMEOUT : -ERR_IO;
}

static void on_client_aio(struct ipc_endpoint *ep, struct ipc_event *event)
{
    struct ipc_client *c = (struct ipc_client *)ep;
    struct exchange *exchange = (struct exchange *)event;
    ipc_reply_fn done = exchange->done;
    void *arg = exchange->arg;
    int rv = nng_aio_result(exchange->recv_aio);
    nng_msg *reply = rv == 0 ? nng_aio_get_msg(exchange->recv_aio) : NULL;
    nng_aio_set_msg(exchange->recv_aio, NULL);

    /* Given back first, so that a request made by `done` finds a warm context. */
    *(exchange->prev != NULL ? &exchange->prev->next : &c->busy) = exchange->next;
    if (exchange->next != NULL) {
        exchange->next->prev = exchange->prev;
    }
    if (reply != NULL && !ep->closing && c->idle_count < IDLE_CALLS_MAX) {
        exchange->next = c->idle;
        c->idle = exchange;
        c->idle_count++;
    } else {
        exchange_destroy(exchange);
    }
    if (reply != NULL) {
        done(arg, 0, nng_msg_body(reply), nng_msg_len(reply));
        nng_msg_free(reply);
    } else {
        done(arg, reply_error(c, rv), NULL, 0);
    }
    ipc_endpoint_check_closed(ep);
}

static bool client_is_idle(struct ipc_endpoint *ep)
{
    return ((struct ipc_client *)ep)->busy == NULL;
}

/* There are exchanges left only if nng was given up. */
static void client_finish(struct ipc_endpoint *ep)
{
    struct ipc_client *c = (struct ipc_client *)ep;
    while (c->busy != NULL) {
        struct exchange *exchange = c->busy;
        c->busy = exchange->next;
        nng_aio_stop(exchange->recv_aio);
        nng_msg *reply = nng_aio_get_msg(exchange->recv_aio);
        if (nng_aio_result(exchange->recv_aio) == 0 && reply != NULL) {
            nng_msg_free(reply);
        }
        exchange_destroy(exchange);
    }
}

static void client_abandon(struct ipc_endpoint *ep)
{
    for (struct exchange *exchange = ((struct ipc_client *)ep)->busy; exchange != NULL;
         exchange = exchange->next) {
        exchange->done(exchange->arg, -ERR_SHUTTING_DOWN, NULL, 0);
    }
}

bool ipc_client_was_reached(struct ipc_client *c)
{
    ipc_endpoint_lock(&c->ep);
    bool reached = c->ep.reached;
    ipc_endpoint_unlock(&c->ep, false);
    return reached;
}

/* ---- birth and death ------------------------------------------------------------------------ */

static void client_end_link(struct ipc_endpoint *ep)
{
    uint64_t end_ms = clock_ms() + HANG_UP_MS;
    int looks = 0;
    while (looks < LOOKS && clock_ms() < end_ms) {
        int connections = unix_link_shutdown(ep->path, true);
        ipc_endpoint_lock(ep);
        looks = connections > 0 || ep->pipe != 0 ? 0 : looks + 1;
        if (looks < LOOKS) {
            ipc_endpoint_wait_moment(ep);
        }
        ipc_endpoint_unlock(ep, false);
    }
    nng_listener_close(((struct ipc_client *)ep)->listener);
}

static const struct ipc_endpoint_ops client_ops = {
    .on_aio = on_client_aio,
    .end_link = client_end_link,
    .is_idle = client_is_idle,
    .finish = client_finish,
    .abandon = client_abandon,
};

int ipc_client_open(uv_loop_t *loop, const char *path, size_t max_bytes, ipc_link_fn on_link,
                    void *arg, struct ipc_client **ret, struct err *err)
{
    char url[IPC_URL_SIZE];
    int rc = ipc_endpoint_url(path, url, err);
    if (rc < 0) {
        return rc;
    }
    /* nng would connect to the path to see whether it is in use, which may harm a listener. */
    if (unlink(path) < 0 && errno != ENOENT) {
        return err_sys(err, ERR_IO, errno, "cannot replace %s", path);
    }
    struct ipc_client *c = alloc_one(struct ipc_client);
    c->ep.on_link = on_link;
    c->ep.arg = arg;
    rc = ipc_endpoint_init(&c->ep, loop, path, max_bytes, &client_ops, err);
    if (rc < 0) {
        free(c);
        return rc;
    }
    int rv;
    if ((rv = nng_req0_open(&c->ep.socket)) != 0 ||
        (rv = nng_socket_set_ms(c->ep.socket, NNG_OPT_REQ_RESENDTIME, NNG_DURATION_INFINITE)) !=
            0 ||
        (rv = ipc_endpoint_set_up(&c->ep, on_client_pipe)) != 0 ||
        (rv = nng_listener_create(&c->listener, c->ep.socket, url)) != 0 ||
        (rv = nng_listener_set_int(c->listener, NNG_OPT_IPC_PERMISSIONS, 0600)) != 0 ||
        (rv = nng_listener_start(c->listener, 0)) != 0) {
        ipc_client_close(c, NULL, NULL);
        return ipc_endpoint_failed(err, rv, "cannot listen on", path);
    }
    *ret = c;
    return 0;
}

/* A message that is written where nng will send it from. */
static int make_ipc_request(size_t most_bytes, ipc_write_fn write, const void *what, nng_msg **ret,
                            struct err *err)
{
    nng_msg *msg;
    int rv = nng_msg_alloc(&msg, most_bytes);
    if (rv != 0) {
        return err_set(err, ERR_NO_MEMORY, "cannot make a request: %s", nng_strerror(rv));
    }
    struct buf room;
    buf_init(&room, most_bytes);
    room.data = nng_msg_body(msg);
    room.cap = most_bytes;
    int rc = write(what, &room, err);
    if (rc < 0) {
        nng_msg_free(msg);
        return rc;
    }
    assert(room.data == nng_msg_body(msg));
    rv = nng_msg_chop(msg, most_bytes - room.len);
    assert(rv == 0);
    *ret = msg;
    return 0;
}

int ipc_client_ask(struct ipc_client *c, size_t most_bytes, ipc_write_fn write, const void *what,
                   uint64_t timeout_ms, ipc_reply_fn done, void *arg, struct err *err)
{
    if (c->ep.closing) {
        return err_set(err, ERR_SHUTTING_DOWN, "the link is closing");
    }
    if (most_bytes > c->ep.max_bytes) {
        return err_set(err, ERR_TOO_BIG, "a request of %zu bytes, at most %zu are allowed",
                       most_bytes, c->ep.max_bytes);
    }
    nng_msg *msg = NULL;
    int rc = make_ipc_request(most_bytes, write, what, &msg, err);
    if (rc < 0) {
        return rc;
    }
    struct exchange *exchange = exchange_take(c, err);
    if (exchange == NULL) {
        nng_msg_free(msg);
        return -ERR_NO_MEMORY;
    }
    exchange->done = done;
    exchange->arg = arg;
    exchange->prev = NULL;
    exchange->next = c->busy;
    if (c->busy != NULL) {
        c->busy->prev = exchange;
    }
    c->busy = exchange;
    nng_aio_set_msg(exchange->send_aio, msg);
    nng_ctx_send(exchange->ctx, exchange->send_aio);
    nng_ctx_recv(exchange->ctx, exchange->recv_aio);
    uint64_t now_ms = uv_now(c->ep.timer.loop);
    exchange->due_ms = timeout_ms == 0 || timeout_ms > INT32_MAX ? 0 : now_ms + timeout_ms;
    if (exchange->due_ms != 0 && (c->wake_ms == 0 || exchange->due_ms < c->wake_ms)) {
        c->wake_ms = exchange->due_ms;
        uv_timer_start(&c->ep.timer, on_ipc_deadline, timeout_ms, 0);
    }
    return 0;
}

void ipc_client_close(struct ipc_client *c, ipc_closed_fn closed, void *arg)
{
    ipc_endpoint_set_closing(&c->ep, closed, arg);
    (void)unlink(c->ep.path); /* so that the redialling peer cannot connect */
    while (c->idle != NULL) {
        struct exchange *exchange = c->idle;
        c->idle = exchange->next;
        exchange_destroy(exchange);
    }
    for (struct exchange *exchange = c->busy; exchange != NULL; exchange = exchange->next) {
        nng_ctx_close(exchange->ctx); /* the end of each exchange comes through the loop */
    }
    ipc_endpoint_close(&c->ep);
}
