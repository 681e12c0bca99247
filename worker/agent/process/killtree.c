/*
 * Processes that fork while they are being killed can outrun whoever kills them one by one. So a
 * round first stops everything it can see below us, and only when a round meets nobody new does it
 * kill: a stopped process neither forks nor, by dying, makes room for others to fork. Children of a
 * killed process come to us, because we are their subreaper, and are still below us in the next
 * round.
 *
 * User code may fight back by continuing what was stopped. After STOP_ROUNDS the rounds kill
 * whatever they see; after KILL_ROUNDS, if the caller allows it, a process of the sandbox user
 * sends kill(-1, SIGKILL), which the kernel does in one sweep that no fork can slip through. That
 * takes everything else of this user with it, other live interpreters included, which then report a
 * crash; it is only done inside a pid namespace of our own, where there is nobody else.
 *
 * That a look at /proc shows nobody does not mean that nobody is there: of processes that each
 * start the next one and end, a look can miss every one, since it lists those that are dead when it
 * comes to read them, and not those that they have started. Who kills all descendants need not
 * care, the kernel says when there is no child left. Who kills those of one run, beside others,
 * believes a look only if no pid was given out meanwhile, or if none of ours has died: the dead of
 * such a chain are left to us, and are there to be reaped. Births elsewhere in the sandbox are
 * looked at again a few times, and then no more.
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
#define UNSURE_LOOKS 5 /* that show nobody while somebody is started somewhere */

static bool was_stopped(const struct procs *before, pid_t pid)
{
    for (size_t i = 0; i < before->count; i++) {
        if (before->items[i].pid == pid) {
            return before->items[i].stopped;
        }
    }
    return false;
}

/* Who is to die: all descendants, or what `main` has started since then. */
struct prey {
    pid_t main;
    const struct procs_moment *since; /* NULL: all */
};

/* Stops who is new, or kills all if nobody is or `force`. True if there was anybody. */
static bool round_of(const struct prey *prey, struct procs *before, bool force)
{
    struct procs now = {0};
    procs_look(&now);
    procs_mark(&now, getpid(), prey->main, prey->since);
    bool any = false;
    bool news = false;
    for (size_t i = 0; i < now.count; i++) {
        struct proc *p = &now.items[i];
        if (!p->below) {
            continue;
        }
        any = true;
        p->stopped = was_stopped(before, p->pid);
        if (!p->stopped && kill(p->pid, SIGSTOP) == 0) {
            p->stopped = true;
            news = true;
        }
    }
    for (size_t i = 0; (force || !news) && i < now.count; i++) {
        if (now.items[i].below) {
            (void)kill(now.items[i].pid, SIGKILL);
        }
    }
    procs_finish(before);
    *before = now;
    return any;
}

/* True when there are no children any more. *ret_reaped: how many were reaped. */
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
    static const struct prey everybody = {0, NULL};
    struct procs seen = {0};
    bool none = reap_all(reaped, arg);
    for (int i = 0; !none && i < MORE_ROUNDS; i++) {
        if (last_resort && i >= KILL_ROUNDS && i % KILL_ROUNDS == 0) {
            kill_all_of_user(c);
        }
        (void)round_of(&everybody, &seen, i >= STOP_ROUNDS);
        none = reap_all(reaped, arg);
        if (!none && i > 1) {
            poll(NULL, 0, PAUSE_MS); /* the killed need a moment to die */
            none = reap_all(reaped, arg);
        }
    }
    procs_finish(&seen);
    return none;
}

bool killtree_since(pid_t main, const struct procs_moment *since, killtree_reaped_fn reaped,
                    void *arg)
{
    const struct prey prey = {main, since};
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
    procs_look(&all);
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
