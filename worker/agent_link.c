/*
 * A request is kept until its answer has come (agent_entry.c). So a lost stream is simply replaced:
 * after the HELLO on the new one, all entries are written again in their old order.
 *
 *        stream() fails: wait a little                 lost, or silent
 *      +--------------+                     +-------------------------------+
 *      v              |                     |                               |
 *     DOWN -----> OPENING ------> HELLO ----+-> UP -------------------> CLOSING --> DOWN
 *      ^                            |                                   ^   |
 *      |                            +-----------------------------------+   |
 *      +--------------------------------------------------------------------+
 *                 any state ---- agent_link_end() ----> ENDED
 *
 * Waits have timeouts. The next HELLO must come within TIME_HELLO_MS after the loss of a stream,
 * unless there is no answer at all: then agent or engine may be stopped and continue later, and the
 * supervisor has its own timeouts. An answer may take TIME_HELLO_MS longer than the wait time of
 * its request. One timer serves both timeouts and the pauses between attempts; it does not run
 * while no request is pending.
 *
 * The agent is hostile until proven otherwise: sizes are capped, an answer must fit its request
 * (agent_reply.c), and anything else is malformed and ends the link for good.
 */
#include "worker/agent_link.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/buf.h"
#include "common/io/ipc.h"
#include "common/log.h"
#include "common/sm.h"
#include "config.h"
#include "proto/codec.h"
#include "proto/version.h"
#include "worker/agent_entry.h"
#include "worker/agent_post.h"
#include "worker/agent_reply.h"

#define RETRY_MIN_MS 10
#define RETRY_MAX_MS 1000
#define STABLE_MS    1000 /* a stream that lasted this long ends a series of failures */
#define ATTEMPTS_MAX 24   /* streams in such a series */
#define READ_BYTES   (16u << 10)
#define KEEP_BYTES   (64u << 10) /* of the read buffer while idle */

enum link_state { LINK_DOWN, LINK_OPENING, LINK_HELLO, LINK_UP, LINK_CLOSING, LINK_ENDED };

static const struct sm_state states[] = {
    [LINK_DOWN] = {"down", SM_BIT(LINK_OPENING) | SM_BIT(LINK_ENDED)},
    [LINK_OPENING] = {"opening", SM_BIT(LINK_DOWN) | SM_BIT(LINK_HELLO) | SM_BIT(LINK_ENDED)},
    [LINK_HELLO] = {"hello", SM_BIT(LINK_UP) | SM_BIT(LINK_CLOSING) | SM_BIT(LINK_ENDED)},
    [LINK_UP] = {"up", SM_BIT(LINK_CLOSING) | SM_BIT(LINK_ENDED)},
    [LINK_CLOSING] = {"closing", SM_BIT(LINK_DOWN) | SM_BIT(LINK_ENDED)},
    [LINK_ENDED] = {"ended", 0},
};

struct agent_link {
    uv_loop_t *loop;
    struct backend *backend;
    const struct agent_link_events *events;
    void *arg;
    char sandbox[LIMIT_NAME + 1];
    uint64_t generation;
    struct view_list runners; /* borrowed */
    struct sm sm;
    bool failed;  /* on_failed has been called */
    bool been_up; /* there has been a hello */

    uv_timer_t timer;
    uint64_t armed_ms; /* 0 = the timer does not run */
    uint64_t down_ms;  /* since when there is no hello; 0 = there is one */
    uint64_t late_ms;  /* when that has lasted too long, in all or since the last extension */
    bool refused;      /* the latest attempt was refused with a reason; else there was no answer */
    struct err later;  /* why the agent is not ready, as it said at HELLO; no code: it did not */
    uint64_t up_ms;    /* when it came */
    uint64_t retry_ms; /* time of the next attempt in state DOWN */
    unsigned attempts;

    uv_pipe_t *pipe; /* freed in its close callback */
    struct buf rx;
    struct agent_entries entries;
    struct agent_entry *hello; /* unlike other entries it ends with its stream */

