/*
 * How much of the time that another process takes is its own: what counts against it is time in
 * which it had a CPU, or slept by its own will; not that in which it waited for a CPU or a disk,
 * and not that by which we ourselves were late.
 *
 * A limit for what another process has to do is measured by this, so that a busy machine is not
 * taken for a fault. Whoever waits also has a limit by the clock, because a disk may be gone for
 * good.
 *
 * The calling thread is left out: it runs while it looks.
 *
 * Thread: any. Reads small files of /proc: some dozens of microseconds, with `family` a few
 * milliseconds where there are hundreds of processes. Where there is no /proc all time counts but
 * our own lateness.
 */
#ifndef CLOISTER_COMMON_KERNEL_WAITED_H
#define CLOISTER_COMMON_KERNEL_WAITED_H

#include <stdbool.h>
#include <stdint.h>

struct waited {
    const char *fs_root; /* "" for the real system; tests point it at canned files */
    int pid;
    bool family; /* its descendants, too */
    uint64_t looked_ms;
    uint64_t counted_ms;
    uint64_t worked_ms; /* how long its main thread has run since the begin */
    /* ---- of its threads, at the last look ---- */
    uint64_t ran_ns, delayed_ns, main_ran_ns;
    bool waits; /* one of them for a CPU or a disk */
};

/* Begins at now_ms, of any clock in milliseconds. Descendants are looked at from the first look on.
 */
void waited_begin(struct waited *w, const char *fs_root, int pid, bool family, uint64_t now_ms);

/* Looks once more; to be called every period_ms, and what comes later than that is our own
 * lateness. Returns the time that counts against the process since the begin. */
uint64_t waited_look(struct waited *w, uint64_t now_ms, uint64_t period_ms);

#endif
