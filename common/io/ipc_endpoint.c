/*
 * The bridge between nng's threads and one libuv loop.
 *
 * nng completes an operation on one of its threads. That thread only links a record into the
 * endpoint's queue and wakes the loop if the queue was empty; the loop then drains the whole queue.
 * Everything but the queue and the state of the current pipe belongs to the loop thread, so only
 * these are locked.
 *
 * A pipe's removal may be reported before its arrival. So the current pipe is determined in one
 * place under the lock, and only its changes are reported.
 */
#include "common/io/ipc_endpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/str.h"

/* ---- birth ---------------------------------------------------------------------------------- */

int ipc_endpoint_failed(struct err *err, int rv, const char *what, const char *path)
{
    return err_set(err, rv == NNG_ENOMEM ? ERR_NO_MEMORY : ERR_IO, "%s %s: %s", what, path,
                   nng_strerror(rv));
}

int ipc_endpoint_url(const char *path, char *url, struct err *err)
{
    struct sockaddr_un addr;
    int n = snprintf(url, IPC_URL_SIZE, "ipc://%s", path);
    if (strlen(path) >= sizeof(addr.sun_path) || n < 0 || (size_t)n >= IPC_URL_SIZE) {
        return err_set(err, ERR_TOO_BIG, "socket path is longer than %zu bytes: %s",
                       sizeof(addr.sun_path) - 1, path);
    }
    return 0;
}

static void on_item(void *arg, struct loop_item *item);

int ipc_endpoint_init(struct ipc_endpoint *ep, uv_loop_t *loop, const char *path, size_t max_bytes,
                      const struct ipc_endpoint_ops *ops, struct err *err)
{
    int rc = str_copy(ep->path, sizeof(ep->path), path, err);
    if (rc == 0) {
        rc = loop_queue_init(&ep->queue, loop, on_item, ep, err);
    }
    if (rc < 0) {
        return rc;
    }
    uv_timer_init(loop, &ep->timer);
    uv_cond_init(&ep->changed);
    ep->queue.async.data = ep;
    ep->timer.data = ep;
    ep->ops = ops;
    ep->max_bytes = max_bytes;
    ep->thread_event.kind = IPC_EVENT_CLOSED;
    return 0;
}

int ipc_endpoint_set_up(struct ipc_endpoint *ep, nng_pipe_cb cb)
{
    static const nng_pipe_ev events[] = {NNG_PIPE_EV_ADD_PRE, NNG_PIPE_EV_ADD_POST,
                                         NNG_PIPE_EV_REM_POST};
    int rv = nng_socket_set_size(ep->socket, NNG_OPT_RECVMAXSZ, ep->max_bytes + IPC_HEADER_ROOM);
    for (size_t i = 0; i < sizeof(events) / sizeof(events[0]) && rv == 0; i++) {
        rv = nng_pipe_notify(ep->socket, events[i], cb, ep);
    }
    return rv;
}

/* ---- from other threads to the loop --------------------------------------------------------- */

void ipc_endpoint_lock(struct ipc_endpoint *ep)
{
    loop_queue_lock(&ep->queue);
}

void ipc_endpoint_unlock(struct ipc_endpoint *ep, bool wake)
{
    /* An abandoned endpoint has no handle to wake the loop by. */
    loop_queue_unlock(&ep->queue, wake && ep->closer != IPC_CLOSER_GIVEN_UP);
}

static void on_endpoint_socket_closed(struct ipc_endpoint *ep)
{
    pthread_join(ep->thread, NULL); /* it is about to exit, so this does not block */
    uv_timer_stop(&ep->timer);
    ipc_endpoint_lock(ep);
    ep->closer = IPC_CLOSER_JOINED;
    ipc_endpoint_unlock(ep, false);
    ipc_endpoint_check_closed(ep);
}

static void on_item(void *arg, struct loop_item *item)
{
    struct ipc_endpoint *ep = arg;
    struct ipc_event *event = (struct ipc_event *)item;
    switch (event->kind) {
    case IPC_EVENT_AIO:
        ep->ops->on_aio(ep, event);
        return;
    case IPC_EVENT_CLOSED:
        on_endpoint_socket_closed(ep);
        return;
    default:
        break;
    }
    bool up = event->kind == IPC_EVENT_LINK_UP;
    free(event);
    if (!ep->closing) {
        if (ep->ops->on_link != NULL) {
            ep->ops->on_link(ep, up);
        }
        ep->on_link(ep->arg, up);
    }
}

/* With the lock held. */
static bool append_link(struct ipc_endpoint *ep, bool up)
{
    struct ipc_event *event = alloc_one(struct ipc_event);
    event->kind = up ? IPC_EVENT_LINK_UP : IPC_EVENT_LINK_DOWN;
    ep->pipe_reported = up;
    return loop_queue_append(&ep->queue, &event->item);
}

bool ipc_endpoint_take_pipe(struct ipc_endpoint *ep, nng_pipe pipe, nng_pipe_ev ev,
                            nng_pipe_ev report_at)
{
    int id = nng_pipe_id(pipe);
    bool refuse = false;
    bool wake = false;
    ipc_endpoint_lock(ep);
    if (ev == NNG_PIPE_EV_ADD_PRE) {
        refuse = ep->pipe != 0;
        if (!refuse) {
            ep->pipe = id;
            ep->reached = true;
        }
    }
    if (ev == NNG_PIPE_EV_ADD_POST && ep->pipe == id) {
        ep->pipe_settled = true;
        uv_cond_signal(&ep->changed);
    }
    if (ev == report_at && ep->pipe == id && !ep->pipe_reported && !ep->closing) {
        wake = append_link(ep, true);
    }
    if (ev == NNG_PIPE_EV_REM_POST && ep->pipe == id) {
        ep->pipe = 0;
        ep->pipe_settled = false;
        if (ep->pipe_reported && !ep->closing) {
            wake = append_link(ep, false);
        }
        uv_cond_signal(&ep->changed);
    }
    ipc_endpoint_unlock(ep, wake);
    return refuse;
}
