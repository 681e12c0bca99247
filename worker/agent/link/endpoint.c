/*
 * An engine that starts the agent cannot hand a listening socket down to it, so the agent makes one
 * itself, in a directory that only it can enter. A relay may run before the socket exists, because
 * a backend connects the first stream before the container starts, and an engine may start programs
 * in any order. So connecting is retried for a while. Between retries the relay polls its client's
 * descriptor and gives up when the client has hung up.
 *
 * The path may be taken by the socket of an agent that was killed. Only an attempt to connect tells
 * whether that agent is alive; a second agent must not steal a live agent's sandbox.
 */
#include "worker/agent/link/endpoint.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/str.h"

#define BACKLOG  8 /* the newest connection is served; a few may queue while the agent is busy */
#define RETRY_MS 5

static int make_address(const char *path, struct sockaddr_un *ret, struct err *err)
{
    memset(ret, 0, sizeof(*ret));
    ret->sun_family = AF_UNIX;
    if (str_copy(ret->sun_path, sizeof(ret->sun_path), path, NULL) < 0 || path[0] == '\0') {
        return err_set(err, ERR_PATH, "a socket's path has 1 to %zu bytes, this has %zu: %s",
                       sizeof(ret->sun_path) - 1, strlen(path), path);
    }
    return 0;
}

static int make_socket(int *ret_fd, struct err *err)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return err_sys(err, ERR_IO, errno, "cannot make a socket");
    }
    *ret_fd = fd;
    return 0;
}

/* Makes sure that the path is free: removes the socket of a dead agent. */
static int clear_name(const struct sockaddr_un *at, struct err *err)
{
    struct stat st;
    if (lstat(at->sun_path, &st) < 0) {
        return errno == ENOENT ? 0 : err_sys(err, ERR_PATH, errno, "%s", at->sun_path);
    }
    if (!S_ISSOCK(st.st_mode)) {
        return err_set(err, ERR_PATH, "%s is there, and is no socket", at->sun_path);
    }
    CLEANUP_FD int fd = -1;
    int rc = make_socket(&fd, err);
    if (rc < 0) {
        return rc;
    }
    if (connect(fd, (const struct sockaddr *)at, sizeof(*at)) == 0 || errno == EAGAIN) {
        return err_set(err, ERR_BUSY, "%s belongs to an agent that runs", at->sun_path);
    }
    if (unlink(at->sun_path) < 0 && errno != ENOENT) {
        return err_sys(err, ERR_PATH, errno, "cannot replace %s", at->sun_path);
    }
    return 0;
}

int endpoint_listen(const char *path, int *ret_fd, struct err *err)
{
    struct sockaddr_un at;
    CLEANUP_FD int fd = -1;
    int rc = make_address(path, &at, err);
    if (rc == 0) {
        rc = clear_name(&at, err);
    }
    if (rc == 0) {
        rc = make_socket(&fd, err);
    }
    if (rc < 0) {
        return rc;
    }
    mode_t before = umask(0177);
    rc = bind(fd, (const struct sockaddr *)&at, sizeof(at));
    int sys = errno;
    umask(before);
    if (rc < 0) {
        return err_sys(err, ERR_PATH, sys, "cannot make the socket %s", path);
    }
    if (listen(fd, BACKLOG) < 0) {
        return err_sys(err, ERR_IO, errno, "cannot listen at %s", path);
    }
    *ret_fd = steal_fd(&fd);
    return 0;
}

int endpoint_connect(const char *path, uint64_t wait_ms, int client, int *ret_fd, struct err *err)
{
    struct sockaddr_un at;
    uint64_t until = clock_ms() + wait_ms;
    int rc = make_address(path, &at, err);
    if (rc < 0) {
        return rc;
    }
    for (;;) {
        /* a new socket for each try: the state of one that failed to connect is undefined */
        CLEANUP_FD int fd = -1;
        rc = make_socket(&fd, err);
        if (rc < 0) {
            return rc;
        }
        if (connect(fd, (const struct sockaddr *)&at, sizeof(at)) == 0) {
            *ret_fd = steal_fd(&fd);
            return 0;
        }
        /* worth a retry: no socket yet, the socket of a dead agent, or a full backlog */
        int sys = errno;
        if (sys != ENOENT && sys != ECONNREFUSED && sys != EAGAIN && sys != EINTR) {
            return err_sys(err, ERR_IO, sys, "cannot connect to %s", path);
        }
        if (clock_ms() >= until) {
            return err_sys(err, ERR_TIMEOUT, sys, "no agent at %s", path);
        }
        struct pollfd hangup = {.fd = client};
        if (poll(&hangup, 1, RETRY_MS) > 0) {
            return err_set(err, ERR_GONE, "the client hung up before there was an agent at %s",
                           path);
        }
    }
}
