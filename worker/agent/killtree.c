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
 */
#include "worker/agent/killtree.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"

#define STOP_ROUNDS 30
#define KILL_ROUNDS 200
#define MORE_ROUNDS 2000
#define PAUSE_MS    1
#define PIDS_MAX    65536 /* entries of one look at /proc */

struct proc {
    pid_t pid;
    pid_t parent;
    bool below;   /* a descendant of ours */
    bool stopped; /* by us, in an earlier round */
};

struct table {
    struct proc *procs; /* owned; in the order of /proc, ascending */
    size_t count, cap;
};

static pid_t read_pid(const char *text)
{
    long value = 0;
    for (const char *p = text; isdigit((unsigned char)*p); p++) {
        value = value * 10 + (*p - '0');
        if (value > INT32_MAX) {
            return 0;
        }
    }
    return (pid_t)value;
}

/* "pid (name) state parent ...", where the name may hold anything, parentheses too. */
static pid_t parent_of(pid_t pid, char *ret_state)
{
    char path[64];
    char text[512];
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return -1;
    }
    ssize_t n = read(fd, text, sizeof(text) - 1);
    if (n <= 0) {
        return -1;
    }
    text[n] = '\0';
    const char *name_end = strrchr(text, ')');
    if (name_end == NULL || name_end[1] != ' ' || name_end[2] == '\0' || name_end[3] != ' ') {
        return -1;
    }
    *ret_state = name_end[2];
    return read_pid(name_end + 4);
}

static bool table_add(struct table *t, struct proc p)
{
    if (t->count == t->cap) {
        size_t cap = t->cap > 0 ? t->cap * 2 : 64;
        struct proc *procs = cap <= PIDS_MAX ? realloc(t->procs, cap * sizeof(*procs)) : NULL;
        if (procs == NULL) {
            return false; /* what does not fit is met in a later round */
        }
        t->procs = procs;
        t->cap = cap;
    }
    t->procs[t->count++] = p;
    return true;
}

static void mark_below(struct table *t, pid_t root)
{
    bool changed = true;
    while (changed) {
        changed = false;
        for (size_t i = 0; i < t->count; i++) {
            struct proc *p = &t->procs[i];
            for (size_t k = 0; !p->below && k < t->count; k++) {
                if (p->parent == root || (t->procs[k].below && t->procs[k].pid == p->parent)) {
                    p->below = true;
                    changed = true;
                }
            }
        }
    }
}

/* Everything alive. Zombies are left out: they neither run nor have children. */
static void look(struct table *ret)
{
    DIR *dir = opendir("/proc");
    if (dir == NULL) {
        return;
    }
    struct dirent *entry;
    while ((entry = readdir(dir)) != NULL) {
        if (!isdigit((unsigned char)entry->d_name[0])) {
            continue;
        }
        char state = '?';
        struct proc p = {.pid = read_pid(entry->d_name)};
        p.parent = parent_of(p.pid, &state);
        if (p.parent >= 0 && state != 'Z' && state != 'X' && !table_add(ret, p)) {
            break;
        }
    }
    closedir(dir);
}

static bool was_stopped(const struct table *before, pid_t pid)
{
    for (size_t i = 0; i < before->count; i++) {
        if (before->procs[i].pid == pid) {
            return before->procs[i].stopped;
        }
    }
    return false;
}

/* Stops who is new, or kills all if nobody is or `force`. */
static void round_of(struct table *before, bool force)
{
    struct table now = {0};
    look(&now);
    mark_below(&now, getpid());
    bool news = false;
    for (size_t i = 0; i < now.count; i++) {
        struct proc *p = &now.procs[i];
        if (!p->below) {
            continue;
        }
        p->stopped = was_stopped(before, p->pid);
        if (!p->stopped && kill(p->pid, SIGSTOP) == 0) {
            p->stopped = true;
            news = true;
        }
    }
    for (size_t i = 0; (force || !news) && i < now.count; i++) {
        if (now.procs[i].below) {
            (void)kill(now.procs[i].pid, SIGKILL);
        }
    }
    free(before->procs);
    *before = now;
}

/* True when there are no children any more. */
static bool reap_all(killtree_reaped_fn reaped, void *arg)
{
    for (;;) {
        int status = 0;
        pid_t pid = waitpid(-1, &status, WNOHANG);
        if (pid < 0 && errno == EINTR) {
            continue;
        }
        if (pid <= 0) {
            return pid < 0;
        }
        reaped(arg, pid, status);
    }
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
    struct table seen = {0};
    bool none = reap_all(reaped, arg);
    for (int i = 0; !none && i < MORE_ROUNDS; i++) {
        if (last_resort && i >= KILL_ROUNDS && i % KILL_ROUNDS == 0) {
            kill_all_of_user(c);
        }
        round_of(&seen, i >= STOP_ROUNDS);
        none = reap_all(reaped, arg);
        if (!none && i > 1) {
            poll(NULL, 0, PAUSE_MS); /* the killed need a moment to die */
            none = reap_all(reaped, arg);
        }
    }
    free(seen.procs);
    return none;
}

void killtree_strays(const pid_t *known, size_t count)
{
    struct table all = {0};
    look(&all);
    for (size_t i = 0; i < all.count; i++) {
        bool ours = false;
        for (size_t k = 0; k < count; k++) {
            ours = ours || known[k] == all.procs[i].pid;
        }
        if (!ours && all.procs[i].parent == getpid()) {
            (void)kill(all.procs[i].pid, SIGKILL);
        }
    }
    free(all.procs);
}
