/*
 * System calls that fail when a test says so: the n-th of its kind, with an errno of the test's.
 *
 * It works by the linker (fault_dep of tests/lib/meson.build): our own calls come here, those of
 * libraries do not; so descriptors of nng's and libuv's own do not run out by this. Calls of every
 * thread count, as disks are written to by libuv's pool.
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
    FAULT_SPAWN,  /* uv_spawn(): of the fork in it */
    FAULT_CALLS
};

/* From now on the n-th call (0 is the next) fails, and with `times` as many behind it. */
void fault_set(enum fault_call call, int sys, size_t nth, size_t times);

/* Ends that. Returns how many have failed. */
size_t fault_end(void);

#endif
