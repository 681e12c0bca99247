/*
 * Connections that become plain streams. libcurl 7.88 does not support upgrades, but it can
 * connect, do the TLS handshake and leave the connection to us (CONNECT_ONLY). So this file writes
 * and reads HTTP itself, with http_head.c as its reader.
 *
 *   connecting -> sending the request -> reading the head -> open
 *                                               \-> reading the refusal (any other status) -> end
 *
 * Each tunnel has its own multi. The connection belongs to the multi of its easy handle, and
 * libcurl considers it idle: a multi that begins another request closes idle connections that are
 * old or readable. In a multi of its own no other request begins.
 *
 * The poll handle watches the socket, but bytes may be decrypted in the TLS library already, or
 * buffered after the head. So a tunnel remembers whether it was read until empty (`drained`);
 * otherwise an idle handle reports it as readable once per turn of the loop.
 *
 * A TLS library that could not send a record needs the same bytes at the same address again.
 * Callers cannot guarantee that, so the tunnel keeps a copy of the record; until it is sent, its
 * bytes count as not taken.
 */
#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/io/http_internal.h"
#include "config.h"

enum {
    RECORD_MAX_BYTES = 16 * 1024, /* of TLS */
    REFUSAL_MAX_BYTES = 16 * 1024,
    RECEIVE_BYTES = 16 * 1024,
};

enum tunnel_state {
    TUNNEL_CONNECTING,
    TUNNEL_SENDING,
    TUNNEL_HEAD,
    TUNNEL_REFUSED,
    TUNNEL_OPEN,
    TUNNEL_CLOSED, /* only handles are left */
};

struct http_tunnel {
    struct http_client *client;
    struct http_tunnel *next, **slot; /* in client->tunnels */
    enum tunnel_state state;
    struct http_call *call; /* while it is opened */

    struct http_multi multi;
    CURL *easy;
    char error[CURL_ERROR_SIZE];
    uv_poll_t poll;
    bool has_poll;
    uv_idle_t soon;
    size_t handles; /* open handles; the multi counts as one */

    struct buf out; /* the request */
    size_t out_sent;
    struct buf in; /* the head and the bytes after it */
    size_t in_used;
    size_t interim_bytes; /* bytes of interim heads */
    struct http_head refusal;
    struct http_framing framing;

    uint8_t *record; /* TLS only */
    size_t record_len;

    bool want_read, want_write;
    bool drained; /* the last read found nothing */
    bool broken;  /* the poll handle has failed */
    http_ready_fn ready;
    void *arg;
};

static void tunnel_handle_gone(struct http_tunnel *t)
{
    assert(t->handles > 0);
    t->handles--;
    if (t->handles == 0) {
        struct http_client *c = t->client;
        buf_finish(&t->out);
        buf_finish(&t->in);
        free(t->record);
        free(t);
        http_client_part_gone(c);
    }
}

static void on_tunnel_multi_closed(void *arg)
{
    tunnel_handle_gone(arg);
}

static void on_tunnel_handle_closed(uv_handle_t *handle)
{
    tunnel_handle_gone(handle->data);
}

void http_tunnel_close(struct http_tunnel *t)
{
    if (t == NULL || t->state == TUNNEL_CLOSED) {
        return;
    }
    t->state = TUNNEL_CLOSED;
    *t->slot = t->next;
    if (t->next != NULL) {
        t->next->slot = t->slot;
    }
    if (t->call != NULL) {
        t->call->tunnel = NULL;
    }
    uv_close((uv_handle_t *)&t->soon, on_tunnel_handle_closed);
    if (t->has_poll) { /* before libcurl closes the descriptor */
        uv_close((uv_handle_t *)&t->poll, on_tunnel_handle_closed);
    }
    if (t->easy != NULL) {
        http_multi_remove(&t->multi, t->easy);
        t->client->lib.easy_cleanup(t->easy);
    }
    http_multi_close(&t->multi, on_tunnel_multi_closed);
}

/* ---- events ---- */

static void step_tunnel(struct http_tunnel *t);
static void on_tunnel_poll(uv_poll_t *poll, int status, int events);

