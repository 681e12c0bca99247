/*
 * The terminal is opened with user code's rights, so the container's own devpts gives it to that
 * user, and programs can open it again by its name. The other end is asked for by descriptor where
 * the kernel can (Linux 4.13), because that needs no path; the path is below /dev/pts, which user
 * code cannot change.
 */
#include "worker/agent/process/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/cleanup.h"

static int open_theirs(const struct spawn_config *c, int ours)
{
    unsigned number = 0;
    char path[32];
#ifdef TIOCGPTPEER
    int fd = ioctl(ours, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (fd >= 0) {
        return fd;
    }
#endif
    if (ioctl(ours, TIOCGPTN, &number) < 0) {
        return -1;
    }
    snprintf(path, sizeof(path), "/dev/pts/%u", number);
    return spawn_open_as_user(c, path, O_RDWR | O_NOCTTY);
}

int terminal_open(const struct spawn_config *c, uint64_t rows, uint64_t cols, int *ret_ours,
                  int *ret_theirs, struct err *err)
{
    const struct winsize size = {
        .ws_row = (unsigned short)rows,
        .ws_col = (unsigned short)cols,
    };
    int locked = 0;
    CLEANUP_FD int ours = spawn_open_as_user(c, "/dev/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK);
    if (ours < 0) {
        return err_sys(err, ERR_IO, errno, "make a terminal: open /dev/ptmx");
    }
    if (ioctl(ours, TIOCSPTLCK, &locked) < 0 || ioctl(ours, TIOCSWINSZ, &size) < 0) {
        return err_sys(err, ERR_IO, errno, "make a terminal");
    }
    *ret_theirs = open_theirs(c, ours);
    if (*ret_theirs < 0) {
        return err_sys(err, ERR_IO, errno, "make a terminal: open its other end");
    }
    *ret_ours = steal_fd(&ours);
    return 0;
}
