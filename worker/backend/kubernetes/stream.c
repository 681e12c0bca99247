/*
 *     UPGRADING --101--> GREETING --greeting--> JOINED --> closed
 *
 * The agent's link reads plain bytes from a descriptor with every backend. So the link gets one end
 * of a socket pair, and this file copies between the other end and the WebSocket at the speed of
 * the slower side: one buffer in each direction, refilled only when it is empty.
 *
 * Each message of an exec begins with the number of a channel. What code and agent say comes on
 * channel 1; channel 2 has the relay's complaints, and channel 3 the outcome as a Status, which
 * tells why there is no relay. A server may answer 101 before it has reached the node, so nothing
 * is believed before the relay's greeting.
 *
 * Balancers cut connections that are silent, and a peer that is gone says nothing: so a ping is
 * sent every PING_MS, and whatever comes counts as its answer.
 */
#include "worker/backend/kubernetes/stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/io/json.h"
#include "common/log.h"
#include "common/str.h"
#include "worker/backend/kubernetes/agent.h"
#include "worker/backend/kubernetes/pod.h"
#include "worker/backend/kubernetes/websocket.h"
#include "worker/backend/relayed.h"

#define BUFFER_BYTES  (64u << 10)
#define MESSAGE_BYTES (32u << 10) /* of one message to the server, which may not be cut */
#define TURNS_MAX     16
#define OPEN_MS       15000 /* from the request to the greeting */
#define PING_MS       20000
#define SILENCE_MS    70000 /* without an answer to three pings */
#define STATUS_MAX    4096

enum { CHANNEL_STDIN, CHANNEL_STDOUT, CHANNEL_STDERR, CHANNEL_STATUS, CHANNEL_NONE = 256 };

enum stream_state { STREAM_UPGRADING, STREAM_GREETING, STREAM_JOINED };

struct kube_stream {
    struct task task;
    enum stream_state state;
    struct kube_call *call; /* while UPGRADING */
    struct http_tunnel *tunnel;
    kube_stream_fn done; /* NULL after it was called */
    void *arg;

    uv_timer_t timer; /* the deadline of the opening, then the pings */
    uv_poll_t poll;
    int fd;      /* our end of the pair, -1 before JOINED */
    int watched; /* events that poll waits for */
    unsigned open_handles;
    uint64_t heard_ms; /* by the loop's clock */

    struct websocket_reader reader;
    int channel;          /* of the message that is being read */
    struct view unread;   /* of in_buffer: not yet looked at */
    struct view piece;    /* of in_buffer: on its way to fd */
    struct view outgoing; /* of out_buffer: on its way to the tunnel */
    struct relayed relay;
    struct buf status; /* what channel 3 says */
    bool has_status;
    bool ping_due;
    bool pong_due;
    uint8_t pong[WEBSOCKET_CONTROL_MAX];
    size_t pong_len;
    char in_buffer[BUFFER_BYTES];
    uint8_t out_buffer[WEBSOCKET_HEAD_MAX + MESSAGE_BYTES];
};

static void kube_carry(struct kube_stream *s);

/* ---- ends ----------------------------------------------------------------------------------- */

static void on_kube_stream_handle_closed(uv_handle_t *handle)
{
    struct kube_stream *s = handle->data;
    if (--s->open_handles > 0) {
        return;
    }
    task_leave(&s->task);
    if (s->fd >= 0) {
        close(s->fd);
    }
    buf_finish(&s->status);
    free(s);
}

static void kube_stream_end(struct kube_stream *s)
{
    if (s->call != NULL) {
        kube_api_cancel(s->call);
        s->call = NULL;
    }
    http_tunnel_close(s->tunnel);
    s->tunnel = NULL;
    s->done = NULL;
    if (!uv_is_closing((uv_handle_t *)&s->timer)) {
        if (s->fd >= 0) {
            uv_close((uv_handle_t *)&s->poll, on_kube_stream_handle_closed);
        }
        uv_close((uv_handle_t *)&s->timer, on_kube_stream_handle_closed);
    }
}

static void on_kube_drop(struct task *task)
{
    kube_stream_end((struct kube_stream *)task);
}