static bool is_mute(const struct http_tunnel *t)
{
    return t->state == TUNNEL_CLOSED || t->client->closing ||
           (t->call != NULL && t->call->cancelled);
}

static void on_soon(uv_idle_t *idle);

static void apply_wishes(struct http_tunnel *t)
{
    int events = (t->want_read ? UV_READABLE : 0) | (t->want_write ? UV_WRITABLE : 0);
    if (events != 0 && !t->broken) {
        if (uv_poll_start(&t->poll, events, on_tunnel_poll) < 0) {
            t->broken = true;
        }
    } else {
        uv_poll_stop(&t->poll);
    }
    if ((t->want_read && !t->drained) || (events != 0 && t->broken)) {
        uv_idle_start(&t->soon, on_soon);
    } else {
        uv_idle_stop(&t->soon);
    }
}

/* Must be the caller's last action, because the callback may close the tunnel. */
static void report_events(struct http_tunnel *t, bool readable, bool writable)
{
    if (is_mute(t)) {
        return;
    }
    if (t->state != TUNNEL_OPEN) {
        step_tunnel(t);
    } else if (readable || writable) {
        t->ready(t->arg, readable, writable);
    }
}

static void on_soon(uv_idle_t *idle)
{
    struct http_tunnel *t = idle->data;
    report_events(t, t->want_read, t->want_write && t->broken);
}

static void on_tunnel_poll(uv_poll_t *poll, int status, int events)
{
    struct http_tunnel *t = poll->data;
    if (status < 0) { /* the next read or write reports the reason */
        t->broken = true;
        apply_wishes(t);
        report_events(t, t->want_read, t->want_write);
        return;
    }
    report_events(t, t->want_read && (events & UV_READABLE) != 0,
                  t->want_write && (events & UV_WRITABLE) != 0);
}

static void want(struct http_tunnel *t, bool read, bool write)
{
    t->want_read = read;
    t->want_write = write;
    apply_wishes(t);
}

/* ---- bytes ---- */

/* Returns > 0 bytes, 0: nothing now, -ERR_GONE: end of file, -ERR_IO. */
static int receive_bytes(struct http_tunnel *t, void *data, size_t cap, struct err *err)
{
    size_t n = 0;
    t->error[0] = '\0';
    CURLcode rc = t->client->lib.easy_recv(t->easy, data, cap < INT_MAX ? cap : INT_MAX, &n);
    if (rc == CURLE_AGAIN && !t->broken) {
        if (!t->drained) {
            t->drained = true;
            apply_wishes(t);
        }
        return 0;
    }
    if (rc == CURLE_OK && n > 0) {
        t->drained = false;
        return (int)n;
    }
    const char *name = t->client->site.name;
    if (rc == CURLE_OK || rc == CURLE_AGAIN) {
        return err_set(err, ERR_GONE, "%s: the connection has ended", name);
    }
    return err_set(err, ERR_IO, "%s: %s", name,
                   t->error[0] != '\0' ? t->error : t->client->lib.easy_strerror(rc));
}

/* Returns > 0 bytes, 0: not now, -ERR_GONE, -ERR_IO. */
static int transmit(struct http_tunnel *t, const void *data, size_t len, struct err *err)
{
    const struct http_lib *lib = &t->client->lib;
    size_t n = 0;
    t->error[0] = '\0';
    CURLcode rc = lib->easy_send(t->easy, data, len < INT_MAX ? len : INT_MAX, &n);
    if (rc == CURLE_OK) {
        return (int)n;
    }
    if (rc == CURLE_AGAIN && !t->broken) {
        return 0;
    }
    long sys = 0;
    if (lib->easy_getinfo(t->easy, CURLINFO_OS_ERRNO, &sys) != CURLE_OK) {
        sys = 0;
    }
    bool hung_up = rc == CURLE_AGAIN || sys == EPIPE || sys == ECONNRESET;
    return err_set(err, hung_up ? ERR_GONE : ERR_IO, "%s: %s", t->client->site.name,
                   t->error[0] != '\0' ? t->error : lib->easy_strerror(rc));
}

