/*
 * The files stay open between calls, so a call costs two reads and a write here. The CPU clock of
 * the process has nanoseconds but does not count children; /proc/<pid>/stat counts them, in clock
 * ticks.
 */
#include "worker/agent/process/figures.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CHILD_TIME_FIELD 16 /* cutime, and cstime behind it; counted from 1 as in proc(5) */
#define NAME_FIELD       2

void figures_init(struct figures *f)
{
    *f = (struct figures){.stat_fd = -1, .status_fd = -1, .clear_fd = -1};
}

void figures_finish(struct figures *f)
{
    int fds[] = {f->stat_fd, f->status_fd, f->clear_fd};
    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
        if (fds[i] >= 0) {
            close(fds[i]);
        }
    }
    figures_init(f);
}

static int open_of(pid_t pid, const char *name, int flags, const struct spawn_config *c)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    return c != NULL ? spawn_open_as_user(c, path, flags) : open(path, flags | O_CLOEXEC);
}

void figures_open(struct figures *f, pid_t pid, const struct spawn_config *c)
{
    if (f->pid != pid) {
        figures_finish(f);
        f->pid = pid;
        f->stat_fd = open_of(pid, "stat", O_RDONLY, NULL);
        f->status_fd = open_of(pid, "status", O_RDONLY, NULL);
    }
    if (f->clear_fd < 0) {
        /* the file belongs to the user only after exec, so an early open may fail */
        f->clear_fd = open_of(pid, "clear_refs", O_WRONLY, c);
    }
}

static uint64_t number_at(const char *p)
{
    uint64_t value = 0;
    while (*p == ' ' || *p == '\t') {
        p++;
    }
    for (; *p >= '0' && *p <= '9'; p++) {
        value = value * 10 + (uint64_t)(*p - '0');
    }
    return value;
}

static uint64_t children_us(int stat_fd)
{
    char text[1024];
    ssize_t n = stat_fd >= 0 ? pread(stat_fd, text, sizeof(text) - 1, 0) : -1;
    if (n <= 0) {
        return 0;
    }
    text[n] = '\0';
    const char *p = strrchr(text, ')'); /* the name may contain blanks */
    for (int field = NAME_FIELD; p != NULL && field < CHILD_TIME_FIELD; field++) {
        p = strchr(p + 1, ' ');
    }
    if (p == NULL) {
        return 0;
    }
    uint64_t ticks = number_at(p);
    p = strchr(p + 1, ' ');
    ticks += p != NULL ? number_at(p) : 0;
    long per_second = sysconf(_SC_CLK_TCK);
    return per_second > 0 ? ticks * 1000000 / (uint64_t)per_second : 0;
}

uint64_t figures_cpu_us(const struct figures *f)
{
    clockid_t clock;
    struct timespec t;
    if (f->pid <= 0 || clock_getcpuclockid(f->pid, &clock) != 0 || clock_gettime(clock, &t) < 0) {
        return 0;
    }
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000 + children_us(f->stat_fd);
}

uint64_t figures_peak_kb(const struct figures *f)
{
    static const char peak[] = "\nVmHWM:";
    static const char present[] = "\nVmRSS:"; /* of a kernel that keeps no peak (gVisor) */
    char text[2048];
    ssize_t n = f->status_fd >= 0 ? pread(f->status_fd, text, sizeof(text) - 1, 0) : -1;
    if (n <= 0) {
        return 0;
    }
    text[n] = '\0';
    const char *p = strstr(text, peak);
    p = p != NULL ? p : strstr(text, present);
    return p != NULL ? number_at(p + sizeof(peak) - 1) : 0;
}

void figures_reset_peak(const struct figures *f)
{
    if (f->clear_fd >= 0) {
        (void)!pwrite(f->clear_fd, "5", 1, 0);
    }
}
