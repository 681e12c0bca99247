/*
 * Namespaces of a sandbox's processes, for what runs on the host (`within`, `limit`).
 *
 * Thread: the only one, since a process with more cannot enter a user namespace. Nothing blocks.
 */
#ifndef CLOISTER_WORKER_AGENT_PROCESS_NAMESPACE_H
#define CLOISTER_WORKER_AGENT_PROCESS_NAMESPACE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"

/* Opens a namespace of a process: "user", "ipc". *ret_own: it is the one that we are in. The caller
 * closes *ret_fd. */
int namespace_open(uint64_t pid, const char *kind, int *ret_fd, bool *ret_own,
                   struct err *err) WARN_UNUSED;

/* Enters a user namespace as its root. The ids of before have no meaning there and are given up,
 * groups included; with `keep_groups` those stay where the namespace lets nobody change them, as
 * one with a single id does that an ordinary user has made. */
int namespace_enter_user(int fd, bool keep_groups, struct err *err) WARN_UNUSED;

#endif