int http_tunnel_read(struct http_tunnel *t, void *data, size_t cap, struct err *err)
{
    assert(t->state == TUNNEL_OPEN && cap > 0);
    size_t kept = t->in.len - t->in_used;
    if (kept == 0) {
        return receive_bytes(t, data, cap, err);
    }
    size_t n = kept < cap ? kept : cap;
    memcpy(data, t->in.data + t->in_used, n);
    t->in_used += n;
    if (t->in_used == t->in.len) {
        buf_finish(&t->in);
        t->in_used = 0;
    }
    return (int)n;
}

int http_tunnel_write(struct http_tunnel *t, const void *data, size_t len, struct err *err)
{
    assert(t->state == TUNNEL_OPEN);
    const uint8_t *bytes = data;
    size_t taken = 0;
    while (taken < len && taken < INT_MAX / 2) {
        const uint8_t *piece = bytes + taken;
        size_t piece_len = len - taken;
        if (t->record != NULL) {
            if (t->record_len == 0) {
                t->record_len = piece_len < RECORD_MAX_BYTES ? piece_len : RECORD_MAX_BYTES;
                memcpy(t->record, piece, t->record_len);
            }
            assert(t->record_len <= piece_len); /* bytes that were not taken come first again */
            piece = t->record;
            piece_len = t->record_len;
        }
        int n = transmit(t, piece, piece_len, err);
        if (n <= 0) {
            return n == 0 || taken > 0 ? (int)taken : n;
        }
        t->record_len = 0;
        taken += (size_t)n;
    }
    return (int)taken;
}

void http_tunnel_watch(struct http_tunnel *t, bool read, bool write, http_ready_fn ready, void *arg)
{
    assert(t->state == TUNNEL_OPEN);
    assert(ready != NULL || (!read && !write));
    t->ready = ready;
    t->arg = arg;
    want(t, read, write);
}

/* ---- opening ---- */

static void fail_tunnel(struct http_tunnel *t, const struct err *why)
{
    struct err err = *why;
    if (err.code == ERR_GONE || err.code == ERR_IO || err.code == ERR_PROTOCOL) {
        err.code = ERR_ENGINE; /* stream errors are engine errors while connecting */
    }
    http_call_fail(t->call, &err);
}

static int make_request(struct http_tunnel *t, struct err *err)
{
    const struct http_call *call = t->call;
    const struct http_site *site = &t->client->site;
    buf_init(&t->out, SIZE_MAX); /* built by this side, so without a cap */
    int rc = buf_printf(&t->out, err,
                        "%s %s%s HTTP/1.1\r\nHost: %s\r\nUser-Agent: cloister/%s\r\n"
                        "Connection: Upgrade\r\nUpgrade: %s\r\nContent-Length: %zu\r\n%s\r\n",
                        call->method, site->root, call->path, site->authority, CLOISTER_VERSION,
                        call->upgrade, call->body.len, call->fields);
    return rc < 0 ? rc : buf_add(&t->out, call->body.data, call->body.len, err);
}

static void on_connected(void *arg, CURL *easy, CURLcode result)
{
    struct http_tunnel *t = arg;
    const struct http_lib *lib = &t->client->lib;
    struct err err = ERR_INIT;
    curl_socket_t fd = CURL_SOCKET_BAD;
    if (result == CURLE_OK) {
        result = lib->easy_getinfo(easy, CURLINFO_ACTIVESOCKET, &fd);
    }
    if (result != CURLE_OK || fd == CURL_SOCKET_BAD) {
        http_easy_error(t->call, easy, result, t->error, &err);
        http_call_fail(t->call, &err);
        return;
    }
    int rc = uv_poll_init_socket(t->client->loop, &t->poll, fd);
    if (rc < 0) {
        err_set(&err, ERR_ENGINE, "%s: cannot watch a socket: %s", t->client->site.name,
                uv_strerror(rc));
        http_call_fail(t->call, &err);
        return;
    }
    t->poll.data = t;
    t->has_poll = true;
    t->handles++;
    if (make_request(t, &err) < 0) {
        fail_tunnel(t, &err);
        return;
    }
    t->state = TUNNEL_SENDING;
    http_call_heard(t->call);
    want(t, false, true);
}

