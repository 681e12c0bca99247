/*
 * Counts the processes of this sandbox that the kernel has killed for lack of memory, by the
 * sandbox's memory cgroup. Thread: the agent has one. Nothing blocks.
 */
#ifndef CLOISTER_WORKER_AGENT_PROCESS_OOM_H
#define CLOISTER_WORKER_AGENT_PROCESS_OOM_H

#include <stdint.h>

#define OOM_CGROUPS "/sys/fs/cgroup"
#define OOM_SELF    "/proc/self/cgroup"

struct oom {
    int fd;          /* owned; -1 if there is no such file */
    uint64_t before; /* the counter at oom_open() */
};

/* Finds and opens the counter. `cgroups` is the mount point of cgroups; the file `self` lists the
 * cgroups of the process. A missing counter is no error. */
void oom_open(struct oom *o, const char *cgroups, const char *self);
void oom_close(struct oom *o);

/* Kills since oom_open(); 0 if there is no counter. */
uint64_t oom_kills(const struct oom *o);

#endif
