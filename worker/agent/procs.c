/*
 * Reading /proc/<pid>/stat and status. Processes come and go meanwhile; one that cannot be read is
 * gone.
 */
#include "worker/agent/procs.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"

#define PROCS_MAX 65536 /* of one look */

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

/* "pid (name) state parent group ...", where the name may hold anything, parentheses too. */
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
    const char *group = strchr(parent, ' ');
    p->parent = read_pid(parent);
    p->group = group != NULL ? read_pid(group + 1) : 0;
    return name_end[2] != 'Z' && name_end[2] != 'X';
}

static bool add(struct procs *all, struct proc p)
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

void procs_look(struct procs *ret)
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
        if (read_stat(&p) && !add(ret, p)) {
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

bool proc_catches(pid_t pid, int sig)
{
    static const char label[] = "\nSigCgt:\t";
    char text[4096];
    if (!read_file_of(pid, "status", text, sizeof(text))) {
        return false;
    }
    const char *digits = strstr(text, label);
    size_t len = digits != NULL ? strspn(digits + sizeof(label) - 1, "0123456789abcdef") : 0;
    size_t nibble = (size_t)(sig - 1) / 4;
    if (nibble >= len) {
        return false;
    }
    char c = digits[sizeof(label) - 1 + len - 1 - nibble];
    unsigned value = (unsigned)(isdigit((unsigned char)c) ? c - '0' : c - 'a' + 10);
    return (value >> (sig - 1) % 4 & 1) != 0;
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
