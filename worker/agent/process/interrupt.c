/*
 * A shell that waits for a program forgets a SIGINT unless the program dies of it. A SIGINT that
 * comes when the program is just ending is lost, and the list goes on with its next command. A trap
 * is not forgotten: it runs before the next command. So a shell gets INTERRUPT_NOTICE as well, and
 * its trap for that signal (drivers/bash.sh) interrupts it while it waits for nothing.
 *
 * Bash has a bug there: a trap that runs when bash has just begun to parse a $( ends in a syntax
 * error. A pending SIGINT prevents that, because bash handles it when it reads the trap's first
 * line. So the shell is stopped while both signals are sent, and receives both.
 *
 * Between fork and exec a child of bash still has its parent's handlers. A SIGINT at that moment
 * does not end the child but makes it a second shell that reads our commands. So each process is
 * signalled by itself. Below a shell, a process with a handler and the command line of the shell is
 * skipped the first time it is met, since it may be such a child. The next interrupt, if one is
 * needed, finds what it has become. A child that is forked during the look at /proc is met the next
 * time, too.
 *
 * Bash has a worse bug: after a SIGINT in the moment in which it changes its handler, to wait for a
 * program, it sends itself that signal for ever. The notice alone is enough then: the program dies
 * of its own SIGINT, and a trap ends the builtin `wait`. So a shell with programs gets SIGINT only
 * from the second interrupt on.
 *
 * The leader is signalled first, so that a shell knows of the interrupt when its program dies of
 * it, and takes both for one event.
 *
 * Subshells lose SIGINTs in the same way and do not have our trap. A subshell that was skipped
 * once, got two SIGINTs and still exists gets SIGTERM, which a shell does not defer.
 *
 * The start time of a process decides whether it is interrupted, not its process group: processes
 * that earlier runs left running are spared, and a program in its own group (timeout, setsid) may
 * be what the shell waits for.
 */
#include "worker/agent/process/interrupt.h"

#include <unistd.h>

/* Counts and returns the interrupts in which this process was met, including this one. */
static unsigned meet(struct interrupt *i, pid_t pid)
{
    for (size_t k = 0; k < i->known_count; k++) {
        if (i->known[k].pid == pid) {
            return ++i->known[k].met;
        }
    }
    if (i->known_count == INTERRUPT_KNOWN_MAX) {
        i->known_count = 0; /* most of them have ended long ago */
    }
    i->known[i->known_count].pid = pid;
    i->known[i->known_count].met = 1;
    i->known_count++;
    return 1;
}

/* True if the process is to be skipped this time. Ends one that has outlived enough interrupts. */
static bool may_be_shell(struct interrupt *i, pid_t leader, pid_t pid)
{
    unsigned met = proc_catches(pid, SIGINT) ? meet(i, pid) : 0;
    if (met > 3 && procs_same_program(pid, leader)) {
        (void)kill(pid, SIGTERM);
    }
    return met == 1 && procs_same_words(pid, leader);
}

static bool has_programs(gid_t mark, pid_t leader, const struct procs_moment *since)
{
    struct procs all = {0};
    bool any = false;
    procs_look(&all, mark);
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
    if (by != INTERRUPT_NOTICE_TO_SHELL || again || !has_programs(i->mark, leader, since)) {
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
        /* catching this signal is the last step of its start */
        i->leader_is_up = proc_catches(leader, INTERRUPT_NOTICE);
        if (!i->leader_is_up) {
            return false;
        }
    }
    interrupt_leader(i, leader, since, by);
    procs_look(&all, i->mark);
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
