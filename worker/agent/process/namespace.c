/*
 * A namespace is opened by the number of a process, which may be somebody else's by then: the
 * caller has to decide what it means if it is our own.
 */
#include "worker/agent/process/namespace.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"

int namespace_open(uint64_t pid, const char *kind, int *ret_fd, bool *ret_own, struct err *err)
{
    char theirs[64], ours[64];
    struct stat a, b;
    snprintf(theirs, sizeof(theirs), "/proc/%llu/ns/%s", (unsigned long long)pid, kind);
    snprintf(ours, sizeof(ours), "/proc/self/ns/%s", kind);
    CLEANUP_FD int fd = open(theirs, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &a) < 0 || stat(ours, &b) < 0) {
        return err_sys(err, ERR_IO, errno, "%s", theirs);
    }
    *ret_own = a.st_dev == b.st_dev && a.st_ino == b.st_ino;
    *ret_fd = steal_fd(&fd);
    return 0;
}

int namespace_enter_user(int fd, bool keep_groups, struct err *err)
{
    if (setns(fd, CLONE_NEWUSER) < 0) {
        return err_sys(err, ERR_DENIED, errno, "cannot enter the sandbox's user namespace");
    }
    if ((setgroups(0, NULL) < 0 && (!keep_groups || errno != EPERM)) || setresgid(0, 0, 0) < 0 ||
        setresuid(0, 0, 0) < 0) {
        return err_sys(err, ERR_DENIED, errno, "cannot become root of the sandbox");
    }
    return 0;
}
