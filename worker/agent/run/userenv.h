/*
 * The environment that all of the user's processes start with, whatever they are written in.
 * Thread: the agent has one. Nothing blocks.
 */
#ifndef CLOISTER_WORKER_AGENT_RUN_USERENV_H
#define CLOISTER_WORKER_AGENT_RUN_USERENV_H

#include <stdbool.h>

#include "common/err.h"

/* Completes the agent's own environment, which they inherit: HOME from `home` (NULL: unchanged),
 * and search paths for the packages below the directory `packages` (NULL: none). Existing entries
 * of a search path come first, except for Python, whose packages must replace those of the
 * image. */
int userenv_set(const char *home, const char *packages, struct err *err) WARN_UNUSED;

/* Adds the directory `dir` with `below` behind it to a variable like PATH, as the first entry or
 * the last; `otherwise` is the variable's value if it has none. */
int userenv_add(const char *name, const char *dir, const char *below, bool first,
                const char *otherwise, struct err *err) WARN_UNUSED;

#endif
