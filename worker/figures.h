/*
 * The backend's figures, asked for by several at once, and what is remembered about them: how many
 * memory kills there were, and with how many of them somebody was charged. Where the backend cannot
 * count kills, the agent is asked for its count, too. Thread: the loop thread. Nothing blocks.
 */
#ifndef CLOISTER_WORKER_FIGURES_H
#define CLOISTER_WORKER_FIGURES_H

#include <stdbool.h>

#include "worker/agent_link.h"
#include "worker/backend/backend.h"

struct figures;

/* usage is borrowed; NULL if it could not be had. Its oom_kills is the higher of both counts.
 * killed: who asked is charged with a memory kill. Never called inside the call that takes it. */
typedef void (*figures_fn)(void *arg, const struct backend_usage *usage, bool killed);

/* As figures_note(). */
typedef void (*figures_noted_fn)(void *arg, const char *op, uint64_t before);

/* All three are borrowed for good. */
struct figures *figures_create(uv_loop_t *loop, struct backend *backend, struct agent_link *link);

/* Tells the figures and charges nobody. */
void figures_ask(struct figures *f, figures_fn done, void *arg);

/* The same for somebody who has been killed: was it for memory? `before` is what was noted when he
 * began. */
void figures_judge(struct figures *f, uint64_t before, figures_fn done, void *arg);

/* How many memory kills nobody is charged with now, when operation `op` begins. Where only the
 * agent knows, that is what was known last, and `done` is told better when the agent has answered:
 * it has counted before it reads what is sent to it after this call. `done` may be NULL. */
uint64_t figures_note(struct figures *f, const char *op, figures_noted_fn done, void *arg);

/* What was noted last. */
uint64_t figures_noted(const struct figures *f);

/* After the backend object is closed and agent_link_end(). Whoever still waits is told that there
 * is nothing. */
void figures_destroy(struct figures *f);

#endif
