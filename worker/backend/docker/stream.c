/*
 *     (exec create) --> UPGRADING --attached--> GREETING --greeting--> JOINED --> closed
 *
 * The agent's link reads plain bytes from a descriptor with every backend. An engine's connection
 * has framed pieces and may be TLS. So the link gets one end of a socket pair, and this file copies
 * bytes between the other end and the tunnel at the speed of the slower side: one buffer in each
 * direction, refilled only when it is empty.
 *
 * An engine that cannot start a relay reports the reason on the same stream. The relay's greeting
 * tells the two apart: any other text is the reason of the failure.
 */
#include "worker/backend/docker/stream.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/io/json.h"
#include "common/log.h"
#include "worker/backend/docker/frames.h"
#include "worker/backend/docker/spec.h"
#include "worker/backend/json_build.h"
#include "worker/backend/relayed.h"

#define BUFFER_BYTES (64u << 10)
#define TURNS_MAX    16   /* buffers per turn of the loop, so that other streams get their turn */
#define EXEC_MS      8000 /* timeout from the request for a relay to its greeting */
#define ATTACH_MS    60000

enum stream_state { STREAM_UPGRADING, STREAM_GREETING, STREAM_JOINED };

struct docker_stream {
    struct task task;
    struct docker_api *api;
    char *container;
    enum stream_state state;
    struct docker_call *call; /* under way while UPGRADING */
    struct http_tunnel *tunnel;
    docker_stream_fn attached;
    docker_stream_fn done; /* NULL after it was called */
    void *arg;

    uv_timer_t timer;
    uv_poll_t poll;
    int fd;      /* our end of the pair, -1 before JOINED */
    int watched; /* events that poll waits for */
    unsigned open_handles;

    struct docker_frames frames;
    struct view unread;   /* of in_buffer: not yet looked at */
    struct view piece;    /* of in_buffer: on its way to fd */
    struct view outgoing; /* of out_buffer: on its way to the tunnel */
    struct relayed relay;
    char in_buffer[BUFFER_BYTES];
    char out_buffer[BUFFER_BYTES];
};

static void carry(struct docker_stream *s);

/* ---- ends ----------------------------------------------------------------------------------- */

static void on_stream_handle_closed(uv_handle_t *handle)
{
    struct docker_stream *s = handle->data;
    if (--s->open_handles > 0) {
        return;
    }
    task_leave(&s->task);
    if (s->fd >= 0) {
        close(s->fd);
    }
    free(s->container);
    free(s);
}

/* Closes both sides; the callbacks on the loop follow. */
static void stream_end(struct docker_stream *s)
{
    if (s->call != NULL) {
        docker_api_cancel(s->call);
        s->call = NULL;
    }
    http_tunnel_close(s->tunnel);
    s->tunnel = NULL;
    s->done = NULL;
    if (!uv_is_closing((uv_handle_t *)&s->timer)) {
        if (s->fd >= 0) {
            uv_close((uv_handle_t *)&s->poll, on_stream_handle_closed);
        }
        uv_close((uv_handle_t *)&s->timer, on_stream_handle_closed);
    }
}

static void on_drop(struct task *task)
{
    stream_end((struct docker_stream *)task);
}

void docker_stream_cancel(struct docker_stream *s)
{
    stream_end(s);
}

static void stream_fail(struct docker_stream *s, const struct err *err)
{
    docker_stream_fn done = s->done;
    void *arg = s->arg;
    stream_end(s);
    if (done != NULL) {
        done(arg, -err->code, -1, err);
    }
}

/* The tunnel has ended or failed. */
static void stream_broke(struct docker_stream *s, const struct err *cause)
{
    struct err err = ERR_INIT;
    if (s->state == STREAM_JOINED) {
        log_debug("stream to the agent ended: %s", cause->text);
        stream_end(s);
        return;
    }
    const char *words = relayed_words(&s->relay);
    err_set(&err, ERR_ENGINE, "no stream to the agent: %s", words[0] != '\0' ? words : cause->text);
    stream_fail(s, &err);
}

static void on_timeout(uv_timer_t *timer)
{
    struct docker_stream *s = timer->data;
    const char *words = relayed_words(&s->relay);
    struct err err = ERR_INIT;
    err_set(&err, ERR_TIMEOUT, "the engine did not open a stream to the agent in time%s%s",
            words[0] != '\0' ? ": " : "", words);
    stream_fail(s, &err);
}

/* ---- carrying ------------------------------------------------------------------------------- */

