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
    struct agent_question question; /* the question, against which the answer is checked */
    uint64_t seq;
    struct buf frame;            /* without the data of a START … */
    size_t data_at;              /* … which belongs here */
    struct view data;            /* in the message */
    struct ipc_message *message; /* owned; NULL: the frame is whole */
    /* Set by the link: the timeout of the answer, the wait time of the request itself, and the
     * callback. */
    uint64_t due_ms;
    uint64_t wait_ms;
    agent_reply_fn done;
    void *arg;
    uv_write_t write;
    bool writing;  /* libuv still holds frame and message */
    bool answered; /* off the list; freed when libuv has released them */
};

struct agent_entries {
    struct agent_entry *first;
    struct agent_entry **last;
    size_t count, bytes;
    uint64_t next_seq;
};

void agent_entries_init(struct agent_entries *all);

/* Appends an entry with the next number, owned by the list. `message`, if not NULL, is what a START
 * was decoded from: on success the entry owns it. -ERR_BUSY if there are too many, or all together
 * are too large. */
int agent_entries_add(struct agent_entries *all, const struct msg *request,
                      struct ipc_message *message, struct agent_entry **ret,
                      struct err *err) WARN_UNUSED;

/* Removes the entry of that number from the list; the caller frees it. NULL if there is none. */
struct agent_entry *agent_entries_take(struct agent_entries *all, uint64_t seq);

/* The same without the list: the caller's to free, and the message still the caller's. */
int agent_entry_create(struct agent_entries *all, const struct msg *request,
                       struct ipc_message *message, struct agent_entry **ret,
                       struct err *err) WARN_UNUSED;

/* Writes the entry to the stream. Failures are not reported here, because reading the stream
 * reports them. */
void agent_entry_write(struct agent_entry *e, uv_stream_t *stream);

/* Prepares an entry of the list for being sent again: the same request with a wait time of 0. */
void agent_entry_refresh(struct agent_entries *all, struct agent_entry *e);

/* Frees an entry that is off the list, at once or when libuv has released the frame. */
void agent_entry_free(struct agent_entry *e);

#endif
