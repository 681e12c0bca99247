/*
 * The processes use files, because one side may be dead when the other reads. A mark stays,
 * whichever process is killed next.
 *
 * A pid may be reused before the note is read, so the note has the start time as well, which the
 * killer compares. A control group needs none, because its name contains the sandbox's id. The note
 * is one line, "<pid> <start time> <group>"; an incomplete one counts as absent.
 */
#include "common/ending.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/fd.h"

static int touch_file(const char *path, struct err *err)
{
    CLEANUP_FD int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    return fd >= 0 ? 0 : err_sys(err, ERR_IO, errno, "%s", path);
}

int ending_begin(const char *instance_dir, struct err *err)
{
    CLEANUP_FREE char *path = alloc_printf("%s/ending", instance_dir);
    return touch_file(path, err);
}

bool ending_has_begun(const char *dir)
{
    CLEANUP_FREE char *path = alloc_printf("%s/../../ending", dir);
    return access(path, F_OK) == 0;
}

int ending_note_first(const char *dir, const struct ending_first *first, struct err *err)
{
    CLEANUP_FREE char *path = alloc_printf("%s/" ENDING_FIRST, dir);
    CLEANUP_FREE char *next = alloc_printf("%s/" ENDING_FIRST ".next", dir);
    CLEANUP_FREE char *text =
        alloc_printf("%d %" PRIu64 " %s\n", first->pid, first->start_time, first->group);
    CLEANUP_FD int fd = open(next, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return err_sys(err, ERR_IO, errno, "%s", next);
    }
    int rc = fd_write_all(fd, text, strlen(text), err);
    if (rc == 0 && rename(next, path) < 0) {
        rc = err_sys(err, ERR_IO, errno, "%s", path);
    }
    return rc;
}

bool ending_read_first(const char *dir, struct ending_first *ret_first)
{
    char text[ENDING_GROUP_MAX + 64];
    int group; /* offset of the group in the text */
    CLEANUP_FREE char *path = alloc_printf("%s/" ENDING_FIRST, dir);
    CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
    if (n <= 0) {
        return false;
    }
    text[n] = '\0';
    char *end = strchr(text, '\n');
    if (end == NULL ||
        sscanf(text, "%9d %19" SCNu64 "%n", &ret_first->pid, &ret_first->start_time, &group) != 2 ||
        text[group] != ' ' || ret_first->pid < 2 || ret_first->start_time == 0) {
        return false;
    }
    *end = '\0';
    int len = snprintf(ret_first->group, sizeof(ret_first->group), "%s", text + group + 1);
    return len >= 0 && (size_t)len < sizeof(ret_first->group);
}

void ending_mark_destroyed(const char *dir)
{
    CLEANUP_FREE char *path = alloc_printf("%s/destroyed", dir);
    err_ignore(touch_file(path, NULL)); /* without the mark the sandbox is swept */
}

bool ending_is_destroyed(const char *dir)
{
    CLEANUP_FREE char *path = alloc_printf("%s/destroyed", dir);
    return access(path, F_OK) == 0;
}
