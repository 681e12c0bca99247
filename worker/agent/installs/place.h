/*
 * The directory in which code finds `pip` and `npm`, and by it the agent:
 *
 *     bin/pip, bin/pip3, bin/npm   this program under other names (front.c); first in PATH
 *     python/pip/                  `python -m pip` (drivers/pip_front.py); first in PYTHONPATH
 *     socket                       where they connect
 *
 * Thread: the agent has one, which has no children yet. Nothing blocks.
 */
#ifndef CLOISTER_WORKER_AGENT_INSTALLS_PLACE_H
#define CLOISTER_WORKER_AGENT_INSTALLS_PLACE_H

#include "common/err.h"
#include "worker/agent/process/spawn.h"

/* In the environment of user code: the path of the socket, or PLACE_OFF, or PLACE_REAL for a
 * program that must not lead here again. */
#define PLACE_VARIABLE "CLOISTER_INSTALLS"
#define PLACE_OFF      "off"
#define PLACE_REAL     "real"

/* Makes it in `dir`, whose parent exists, and completes the environment that user code inherits.
 * *ret_fd is the socket, owned by the caller; -1 unless `on`: then nobody installs packages, and
 * `pip` says so. After an error nobody is led there. */
int place_open(const char *dir, const struct spawn_config *spawn, bool on, int *ret_fd,
               struct err *err) WARN_UNUSED;

#endif
