/*
 * Files, because they are read when one side is dead: a mark needs nobody to take it, and an end
 * that is wanted stays wanted whoever is killed next.
 *
 * A pid alone names nobody by the time it is read, so a start time goes with it; whoever signals
 * the process compares it. A note that cannot be read whole is none.
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

int ending_note_first(const char *dir, int pid, uint64_t start_time, struct err *err)
{
    CLEANUP_FREE char *path = alloc_printf("%s/" ENDING_FIRST, dir);
    CLEANUP_FREE char *next = alloc_printf("%s/" ENDING_FIRST ".next", dir);
    CLEANUP_FREE char *text = alloc_printf("%d %" PRIu64 "\n", pid, start_time);
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

bool ending_read_first(const char *dir, int *ret_pid, uint64_t *ret_start_time)
{
    char text[64];
    int pid;
    uint64_t start_time;
    char end;
    CLEANUP_FREE char *path = alloc_printf("%s/" ENDING_FIRST, dir);
    CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
    if (n <= 0) {
        return false;
    }
    text[n] = '\0';
    if (sscanf(text, "%9d %19" SCNu64 "%c", &pid, &start_time, &end) != 3 || end != '\n' ||
        pid < 2 || start_time == 0) {
        return false;
    }
    *ret_pid = pid;
    *ret_start_time = start_time;
    return true;
}

void ending_mark_destroyed(const char *dir)
{
    CLEANUP_FREE char *path = alloc_printf("%s/destroyed", dir);
    err_ignore(touch_file(path, NULL)); /* then it is swept, and that finds out */
}

bool ending_is_destroyed(const char *dir)
{
    CLEANUP_FREE char *path = alloc_printf("%s/destroyed", dir);
    return access(path, F_OK) == 0;
}
