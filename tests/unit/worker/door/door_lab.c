#include "tests/unit/worker/door/door_lab.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/clock.h"

#define PATIENCE_MS 60000
#define KEPT_BYTES  (8u << 20)

/* ---- the agent ------------------------------------------------------------------------------- */

static void on_post(void *arg, const struct msg *m)
{
    struct lab *l = arg;
    uint64_t id = m->type == MSG_DOOR_DATA     ? m->door_data.channel
                  : m->type == MSG_DOOR_CREDIT ? m->door_credit.channel
                                               : m->door_close.channel;
    if (id > LAB_CHANNELS) {
        return;
    }
    struct lab_channel *c = &l->channels[id];
    assert_int_equal(c->closed, 0); /* nothing is said after the end */
    if (m->type == MSG_DOOR_DATA) {
        assert_true(m->door_data.data.len <= LIMIT_DOOR_CHUNK);
        assert_int_equal(buf_add(&c->said, m->door_data.data.data, m->door_data.data.len, NULL), 0);
    } else if (m->type == MSG_DOOR_CREDIT) {
        c->credit += m->door_credit.bytes;
    } else {
        assert_true(m->door_close.whole);
        c->closed++;
    }
}

int lab_open(struct lab *l, uint64_t channel)
{
    struct msg m = {.type = MSG_DOOR_OPEN};
    struct err err = ERR_INIT;
    m.door_open.channel = channel;
    return door_take(l->door, &m, &err);
}

static int say_bytes(struct lab *l, uint64_t channel, struct view data)
{
    struct msg m = {.type = MSG_DOOR_DATA};
    struct err err = ERR_INIT;
    m.door_data.channel = channel;
    m.door_data.data = data;
    return door_take(l->door, &m, &err);
}

int lab_data(struct lab *l, uint64_t channel, const char *text)
{
    return say_bytes(l, channel, view_of(text));
}

int lab_bytes(struct lab *l, uint64_t channel, size_t count)
{
    static const char bytes[LIMIT_DOOR_CHUNK];
    int rc = 0;
    while (count > 0 && rc == 0) {
        size_t len = count < sizeof(bytes) ? count : sizeof(bytes);
        rc = say_bytes(l, channel, view_bytes(bytes, len));
        count -= len;
    }
    return rc;
}

int lab_credit(struct lab *l, uint64_t channel, uint64_t bytes)
{
    struct msg m = {.type = MSG_DOOR_CREDIT};
    struct err err = ERR_INIT;
    m.door_credit.channel = channel;
    m.door_credit.bytes = bytes;
    return door_take(l->door, &m, &err);
}

int lab_close(struct lab *l, uint64_t channel, bool whole)
{
    struct msg m = {.type = MSG_DOOR_CLOSE};
    struct err err = ERR_INIT;
    m.door_close.channel = channel;
    m.door_close.whole = whole;
    return door_take(l->door, &m, &err);
}

/* ---- names ----------------------------------------------------------------------------------- */

static struct lab *the_lab; /* a resolver has no argument of the door's */

static int resolve(uv_loop_t *loop, uv_getaddrinfo_t *request, uv_getaddrinfo_cb done,
                   const char *host, const char *port, const struct addrinfo *hints)
{
    struct lab *l = the_lab;
    char first[64];
    l->looked_up++;
    snprintf(l->last_name, sizeof(l->last_name), "%s:%s", host, port);
    if (l->leads_to == NULL) {
        return uv_getaddrinfo(loop, request, done, host, port, hints);
    }
    struct addrinfo numbers = *hints; /* no name server is asked */
    numbers.ai_flags |= AI_NUMERICHOST;
    size_t len = strcspn(l->leads_to, " ");
    snprintf(first, sizeof(first), "%.*s", (int)len, l->leads_to);
    if (l->leads_to[len] == ' ') {
        l->leads_to += len + 1;
    }
    return uv_getaddrinfo(loop, request, done, first, port, &numbers);
}

/* ---- the server ------------------------------------------------------------------------------ */

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *ret)
{
    static char bytes[65536];
    *ret = uv_buf_init(bytes, sizeof(bytes));
}

