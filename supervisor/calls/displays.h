/*
 * What code showed (plots, rich forms of values) and which files it changed, as its outcome tells:
 * taken over from an agent that nobody has to believe, with the bytes of what is small enough to be
 * kept, so that it can be shown when the sandbox is gone.
 *
 * Private to the calls. Loop thread only; nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_CALLS_DISPLAYS_H
#define CLOISTER_SUPERVISOR_CALLS_DISPLAYS_H

#include <stdbool.h>

#include "supervisor/fleet/fleet.h"

struct sandbox;

/* Kept of one execution: what can be shown in a result, which is less than a MiB. */
#define DISPLAYS_IMAGE_MAX (700u << 10)
#define DISPLAYS_LARGE     (64u << 10)  /* not read if it is there as a smaller picture */
#define DISPLAYS_TEXT_MAX  (128u << 10) /* of any other type */
#define DISPLAYS_MAX       (1536u << 10)
#define DISPLAYS_READ_MAX  32 /* files; each is an operation in the sandbox */

struct displays;

/* Takes over what the outcome tells. What makes no sense is left out, and logged. */
struct displays *displays_create(const struct msg_output *end);

/* NULL is fine. Not while it reads. */
void displays_destroy(struct displays *d);

/* Reads what is to be kept from the sandbox, and then calls `done`, later and within
 * DISPLAYS_WAIT_MS or a bit more if the worker dies meanwhile; what cannot be read is left a name
 * of a file. False if there is nothing to read: `done` is not called. */
#define DISPLAYS_WAIT_MS 2000
bool displays_read(struct displays *d, struct sandbox *s, void (*done)(void *arg), void *arg);

/* Sets the members of the outcome; they borrow from d. */
void displays_show(const struct displays *d, struct fleet_outcome *outcome);

/* Bytes of memory. */
size_t displays_size(const struct displays *d);

#endif
