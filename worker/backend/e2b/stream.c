/*
 *     STARTING --pid--> GREETING --greeting--> JOINED --> closed
 *
 * The agent's link reads plain bytes from a descriptor with every backend. So the link gets one end
 * of a socket pair, and this file copies between the other end and the relay's stdin and stdout.
 *
 * Down, the relay's output comes on one long answer, in events. Up, each piece is a request of its
 * own, which takes a whole round trip. Several at once might overtake each other, so there is one
 * at a time, and what the link has written meanwhile goes together in the next. A message and its
 * answer then take one round trip: the daemon passes the message on when it comes, and the agent's
 * answer travels beside the daemon's own.
 *
 * When the answer to a piece is lost, nobody knows whether it has arrived, so no more may follow.
 * The stream is ended, and the link opens another one and says there again what was not answered:
 * the agent knows each operation by its id, and joins it.
 *
 * A relay does not end with its stream. So it is killed, lest the agent takes it for a link.
 */
#include "worker/backend/e2b/stream.h"

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
#include "worker/backend/e2b/envd.h"
#include "worker/backend/e2b/exec.h"
#include "worker/backend/json_build.h"
#include "worker/backend/relayed.h"

#define PIECE_BYTES (256u << 10) /* of one request, before base64 */
#define OPEN_MS     15000        /* from the request to the greeting */

enum stream_state { STREAM_STARTING, STREAM_GREETING, STREAM_JOINED };

struct e2b_stream {
    struct task task;
    enum stream_state state;
    struct e2b_host *envd;
    struct e2b_exec *exec;  /* NULL after its end */
    struct e2b_call *input; /* the piece that is on its way; NULL: none */
    uint64_t pid;
    e2b_stream_fn done; /* NULL after it was called */
    void *arg;

    uv_timer_t timer; /* the deadline of the opening */
    uv_poll_t poll;
    int fd;      /* our end of the pair, -1 before JOINED */
    int watched; /* events that poll waits for */
    unsigned open_handles;

    struct buf pending; /* from the relay: on its way to fd */
    size_t written;     /* of it */
    struct relayed relay;
    uint8_t piece[PIECE_BYTES];
};

static void watch_stream(struct e2b_stream *s);

/* ---- ends ----------------------------------------------------------------------------------- */

static void on_e2b_stream_handle_closed(uv_handle_t *handle)
{
    struct e2b_stream *s = handle->data;
    if (--s->open_handles > 0) {
        return;
    }
    task_leave(&s->task);
    if (s->fd >= 0) {
        close(s->fd);
    }
    buf_finish(&s->pending);
    free(s);
}

static void end_stream(struct e2b_stream *s)
{
    s->done = NULL;
    if (uv_is_closing((uv_handle_t *)&s->timer)) {
        return;
    }
    if (s->input != NULL) {
        e2b_host_cancel(STEAL_PTR(s->input));
    }
    if (s->exec != NULL && s->pid != 0) {
        e2b_envd_kill(s->envd, s->pid);
    }
    e2b_exec_close(STEAL_PTR(s->exec));
    if (s->fd >= 0) {
        uv_close((uv_handle_t *)&s->poll, on_e2b_stream_handle_closed);
    }
    uv_close((uv_handle_t *)&s->timer, on_e2b_stream_handle_closed);
}

static void on_e2b_drop(struct task *task)
{
    struct e2b_stream *s = (struct e2b_stream *)task;
    if (s->input != NULL) {
        e2b_host_cancel(STEAL_PTR(s->input));
    }
    e2b_exec_close(STEAL_PTR(s->exec)); /* so that nothing is asked of a host that closes next */
    end_stream(s);
}

void e2b_stream_cancel(struct e2b_stream *s)
{
    end_stream(s);
}

/* It is over: whoever waits for it is told why. */
static void break_stream(struct e2b_stream *s, int status, const struct err *cause)
{
    struct err err = ERR_INIT;
    e2b_stream_fn done = s->done;
    void *arg = s->arg;
    char words[RELAYED_WORDS_MAX];
    e2b_words(e2b_host_secrets(s->envd), view_of(relayed_words(&s->relay)), words, sizeof(words));
    err_ignore(err_set(&err, cause->code == ERR_TIMEOUT ? ERR_TIMEOUT : ERR_ENGINE,
                       "no stream to the agent: %.300s%s%s", cause->text,
                       words[0] != '\0' ? ": " : "", words));
    if (s->state == STREAM_JOINED) {
        log_debug("stream to the agent ended: %s", cause->text);
    }
    end_stream(s);
    if (done != NULL) {
        done(arg, -err.code, -1, status, &err);
    }
}

static void on_e2b_timeout(uv_timer_t *timer)
{
    struct e2b_stream *s = timer->data;
    struct err err = ERR_INIT;
    err_ignore(err_set(&err, ERR_TIMEOUT, "the relay in the sandbox does not answer in time"));
    break_stream(s, 0, &err);
}

/* ---- down ----------------------------------------------------------------------------------- */

static void join_relay(struct e2b_stream *s)
{
    struct err err = ERR_INIT;
    e2b_stream_fn done = s->done;
    int fd = -1;
    if (relayed_pair(&s->fd, &fd, &err) < 0) {
        break_stream(s, 0, &err);
        return;
    }
    uv_timer_stop(&s->timer);
    uv_poll_init(s->task.tasks->loop, &s->poll, s->fd);
    s->poll.data = s;
    s->open_handles++;
    s->state = STREAM_JOINED;
    s->done = NULL;
    watch_stream(s);
    done(s->arg, 0, fd, 0, NULL);
}

