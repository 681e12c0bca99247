/*
 * Between fork and exec a child of bash still has the handlers of its parent. A SIGINT that comes
 * just then does not end the child: it makes it a second shell that reads our commands. So
 * an interrupt of a shell goes to each process of its group by itself, and one that has a handler
 * is passed over the first time it is met: it may be such a child, a moment before it becomes a
 * program. The next interrupt, if one is still needed, finds it as what it really is. A child that
 * is forked while we look is not in the list and is met the next time, too.
 *
 * The leader comes first: a shell that knows of the interrupt when the program it waits for dies
 * of it takes both for one.
 */
#include "worker/agent/interrupt.h"

#include <signal.h>

#include "worker/agent/procs.h"

/* True the first time. */
static bool spare(struct interrupt *i, pid_t pid)
{
    for (size_t k = 0; k < i->spared_count; k++) {
        if (i->spared[k] == pid) {
            return false;
        }
    }
    if (i->spared_count == INTERRUPT_SPARED_MAX) {
        i->spared_count = 0; /* long gone, most of them */
    }
    i->spared[i->spared_count++] = pid;
    return true;
}

void interrupt_group(struct interrupt *i, pid_t leader, bool careful)
{
    if (!careful) {
        if (kill(-leader, SIGINT) < 0) {
            (void)kill(leader, SIGINT); /* it has not got as far as a group of its own */
        }
        return;
    }
    struct procs all = {0};
    (void)kill(leader, SIGINT);
    procs_look(&all);
    for (size_t k = 0; k < all.count; k++) {
        const struct proc *p = &all.items[k];
        if (p->group != leader || p->pid == leader) {
            continue;
        }
        if (!proc_catches(p->pid, SIGINT) || !spare(i, p->pid)) {
            (void)kill(p->pid, SIGINT);
        }
    }
    procs_finish(&all);
}
