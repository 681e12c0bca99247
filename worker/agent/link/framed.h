/*
 * A list of encoded messages that will be sent as a field of another message. Each is preceded by
 * its length. Thread: none of its own. Nothing blocks.
 */
#ifndef CLOISTER_WORKER_AGENT_LINK_FRAMED_H
#define CLOISTER_WORKER_AGENT_LINK_FRAMED_H

#include "common/buf.h"
#include "common/err.h"
#include "proto/msg.h"

struct framed {
    struct buf bytes; /* its cap is set by framed_init() */
    size_t count;
};

void framed_init(struct framed *f, size_t max_bytes);

/* Frees the content; *f is empty then and may be used again. */
void framed_finish(struct framed *f);

/* Adds a message, or one that is encoded already. *f is unchanged on failure. */
int framed_add(struct framed *f, const struct msg *m, struct err *err) WARN_UNUSED;
int framed_add_item(struct framed *f, struct view item, struct err *err) WARN_UNUSED;

/* Its items, at most `max`, in ret_items[]; they and the list are borrowed until the next change of
 * *f. */
struct view_list framed_list(const struct framed *f, struct view *ret_items, size_t max);

#endif
