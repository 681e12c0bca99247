/*
 * A look ahead: can this process still start threads?
 *
 * nng and libuv start theirs on first use and have no way back when the system refuses one: the
 * one crashes or hangs, the other aborts. So whoever is about to use them for the first time asks
 * here first and gets an error that can be reported.
 */
#ifndef CLOISTER_COMMON_IO_THREADS_H
#define CLOISTER_COMMON_IO_THREADS_H

#include "common/err.h"

/* As many as nng (two per CPU for tasks, and a few for names, polling and timers) and libuv (four)
 * start on this machine, with room. */
unsigned threads_needed(void);

/* Starts `count` threads that do nothing and ends them again, which takes about 20 us each.
 * -ERR_NO_MEMORY if the system refuses one. Blocks for that long; any thread. */
int threads_check(unsigned count, struct err *err) WARN_UNUSED;

#endif
