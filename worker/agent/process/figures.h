/*
 * CPU time and peak memory of a running interpreter, from /proc and its CPU clock. Figures that
 * cannot be had are 0. Thread: the agent has one. Nothing blocks.
 */
#ifndef CLOISTER_WORKER_AGENT_PROCESS_FIGURES_H
#define CLOISTER_WORKER_AGENT_PROCESS_FIGURES_H

#include <stdint.h>
#include <sys/types.h>

#include "worker/agent/process/spawn.h"

struct figures {
    pid_t pid;
    int stat_fd, status_fd, clear_fd; /* owned; -1 if not open */
};

void figures_init(struct figures *f);
void figures_finish(struct figures *f);

/* Opens the files of a process. May be repeated until all are open. */
void figures_open(struct figures *f, pid_t pid, const struct spawn_config *c);

/* CPU time of the process since its start, with the children that it has waited for. */
uint64_t figures_cpu_us(const struct figures *f);

/* Peak resident memory since the last figures_reset_peak(). */
uint64_t figures_peak_kb(const struct figures *f);
void figures_reset_peak(const struct figures *f);

#endif
