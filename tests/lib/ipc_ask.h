/*
 * For tests: a request of plain bytes.
 */
#ifndef CLOISTER_TESTS_LIB_IPC_ASK_H
#define CLOISTER_TESTS_LIB_IPC_ASK_H

#include "common/io/ipc.h"
#include "common/view.h"

static inline int ipc_write_bytes(const void *what, struct buf *room, struct err *err)
{
    const struct view *bytes = what;
    return buf_add(room, bytes->data, bytes->len, err);
}

static inline int ipc_ask_bytes(struct ipc_client *c, const void *data, size_t len,
                                uint64_t timeout_ms, ipc_reply_fn done, void *arg, struct err *err)
{
    struct view bytes = view_bytes(data, len);
    return ipc_client_ask(c, len, ipc_write_bytes, &bytes, timeout_ms, done, arg, err);
}

#endif