/* Returns 1 when all is sent, 0 if the socket is full. */
static int send_request(struct http_tunnel *t, struct err *err)
{
    while (t->out_sent < t->out.len) {
        int n = transmit(t, t->out.data + t->out_sent, t->out.len - t->out_sent, err);
        if (n <= 0) {
            return n;
        }
        t->out_sent += (size_t)n;
        http_call_heard(t->call);
    }
    buf_finish(&t->out);
    return 1;
}

/* Skips interim heads. Returns 1 when *ret is the final one, which `in` begins with. */
static int find_head(struct http_tunnel *t, struct http_head *ret, struct err *err)
{
    for (;;) {
        int rc = http_head_parse(view_bytes(t->in.data, t->in.len), ret, err);
        if (rc < 0) {
            return err_wrap(err, "%s: %s", t->client->site.name, t->call->what);
        }
        if (rc == 0 || ret->status >= 200 || ret->status == 101) {
            return rc;
        }
        t->interim_bytes += ret->size;
        buf_consume(&t->in, ret->size);
        if (t->interim_bytes > HTTP_HEAD_MAX_BYTES) {
            return err_set(err, ERR_TOO_BIG, "%s: %s: more interim answers than %d bytes",
                           t->client->site.name, t->call->what, HTTP_HEAD_MAX_BYTES);
        }
    }
}

/* Moves the head to the call, where http_response_header() reads it; `in` keeps the bytes after
 * it. */
static int take_head(struct http_tunnel *t, const struct http_head *head, struct err *err)
{
    int rc = buf_add(&t->call->head, head->fields.data, head->fields.len, err);
    if (rc == 0) {
        rc = http_head_framing(head, &t->framing, err);
    }
    if (rc < 0) {
        return err_wrap(err, "%s: %s", t->client->site.name, t->call->what);
    }
    t->refusal.status = head->status;
    buf_consume(&t->in, head->size);
    return 0;
}

static void become_open(struct http_tunnel *t)
{
    struct http_call *call = t->call;
    t->state = TUNNEL_OPEN;
    t->drained = false;
    t->call = NULL;
    call->tunnel = NULL;
    want(t, false, false);
    http_call_succeed(call, t->refusal.status, view_bytes(NULL, 0), t);
}

/* Reports a refusal with the body that has come so far. */
static void tell_refusal(struct http_tunnel *t)
{
    struct http_call *call = t->call;
    struct view body = view_bytes(t->in.data, t->in.len);
    if (t->framing.chunked) {
        body = view_bytes(call->collected.data, call->collected.len);
    } else if (t->framing.has_length && t->framing.length < body.len) {
        body.len = (size_t)t->framing.length;
    }
    if (body.len > REFUSAL_MAX_BYTES) {
        body.len = REFUSAL_MAX_BYTES;
    }
    http_call_succeed(call, t->refusal.status, body, NULL);
}

/* Returns 1 when enough of the body has come. */
static int read_refusal(struct http_tunnel *t, struct err *err)
{
    struct view body = view_bytes(t->in.data, t->in.len);
    if (t->framing.chunked) {
        buf_finish(&t->call->collected);
        buf_init(&t->call->collected, REFUSAL_MAX_BYTES);
        int rc = http_head_dechunk(body, &t->call->collected, err);
        if (rc != 0) {
            return rc < 0 ? err_wrap(err, "%s: %s", t->client->site.name, t->call->what) : 1;
        }
    }
    bool none = t->refusal.status == 204 || t->refusal.status == 304;
    bool all = !t->framing.chunked && t->framing.has_length && body.len >= t->framing.length;
    return none || all || body.len >= REFUSAL_MAX_BYTES;
}

/* Handles the buffered bytes. False if the call has ended or needs no more events. */
static bool digest(struct http_tunnel *t)
{
    struct err err = ERR_INIT;
    if (t->state == TUNNEL_HEAD) {
        struct http_head head;
        int rc = find_head(t, &head, &err);
        if (rc == 0) {
            return true;
        }
        if (rc > 0) {
            rc = take_head(t, &head, &err);
        }
        if (rc < 0) {
            fail_tunnel(t, &err);
            return false;
        }
        if (t->refusal.status == 101 || t->refusal.status == 200) {
            become_open(t);
            return false;
        }
        t->state = TUNNEL_REFUSED;
    }
    int rc = read_refusal(t, &err);
    if (rc < 0) {
        fail_tunnel(t, &err);
    } else if (rc > 0) {
        tell_refusal(t);
    }
    return rc == 0;
}

