/*
 * Reading /proc/<pid>/stat and status. Processes may end meanwhile, so one that cannot be read
 * counts as gone.
 *
 * Start times are in clock ticks, and tens of processes may start within one. Within a tick the
 * pids decide, because they are allocated in ascending order; /proc/loadavg names the latest one.
 */
#include "worker/agent/process/procs.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"

#define PROCS_MAX    65536 /* of one look */
#define STAT_PARENT  4     /* index of a word of stat */
#define STAT_STARTED 22

#define PIDS_IN_A_TICK 8192 /* a pid that far below the latest is from after a wrap-around */

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

/* NUL-terminated; false if the process is gone. */
static bool read_file_of(pid_t pid, const char *name, char *text, size_t size)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    ssize_t n = read(fd, text, size - 1);
    text[n > 0 ? n : 0] = '\0';
    return n > 0;
}

static uint64_t read_number(const char *text)
{
    uint64_t value = 0;
    for (const char *p = text; isdigit((unsigned char)*p); p++) {
        value = value * 10 + (uint64_t)(*p - '0'); /* the kernel writes digits only */
    }
    return value;
}

/* The n-th word after this one. */
static const char *skip_words(const char *text, int n)
{
    while (n-- > 0 && text != NULL) {
        text = strchr(text, ' ');
        text += text != NULL;
    }
    return text;
}

/* "pid (name) state parent group ...", where the name may contain anything, also parentheses. */
static bool read_stat(struct proc *p)
{
    char text[512];
    if (!read_file_of(p->pid, "stat", text, sizeof(text))) {
        return false;
    }
    const char *name_end = strrchr(text, ')');
    if (name_end == NULL || name_end[1] != ' ' || name_end[2] == '\0' || name_end[3] != ' ') {
        return false;
    }
    const char *parent = name_end + 4;
    const char *group = skip_words(parent, 1);
    const char *started = skip_words(parent, STAT_STARTED - STAT_PARENT);
    p->parent = read_pid(parent);
    p->group = group != NULL ? read_pid(group) : 0;
    p->started = started != NULL ? read_number(started) : 0;
    return name_end[2] != 'Z' && name_end[2] != 'X';
}

static bool add_proc(struct procs *all, struct proc p)
{
    if (all->count == all->cap) {
        size_t cap = all->cap > 0 ? all->cap * 2 : 64;
        struct proc *items = cap <= PROCS_MAX ? realloc(all->items, cap * sizeof(*items)) : NULL;
        if (items == NULL) {
            return false;
        }
        all->items = items;
        all->cap = cap;
    }
    all->items[all->count++] = p;
    return true;
}

static bool has_group(pid_t pid, gid_t group)
{
    static const char label[] = "\nGroups:";
    char text[4096];
    if (!read_file_of(pid, "status", text, sizeof(text))) {
        return false;
    }
    const char *p = strstr(text, label);
    for (p += p != NULL ? sizeof(label) - 1 : 0; p != NULL && *p != '\0' && *p != '\n';) {
        size_t digits = strspn(p, "0123456789");
        if (digits > 0 && read_number(p) == group) {
            return true;
        }
        p += digits > 0 ? digits : 1;
    }
    return false;
}

void procs_look(struct procs *ret, gid_t mark)
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
        struct proc p = {.pid = read_pid(entry->d_name)};
        bool lives = read_stat(&p);
        if (lives && mark != 0 && p.parent == 1 && has_group(p.pid, mark)) {
            p.parent = getpid();
        }
        if (lives && !add_proc(ret, p)) {
            break;
        }
    }
    closedir(dir);
}

void procs_finish(struct procs *p)
{
    free(p->items);
    *p = (struct procs){0};
}

struct procs_moment procs_now(void)
{
    struct timespec t;
    char text[128];
    clock_gettime(CLOCK_BOOTTIME, &t);
    uint64_t ticks = (uint64_t)sysconf(_SC_CLK_TCK);
    struct procs_moment now = {
        .ticks = (uint64_t)t.tv_sec * ticks + (uint64_t)t.tv_nsec * ticks / 1000000000u,
    };
    CLEANUP_FD int fd = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : 0;
    text[n > 0 ? n : 0] = '\0';
    const char *last = strrchr(text, ' ');
    now.last_pid = last != NULL ? read_pid(last + 1) : 0;
    return now;
}

static bool is_since(const struct proc *p, const struct procs_moment *moment)
{
    bool later = p->pid > moment->last_pid || moment->last_pid - p->pid > PIDS_IN_A_TICK;
    return p->started > moment->ticks || (p->started == moment->ticks && later);
}

void procs_mark(struct procs *all, pid_t root, pid_t main, const struct procs_moment *since)
{
    bool changed = true;
    while (changed) {
        changed = false;
        for (size_t i = 0; i < all->count; i++) {
            struct proc *p = &all->items[i];
            if (since != NULL && p->pid != main && !is_since(p, since)) {
                continue;
            }
            for (size_t k = 0; !p->below && k < all->count; k++) {
                if (p->parent == root || (all->items[k].below && all->items[k].pid == p->parent)) {
                    p->below = true;
                    changed = true;
                }
            }
        }
    }
    for (size_t i = 0; since != NULL && i < all->count; i++) {
        all->items[i].below = all->items[i].below && all->items[i].pid != main;
    }
}

bool proc_catches(pid_t pid, int sig)
{
    static const char label[] = "\nSigCgt:\t";
    char text[4096];
    if (!read_file_of(pid, "status", text, sizeof(text))) {
        return false;
    }
    const char *digits = strstr(text, label);
    if (digits == NULL) {
        return true;
    }
    size_t len = strspn(digits + sizeof(label) - 1, "0123456789abcdef");
    size_t nibble = (size_t)(sig - 1) / 4;
    if (nibble >= len) {
        return false;
    }
    char c = digits[sizeof(label) - 1 + len - 1 - nibble];
    unsigned value = (unsigned)(isdigit((unsigned char)c) ? c - '0' : c - 'a' + 10);
    return (value >> (sig - 1) % 4 & 1) != 0;
}

bool procs_may_be_stopped(void)
{
    char text[4096];
    return !read_file_of(getpid(), "status", text, sizeof(text)) ||
           strstr(text, "\nSigCgt:") != NULL;
}

bool procs_same_words(pid_t a, pid_t b)
{
    char of_a[512];
    char of_b[512];
    memset(of_a, 0, sizeof(of_a)); /* read_file_of() does not return a length */
    memset(of_b, 0, sizeof(of_b));
    bool both = read_file_of(a, "cmdline", of_a, sizeof(of_a)) &&
                read_file_of(b, "cmdline", of_b, sizeof(of_b));
    return !both || memcmp(of_a, of_b, sizeof(of_a)) == 0;
}

static bool stat_program(pid_t pid, struct stat *ret)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
    return stat(path, ret) == 0;
}

bool procs_same_program(pid_t a, pid_t b)
{
    struct stat of_a;
    struct stat of_b;
    return stat_program(a, &of_a) && stat_program(b, &of_b) && of_a.st_dev == of_b.st_dev &&
           of_a.st_ino == of_b.st_ino;
}
