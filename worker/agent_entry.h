/*
 * The requests to an agent that have no answer yet, in the order in which they were made. They
 * belong to the link (agent_link.h), which knows the stream. Thread: the loop's. Nothing blocks.
 */
#ifndef CLOISTER_WORKER_AGENT_ENTRY_H
#define CLOISTER_WORKER_AGENT_ENTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "common/buf.h"
#include "common/err.h"
#include "proto/msg.h"
#include "worker/agent_link.h"
#include "worker/agent_reply.h"

struct agent_entry {
    struct agent_entry *next;
    struct agent_question question; /* what an answer has to fit */
    uint64_t seq;
    struct buf frame;
    /* The link's: when the answer is overdue, how much of that the request itself allows, and who
     * is told. */
    uint64_t due_ms;
    uint64_t wait_ms;
    agent_reply_fn done;
    void *arg;
    uv_write_t write;
    bool writing;  /* libuv still holds the frame */
    bool answered; /* off the list; freed as soon as libuv lets go */
};

struct agent_entries {
    struct agent_entry *first;
    struct agent_entry **last;
    size_t count, bytes;
    uint64_t next_seq;
};

void agent_entries_init(struct agent_entries *all);

/* Makes an entry with the next number, and puts it at the end. The list owns it. -ERR_BUSY: too
 * many, or too large together. */
int agent_entries_add(struct agent_entries *all, const struct msg *request,
                      struct agent_entry **ret, struct err *err) WARN_UNUSED;

/* The entry of that number, off the list and the caller's to free; NULL if there is none. */
struct agent_entry *agent_entries_take(struct agent_entries *all, uint64_t seq);

/* The same as agent_entries_add() without the list: the caller's to free. */
int agent_entry_create(struct agent_entries *all, const struct msg *request,
                       struct agent_entry **ret, struct err *err) WARN_UNUSED;

/* Sends it. That it cannot be sent is no error here: whoever reads the stream learns of that. */
void agent_entry_write(struct agent_entry *e, uv_stream_t *stream);

/* For a second sending of one that is on the list: the same request, with nothing to wait for. */
void agent_entry_refresh(struct agent_entries *all, struct agent_entry *e);

/* At once, or when libuv lets go of the frame. It must be off the list. */
void agent_entry_free(struct agent_entry *e);

#endif