    size_t posted; /* bytes of events that libuv still holds */
    bool unsaid;   /* an event could not be sent */

    bool timer_closed;
    void (*closed)(void *arg);
    void *closed_arg;
};

static bool has_stream(const void *owner)
{
    const struct agent_link *link = owner;
    return link->pipe != NULL;
}

static bool may_be_opened(const void *owner)
{
    const struct agent_link *link = owner;
    return link->pipe == NULL && !link->failed;
}

static bool has_been_greeted(const void *owner)
{
    const struct agent_link *link = owner;
    return link->hello == NULL;
}

static const struct sm_invariant link_invariants[] = {
    {"one stream is closed before the next, and none is opened behind the failure",
     SM_BIT(LINK_OPENING), may_be_opened},
    {"what is said is said on a stream", SM_BIT(LINK_HELLO) | SM_BIT(LINK_UP), has_stream},
    {"the hello is over before anything else is asked", SM_BIT(LINK_UP), has_been_greeted},
};

static const struct sm_guard link_guard = {"agent link", link_invariants,
                                           sizeof(link_invariants) / sizeof(link_invariants[0])};

static void on_agent_link_timer(uv_timer_t *timer);

static void set_link_state(struct agent_link *link, enum link_state next)
{
    const char *from = sm_move(&link->sm, next);
    log_debug("agent link %s -> %s", from, sm_name(&link->sm));
}

/* ---- time ----------------------------------------------------------------------------------- */

static void arm_agent_link(struct agent_link *link, uint64_t due_ms)
{
    if (link->armed_ms != 0 && link->armed_ms <= due_ms) {
        return;
    }
    uint64_t now = uv_now(link->loop);
    link->armed_ms = due_ms;
    uv_timer_start(&link->timer, on_agent_link_timer, due_ms > now ? due_ms - now : 0, 0);
}

static void arm_all(struct agent_link *link)
{
    uv_timer_stop(&link->timer);
    link->armed_ms = 0;
    if (link->sm.state == LINK_ENDED || link->failed) {
        return;
    }
    if (link->sm.state == LINK_DOWN) {
        arm_agent_link(link, link->retry_ms);
    }
    if (link->unsaid) {
        arm_agent_link(link, uv_now(link->loop));
    }
    if (link->down_ms != 0) {
        arm_agent_link(link, link->late_ms);
        return;
    }
    for (const struct agent_entry *e = link->entries.first; e != NULL; e = e->next) {
        arm_agent_link(link, e->due_ms);
    }
}

/* ---- losing a stream ------------------------------------------------------------------------ */

static void fail_agent_link(struct agent_link *link, const struct err *err)
{
    if (link->failed || link->sm.state == LINK_ENDED) {
        return;
    }
    link->failed = true;
    arm_all(link);
    link->events->on_failed(link->arg, err);
}

static void blame_agent(const struct agent_link *link, const char *what, struct err *err)
{
    err_set(err, ERR_TIMEOUT, "the agent in the sandbox %s%s%s", what,
            link->later.code != 0 ? ": " : "", link->later.text);
}

static void retry_later(struct agent_link *link)
{
    uint64_t pause = 0;
    if (link->attempts >= ATTEMPTS_MAX) {
        struct err err = ERR_INIT;
        blame_agent(link, "hangs up again and again", &err);
        fail_agent_link(link, &err);
        return;
    }
    if (link->attempts > 0) {
        unsigned shift = link->attempts < 8 ? link->attempts - 1 : 7;
        pause = (uint64_t)RETRY_MIN_MS << shift;
    }
    link->attempts++;
    link->retry_ms = uv_now(link->loop) + (pause < RETRY_MAX_MS ? pause : RETRY_MAX_MS);
    arm_all(link);
}

