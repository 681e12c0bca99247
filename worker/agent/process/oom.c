/*
 * Both versions of cgroups keep the count as a line "oom_kill N", in different files. The file is
 * either below the path that /proc names, if the whole tree is mounted, or at the mount point
 * itself, if the engine has mounted only the container's part while /proc shows a path of the host.
 * The path is tried first, because the root of a whole tree counts the kills of all groups.
 *
 * The file stays open, so that a query costs one read() and cannot fail for lack of descriptors
 * just when the sandbox has run out of resources.
 */
#include "worker/agent/process/oom.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"

#define PATH_BYTES 4352 /* PATH_MAX and room for the mount point and the file's name */
#define SELF_BYTES 8192

/* The number in the line "oom_kill N"; false if there is no such line. */
static bool find_count(const char *text, uint64_t *ret)
{
    static const char label[] = "oom_kill ";
    for (const char *line = text; line != NULL;) {
        if (strncmp(line, label, sizeof(label) - 1) == 0) {
            const char *p = line + sizeof(label) - 1;
            uint64_t value = 0;
            for (; *p >= '0' && *p <= '9' && value < INT64_MAX / 10; p++) {
                value = value * 10 + (uint64_t)(*p - '0');
            }
            *ret = value;
            return true;
        }
        line = strchr(line, '\n');
        line = line != NULL ? line + 1 : NULL;
    }
    return false;
}

static bool read_count(int fd, uint64_t *ret)
{
    char text[1024];
    ssize_t n = fd >= 0 ? pread(fd, text, sizeof(text) - 1, 0) : -1;
    if (n <= 0) {
        return false;
    }
    text[n] = '\0';
    return find_count(text, ret);
}

static bool try_file(struct oom *o, const char *cgroups, const char *kind, const char *path,
                     const char *name)
{
    char full[PATH_BYTES];
    int n = snprintf(full, sizeof(full), "%s%s%s/%s", cgroups, kind, path, name);
    if (n < 0 || (size_t)n >= sizeof(full)) {
        return false;
    }
    CLEANUP_FD int fd = open(full, O_RDONLY | O_CLOEXEC);
    if (!read_count(fd, &o->before)) {
        return false;
    }
    o->fd = steal_fd(&fd);
    return true;
}

/* True if the comma-separated list has the controller. */
static bool has_memory(const char *list)
{
    static const char name[] = "memory";
    size_t len = sizeof(name) - 1;
    for (const char *p = list; *p != '\0'; p += *p == ',') {
        size_t item = strcspn(p, ",");
        if (item == len && memcmp(p, name, len) == 0) {
            return true;
        }
        p += item;
    }
    return false;
}

/* One line of /proc/self/cgroup, "number:controllers:path". */
static bool try_line(struct oom *o, const char *cgroups, char *line)
{
    char *list = strchr(line, ':');
    char *path = list != NULL ? strchr(list + 1, ':') : NULL;
    if (path == NULL) {
        return false;
    }
    *list++ = '\0';
    *path++ = '\0';
    if (strstr(path, "/..") != NULL) {
        return false; /* the path is outside of this cgroup namespace */
    }
    path = strcmp(path, "/") == 0 ? path + 1 : path;
    if (strcmp(line, "0") == 0 && *list == '\0') {
        return try_file(o, cgroups, "", path, "memory.events");
    }
    return has_memory(list) && try_file(o, cgroups, "/memory", path, "memory.oom_control");
}

void oom_open(struct oom *o, const char *cgroups, const char *self)
{
    char text[SELF_BYTES];
    *o = (struct oom){.fd = -1};
    CLEANUP_FD int fd = open(self, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : 0;
    text[n > 0 ? n : 0] = '\0';
    for (char *line = text; *line != '\0';) {
        size_t len = strcspn(line, "\n");
        char *next = line + len + (line[len] == '\n');
        line[len] = '\0';
        if (try_line(o, cgroups, line)) {
            return;
        }
        line = next;
    }
    if (!try_file(o, cgroups, "", "", "memory.events")) {
        (void)try_file(o, cgroups, "/memory", "", "memory.oom_control");
    }
}

void oom_close(struct oom *o)
{
    if (o->fd >= 0) {
        close(o->fd);
    }
    o->fd = -1;
}

uint64_t oom_kills(const struct oom *o)
{
    uint64_t count = 0;
    return read_count(o->fd, &count) && count > o->before ? count - o->before : 0;
}
