/*
 * Displays of an execution (plots, rich forms of values) and the files that it changed. They are
 * copied from the outcome, which comes from an untrusted agent, together with the bytes of small
 * files, so that they can be shown after the sandbox is gone.
 *
 * Private to the calls. Loop thread only; nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_CALLS_DISPLAYS_H
#define CLOISTER_SUPERVISOR_CALLS_DISPLAYS_H

#include <stdbool.h>

#include "supervisor/fleet/fleet.h"

struct sandbox;

/* Kept of one execution: a result shows less than a MiB. */
#define DISPLAYS_IMAGE_MAX (700u << 10)
#define DISPLAYS_LARGE     (64u << 10)  /* not read if a smaller picture exists */
#define DISPLAYS_TEXT_MAX  (128u << 10) /* of any other type */
#define DISPLAYS_MAX       (1536u << 10)
#define DISPLAYS_READ_MAX  32 /* files; each is an operation in the sandbox */

struct displays;

/* Copies what the outcome reports. Invalid parts are left out, and logged. */
struct displays *displays_create(const struct msg_output *end);

/* NULL is fine. Must not be called while it reads. */
void displays_destroy(struct displays *d);

/* Reads the small files from the sandbox, then calls `done`, later and within DISPLAYS_WAIT_MS, or
 * a bit more if the worker dies meanwhile. A file that cannot be read keeps its name only. False if
 * there is nothing to read: `done` is not called. */
#define DISPLAYS_WAIT_MS 2000
bool displays_read(struct displays *d, struct sandbox *s, void (*done)(void *arg), void *arg);

/* Sets the members of the outcome; they borrow from d. */
void displays_show(const struct displays *d, struct fleet_outcome *outcome);

/* Its size in memory. */
size_t displays_size(const struct displays *d);

#endif