static void on_pipe_closed(uv_handle_t *handle)
{
    struct agent_link *link = handle->data;
    free(handle);
    if (link->sm.state == LINK_CLOSING) {
        set_link_state(link, LINK_DOWN);
        retry_later(link);
    } else if (link->closed != NULL && link->timer_closed) {
        link->pipe = NULL;
        agent_link_destroy(link, link->closed, link->closed_arg);
        return;
    }
    link->pipe = NULL;
}

/* The read buffer stays, because a message that borrows from it may be in use. */
static void hang_up(struct agent_link *link)
{
    link->unsaid = false;
    if (link->pipe != NULL && !uv_is_closing((uv_handle_t *)link->pipe)) {
        uv_close((uv_handle_t *)link->pipe, on_pipe_closed);
    }
    if (link->hello != NULL) {
        agent_entry_free(link->hello);
        link->hello = NULL;
    }
}

/* The stream has ended, but the sandbox may go on. */
static void lose_stream(struct agent_link *link, const char *why)
{
    uint64_t now = uv_now(link->loop);
    bool was_up = link->sm.state == LINK_UP;
    log_debug("agent link lost: %s", why);
    if (was_up) {
        if (now - link->up_ms >= STABLE_MS) {
            link->attempts = 0;
        }
        link->down_ms = now;
        link->late_ms = now + TIME_HELLO_MS;
        link->refused = false;
    }
    set_link_state(link, LINK_CLOSING);
    hang_up(link);
    arm_all(link);
    if (was_up) {
        link->events->on_lost(link->arg);
    }
}

static void violated(struct agent_link *link, const struct err *cause)
{
    struct err err = *cause;
    err.code = ERR_PROTOCOL;
    err_wrap(&err, "the agent broke the protocol");
    hang_up(link);
    fail_agent_link(link, &err);
}

/* ---- reading -------------------------------------------------------------------------------- */

static void on_hello_reply(struct agent_link *link, const struct msg *m)
{
    struct err err = ERR_INIT;
    if (m->type == MSG_FAILED && m->failed.code == ERR_IO) { /* it may be ready a moment later */
        err_set(&link->later, ERR_IO, "%.*s", VIEW_ARG(m->failed.message));
        log_warn("the agent in the sandbox is not ready: %s", link->later.text);
        lose_stream(link, "not ready");
        return;
    }
    if (m->type == MSG_FAILED) {
        err_set(&err, ERR_DENIED, "the agent refused this worker: %.*s",
                VIEW_ARG(m->failed.message));
        hang_up(link);
        fail_agent_link(link, &err);
        return;
    }
    const struct msg_hello_ok *hello = &m->hello_ok;
    if (!view_is(hello->protocol, PROTO_AGENT_NAME) || hello->version != PROTO_VERSION) {
        err_set(&err, ERR_PROTOCOL, "it speaks %.*s version %llu, not %s version %d",
                VIEW_ARG(hello->protocol), (unsigned long long)hello->version, PROTO_AGENT_NAME,
                PROTO_VERSION);
        violated(link, &err);
        return;
    }
    set_link_state(link, LINK_UP);
    link->later = (struct err)ERR_INIT;
    link->up_ms = uv_now(link->loop);
    link->down_ms = 0;
    for (struct agent_entry *e = link->entries.first; e != NULL; e = e->next) {
        if (link->been_up) {
            agent_entry_refresh(&link->entries, e);
        }
        e->due_ms = link->up_ms + e->wait_ms + TIME_HELLO_MS;
        agent_entry_write(e, (uv_stream_t *)link->pipe);
    }
    link->been_up = true;
    arm_all(link);
    link->events->on_up(link->arg, hello);
}

static bool is_event(enum msg_type type)
{
    return type == MSG_RUNNING || type == MSG_DOOR_OPEN || type == MSG_DOOR_DATA ||
           type == MSG_DOOR_CREDIT || type == MSG_DOOR_CLOSE;
}

