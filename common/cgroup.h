/*
 * Killing by control group. Thread: any. Errors: none are reported, since nobody can do more about
 * them than count what was killed.
 */
#ifndef CLOISTER_COMMON_CGROUP_H
#define CLOISTER_COMMON_CGROUP_H

#include <stdbool.h>

/* Kills every process in this control group, named by its directory, and with version 2 in the
 * groups below it. False if there is no such group or nothing was in it. What is being forked at
 * this moment may be missed with version 1. */
bool cgroup_kill(const char *dir);

#endif