void kube_stream_cancel(struct kube_stream *s)
{
    kube_stream_end(s);
}

static void kube_stream_fail(struct kube_stream *s, const struct err *err)
{
    kube_stream_fn done = s->done;
    void *arg = s->arg;
    kube_stream_end(s);
    if (done != NULL) {
        done(arg, -err->code, -1, err);
    }
}

char *kube_stream_outcome(struct view status)
{
    cJSON *json = NULL;
    char text[300] = "the end of the exec cannot be read";
    if (json_parse(status.data != NULL ? status.data : "", status.len, STATUS_MAX, 16, &json, NULL,
                   NULL) == 0) {
        const char *message = json_get_str(json, "message");
        const char *outcome = json_get_str(json, "status");
        if (message == NULL) {
            message = outcome != NULL && strcmp(outcome, "Success") == 0 ? "the relay has ended"
                                                                         : "the exec has failed";
        }
        size_t len = utf8_valid_prefix(message, strnlen(message, sizeof(text) - 1));
        memcpy(text, message, len);
        text[len] = '\0';
    }
    for (char *p = text; *p != '\0'; p++) {
        *p = (unsigned char)*p < ' ' || *p == 0x7f ? ' ' : *p;
    }
    cJSON_Delete(json);
    return alloc_strdup(text);
}

/* The tunnel has ended or failed, or the exec is over. */
static void kube_stream_broke(struct kube_stream *s, const struct err *cause)
{
    struct err err = ERR_INIT;
    CLEANUP_FREE char *outcome =
        s->has_status ? kube_stream_outcome(view_bytes(s->status.data, s->status.len))
                      : alloc_strdup(cause->text);
    if (s->state == STREAM_JOINED) {
        log_debug("stream to the agent ended: %s", outcome);
        kube_stream_end(s);
        return;
    }
    const char *words = relayed_words(&s->relay);
    err_ignore(err_set(&err, ERR_ENGINE, "no stream to the agent: %s%s%s", outcome,
                       words[0] != '\0' ? ": " : "", words));
    kube_stream_fail(s, &err);
}

static void on_kube_timeout(uv_timer_t *timer)
{
    struct kube_stream *s = timer->data;
    const char *words = relayed_words(&s->relay);
    struct err err = ERR_INIT;
    err_ignore(err_set(&err, ERR_TIMEOUT, "the cluster opened no stream to the agent in time%s%s",
                       words[0] != '\0' ? ": " : "", words));
    kube_stream_fail(s, &err);
}

static void on_ping_due(uv_timer_t *timer)
{
    struct kube_stream *s = timer->data;
    struct err err = ERR_INIT;
    if (uv_now(timer->loop) - s->heard_ms > SILENCE_MS) {
        err_ignore(err_set(&err, ERR_TIMEOUT, "the cluster does not answer pings"));
        kube_stream_broke(s, &err);
        return;
    }
    s->ping_due = true;
    kube_carry(s);
}

/* ---- from the server ------------------------------------------------------------------------ */

static void kube_join_stream(struct kube_stream *s)
{
    struct err err = ERR_INIT;
    kube_stream_fn done = s->done;
    int fd = -1;
    if (relayed_pair(&s->fd, &fd, &err) < 0) {
        kube_stream_fail(s, &err);
        return;
    }
    uv_timer_start(&s->timer, on_ping_due, PING_MS, PING_MS);
    uv_poll_init(s->task.tasks->loop, &s->poll, s->fd);
    s->poll.data = s;
    s->open_handles++;
    s->state = STREAM_JOINED;
    s->done = NULL;
    done(s->arg, 0, fd, NULL);
}

