/*
 * A shell that waits for a program forgets a SIGINT unless the program dies of it: one that comes
 * when the program is just ending is lost, and the list goes on with its next command. A trap is
 * not forgotten, it runs before the next command; so a shell gets INTERRUPT_NOTICE as well, and its
 * trap for that (drivers/bash.sh) interrupts it where nothing is waited for.
 *
 * Bash has a fault there: a trap that runs when it has just begun to parse a $( ends in a syntax
 * error. A SIGINT at the same time prevents that, since reading the trap's first line heeds it. So
 * the shell is stopped for as long as it takes to send both, and finds both.
 *
 * Between fork and exec a child of bash still has the handlers of its parent. A SIGINT that comes
 * just then does not end the child: it makes it a second shell that reads our commands. So an
 * interrupt goes to each process by itself, and below a shell one that has a handler and the very
 * command line of the shell is passed over the first time it is met: it may be such a child, a
 * moment before it becomes a program. The next interrupt, if one is still needed, finds it as what
 * it really is. A child that is forked while we look is not in the list and is met the next time,
 * too.
 *
 * And it has a worse one: a SIGINT that comes in the very moment in which it changes its handler,
 * to wait for a program, has it send itself that signal for ever. But then the notice is enough:
 * the program dies of its own SIGINT, and a trap ends the builtin `wait`. So a shell that has
 * programs gets the SIGINT only when it is interrupted again.
 *
 * The leader comes first: a shell that knows of the interrupt when the program it waits for dies
 * of it takes both for one.
 *
 * Subshells lose SIGINTs in the same way and have no trap of ours. One that has been met, has been
 * sent two and is met once more gets SIGTERM, which a shell does not put off.
 *
 * Who is interrupted is told by when it was started, not by its group: what an earlier run has left
 * running has no part in this, but a program in a group of its own (timeout, setsid) may be what
 * the shell waits for.
 */
#include "worker/agent/process/interrupt.h"

#include <unistd.h>

/* In how many interrupts this one has been met, the present one included. */
static unsigned meet(struct interrupt *i, pid_t pid)
{
    for (size_t k = 0; k < i->known_count; k++) {
        if (i->known[k].pid == pid) {
            return ++i->known[k].met;
        }
    }
    if (i->known_count == INTERRUPT_KNOWN_MAX) {
        i->known_count = 0; /* long gone, most of them */
    }
    i->known[i->known_count].pid = pid;
    i->known[i->known_count].met = 1;
    i->known_count++;
    return 1;
}

/* True if it is better passed over this time. One that has outlived enough is told to end. */
static bool may_be_shell(struct interrupt *i, pid_t leader, pid_t pid)
{
    unsigned met = proc_catches(pid, SIGINT) ? meet(i, pid) : 0;
    if (met > 3 && procs_same_program(pid, leader)) {
        (void)kill(pid, SIGTERM);
    }
    return met == 1 && procs_same_words(pid, leader);
}

static bool has_programs(pid_t leader, const struct procs_moment *since)
{
    struct procs all = {0};
    bool any = false;
    procs_look(&all);
    procs_mark(&all, getpid(), leader, since);
    for (size_t k = 0; k < all.count; k++) {
        any = any || (all.items[k].below && all.items[k].parent == leader);
    }
    procs_finish(&all);
    return any;
}

static void interrupt_leader(struct interrupt *i, pid_t leader, const struct procs_moment *since,
                             enum interrupt_by by)
{
    bool again = i->since.ticks == since->ticks && i->since.last_pid == since->last_pid;
    i->since = *since;
    if (by != INTERRUPT_BY_SIGNAL) {
        (void)kill(leader, SIGSTOP);
        (void)kill(leader, INTERRUPT_NOTICE);
    }
    if (by != INTERRUPT_NOTICE_TO_SHELL || again || !has_programs(leader, since)) {
        (void)kill(leader, SIGINT);
    }
    (void)kill(leader, SIGCONT);
}

bool interrupt_run(struct interrupt *i, pid_t leader, const struct procs_moment *since,
                   enum interrupt_by by)
{
    struct procs all = {0};
    bool careful = by != INTERRUPT_BY_SIGNAL;
    if (careful && !i->leader_is_up) {
        /* it catches this one only when it has done all else that it does to start */
        i->leader_is_up = proc_catches(leader, INTERRUPT_NOTICE);
        if (!i->leader_is_up) {
            return false;
        }
    }
    interrupt_leader(i, leader, since, by);
    procs_look(&all);
    procs_mark(&all, getpid(), leader, since);
    for (size_t k = 0; k < all.count; k++) {
        const struct proc *p = &all.items[k];
        if (p->below && (!careful || !may_be_shell(i, leader, p->pid))) {
            (void)kill(p->pid, SIGINT);
            (void)kill(p->pid, SIGCONT);
        }
    }
    procs_finish(&all);
    return true;
}
