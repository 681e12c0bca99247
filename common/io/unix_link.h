/*
 * Finds the connections of a unix socket path among this process's descriptors, for a library (nng)
 * that does not expose them.
 *
 * A connected socket has the path as its own or its peer's name; `accepted` selects the end. The
 * listening socket itself is not changed. Thread: any. Nothing blocks.
 */
#ifndef CLOISTER_COMMON_IO_UNIX_LINK_H
#define CLOISTER_COMMON_IO_UNIX_LINK_H

#include <stdbool.h>

/* Shuts down every such connection in both directions, so that its owner sees a hang-up. Returns
 * their number; pending connections of the listener count as one. The number falls to 0 as the
 * owner closes them. */
int unix_link_shutdown(const char *path, bool accepted);

/* Bytes that were sent and that the other side has not read yet; -1 if unknown. */
int unix_link_unread(const char *path, bool accepted);

#endif
