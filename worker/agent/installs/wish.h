/*
 * What code in the sandbox says when it wants packages: a manager ("pip" or "npm") and packages,
 * each word with a NUL behind it, and an empty word at the end. Whoever speaks may be any process
 * of the sandbox, so this is read as hostile input.
 *
 * Thread: the agent has one. Nothing blocks.
 */
#ifndef CLOISTER_WORKER_AGENT_INSTALLS_WISH_H
#define CLOISTER_WORKER_AGENT_INSTALLS_WISH_H

#include <stdbool.h>
#include <stddef.h>

#include "common/buf.h"
#include "common/err.h"
#include "proto/limits.h"
#include "proto/msg.h"

/* A manager and the most packages, each with its NUL, and the empty word. */
#define WISH_BYTES ((1 + LIMIT_INSTALL_WORDS) * (LIMIT_INSTALL_WORD + 1) + 1)

struct wish {
    struct buf text;
    size_t from; /* where the word begins that is not whole yet */
    size_t words;
    bool whole;
};

void wish_init(struct wish *w);
void wish_finish(struct wish *w);

/* Takes bytes in pieces of any size: 1 when the wish is whole, 0 if more is to come, -ERR_INVALID
 * for what is no wish, or when anything comes after its end; -ERR_NO_MEMORY. */
int wish_feed(struct wish *w, const void *data, size_t len, struct err *err) WARN_UNUSED;

/* A whole wish as the message INSTALL, encoded. -ERR_INVALID if it names nothing that could be a
 * package; err is for whoever spoke. */
int wish_encode(const struct wish *w, uint32_t id, struct buf *out, struct err *err) WARN_UNUSED;

#endif
