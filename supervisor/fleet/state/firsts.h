/*
 * The death of all code in an instance that ends. Thread: any; blocks for the time that signalling
 * takes, some 0.1 ms a sandbox.
 */
#ifndef CLOISTER_SUPERVISOR_FLEET_STATE_FIRSTS_H
#define CLOISTER_SUPERVISOR_FLEET_STATE_FIRSTS_H

#include <stddef.h>

/* Marks the instance as ending (common/ending.h), then kills what runs in every sandbox that has a
 * note of its first process: all of its control group, or if there is none, that process, if it is
 * provably that one. Returns how many sandboxes there were. */
size_t firsts_kill(const char *instance_dir);

#endif