/* One whole message from the agent. */
static void handle(struct agent_link *link, const struct msg *m)
{
    struct err err = ERR_INIT;
    if (m->type >= 100) {
        int rc = 0;
        if (link->sm.state != LINK_UP || !is_event(m->type) || m->seq != 0) {
            rc = err_set(&err, ERR_PROTOCOL, "an event that nobody expects: %s", msg_name(m->type));
        } else {
            rc = link->events->on_event(link->arg, m, &err);
        }
        if (rc < 0) {
            violated(link, &err);
        }
        return;
    }
    bool is_hello = link->hello != NULL && link->hello->seq == m->seq;
    struct agent_entry *e = is_hello ? link->hello : NULL;
    if (link->sm.state == LINK_UP) {
        e = agent_entries_take(&link->entries, m->seq);
    }
    if (e == NULL) {
        err_set(&err, ERR_PROTOCOL, "%s with number %llu answers nothing", msg_name(m->type),
                (unsigned long long)m->seq);
        violated(link, &err);
        return;
    }
    if (is_hello) {
        link->hello = NULL;
    }
    if (agent_reply_check(&e->question, m, &err) < 0) {
        /* the entry is off the list, so its caller is answered here; agent_link_end() answers the
         * others */
        violated(link, &err);
        if (!is_hello) {
            e->done(e->arg, NULL, &err);
        }
    } else if (is_hello) {
        on_hello_reply(link, m);
    } else {
        if (link->entries.first == NULL) {
            arm_all(link);
        }
        e->done(e->arg, m, NULL);
    }
    agent_entry_free(e);
}

static bool reading(const struct agent_link *link)
{
    return !link->failed && (link->sm.state == LINK_HELLO || link->sm.state == LINK_UP);
}

static void read_frames(struct agent_link *link)
{
    struct err err = ERR_INIT;
    size_t at = 0;
    while (reading(link)) {
        struct view payload;
        size_t used;
        struct msg m;
        int rc = frame_next(link->rx.data + at, link->rx.len - at, LIMIT_AGENT_FRAME, &payload,
                            &used, &err);
        if (rc == 0) {
            break;
        }
        if (rc > 0) {
            at += used;
            rc = msg_decode(MSG_LINK_A, payload.data, payload.len, &m, &err);
        }
        if (rc ==
            -ERR_NO_MEMORY) { /* no crime of the agent's: on the next stream it is said again */
            lose_stream(link, err.text);
            return;
        }
        if (rc < 0) {
            violated(link, &err);
            return;
        }
        handle(link, &m);
        msg_finish(&m);
    }
    if (reading(link)) {
        buf_consume(&link->rx, at);
        if (link->rx.len == 0) {
            buf_reset(&link->rx, KEEP_BYTES);
        }
    }
}

static void on_agent_link_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *ret_buf)
{
    struct agent_link *link = handle->data;
    *ret_buf = uv_buf_init(NULL, 0);
    if (buf_reserve(&link->rx, READ_BYTES, NULL) == 0) {
        *ret_buf = uv_buf_init((char *)link->rx.data + link->rx.len,
                               (unsigned)(link->rx.cap - link->rx.len));
    }
}

static void on_agent_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct agent_link *link = stream->data;
    if (!reading(link) || n == 0) {
        return;
    }
    if (n < 0) {
        lose_stream(link, n == UV_EOF ? "end of stream" : uv_strerror((int)n));
        return;
    }
    link->rx.len += (size_t)n;
    read_frames(link);
}

/* ---- opening -------------------------------------------------------------------------------- */

static void say_hello(struct agent_link *link)
{
    struct err err = ERR_INIT;
    struct msg m = {.type = MSG_HELLO};
    m.hello.protocol = view_of(PROTO_AGENT_NAME);
    m.hello.version = PROTO_VERSION;
    m.hello.build = view_of(CLOISTER_VERSION);
    m.hello.sandbox = view_of(link->sandbox);
    m.hello.generation = link->generation;
    m.hello.runners = link->runners;
    int rc = agent_entry_create(&link->entries, &m, NULL, &link->hello, &err);
    if (rc == -ERR_NO_MEMORY) { /* which says nothing about the sandbox: it is tried again */
        lose_stream(link, err.text);
        return;
    }
    if (rc < 0) {
        fail_agent_link(link, &err);
        return;
    }
    agent_entry_write(link->hello, (uv_stream_t *)link->pipe);
}

