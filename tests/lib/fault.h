/*
 * System calls that fail when a test chooses: the n-th of its kind, with an errno of the test's.
 *
 * The linker redirects our own calls to this file (fault_dep of tests/lib/meson.build), but not
 * those of libraries; so nng and libuv do not run out of descriptors by this. Calls of every thread
 * count, because libuv's pool writes to disks.
 */
#ifndef CLOISTER_TESTS_LIB_FAULT_H
#define CLOISTER_TESTS_LIB_FAULT_H

#include <stddef.h>

enum fault_call {
    FAULT_NONE,
    FAULT_OPEN,   /* open() */
    FAULT_WRITE,  /* write(): half of it is written before it fails, as on a disk that fills up */
    FAULT_SYNC,   /* fsync() */
    FAULT_RENAME, /* rename() */
    FAULT_MKDIR,  /* mkdir() */
    FAULT_PIPE,   /* uv_pipe() */
    FAULT_SPAWN,  /* uv_spawn(), by its fork */
    FAULT_CALLS
};

/* From now on the n-th call (0 is the next) fails, and `times` calls after it. */
void fault_set(enum fault_call call, int sys, size_t nth, size_t times);

/* Stops failing. Returns how many calls have failed. */
size_t fault_end(void);

#endif
