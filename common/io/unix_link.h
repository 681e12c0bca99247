/*
 * The connections of a unix socket path, found among this process's own descriptors: for a library
 * that holds the descriptors and does not hand them out.
 *
 * A connected socket knows the name of the path it was connected by; `accepted` tells which end is
 * meant. The listening socket itself is only looked at. Thread: any. Nothing blocks.
 */
#ifndef CLOISTER_COMMON_IO_UNIX_LINK_H
#define CLOISTER_COMMON_IO_UNIX_LINK_H

#include <stdbool.h>

/* Shuts every such connection down, both ways: its owner sees the other side hang up. Returns how
 * many there are, what waits to be accepted counting as one: it goes down to 0 as their owner
 * closes them. */
int unix_link_shutdown(const char *path, bool accepted);

/* Bytes that were sent and not read by the other side yet; -1 if that cannot be told. */
int unix_link_unread(const char *path, bool accepted);

#endif