static void on_agent_stream(void *arg, int rc, int fd, const struct err *err)
{
    struct agent_link *link = arg;
    if (link->sm.state != LINK_OPENING || link->failed) { /* ended meanwhile */
        if (rc == 0) {
            close(fd);
        }
        return;
    }
    if (rc == 0) {
        buf_reset(&link->rx, KEEP_BYTES);
        link->pipe = alloc_one(uv_pipe_t);
        link->pipe->data = link;
        uv_pipe_init(link->loop, link->pipe, 0);
        rc = uv_pipe_open(link->pipe, fd);
        if (rc == 0) {
            rc = uv_read_start((uv_stream_t *)link->pipe, on_agent_link_alloc, on_agent_read);
        } else {
            close(fd);
        }
        set_link_state(link, LINK_HELLO);
        if (rc < 0) {
            lose_stream(link, uv_strerror(rc));
        } else {
            say_hello(link);
        }
        return;
    }
    if (rc == -ERR_GONE) {
        fail_agent_link(link, err);
        return;
    }
    log_debug("no stream to the agent: %s", err->text);
    link->refused = rc == -ERR_ENGINE;
    set_link_state(link, LINK_DOWN);
    retry_later(link);
}

static void open_stream(struct agent_link *link)
{
    set_link_state(link, LINK_OPENING);
    arm_all(link);
    link->backend->ops->stream(link->backend, on_agent_stream, link);
}

/* True if the agent has answered before and there is no answer now: agent or engine may be stopped
 * for a while, and nothing shows that the sandbox has ended. */
static bool keep_trying(struct agent_link *link)
{
    bool trying = link->sm.state == LINK_OPENING || link->sm.state == LINK_HELLO;
    if (!link->been_up || (link->refused && !trying)) {
        return false;
    }
    uint64_t now = uv_now(link->loop);
    log_warn("the agent in the sandbox has not answered for %llu s, trying again",
             (unsigned long long)(now - link->down_ms) / 1000);
    link->late_ms = now + TIME_HELLO_MS;
    link->attempts = 0;
    if (link->sm.state == LINK_HELLO) {
        lose_stream(link, "no hello");
    } else {
        arm_all(link);
    }
    return true;
}

static void on_agent_link_timer(uv_timer_t *timer)
{
    struct agent_link *link = timer->data;
    uint64_t now = uv_now(link->loop);
    struct err err = ERR_INIT;
    link->armed_ms = 0;
    if (link->unsaid && link->sm.state == LINK_UP) {
        lose_stream(link, "the agent does not read, or there is no memory for what it is told");
        return;
    }
    if (link->down_ms != 0 && now >= link->late_ms && keep_trying(link)) {
        return;
    }
    if (link->down_ms != 0 && now >= link->late_ms) {
        blame_agent(link, "does not answer", &err);
        hang_up(link);
        fail_agent_link(link, &err);
        return;
    }
    if (link->sm.state == LINK_DOWN && now >= link->retry_ms) {
        open_stream(link);
        return;
    }
    if (link->sm.state == LINK_UP) {
        for (const struct agent_entry *e = link->entries.first; e != NULL; e = e->next) {
            if (e->due_ms <= now) {
                lose_stream(link, "an answer is overdue");
                return;
            }
        }
    }
    arm_all(link);
}

/* ---- for the owner -------------------------------------------------------------------------- */