static void read_answer(struct http_tunnel *t)
{
    for (;;) {
        struct err err = ERR_INIT;
        char piece[RECEIVE_BYTES];
        int n = receive_bytes(t, piece, sizeof(piece), &err);
        if (n == 0) {
            return;
        }
        if (n < 0 && t->state == TUNNEL_REFUSED) {
            tell_refusal(t); /* end of the body, or a broken connection: report what has come */
            return;
        }
        if (n < 0) {
            struct err why = err;
            err_set(&err, (enum err_code)why.code, "%s: %s: hung up before the answer: %s",
                    t->client->site.name, t->call->what, why.text);
            fail_tunnel(t, &err);
            return;
        }
        http_call_heard(t->call);
        if (buf_add(&t->in, piece, (size_t)n, &err) < 0) {
            fail_tunnel(t, &err);
            return;
        }
        if (!digest(t)) {
            return;
        }
    }
}

static void step_tunnel(struct http_tunnel *t)
{
    struct err err = ERR_INIT;
    if (t->state == TUNNEL_SENDING) {
        int rc = send_request(t, &err);
        if (rc < 0) {
            fail_tunnel(t, &err);
        } else if (rc > 0) {
            t->state = TUNNEL_HEAD;
            want(t, true, false);
        }
        return;
    }
    read_answer(t);
}

bool http_tunnel_late(struct http_tunnel *t)
{
    if (t->state != TUNNEL_REFUSED) {
        return false;
    }
    tell_refusal(t);
    return true;
}

bool http_tunnel_connected(const struct http_tunnel *t)
{
    return t->state != TUNNEL_CONNECTING;
}

static int add_to_multi(struct http_tunnel *t, struct err *err)
{
    const struct http_lib *lib = &t->client->lib;
    CURL *easy = NULL;
    int rc = http_easy_create(t->call, t->error, &easy, err);
    if (rc < 0) {
        return rc;
    }
    CURLcode set = lib->easy_setopt(easy, CURLOPT_CONNECT_ONLY, 1L);
    if (set == CURLE_OK) {
        set = lib->easy_setopt(easy, CURLOPT_HTTPPROXYTUNNEL, 1L);
    }
    if (set != CURLE_OK) {
        rc = err_set(err, ERR_ENGINE, "%s: libcurl: %s", t->client->site.name,
                     lib->easy_strerror(set));
    } else {
        rc = http_multi_add(&t->multi, easy, err);
    }
    if (rc < 0) {
        lib->easy_cleanup(easy);
        return rc;
    }
    t->easy = easy;
    return 0;
}

int http_tunnel_begin(struct http_call *call, struct err *err)
{
    struct http_client *c = call->client;
    struct http_tunnel *t = alloc_one(struct http_tunnel);
    t->client = c;
    t->call = call;
    int rc = http_multi_init(&t->multi, &c->lib, c->loop, 1, on_connected, t, err);
    if (rc < 0) {
        free(t);
        return rc;
    }
    uv_idle_init(c->loop, &t->soon);
    t->soon.data = t;
    t->handles = 2; /* it and the multi */
    if (c->site.tls) {
        t->record = alloc_array(RECORD_MAX_BYTES, 1);
    }
    buf_init(&t->in, HTTP_HEAD_MAX_BYTES + REFUSAL_MAX_BYTES + RECEIVE_BYTES);
    t->next = c->tunnels;
    t->slot = &c->tunnels;
    if (t->next != NULL) {
        t->next->slot = &t->next;
    }
    c->tunnels = t;
    c->parts++;
    call->tunnel = t;
    return add_to_multi(t, err); /* a failure ends the call, and that closes the tunnel */
}

struct http_call *http_tunnel_open(struct http_client *c, const struct http_request *request,
                                   http_tunnel_fn done, void *arg)
{
    struct http_call *call = http_call_create(c, request, arg);
    call->tunnel_done = done;
    return call;
}