/* Writes what is pending. True when all of it is written. */
static bool flush_stream(struct e2b_stream *s)
{
    while (s->written < s->pending.len) {
        ssize_t n =
            send(s->fd, s->pending.data + s->written, s->pending.len - s->written, MSG_NOSIGNAL);
        if (n < 0 && errno != EINTR) {
            return false; /* full; or hung up, which reading will tell */
        }
        s->written += n > 0 ? (size_t)n : 0;
    }
    s->pending.len = 0;
    s->written = 0;
    return true;
}

static void on_relay_output(void *arg, bool is_stderr, struct view data)
{
    struct e2b_stream *s = arg;
    struct err err = ERR_INIT;
    if (is_stderr) {
        relayed_keep(&s->relay, data);
        if (s->state == STREAM_JOINED && data.len > 0) {
            char words[RELAYED_WORDS_MAX];
            e2b_words(e2b_host_secrets(s->envd), data, words, sizeof(words));
            log_info("sandbox's relay: %s", words);
        }
        return;
    }
    if (s->state == STREAM_GREETING && relayed_greet(&s->relay, &data)) {
        join_relay(s);
    }
    if (s->state != STREAM_JOINED || s->exec == NULL || data.len == 0) {
        return;
    }
    if (buf_add(&s->pending, data.data, data.len, &err) < 0) {
        break_stream(s, 0, &err);
        return;
    }
    if (!flush_stream(s)) {
        e2b_exec_hold(s->exec, true);
    }
    watch_stream(s);
}

static void on_e2b_relay_started(void *arg, uint64_t pid)
{
    struct e2b_stream *s = arg;
    s->pid = pid;
    if (s->state == STREAM_STARTING) {
        s->state = STREAM_GREETING;
    }
}

static void on_relay_ended(void *arg, int rc, int status, const struct err *err)
{
    struct e2b_stream *s = arg;
    s->exec = NULL;
    if (rc != -ERR_GONE && s->pid != 0) { /* only the stream is over */
        e2b_envd_kill(s->envd, s->pid);
    }
    break_stream(s, status, err);
}

static const struct e2b_exec_events relay_events = {on_e2b_relay_started, on_relay_output,
                                                    on_relay_ended};

/* ---- up ------------------------------------------------------------------------------------- */

static void on_input_taken(void *arg, int rc, const struct e2b_reply *reply, const struct err *err)
{
    struct e2b_stream *s = arg;
    s->input = NULL;
    if (rc < 0) {
        break_stream(s, reply->status, err);
    } else {
        watch_stream(s);
    }
}

/* Sends what the link has written. False if there is no link any more. */
static bool send_piece(struct e2b_stream *s)
{
    size_t len = 0;
    ssize_t n = 0;
    while (len < sizeof(s->piece) &&
           (n = recv(s->fd, s->piece + len, sizeof(s->piece) - len, 0)) > 0) {
        len += (size_t)n;
    }
    bool over = n == 0 && len < sizeof(s->piece);
    over = over || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
    if (len > 0) {
        s->input = e2b_envd_input(s->envd, s->pid, view_bytes(s->piece, len), on_input_taken, s);
    }
    return !over || len > 0;
}

static void on_e2b_stream_poll(uv_poll_t *poll, int status, int events)
{
    struct e2b_stream *s = poll->data;
    if (status < 0 || ((events & UV_READABLE) != 0 && s->input == NULL && !send_piece(s))) {
        end_stream(s); /* the link has hung up */
        return;
    }
    if ((events & UV_WRITABLE) != 0 && s->pending.len > 0 && flush_stream(s)) {
        e2b_exec_hold(s->exec, false); /* this may end the stream */
    }
    if (!uv_is_closing((uv_handle_t *)&s->timer)) {
        watch_stream(s);
    }
}

/* Waits for what can be done next. */
static void watch_stream(struct e2b_stream *s)
{
    int wanted =
        (s->input == NULL ? UV_READABLE : UV_DISCONNECT) | (s->pending.len > 0 ? UV_WRITABLE : 0);
    if (s->state == STREAM_JOINED && !uv_is_closing((uv_handle_t *)&s->poll) &&
        wanted != s->watched) {
        s->watched = wanted;
        uv_poll_start(&s->poll, wanted, on_e2b_stream_poll);
    }
}

/* ---- opening -------------------------------------------------------------------------------- */

struct e2b_stream *e2b_stream_open(struct tasks *tasks, struct e2b_host *envd, const char *agent,
                                   e2b_stream_fn done, void *arg)
{
    const char *const words[] = {agent, "relay", "--socket", E2B_AGENT_SOCKET};
    cJSON *holder = json_build_new();
    json_build_strings(holder, "words", words, sizeof(words) / sizeof(words[0]));
    const struct e2b_command command = {.words = json_get(holder, "words"), .stdin_open = true};
    struct e2b_stream *s = alloc_one(struct e2b_stream);
    s->envd = envd;
    s->fd = -1;
    s->done = done;
    s->arg = arg;
    buf_init(&s->pending, 2u << 20); /* more than one event */
    uv_timer_init(tasks->loop, &s->timer);
    s->timer.data = s;
    s->open_handles = 1;
    task_enter(tasks, &s->task, on_e2b_drop);
    uv_timer_start(&s->timer, on_e2b_timeout, OPEN_MS, 0);
    s->exec = e2b_exec_start(envd, &command, &relay_events, s);
    cJSON_Delete(holder);
    return s;
}
