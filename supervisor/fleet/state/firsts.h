/*
 * The first processes of all sandboxes of an instance that ends. Thread: any; blocks for the time
 * that signalling them takes, some 0.1 ms each.
 */
#ifndef CLOISTER_SUPERVISOR_FLEET_STATE_FIRSTS_H
#define CLOISTER_SUPERVISOR_FLEET_STATE_FIRSTS_H

#include <stddef.h>

/* Marks the instance as ending (common/ending.h), then kills the first process of every sandbox
 * that has a note of it, if it is provably that one: no code of anybody runs in it any more.
 * Returns how many there were. */
size_t firsts_kill(const char *instance_dir);

#endif