static void on_peer_closed(uv_handle_t *handle)
{
    free(handle);
}

static void close_peer(struct lab *l, uv_tcp_t *peer)
{
    for (size_t i = 0; i < sizeof(l->peers) / sizeof(l->peers[0]); i++) {
        l->peers[i] = l->peers[i] == peer ? NULL : l->peers[i];
    }
    uv_close((uv_handle_t *)peer, on_peer_closed);
}

static void on_heard(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct lab *l = stream->data;
    if (n > 0) {
        assert_int_equal(buf_add(&l->heard, buf->base, (size_t)n, NULL), 0);
    } else if (n < 0) {
        l->ended++;
        close_peer(l, (uv_tcp_t *)stream);
    }
}

static void on_connection(uv_stream_t *listener, int status)
{
    struct lab *l = listener->data;
    assert_int_equal(status, 0);
    uv_tcp_t *peer = alloc_one(uv_tcp_t);
    uv_tcp_init(&l->loop, peer);
    peer->data = l;
    assert_int_equal(uv_accept(listener, (uv_stream_t *)peer), 0);
    if (!l->deaf) {
        uv_read_start((uv_stream_t *)peer, on_alloc, on_heard);
    }
    uv_tcp_t **place = &l->peers[l->accepted++ % (sizeof(l->peers) / sizeof(l->peers[0]))];
    if (*place != NULL) {
        close_peer(l, *place);
    }
    *place = peer;
}

static uv_tcp_t *latest(struct lab *l)
{
    uv_tcp_t *peer = l->peers[(l->accepted - 1) % (sizeof(l->peers) / sizeof(l->peers[0]))];
    assert_non_null(peer);
    return peer;
}

struct served {
    uv_write_t write;
    void *bytes;
};

static void on_served(uv_write_t *write, int status)
{
    struct served *s = write->data;
    free(s->bytes);
    free(s);
}

void lab_serve(struct lab *l, const void *data, size_t len)
{
    struct served *s = alloc_one(struct served);
    s->write.data = s;
    s->bytes = alloc_array(len, 1);
    memcpy(s->bytes, data, len);
    uv_buf_t out = uv_buf_init(s->bytes, (unsigned)len);
    assert_int_equal(uv_write(&s->write, (uv_stream_t *)latest(l), &out, 1, on_served), 0);
}

void lab_hang_up(struct lab *l)
{
    close_peer(l, latest(l));
}

void lab_listen_again(struct lab *l)
{
    l->deaf = false;
    uv_read_start((uv_stream_t *)latest(l), on_alloc, on_heard);
}

/* ---- waiting --------------------------------------------------------------------------------- */

static void on_tick(uv_timer_t *timer)
{
}

void lab_until(struct lab *l, bool (*so)(const struct lab *l))
{
    uint64_t end = clock_ms() + PATIENCE_MS;
    uv_timer_t tick; /* so that the loop comes back */
    uv_timer_init(&l->loop, &tick);
    uv_timer_start(&tick, on_tick, 50, 50);
    while (!so(l) && clock_ms() < end) {
        uv_run(&l->loop, UV_RUN_ONCE);
    }
    uv_close((uv_handle_t *)&tick, NULL);
    uv_run(&l->loop, UV_RUN_NOWAIT);
    assert_true(so(l));
}

void lab_turns(struct lab *l, int count)
{
    for (int i = 0; i < count; i++) {
        uv_run(&l->loop, UV_RUN_NOWAIT);
    }
}

static struct {
    uint64_t channel;
    const char *part;
} wanted;

static bool has(const struct buf *b, const char *part)
{
    return b->len > 0 && memmem(b->data, b->len, part, strlen(part)) != NULL;
}

static bool is_said(const struct lab *l)
{
    return has(&l->channels[wanted.channel].said, wanted.part);
}

static bool is_heard(const struct lab *l)
{
    return has(&l->heard, wanted.part);
}

static bool is_closed(const struct lab *l)
{
    return l->channels[wanted.channel].closed > 0;
}

