/*
 * A socket address holds 108 bytes, but the runtime directory of a user may have a longer path. So
 * for a long path the directory is opened first, and the address is "/proc/self/fd/<n>/agent.sock".
 * Short paths are used as they are, which needs no /proc.
 */
#include "worker/backend/agent_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/cleanup.h"

/* The agent serves the newest connection and drops older ones; a few may queue while it is busy. */
#define BACKLOG 8

/* Fills *addr; *hold_fd is a descriptor that must stay open as long as the address is used. */
static int make_address(const char *dir, struct sockaddr_un *addr, int *hold_fd, struct err *err)
{
    memset(addr, 0, sizeof(*addr));
    addr->sun_family = AF_UNIX;
    int n = snprintf(addr->sun_path, sizeof(addr->sun_path), "%s/%s", dir, AGENT_SOCKET_NAME);
    if (n > 0 && (size_t)n < sizeof(addr->sun_path)) {
        return 0;
    }
    int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return err_sys(err, errno == ENOENT ? ERR_GONE : ERR_IO, errno, "cannot open %s", dir);
    }
    *hold_fd = fd;
    snprintf(addr->sun_path, sizeof(addr->sun_path), "/proc/self/fd/%d/%s", fd, AGENT_SOCKET_NAME);
    return 0;
}

int agent_socket_listen(const char *dir, int *ret_fd, struct err *err)
{
    CLEANUP_FD int hold_fd = -1;
    struct sockaddr_un addr;
    int rc = make_address(dir, &addr, &hold_fd, err);
    if (rc < 0) {
        return rc;
    }
    CLEANUP_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return err_sys(err, ERR_IO, errno, "cannot make the agent's socket");
    }
    if (unlink(addr.sun_path) < 0 && errno != ENOENT) {
        return err_sys(err, ERR_IO, errno, "cannot replace %s/%s", dir, AGENT_SOCKET_NAME);
    }
    if (bind(fd, (const struct sockaddr *)&addr, sizeof(addr)) < 0) {
        return err_sys(err, ERR_IO, errno, "cannot bind %s/%s", dir, AGENT_SOCKET_NAME);
    }
    /* the directory is private already; this still holds if its mode is changed */
    if (chmod(addr.sun_path, 0600) < 0 || listen(fd, BACKLOG) < 0) {
        return err_sys(err, ERR_IO, errno, "cannot listen on %s/%s", dir, AGENT_SOCKET_NAME);
    }
    *ret_fd = steal_fd(&fd);
    return 0;
}

int agent_socket_connect(const char *dir, int *ret_fd, struct err *err)
{
    CLEANUP_FD int hold_fd = -1;
    struct sockaddr_un addr;
    int rc = make_address(dir, &addr, &hold_fd, err);
    if (rc < 0) {
        return rc;
    }
    CLEANUP_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return err_sys(err, ERR_IO, errno, "cannot make a socket");
    }
    while (connect(fd, (const struct sockaddr *)&addr, sizeof(addr)) < 0) {
        switch (errno) {
        case EINTR:
            continue;
        case ECONNREFUSED:
        case ENOENT:
            return err_sys(err, ERR_GONE, errno, "no agent at %s/%s", dir, AGENT_SOCKET_NAME);
        case EAGAIN:
            return err_set(err, ERR_BUSY, "the agent does not accept streams at the moment");
        default:
            return err_sys(err, ERR_IO, errno, "cannot connect to %s/%s", dir, AGENT_SOCKET_NAME);
        }
    }
    *ret_fd = steal_fd(&fd);
    return 0;
}
