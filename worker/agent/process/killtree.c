/*
 * Processes can fork faster than they are killed one by one. So a round first stops every
 * descendant that it sees, and kills only when it meets no new one: a stopped process does not
 * fork, and does not make room for forks of others by dying. Children of a killed process become
 * ours, because we are a subreaper, so the next round still sees them.
 *
 * Where stopping harms others (gVisor), each round kills what it sees.
 *
 * User code may continue stopped processes. So after STOP_ROUNDS the rounds kill all that they see.
 * After KILL_ROUNDS, if the caller allows it, a process of the sandbox user sends kill(-1,
 * SIGKILL), which the kernel does in one step that no fork escapes. That kills all other processes
 * of the user as well, other live interpreters included, which then report a crash. It is only done
 * in a pid namespace of our own.
 *
 * A look at /proc can miss processes: in a chain in which each process starts the next one and
 * exits, it may list only processes that are dead when it reads them. killtree_descendants() need
 * not care, because the kernel tells when no child is left. killtree_since() trusts an empty look
 * only if no pid was allocated meanwhile, or if none of our children has died: the dead of such a
 * chain become our children and can be reaped. If other processes in the sandbox keep starting, it
 * looks again a few times and then stops.
 */
#include "worker/agent/process/killtree.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "worker/agent/process/procs.h"

#define STOP_ROUNDS  30
#define KILL_ROUNDS  200
#define MORE_ROUNDS  2000
#define PAUSE_MS     1
#define UNSURE_LOOKS 5 /* empty looks that are repeated because a pid was allocated */

static bool was_stopped(const struct procs *before, pid_t pid)
{
    for (size_t i = 0; i < before->count; i++) {
        if (before->items[i].pid == pid) {
            return before->items[i].stopped;
        }
    }
    return false;
}

/* The processes to kill: all descendants, or those that `main` has started since that moment. */
struct prey {
    gid_t mark; /* see procs.h */
    bool stop;  /* them before they are killed */
    pid_t main;
    const struct procs_moment *since; /* NULL: all */
};

/* Stops new processes; if there are none, or with `force`, kills all. True if it saw any
 * process. */
static bool round_of(const struct prey *prey, struct procs *before, bool force)
{
    struct procs now = {0};
    procs_look(&now, prey->mark);
    procs_mark(&now, getpid(), prey->main, prey->since);
    bool any = false;
    bool progress = false;
    for (size_t i = 0; i < now.count; i++) {
        struct proc *p = &now.items[i];
        if (!p->below) {
            continue;
        }
        any = true;
        p->stopped = !prey->stop || was_stopped(before, p->pid);
        if (!p->stopped && kill(p->pid, SIGSTOP) == 0) {
            p->stopped = true;
            progress = true;
        }
    }
    for (size_t i = 0; (force || !progress) && i < now.count; i++) {
        if (now.items[i].below) {
            (void)kill(now.items[i].pid, SIGKILL);
        }
    }
    procs_finish(before);
    *before = now;
    return any;
}

/* Reaps dead children; true when no child is left. *ret_reaped counts them. */
static bool reap_and_count(killtree_reaped_fn reaped, void *arg, unsigned *ret_reaped)
{
    unsigned count = 0;
    for (;;) {
        int status = 0;
        pid_t pid = waitpid(-1, &status, WNOHANG);
        if (pid < 0 && errno == EINTR) {
            continue;
        }
        if (pid <= 0) {
            *ret_reaped = count;
            return pid < 0;
        }
        count++;
        reaped(arg, pid, status);
    }
}

static bool reap_all(killtree_reaped_fn reaped, void *arg)
{
    unsigned count = 0;
    return reap_and_count(reaped, arg, &count);
}

static void kill_all_of_user(const struct spawn_config *c)
{
    pid_t pid = fork();
    if (pid == 0) {
        if (spawn_drop_privileges(c, NULL) == 0) {
            (void)kill(-1, SIGKILL);
        }
        _exit(0);
    }
}

bool killtree_descendants(const struct spawn_config *c, bool last_resort, killtree_reaped_fn reaped,
                          void *arg)
{
    const struct prey everybody = {c->mark, procs_may_be_stopped(), 0, NULL};
    struct procs seen = {0};
    bool claims = c->mark != 0; /* some are no children of ours, so only a look tells */
    bool none = reap_all(reaped, arg) && !claims;
    for (int i = 0; !none && i < MORE_ROUNDS; i++) {
        if (last_resort && i >= KILL_ROUNDS && i % KILL_ROUNDS == 0) {
            kill_all_of_user(c);
        }
        bool any = round_of(&everybody, &seen, i >= STOP_ROUNDS);
        none = reap_all(reaped, arg) && !(claims && any);
        if (!none && i > 1) {
            poll(NULL, 0, PAUSE_MS); /* killed processes need a moment to die */
            none = reap_all(reaped, arg) && !(claims && any);
        }
    }
    procs_finish(&seen);
    return none;
}

bool killtree_since(gid_t mark, pid_t main, const struct procs_moment *since,
                    killtree_reaped_fn reaped, void *arg)
{
    const struct prey prey = {mark, procs_may_be_stopped(), main, since};
    struct procs seen = {0};
    bool none = false;
    int unsure = 0;
    (void)reap_all(reaped, arg);
    for (int i = 0; !none && i < KILL_ROUNDS; i++) {
        unsigned dead = 0;
        pid_t last_pid = procs_now().last_pid;
        bool any = round_of(&prey, &seen, i >= STOP_ROUNDS);
        bool born = last_pid == 0 || procs_now().last_pid != last_pid;
        (void)reap_and_count(reaped, arg, &dead);
        none = !any && dead == 0 && (!born || ++unsure == UNSURE_LOOKS);
        if (any && i > 1) {
            poll(NULL, 0, PAUSE_MS);
        }
    }
    procs_finish(&seen);
    return none;
}

void killtree_strays(const pid_t *known, size_t count)
{
    struct procs all = {0};
    procs_look(&all, 0);
    for (size_t i = 0; i < all.count; i++) {
        bool ours = false;
        for (size_t k = 0; k < count; k++) {
            ours = ours || known[k] == all.items[i].pid;
        }
        if (!ours && all.items[i].parent == getpid()) {
            (void)kill(all.items[i].pid, SIGKILL);
        }
    }
    procs_finish(&all);
}
