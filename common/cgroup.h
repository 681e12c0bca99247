/*
 * Killing by control group. Thread: any. Errors are not reported, because no caller could act on
 * them.
 */
#ifndef CLOISTER_COMMON_CGROUP_H
#define CLOISTER_COMMON_CGROUP_H

#include <stdbool.h>

/* Kills every process in the control group with this directory, and with version 2 in the groups
 * below it. False if there is no such group or it was empty. With version 1 a process that is being
 * forked may be missed. */
bool cgroup_kill(const char *dir);

#endif
