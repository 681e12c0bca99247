/*
 * How often the kernel has killed something in this sandbox for memory, as its own memory cgroup
 * counts. Thread: the agent has one. Nothing blocks.
 */
#ifndef CLOISTER_WORKER_AGENT_PROCESS_OOM_H
#define CLOISTER_WORKER_AGENT_PROCESS_OOM_H

#include <stdint.h>

#define OOM_CGROUPS "/sys/fs/cgroup"
#define OOM_SELF    "/proc/self/cgroup"

struct oom {
    int fd;          /* owned; -1 if there is no such file */
    uint64_t before; /* kills that were counted at the start */
};

/* Finds the counter below `cgroups`, the place where cgroups are mounted, for a process whose
 * cgroups the file `self` lists, and keeps it open. That there is none is no error. */
void oom_open(struct oom *o, const char *cgroups, const char *self);
void oom_close(struct oom *o);

/* Kills since oom_open(); 0 if nobody counts them here. */
uint64_t oom_kills(const struct oom *o);

#endif