void lab_until_said(struct lab *l, uint64_t channel, const char *part)
{
    wanted.channel = channel;
    wanted.part = part;
    lab_until(l, is_said);
}

void lab_until_heard(struct lab *l, const char *part)
{
    wanted.part = part;
    lab_until(l, is_heard);
}

void lab_until_closed(struct lab *l, uint64_t channel)
{
    wanted.channel = channel;
    lab_until(l, is_closed);
}

const char *lab_said(struct lab *l, uint64_t channel)
{
    const char *text = buf_cstr(&l->channels[channel].said);
    return text != NULL ? text : "";
}

/* ---- beginning and end ----------------------------------------------------------------------- */

/* With the server's port. */
static char *fill_in(const struct lab *l, const char *text)
{
    const char *at = strstr(text, "PORT");
    return at == NULL ? alloc_strdup(text)
                      : alloc_printf("%.*s%u%s", (int)(at - text), text, l->port, at + 4);
}

void lab_ask(struct lab *l, uint64_t channel, const char *text)
{
    CLEANUP_FREE char *filled = fill_in(l, text);
    assert_int_equal(lab_open(l, channel), 0);
    assert_int_equal(lab_data(l, channel, filled), 0);
}

static void listen_at_loopback(struct lab *l)
{
    struct sockaddr_in address;
    struct sockaddr_storage bound;
    int size = sizeof(bound);
    uv_ip4_addr("127.0.0.1", 0, &address);
    uv_tcp_init(&l->loop, &l->listener);
    l->listener.data = l;
    assert_int_equal(uv_tcp_bind(&l->listener, (const struct sockaddr *)&address, 0), 0);
    assert_int_equal(uv_listen((uv_stream_t *)&l->listener, 64, on_connection), 0);
    assert_int_equal(uv_tcp_getsockname(&l->listener, (struct sockaddr *)&bound, &size), 0);
    l->port = ntohs(((struct sockaddr_in *)(void *)&bound)->sin_port);
}

struct lab *lab_create(const char *const *rules, const char *proxy, const char *auth)
{
    struct lab *l = alloc_one(struct lab);
    struct view items[16];
    char *texts[16];
    size_t count = 0;
    the_lab = l;
    uv_loop_init(&l->loop);
    buf_init(&l->heard, KEPT_BYTES);
    for (size_t i = 0; i <= LAB_CHANNELS; i++) {
        buf_init(&l->channels[i].said, KEPT_BYTES);
    }
    listen_at_loopback(l);
    for (; rules[count] != NULL; count++) {
        texts[count] = fill_in(l, rules[count]);
        items[count] = view_of(texts[count]);
    }
    CLEANUP_FREE char *filled = fill_in(l, proxy);
    struct msg_open open = {.door = {items, count}};
    open.door_proxy = view_of(filled);
    open.door_proxy_auth = view_of(auth);
    struct err err = ERR_INIT;
    assert_int_equal(door_rules_take(&l->rules, &open, &err), 0);
    while (count > 0) {
        free(texts[--count]);
    }
    const struct door_setup setup = {
        .loop = &l->loop,
        .sandbox = "lab",
        .rules = &l->rules,
        .post = on_post,
        .arg = l,
        .resolve = resolve,
    };
    l->door = door_create(&setup);
    return l;
}

static void on_door_gone(void *arg)
{
    struct lab *l = arg;
    l->door = NULL;
}

void lab_destroy(struct lab *l)
{
    door_destroy(l->door, on_door_gone, l);
    for (size_t i = 0; i < sizeof(l->peers) / sizeof(l->peers[0]); i++) {
        if (l->peers[i] != NULL) {
            close_peer(l, l->peers[i]);
        }
    }
    uv_close((uv_handle_t *)&l->listener, NULL);
    uv_run(&l->loop, UV_RUN_DEFAULT);
    assert_null(l->door);
    assert_int_equal(uv_loop_close(&l->loop), 0);
    door_rules_finish(&l->rules);
    buf_finish(&l->heard);
    for (size_t i = 0; i <= LAB_CHANNELS; i++) {
        buf_finish(&l->channels[i].said);
    }
    free(l);
}
