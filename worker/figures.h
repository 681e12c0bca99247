/*
 * The backend's figures, asked for by several at once, and the one thing that is remembered about
 * them: how many memory kills were known already. Where the backend cannot count kills, the agent
 * is asked for its count, too. Thread: the loop thread. Nothing blocks. Callbacks never run inside
 * the call that takes them.
 */
#ifndef CLOISTER_WORKER_FIGURES_H
#define CLOISTER_WORKER_FIGURES_H

#include <stdbool.h>

#include "worker/agent_link.h"
#include "worker/backend/backend.h"

struct figures;

/* usage is borrowed; NULL if it could not be had. Its oom_kills is the higher of both counts.
 * killed: something in the sandbox was killed for memory since the last time somebody was told so.
 */
typedef void (*figures_fn)(void *arg, const struct backend_usage *usage, bool killed);

/* All three are borrowed for good. */
struct figures *figures_create(uv_loop_t *loop, struct backend *backend, struct agent_link *link);

/* `look`: this caller takes note of memory kills; others do not use up the news. */
void figures_ask(struct figures *f, bool look, figures_fn done, void *arg);

/* After the backend object is closed and agent_link_end(). Whoever still waits is told that there
 * is nothing. */
void figures_destroy(struct figures *f);

#endif
