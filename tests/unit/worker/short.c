/*
 * Makes a worker one in need: linked into its program, it lets an allocation or a system call of
 * the worker's thread fail, as the environment says, and notes at the exit whether one did.
 *
 *     WORKER_SHORT       "heap N", or "CALL SYS N": a number of fault.h, an errno, and which one
 *     WORKER_SHORT_NOTE  file that is made at the exit: "1" if there was a failure, else "0"
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/lib/fault.h"
#include "tests/lib/heap.h"

__attribute__((constructor)) static void begin_need(void)
{
    const char *order = getenv("WORKER_SHORT");
    size_t nth = 0;
    unsigned call = 0;
    int sys = 0;
    if (order != NULL && sscanf(order, "heap %zu", &nth) == 1) {
        heap_fail(nth);
    } else if (order != NULL && sscanf(order, "%u %d %zu", &call, &sys, &nth) == 3) {
        fault_set((enum fault_call)call, sys, nth, 1);
    }
}

__attribute__((destructor)) static void note_need(void)
{
    const char *note = getenv("WORKER_SHORT_NOTE");
    heap_end();
    bool failed = fault_end() > 0 || heap_failed();
    int fd = note != NULL ? open(note, O_WRONLY | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (fd >= 0) {
        (void)!write(fd, failed ? "1" : "0", 1);
        close(fd);
    }
}