/* One piece of a message. 1: it is for fd; 0: it is done with; -ERR_*: the exec is over. */
static int take_piece(struct kube_stream *s, const struct websocket_piece *piece, struct err *err)
{
    struct view data = piece->data;
    if (piece->begins) {
        s->channel = CHANNEL_NONE;
    }
    if (s->channel == CHANNEL_NONE && data.len > 0) {
        s->channel = (uint8_t)data.data[0];
        data.data++;
        data.len--;
    }
    switch (s->channel) {
    case CHANNEL_STDOUT:
        s->piece = data;
        return data.len > 0;
    case CHANNEL_STDERR:
        if (s->state == STREAM_JOINED && data.len > 0) {
            log_info("sandbox's relay: %.*s", (int)(data.len < 400 ? data.len : 400), data.data);
        } else {
            relayed_keep(&s->relay, data);
        }
        return 0;
    case CHANNEL_STATUS:
        err_ignore(buf_add(&s->status, data.data, data.len, NULL)); /* a long one is no Status */
        s->has_status = s->has_status || piece->ends;
        return piece->ends ? err_set(err, ERR_GONE, "the exec has ended") : 0;
    default:
        return 0;
    }
}

static int take_control(struct kube_stream *s, const struct websocket_piece *piece, struct err *err)
{
    if (piece->opcode == WEBSOCKET_PING) { /* only the last one has to be answered */
        memcpy(s->pong, piece->data.data, piece->data.len);
        s->pong_len = piece->data.len;
        s->pong_due = true;
    }
    return piece->opcode != WEBSOCKET_CLOSE
               ? 0
               : err_set(err, ERR_GONE, "the server has closed the stream");
}

/* Next bytes for the agent's link. 1: s->piece has some; 0: none now; -ERR_*. */
static int kube_next_piece(struct kube_stream *s, struct err *err)
{
    for (;;) {
        struct websocket_piece piece;
        int rc = websocket_next(&s->reader, &s->unread, &piece, err);
        if (rc > 0) {
            rc = piece.opcode == WEBSOCKET_BINARY ? take_piece(s, &piece, err)
                                                  : take_control(s, &piece, err);
            if (rc != 0) {
                return rc;
            }
            continue;
        }
        if (rc < 0) {
            return rc;
        }
        rc = http_tunnel_read(s->tunnel, s->in_buffer, sizeof(s->in_buffer), err);
        if (rc <= 0) {
            return rc;
        }
        s->heard_ms = uv_now(s->task.tasks->loop);
        s->unread = view_bytes(s->in_buffer, (size_t)rc);
    }
}

/* Why a direction stopped. */
enum rest { REST_SOURCE, REST_SINK, REST_TURN, REST_ENDED };

static enum rest kube_carry_in(struct kube_stream *s)
{
    struct err err = ERR_INIT;
    for (int turn = 0; turn < TURNS_MAX; turn++) {
        if (s->piece.len == 0) {
            int rc = kube_next_piece(s, &err);
            if (rc < 0) {
                kube_stream_broke(s, &err);
                return REST_ENDED;
            }
            if (rc == 0) {
                return REST_SOURCE;
            }
        }
        if (s->state == STREAM_GREETING) {
            if (relayed_greet(&s->relay, &s->piece)) {
                kube_join_stream(s);
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
            kube_stream_end(s); /* the link above hung up */
            return REST_ENDED;
        }
        s->piece.data += n;
        s->piece.len -= (size_t)n;
    }
    return REST_TURN;
}

/* ---- to the server -------------------------------------------------------------------------- */

/* Puts a frame around len bytes that lie in out_buffer behind the room for its head. */
static int frame(struct kube_stream *s, enum websocket_opcode opcode, size_t len, struct err *err)
{
    uint8_t mask[4], head[WEBSOCKET_HEAD_MAX];
    int rc = random_bytes(mask, sizeof(mask), err);
    if (rc < 0) {
        return rc;
    }
    size_t head_len = websocket_head(opcode, len, mask, head);
    uint8_t *begin = s->out_buffer + WEBSOCKET_HEAD_MAX - head_len;
    websocket_mask(mask, s->out_buffer + WEBSOCKET_HEAD_MAX, len);
    memcpy(begin, head, head_len);
    s->outgoing = view_bytes(begin, head_len + len);
    return 1;
}

/* 1: s->outgoing has a frame; 0: none now; -ERR_GONE: the link above has closed; others. */
static int next_frame(struct kube_stream *s, struct err *err)
{
    uint8_t *room = s->out_buffer + WEBSOCKET_HEAD_MAX;
    if (s->pong_due) {
        s->pong_due = false;
        memcpy(room, s->pong, s->pong_len);
        return frame(s, WEBSOCKET_PONG, s->pong_len, err);
    }
    if (s->ping_due) {
        s->ping_due = false;
        return frame(s, WEBSOCKET_PING, 0, err);
    }
    if (s->state != STREAM_JOINED) {
        return 0;
    }
    ssize_t n = recv(s->fd, room + 1, MESSAGE_BYTES - 1, 0);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
        return 0;
    }
    if (n <= 0) {
        return err_set(err, ERR_GONE, "the link has closed");
    }
    room[0] = CHANNEL_STDIN;
    return frame(s, WEBSOCKET_BINARY, (size_t)n + 1, err);
}

