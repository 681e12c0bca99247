/*
 * An entry keeps its encoded frame, so that it can be written to any number of streams. The data of
 * a START, code or the content of a file, is not copied into it, but stays in the message of the
 * supervisor that brought it, which the entry owns; the frame is written around it. When a
 * START or WAIT is written again, its wait time is set to 0: the answer then gives the operation's
 * current state at once, which may have been lost with the old stream, and the caller waits again.
 */
#include "worker/agent_entry.h"

#include <assert.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/io/ipc.h"
#include "proto/codec.h"

#define UNANSWERED_MAX (2u * LIMIT_FRAME) /* bytes of requests kept */
#define ENTRIES_MAX    512u               /* requests kept */

void agent_entry_free(struct agent_entry *e)
{
    e->answered = true;
    if (!e->writing) {
        buf_finish(&e->frame);
        ipc_message_free(e->message);
        free(e);
    }
}

static size_t entry_bytes(const struct agent_entry *e)
{
    return e->frame.len + e->data.len;
}

static void on_written(uv_write_t *req, int status)
{
    /* a failed write needs no handling, because reading reports the same loss */
    struct agent_entry *e = req->data;
    e->writing = false;
    if (e->answered) {
        agent_entry_free(e);
    }
}

struct agent_entry *agent_entries_take(struct agent_entries *all, uint64_t seq)
{
    for (struct agent_entry **at = &all->first; *at != NULL; at = &(*at)->next) {
        struct agent_entry *e = *at;
        if (e->seq == seq) {
            *at = e->next;
            if (all->last == &e->next) {
                all->last = at;
            }
            all->count--;
            all->bytes -= entry_bytes(e);
            return e;
        }
    }
    return NULL;
}

/* What is left to write behind the first `skip` bytes. Returns the number of parts. */
static unsigned parts_behind(const struct agent_entry *e, size_t skip, uv_buf_t ret[3])
{
    const struct view parts[] = {
        view_bytes(e->frame.data, e->data_at),
        e->data,
        view_bytes(e->frame.data + e->data_at, e->frame.len - e->data_at),
    };
    unsigned n = 0;
    for (size_t i = 0; i < 3; i++) {
        if (skip >= parts[i].len) {
            skip -= parts[i].len;
            continue;
        }
        char *rest = (char *)(uintptr_t)parts[i].data + skip; /* libuv only reads it */
        ret[n++] = uv_buf_init(rest, (unsigned)(parts[i].len - skip));
        skip = 0;
    }
    return n;
}

void agent_entry_write(struct agent_entry *e, uv_stream_t *stream)
{
    uv_buf_t out[3];
    unsigned n = parts_behind(e, 0, out);
    int sent = uv_try_write(stream, out, n);
    if (sent < 0) {
        sent = 0; /* full, or broken, which the read side reports */
    }
    n = parts_behind(e, (size_t)sent, out);
    if (n == 0) {
        return;
    }
    e->write.data = e;
    e->writing = uv_write(&e->write, stream, out, n, on_written) == 0;
}

/* The whole frame in one piece. */
static int join_parts(const struct agent_entry *e, struct buf *ret, struct err *err)
{
    int rc = buf_add(ret, e->frame.data, e->data_at, err);
    if (rc == 0) {
        rc = buf_add(ret, e->data.data, e->data.len, err);
    }
    return rc < 0 ? rc : buf_add(ret, e->frame.data + e->data_at, e->frame.len - e->data_at, err);
}

void agent_entry_refresh(struct agent_entries *all, struct agent_entry *e)
{
    struct msg m;
    struct err err = ERR_INIT;
    if (e->question.type != MSG_START && e->question.type != MSG_WAIT) {
        return;
    }
    CLEANUP_BUF struct buf whole;
    CLEANUP_BUF struct buf frame;
    buf_init(&whole, LIMIT_FRAME + 4);
    buf_init(&frame, LIMIT_FRAME + 4);
    if (join_parts(e, &whole, &err) < 0) {
        return; /* as it is, it is answered a little later */
    }
    int rc = msg_decode(MSG_LINK_A, whole.data + 4, whole.len - 4, &m, &err);
    if (rc < 0) { /* without memory it stays as it is, too */
        assert(rc == -ERR_NO_MEMORY && "our own frame does not decode");
        return;
    }
    *(e->question.type == MSG_START ? &m.start.wait_ms : &m.wait.wait_ms) = 0;
    const struct view *left_out = e->data.len > 0 ? &m.start.data : NULL;
    size_t at = 0;
    if (msg_encode_frame_around(&frame, &m, left_out, &at, &err) == 0) {
        all->bytes -= e->frame.len;
        all->bytes += frame.len;
        struct buf old = e->frame;
        e->frame = frame;
        frame = old;
        e->data_at = at;
    }
    msg_finish(&m);
    e->wait_ms = 0;
}

int agent_entry_create(struct agent_entries *all, const struct msg *request,
                       struct ipc_message *message, struct agent_entry **ret, struct err *err)
{
    struct msg m = *request;
    struct agent_entry *e = alloc_one(struct agent_entry);
    m.seq = all->next_seq++;
    e->seq = m.seq;
    if (message != NULL) {
        e->data = m.start.data;
    }
    buf_init(&e->frame, LIMIT_FRAME + 4);
    int rc = msg_encode_frame_around(&e->frame, &m, message != NULL ? &m.start.data : NULL,
                                     &e->data_at, err);
    if (rc < 0) {
        agent_entry_free(e);
        return rc;
    }
    agent_question_init(&e->question, &m); /* its strings fit, since encoding has checked them */
    *ret = e;
    return 0;
}

void agent_entries_init(struct agent_entries *all)
{
    *all = (struct agent_entries){.next_seq = 1};
    all->last = &all->first;
}

int agent_entries_add(struct agent_entries *all, const struct msg *request,
                      struct ipc_message *message, struct agent_entry **ret, struct err *err)
{
    struct agent_entry *e;
    if (all->count >= ENTRIES_MAX) {
        return err_set(err, ERR_BUSY, "too many requests to the sandbox are unanswered");
    }
    int rc = agent_entry_create(all, request, message, &e, err);
    if (rc < 0) {
        return rc;
    }
    if (all->bytes + entry_bytes(e) > UNANSWERED_MAX) {
        agent_entry_free(e);
        return err_set(err, ERR_BUSY, "requests to the sandbox are too large together");
    }
    *all->last = e;
    all->last = &e->next;
    all->count++;
    all->bytes += entry_bytes(e);
    e->message = message;
    *ret = e;
    return 0;
}
