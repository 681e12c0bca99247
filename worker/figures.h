/*
 * The backend's usage figures for several callers at once, and the attribution of memory kills to
 * operations. If the backend cannot count kills, the agent is asked for its count, too. Thread: the
 * loop thread. Nothing blocks.
 */
#ifndef CLOISTER_WORKER_FIGURES_H
#define CLOISTER_WORKER_FIGURES_H

#include <stdbool.h>

#include "worker/agent_link.h"
#include "worker/backend/backend.h"

struct figures;

/* usage is borrowed; NULL if it is not available. Its oom_kills is the higher of both counts.
 * killed: the caller's operation is charged with a memory kill. Never called inside the call that
 * takes it. */
typedef void (*figures_fn)(void *arg, const struct backend_usage *usage, bool killed);

/* As figures_note(). */
typedef void (*figures_noted_fn)(void *arg, const char *op, uint64_t before);

/* All three are borrowed for good. */
struct figures *figures_create(uv_loop_t *loop, struct backend *backend, struct agent_link *link);

/* Gets the figures without charging a kill. */
void figures_ask(struct figures *f, figures_fn done, void *arg);

/* The same for an operation that was killed: charges it with a memory kill if there is an uncharged
 * one. `before` is the note of its begin. */
void figures_judge(struct figures *f, uint64_t before, figures_fn done, void *arg);

/* Returns the number of uncharged memory kills at the begin of operation `op`. If only the agent
 * can count, this is the last known number, and `done` (may be NULL) gets the agent's later; the
 * agent counts before it reads requests that are sent after this call. */
uint64_t figures_note(struct figures *f, const char *op, figures_noted_fn done, void *arg);

/* What was noted last. */
uint64_t figures_noted(const struct figures *f);

/* Call it after the backend object is closed and after agent_link_end(). Waiting callers get
 * NULL. */
void figures_destroy(struct figures *f);

#endif
