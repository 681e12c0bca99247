/*
 * Kills all code in an instance that ends. Thread: any; blocks while it signals, some 0.1 ms a
 * sandbox.
 */
#ifndef CLOISTER_SUPERVISOR_FLEET_STATE_FIRSTS_H
#define CLOISTER_SUPERVISOR_FLEET_STATE_FIRSTS_H

#include <stddef.h>

/* Marks the instance as ending (common/ending.h), then kills everything that runs in each sandbox
 * with a note of its first process: its whole control group, or without one that process, if it is
 * provably the noted one. Returns the number of sandboxes. */
size_t firsts_kill(const char *instance_dir);

#endif
