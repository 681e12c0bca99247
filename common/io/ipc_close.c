/*
 * Closing of an endpoint.
 *
 * nng_close() blocks until nng has released everything, so it runs on its own thread, with all that
 * must be waited for before it. The endpoint is closed when that thread is joined, so nothing of
 * nng runs any more when the loop ends.
 *
 * nng_close() of nng 1.5 may never return: a pipe that is closed from our side in the middle of a
 * message, or by a peer that dies in the handshake, may never be removed. So the loop waits for
 * CLOSE_MS at most and then abandons the socket: it releases handles and owners as usual and leaves
 * thread and memory, because late events of nng refer to that memory. If the thread returns, it
 * frees the memory. A thread pool would not do: the process's end waits for libuv's pool, and a few
 * such sockets would use it up.
 */
#include <stdlib.h>

#include "common/io/ipc_endpoint.h"
#include "common/log.h"

#define CLOSE_MS     2000 /* longer than a client waits for its connections */
#define MOMENT_NS    1000000u
#define HANDLE_COUNT 2

void ipc_endpoint_wait_moment(struct ipc_endpoint *ep)
{
    /* nng only reports pipes; other connections must be polled for */
    err_ignore(uv_cond_timedwait(&ep->changed, &ep->queue.lock, MOMENT_NS));
}

static void destroy_endpoint(struct ipc_endpoint *ep)
{
    struct loop_item *item = loop_queue_take(&ep->queue);
    while (item != NULL) {
        struct loop_item *next = item->next;
        if (((struct ipc_event *)item)->kind != IPC_EVENT_AIO) {
            free(item); /* a link event that is not needed any more */
        }
        item = next;
    }
    ep->ops->finish(ep);
    uv_cond_destroy(&ep->changed);
    loop_queue_finish(&ep->queue);
    free(ep);
}

static void on_endpoint_handle_closed(uv_handle_t *handle)
{
    struct ipc_endpoint *ep = handle->data;
    if (--ep->handles_left > 0) {
        return;
    }
    ipc_closed_fn closed = ep->closed;
    void *arg = ep->closed_arg;
    ipc_endpoint_lock(ep);
    ep->handles_closed = true;
    bool last = ep->closer == IPC_CLOSER_JOINED || ep->thread_back;
    ipc_endpoint_unlock(ep, false);
    if (last) {
        destroy_endpoint(ep);
    }
    if (closed != NULL) {
        closed(arg);
    }
}

static void close_handles(struct ipc_endpoint *ep)
{
    ep->handles_left = HANDLE_COUNT;
    uv_close((uv_handle_t *)&ep->queue.async, on_endpoint_handle_closed);
    uv_close((uv_handle_t *)&ep->timer, on_endpoint_handle_closed);
}

void ipc_endpoint_check_closed(struct ipc_endpoint *ep)
{
    ipc_endpoint_lock(ep);
    bool joined = ep->closer == IPC_CLOSER_JOINED;
    ipc_endpoint_unlock(ep, false);
    if (joined && ep->handles_left == 0 && ep->ops->is_idle(ep)) {
        close_handles(ep);
    }
}

static void give_up_endpoint(struct ipc_endpoint *ep, const char *why)
{
    log_warn("a socket is left behind, %s: %s", why, ep->path);
    if (ep->ops->abandon != NULL) {
        ep->ops->abandon(ep);
    }
    close_handles(ep);
}

static void on_impatience(uv_timer_t *timer)
{
    struct ipc_endpoint *ep = timer->data;
    ipc_endpoint_lock(ep);
    bool hangs = ep->closer == IPC_CLOSER_RUNNING;
    if (hangs) {
        ep->closer = IPC_CLOSER_GIVEN_UP;
    } /* else the thread is about to report its end */
    ipc_endpoint_unlock(ep, false);
    if (hangs) {
        pthread_detach(ep->thread);
        give_up_endpoint(ep, "nng does not close it");
    }
}

static void *close_thread(void *arg)
{
    struct ipc_endpoint *ep = arg;
    ep->ops->end_link(ep);
    nng_close(ep->socket);
    ipc_endpoint_lock(ep);
    bool last = ep->handles_closed;
    if (ep->closer == IPC_CLOSER_RUNNING) {
        ep->closer = IPC_CLOSER_DONE;
        if (loop_queue_append(&ep->queue, &ep->thread_event.item)) {
            uv_async_send(&ep->queue.async); /* under the lock: the loop then joins this thread */
        }
    } else {
        ep->thread_back = true;
    }
    ipc_endpoint_unlock(ep, false);
    if (last) {
        destroy_endpoint(ep);
    }
    return NULL;
}

void ipc_endpoint_set_closing(struct ipc_endpoint *ep, ipc_closed_fn closed, void *arg)
{
    ep->closed = closed;
    ep->closed_arg = arg;
    ipc_endpoint_lock(ep);
    ep->closing = true;
    ipc_endpoint_unlock(ep, false);
}

void ipc_endpoint_close(struct ipc_endpoint *ep)
{
    ipc_endpoint_lock(ep);
    ep->closer = IPC_CLOSER_RUNNING;
    bool started = pthread_create(&ep->thread, NULL, close_thread, ep) == 0;
    if (!started) {
        ep->closer = IPC_CLOSER_GIVEN_UP;
    }
    ipc_endpoint_unlock(ep, false);
    if (started) {
        uv_timer_start(&ep->timer, on_impatience, CLOSE_MS, 0);
    } else {
        give_up_endpoint(ep, "no thread can be started to close it");
    }
}
