/*
 * Ceilings: the most that a client may ask for one sandbox, and the memory of all sandboxes
 * together. Those that the operator has not chosen follow from this machine.
 *
 * Thread: any. Only ceilings_machine() blocks, for reading small files.
 */
#ifndef CLOISTER_SUPERVISOR_BASE_CEILINGS_H
#define CLOISTER_SUPERVISOR_BASE_CEILINGS_H

#include <stdint.h>

#include "common/err.h"

struct config;

/* What there is of it; 0: unknown. */
struct ceilings_machine {
    uint64_t memory_mb;
    uint64_t cpu_milli;
};

/* This machine, or the container in which we are, if that has less memory. */
struct ceilings_machine ceilings_machine(void);

/* Replaces the zeros of the configuration's ceilings and budget by what the machine has, but never
 * by less than a sandbox gets that asks for nothing. -ERR_CONFIG if what the operator has chosen
 * does not go together. */
int ceilings_settle(struct config *c, const struct ceilings_machine *machine,
                    struct err *err) WARN_UNUSED;

/* What a client asks for one sandbox, any numbers; zero: the default. */
struct ceilings_asked {
    double memory_mb, cpus, pids, disk_mb;
};

/* -ERR_INVALID if that is more than a ceiling; names the argument, the ceiling and the option. */
int ceilings_check(const struct config *c, const struct ceilings_asked *asked,
                   struct err *err) WARN_UNUSED;

#endif