struct agent_link *agent_link_create(uv_loop_t *loop, struct backend *backend,
                                     const struct agent_link_greeting *greeting,
                                     const struct agent_link_events *events, void *arg)
{
    struct agent_link *link = alloc_one(struct agent_link);
    link->loop = loop;
    link->backend = backend;
    link->events = events;
    link->arg = arg;
    link->generation = greeting->generation;
    link->runners = greeting->runners;
    agent_entries_init(&link->entries);
    snprintf(link->sandbox, sizeof(link->sandbox), "%s", greeting->sandbox);
    sm_init(&link->sm, states, sizeof(states) / sizeof(states[0]), LINK_DOWN);
    sm_watch(&link->sm, &link_guard, link);
    uv_timer_init(loop, &link->timer);
    link->timer.data = link;
    buf_init(&link->rx, LIMIT_AGENT_FRAME + 4 + READ_BYTES);
    return link;
}

void agent_link_open(struct agent_link *link)
{
    link->down_ms = uv_now(link->loop);
    link->late_ms = link->down_ms + TIME_HELLO_MS;
    link->retry_ms = link->down_ms;
    arm_all(link);
}

bool agent_link_is_up(const struct agent_link *link)
{
    return link->sm.state == LINK_UP && !link->failed;
}

static int ask(struct agent_link *link, const struct msg *request, struct ipc_message *message,
               uint64_t wait_ms, agent_reply_fn done, void *arg, struct err *err)
{
    struct agent_entry *e;
    if (link->failed || link->sm.state == LINK_ENDED) {
        return err_set(err, ERR_GONE, "the sandbox is ending");
    }
    int rc = agent_entries_add(&link->entries, request, message, &e, err);
    if (rc < 0) {
        return rc;
    }
    e->wait_ms = wait_ms;
    e->due_ms = uv_now(link->loop) + wait_ms + TIME_HELLO_MS;
    e->done = done;
    e->arg = arg;
    if (link->sm.state == LINK_UP) {
        agent_entry_write(e, (uv_stream_t *)link->pipe);
        arm_agent_link(link, e->due_ms);
    }
    return 0;
}

int agent_link_ask(struct agent_link *link, const struct msg *request, uint64_t wait_ms,
                   agent_reply_fn done, void *arg, struct err *err)
{
    return ask(link, request, NULL, wait_ms, done, arg, err);
}

int agent_link_pass_on(struct agent_link *link, const struct msg *start,
                       struct ipc_message *message, uint64_t wait_ms, agent_reply_fn done,
                       void *arg, struct err *err)
{
    int rc = ask(link, start, message, wait_ms, done, arg, err);
    if (rc < 0) {
        ipc_message_free(message);
    }
    return rc;
}

void agent_link_post(struct agent_link *link, const struct msg *event)
{
    if (agent_link_is_up(link) && !link->unsaid &&
        agent_post(&link->posted, (uv_stream_t *)link->pipe, event) < 0) {
        link->unsaid = true;
        arm_agent_link(link, uv_now(link->loop));
    }
}

void agent_link_end(struct agent_link *link, const struct err *err)
{
    if (link->sm.state != LINK_ENDED) {
        set_link_state(link, LINK_ENDED);
        hang_up(link);
        arm_all(link);
    }
    while (link->entries.first != NULL) {
        struct agent_entry *e = agent_entries_take(&link->entries, link->entries.first->seq);
        e->done(e->arg, NULL, err);
        agent_entry_free(e);
    }
}

static void on_agent_link_timer_closed(uv_handle_t *handle)
{
    struct agent_link *link = handle->data;
    link->timer_closed = true;
    agent_link_destroy(link, link->closed, link->closed_arg);
}

void agent_link_destroy(struct agent_link *link, void (*closed)(void *arg), void *arg)
{
    assert(link->sm.state == LINK_ENDED);
    link->closed = closed;
    link->closed_arg = arg;
    if (!uv_is_closing((uv_handle_t *)&link->timer)) {
        uv_close((uv_handle_t *)&link->timer, on_agent_link_timer_closed);
    }
    if (!link->timer_closed || link->pipe != NULL) {
        return;
    }
    buf_finish(&link->rx);
    free(link);
    closed(arg);
}
