/*
 * An entry keeps its encoded frame, so that it can be written to any number of streams. When a
 * START or WAIT is written again, its wait time is set to 0: the answer then gives the operation's
 * current state at once, which may have been lost with the old stream, and the caller waits again.
 */
#include "worker/agent_entry.h"

#include <assert.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "proto/codec.h"

#define UNANSWERED_MAX (2u * LIMIT_FRAME) /* bytes of requests kept */
#define ENTRIES_MAX    512u               /* requests kept */

void agent_entry_free(struct agent_entry *e)
{
    e->answered = true;
    if (!e->writing) {
        buf_finish(&e->frame);
        free(e);
    }
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
            all->bytes -= e->frame.len;
            return e;
        }
    }
    return NULL;
}

void agent_entry_write(struct agent_entry *e, uv_stream_t *stream)
{
    uv_buf_t out = uv_buf_init((char *)e->frame.data, (unsigned)e->frame.len);
    int sent = uv_try_write(stream, &out, 1);
    if (sent < 0) {
        sent = 0; /* full, or broken, which the read side reports */
    }
    if ((size_t)sent == e->frame.len) {
        return;
    }
    out.base += sent;
    out.len -= (size_t)sent;
    e->write.data = e;
    e->writing = uv_write(&e->write, stream, &out, 1, on_written) == 0;
}

void agent_entry_refresh(struct agent_entries *all, struct agent_entry *e)
{
    struct msg m;
    struct err err = ERR_INIT;
    if (e->question.type != MSG_START && e->question.type != MSG_WAIT) {
        return;
    }
    if (msg_decode(MSG_LINK_A, e->frame.data + 4, e->frame.len - 4, &m, &err) < 0) {
        assert(false && "our own frame does not decode");
        return;
    }
    *(e->question.type == MSG_START ? &m.start.wait_ms : &m.wait.wait_ms) = 0;
    struct buf frame;
    buf_init(&frame, LIMIT_FRAME + 4);
    if (msg_encode_frame(&frame, &m, &err) == 0) {
        all->bytes -= e->frame.len;
        all->bytes += frame.len;
        struct buf old = e->frame;
        e->frame = frame;
        frame = old;
    }
    msg_finish(&m);
    buf_finish(&frame);
    e->wait_ms = 0;
}

int agent_entry_create(struct agent_entries *all, const struct msg *request,
                       struct agent_entry **ret, struct err *err)
{
    struct msg m = *request;
    struct agent_entry *e = alloc_one(struct agent_entry);
    m.seq = all->next_seq++;
    e->seq = m.seq;
    buf_init(&e->frame, LIMIT_FRAME + 4);
    int rc = msg_encode_frame(&e->frame, &m, err);
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
                      struct agent_entry **ret, struct err *err)
{
    struct agent_entry *e;
    if (all->count >= ENTRIES_MAX) {
        return err_set(err, ERR_BUSY, "too many requests to the sandbox are unanswered");
    }
    int rc = agent_entry_create(all, request, &e, err);
    if (rc < 0) {
        return rc;
    }
    if (all->bytes + e->frame.len > UNANSWERED_MAX) {
        agent_entry_free(e);
        return err_set(err, ERR_BUSY, "requests to the sandbox are too large together");
    }
    *all->last = e;
    all->last = &e->next;
    all->count++;
    all->bytes += e->frame.len;
    *ret = e;
    return 0;
}
