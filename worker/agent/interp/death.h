/*
 * What runs are told of the end of their interpreter.
 *
 * Thread: the agent has one. Nothing blocks.
 */
#ifndef CLOISTER_WORKER_AGENT_INTERP_DEATH_H
#define CLOISTER_WORKER_AGENT_INTERP_DEATH_H

#include "worker/agent/interp/interp.h"

/* It has ended in the middle of this run: adds the reason to the outcome's message. */
void death_tell(const struct interp *i, struct op *op);

/* It has ended between two runs: keeps the reason for the next. That it was killed from outside is
 * no news to those who did it. */
void death_note_loss(struct interp *i);

/* Puts that reason on the stderr of the run that begins, once. */
void death_tell_loss(struct interp *i, struct op *op);

#endif
