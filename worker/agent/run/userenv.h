/*
 * The environment that all of the user's processes start with, whatever they are written in.
 * Thread: the agent has one. Nothing blocks.
 */
#ifndef CLOISTER_WORKER_AGENT_RUN_USERENV_H
#define CLOISTER_WORKER_AGENT_RUN_USERENV_H

#include "common/err.h"

/* Completes our own environment, which they inherit: `home` (NULL: as it is), and where the
 * packages below the directory `packages` are found (NULL: there are none). What is set already
 * goes first, but for Python packages, which have to replace those of the image. */
int userenv_set(const char *home, const char *packages, struct err *err) WARN_UNUSED;

#endif