static void join_stream(struct docker_stream *s)
{
    struct err err = ERR_INIT;
    docker_stream_fn done = s->done;
    int fd = -1;
    if (relayed_pair(&s->fd, &fd, &err) < 0) {
        stream_fail(s, &err);
        return;
    }
    uv_timer_stop(&s->timer);
    uv_poll_init(s->task.tasks->loop, &s->poll, s->fd);
    s->poll.data = s;
    s->open_handles++;
    s->state = STREAM_JOINED;
    s->done = NULL;
    done(s->arg, 0, fd, NULL);
}

/* Next bytes for the agent's link. 1: s->piece has some; 0: none now; -ERR_*. */
static int next_piece(struct docker_stream *s, struct err *err)
{
    enum docker_stream_type type;
    struct view got;
    int rc;
    while ((rc = docker_frames_next(&s->frames, &s->unread, &type, &got, err)) > 0) {
        if (type == DOCKER_STDOUT) {
            s->piece = got;
            return 1;
        }
        if (s->state == STREAM_JOINED) {
            log_info("sandbox's agent: %.*s", (int)(got.len < 400 ? got.len : 400), got.data);
        } else {
            relayed_keep(&s->relay, got);
        }
    }
    if (rc < 0) {
        return rc;
    }
    rc = http_tunnel_read(s->tunnel, s->in_buffer, sizeof(s->in_buffer), err);
    if (rc > 0) {
        s->unread = view_bytes(s->in_buffer, (size_t)rc);
        return next_piece(s, err);
    }
    return rc;
}

/* Why a direction stopped. */
enum rest { REST_SOURCE, REST_SINK, REST_TURN, REST_ENDED };

static enum rest carry_in(struct docker_stream *s)
{
    struct err err = ERR_INIT;
    for (int turn = 0; turn < TURNS_MAX; turn++) {
        if (s->piece.len == 0) {
            int rc = next_piece(s, &err);
            if (rc < 0) {
                stream_broke(s, &err);
                return REST_ENDED;
            }
            if (rc == 0) {
                return REST_SOURCE;
            }
        }
        if (s->state == STREAM_GREETING) {
            if (relayed_greet(&s->relay, &s->piece)) {
                join_stream(s);
            }
            if (s->tunnel == NULL) {
                return REST_ENDED;
            }
            continue;
        }
        ssize_t n = send(s->fd, s->piece.data, s->piece.len, MSG_NOSIGNAL);
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
            return REST_SINK;
        }
        if (n < 0) {
            stream_end(s); /* the link above hung up */
            return REST_ENDED;
        }
        s->piece.data += n;
        s->piece.len -= (size_t)n;
    }
    return REST_TURN;
}

static enum rest carry_out(struct docker_stream *s)
{
    struct err err = ERR_INIT;
    for (int turn = 0; turn < TURNS_MAX; turn++) {
        if (s->outgoing.len == 0) {
            ssize_t n = recv(s->fd, s->out_buffer, sizeof(s->out_buffer), 0);
            if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
                return REST_SOURCE;
            }
            if (n <= 0) {
                stream_end(s);
                return REST_ENDED;
            }
            s->outgoing = view_bytes(s->out_buffer, (size_t)n);
        }
        int n = http_tunnel_write(s->tunnel, s->outgoing.data, s->outgoing.len, &err);
        if (n < 0) {
            stream_broke(s, &err);
            return REST_ENDED;
        }
        if (n == 0) {
            return REST_SINK;
        }
        s->outgoing.data += n;
        s->outgoing.len -= (size_t)n;
    }
    return REST_TURN;
}

static void on_stream_poll(uv_poll_t *poll, int status, int events)
{
    (void)status, (void)events; /* reading or writing tells what happened */
    carry(poll->data);
}

static void on_tunnel_ready(void *arg, bool readable, bool writable)
{
    (void)readable, (void)writable;
    carry(arg);
}

/* Moves bytes as far as possible and waits for the events that block the rest. */
static void carry(struct docker_stream *s)
{
    enum rest in = carry_in(s);
    enum rest out = REST_ENDED;
    if (in == REST_ENDED) {
        return;
    }
    if (s->state == STREAM_JOINED) {
        out = carry_out(s);
        if (out == REST_ENDED) {
            return;
        }
    }
    bool tunnel_read = in == REST_SOURCE || in == REST_TURN;
    bool tunnel_write = out == REST_SINK || out == REST_TURN;
    http_tunnel_watch(s->tunnel, tunnel_read, tunnel_write, on_tunnel_ready, s);
    if (s->state != STREAM_JOINED) {
        return;
    }
    int wanted = (in == REST_SINK || in == REST_TURN ? UV_WRITABLE : 0) |
                 (out == REST_SOURCE || out == REST_TURN ? UV_READABLE : 0);
    if (wanted != s->watched) {
        s->watched = wanted;
        if (wanted == 0) {
            uv_poll_stop(&s->poll);
        } else {
            uv_poll_start(&s->poll, wanted, on_stream_poll);
        }
    }
}