static enum rest kube_carry_out(struct kube_stream *s)
{
    struct err err = ERR_INIT;
    for (int turn = 0; turn < TURNS_MAX; turn++) {
        if (s->outgoing.len == 0) {
            int rc = next_frame(s, &err);
            if (rc == 0) {
                return REST_SOURCE;
            }
            if (rc < 0) {
                kube_stream_broke(s, &err);
                return REST_ENDED;
            }
        }
        int n = http_tunnel_write(s->tunnel, s->outgoing.data, s->outgoing.len, &err);
        if (n < 0) {
            kube_stream_broke(s, &err);
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

static void on_kube_stream_poll(uv_poll_t *poll, int status, int events)
{
    (void)status, (void)events; /* reading or writing tells what happened */
    kube_carry(poll->data);
}

static void on_kube_tunnel_ready(void *arg, bool readable, bool writable)
{
    (void)readable, (void)writable;
    kube_carry(arg);
}

/* Moves bytes as far as possible and waits for the events that block the rest. */
static void kube_carry(struct kube_stream *s)
{
    enum rest in = kube_carry_in(s);
    enum rest out = in == REST_ENDED ? REST_ENDED : kube_carry_out(s);
    if (out == REST_ENDED) {
        return;
    }
    bool tunnel_read = in == REST_SOURCE || in == REST_TURN;
    bool tunnel_write = out == REST_SINK || out == REST_TURN;
    http_tunnel_watch(s->tunnel, tunnel_read, tunnel_write, on_kube_tunnel_ready, s);
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
            uv_poll_start(&s->poll, wanted, on_kube_stream_poll);
        }
    }
}

/* ---- opening -------------------------------------------------------------------------------- */

static void on_kube_stream_tunnel(void *arg, int rc, struct http_tunnel *tunnel,
                                  const struct err *err)
{
    struct kube_stream *s = arg;
    s->call = NULL;
    if (rc < 0) {
        kube_stream_fail(s, err);
        return;
    }
    s->tunnel = tunnel;
    s->state = STREAM_GREETING;
    s->heard_ms = uv_now(s->task.tasks->loop);
    http_tunnel_watch(tunnel, true, false, on_kube_tunnel_ready, s);
}

struct kube_stream *kube_stream_open(struct tasks *tasks, struct kube_api *api, const char *pod,
                                     kube_stream_fn done, void *arg)
{
    struct kube_stream *s = alloc_one(struct kube_stream);
    s->fd = -1;
    s->channel = CHANNEL_NONE;
    s->done = done;
    s->arg = arg;
    buf_init(&s->status, STATUS_MAX);
    uv_timer_init(tasks->loop, &s->timer);
    s->timer.data = s;
    s->open_handles = 1;
    task_enter(tasks, &s->task, on_kube_drop);
    uv_timer_start(&s->timer, on_kube_timeout, OPEN_MS, 0);
    CLEANUP_FREE char *at = kube_api_path(api, "pods", pod);
    CLEANUP_FREE char *start = http_escape(KUBE_AGENT_START);
    CLEANUP_FREE char *socket = http_escape(KUBE_AGENT_SOCKET);
    CLEANUP_FREE char *path =
        alloc_printf("%s/exec?container=" KUBE_CONTAINER
                     "&stdin=true&stdout=true&stderr=true&tty=false&command=%s&command=relay"
                     "&command=--socket&command=%s",
                     at, start, socket);
    s->call = kube_api_upgrade(api, path, OPEN_MS, on_kube_stream_tunnel, s);
    return s;
}
