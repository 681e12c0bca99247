/*
 * Checks whether this process can start threads.
 *
 * nng and libuv start threads at first use and cannot handle a refusal: nng crashes or hangs, libuv
 * aborts. So a program checks here before their first use, and gets an error that it can report.
 */
#ifndef CLOISTER_COMMON_IO_THREADS_H
#define CLOISTER_COMMON_IO_THREADS_H

#include "common/err.h"

/* The number of threads that nng (two per CPU for tasks, a few for names, polling and timers) and
 * libuv (four) start on this machine, with some reserve. */
unsigned threads_needed(void);

/* Starts `count` threads that do nothing and ends them again, which takes about 20 us each.
 * -ERR_NO_MEMORY if the system refuses one. Blocks for that long; any thread. */
int threads_check(unsigned count, struct err *err) WARN_UNUSED;

#endif
