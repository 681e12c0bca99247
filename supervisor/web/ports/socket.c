/*
 * A transfer that has become a WebSocket. Nothing of its frames is read here, so either side may
 * say whatever it likes, as it may over HTTP; client and program judge each other.
 *
 * It is a transfer like any other, whose request and answer have no end, and keeps their bounds: of
 * what the client says two pieces at most are here, since it is not read while there is one; of
 * what the program says as much as of an answer.
 *
 * An answer that has begun goes on when its address expires, because it ends by itself. A WebSocket
 * does not: whoever had opened one in time could go on for ever with what was lent to him. So it is
 * cut then. It is cut as well when nothing was said for a while, because whoever is at the other
 * end may be gone without a word, and it holds a place.
 */
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/str.h"
#include "supervisor/web/http/exchange.h"
#include "supervisor/web/ports/handshake.h"
#include "supervisor/web/ports/internal.h"

#define AHEAD_MAX (64u << 10) /* the client is not read while so much of what it said is here */

static void on_client_said(void *arg, struct view bytes)
{
    struct port_transfer *t = arg;
    if (t->deaf || t->connection == NULL) {
        return;
    }
    t->last_word_ms = uv_now(t->endpoint->loop);
    if (buf_add(&t->request, bytes.data, bytes.len, NULL) < 0) {
        port_transfer_fail(t, 503, "there is no memory for what its client says");
        return;
    }
    if (t->due_ms == 0) {
        port_transfer_wait(t);
    }
    if (t->request.len >= AHEAD_MAX) {
        web_upgrade_pause(t->x, true);
    }
    if (t->again_ms == 0) { /* else the program has too much to read already */
        port_transfer_tell(t);
    }
}

void port_socket_told(struct port_transfer *t)
{
    if (t->x != NULL && t->request.len < AHEAD_MAX) {
        web_upgrade_pause(t->x, false);
    }
}

/* When the address expires, by the clock of the loop. */
static uint64_t expiry_of(const struct port_transfer *t)
{
    uint64_t until_s = 0, wall_ms = clock_wall_ms();
    err_ignore(
        str_to_u64(t->address.expires, 0, INT64_MAX / 1000, &until_s, NULL)); /* it is good */
    uint64_t left_ms = until_s * 1000 > wall_ms ? until_s * 1000 - wall_ms : 0;
    return uv_now(t->endpoint->loop) + left_ms;
}

int port_socket_begin(struct port_transfer *t, const struct http_head *head, struct err *err)
{
    struct handshake_answer answer;
    CLEANUP_FREE char *offered = handshake_offered(t->x);
    int rc = handshake_answer(head, handshake_key(t->x), offered, &answer, err);
    if (rc < 0) {
        return rc;
    }
    t->is_socket = true;
    t->endpoint->sockets++;
    t->answer = (struct port_answer){.status = head->status, .has_body = true};
    t->last_word_ms = uv_now(t->endpoint->loop);
    t->expires_ms = expiry_of(t);
    ports_wake_at(t->endpoint, port_socket_ends(t));
    port_head_protect(t->x);
    web_set_header(t->x, "Sec-WebSocket-Accept", answer.accept);
    if (answer.protocol != NULL) {
        web_set_header(t->x, "Sec-WebSocket-Protocol", answer.protocol);
    }
    handshake_answer_finish(&answer);
    web_upgrade(t->x, "websocket", on_client_said, t);
    return 0;
}

uint64_t port_socket_ends(const struct port_transfer *t)
{
    uint64_t idle_ms = t->last_word_ms + t->endpoint->idle_ms;
    if (!t->is_socket || t->x == NULL) {
        return 0;
    }
    return idle_ms < t->expires_ms ? idle_ms : t->expires_ms;
}

bool port_socket_tick(struct port_transfer *t, uint64_t now_ms)
{
    uint64_t ends_ms = port_socket_ends(t);
    if (ends_ms == 0 || now_ms < ends_ms) {
        return false;
    }
    port_transfer_fail(t, 410,
                       ends_ms == t->expires_ms ? "its address has expired"
                                                : "nothing was said on it for a long time");
    return true;
}