/* ---- opening -------------------------------------------------------------------------------- */

static void on_stream_tunnel(void *arg, int rc, struct http_tunnel *tunnel, const struct err *err)
{
    struct docker_stream *s = arg;
    s->call = NULL;
    if (rc < 0) {
        if (s->attached != NULL) {
            s->done = s->attached; /* from now on a failure is reported to this callback */
        }
        stream_fail(s, err);
        return;
    }
    s->tunnel = tunnel;
    s->state = STREAM_GREETING;
    http_tunnel_watch(tunnel, true, false, on_tunnel_ready, s);
    if (s->attached != NULL) {
        s->attached(s->arg, 0, -1, NULL);
    }
}

static struct docker_stream *stream_new(struct tasks *tasks, struct docker_api *api,
                                        const char *container, docker_stream_fn done, void *arg,
                                        uint64_t patience_ms)
{
    struct docker_stream *s = alloc_one(struct docker_stream);
    s->api = api;
    s->container = alloc_strdup(container);
    s->fd = -1;
    s->done = done;
    s->arg = arg;
    uv_timer_init(tasks->loop, &s->timer);
    s->timer.data = s;
    s->open_handles = 1;
    task_enter(tasks, &s->task, on_drop);
    uv_timer_start(&s->timer, on_timeout, patience_ms, 0);
    return s;
}

static void on_exec_made(void *arg, int rc, const struct docker_reply *reply,
                         const struct err *failure)
{
    struct docker_stream *s = arg;
    struct err err = ERR_INIT;
    const char *id = json_get_str(reply->json, "Id");
    s->call = NULL;
    if (rc < 0) {
        stream_fail(s, failure);
        return;
    }
    if (id == NULL) {
        err_set(&err, ERR_ENGINE, "the engine made an exec without an id");
        stream_fail(s, &err);
        return;
    }
    CLEANUP_FREE char *escaped = http_escape(id);
    CLEANUP_FREE char *path = alloc_printf("/exec/%s/start", escaped);
    s->call =
        docker_api_upgrade(s->api, path, "{\"Detach\":false,\"Tty\":false}", on_stream_tunnel, s);
}

struct docker_stream *docker_stream_exec(struct tasks *tasks, struct docker_api *api,
                                         const char *container, docker_stream_fn done, void *arg)
{
    static const char *const command[] = {DOCKER_AGENT_PATH, "relay", "--socket",
                                          DOCKER_AGENT_SOCKET};
    struct docker_stream *s = stream_new(tasks, api, container, done, arg, EXEC_MS);
    cJSON *body = json_build_new();
    json_build_bool(body, "AttachStdin", true);
    json_build_bool(body, "AttachStdout", true);
    json_build_bool(body, "AttachStderr", true);
    json_build_bool(body, "Tty", false);
    json_build_string(body, "User", "0:0");
    json_build_string(body, "WorkingDir", "/");
    json_build_strings(body, "Cmd", command, sizeof(command) / sizeof(command[0]));
    CLEANUP_FREE char *text = json_build_print(body);
    CLEANUP_FREE char *path = alloc_printf("/containers/%s/exec", container);
    cJSON_Delete(body);
    struct docker_request request = {
        .method = "POST",
        .path = path,
        .json = text,
        .total_ms = EXEC_MS,
    };
    s->call = docker_api_call(api, &request, on_exec_made, s);
    return s;
}

struct docker_stream *docker_stream_attach(struct tasks *tasks, struct docker_api *api,
                                           const char *container, docker_stream_fn attached,
                                           docker_stream_fn done, void *arg)
{
    struct docker_stream *s = stream_new(tasks, api, container, done, arg, ATTACH_MS);
    /* detachKeys is empty, because Podman interprets its keys even without a terminal */
    CLEANUP_FREE char *path = alloc_printf(
        "/containers/%s/attach?stream=1&stdin=1&stdout=1&stderr=1&detachKeys=", container);
    s->attached = attached;
    s->call = docker_api_upgrade(api, path, NULL, on_stream_tunnel, s);
    return s;
}
