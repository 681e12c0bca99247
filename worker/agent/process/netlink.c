/*
 * Programs list interfaces by a netlink socket: they ask, read the answer, and close it. Answers
 * that nobody reads stay in the kernel, up to the size of the socket's buffer, and count for
 * nobody: no control group has them as memory. So what bounds them is how many sockets there are. A
 * sandbox has at most SOCKETS_MOST at a time, and fewer where the host lets buffers be large, so
 * that all of them together hold no more than HELD_BYTES.
 *
 * The kernel has no limit for sockets of one kind, and a filter cannot count. But it can stop the
 * call and ask us. We make the socket here and put it into the program: if we only let the call go
 * on, all threads that ask at the same time would be let through before the first socket is there.
 * Arguments are numbers in registers, so nothing can change behind us, and a keeper has no right to
 * networks that user code has not.
 *
 * The count is the kernel's own for the network namespace, so a socket that was passed on to
 * somebody else, or is on its way, is in it. Where the agent is not alone in its network (a virtual
 * machine of E2B), those of others are in it as well, so the agent notes how many these are before
 * any code runs. Other keepers may make one at the same moment; that is
 * one more for each of them.
 *
 * Who asks while all are taken waits for a moment, since lists of interfaces are over in less than
 * a millisecond, and is refused then. Meanwhile the keeper does all else that it has to do. A
 * request is received only when it can be answered: receiving does not block then, even if who
 * asked has gone.
 *
 * A signal ends a call that waits for us, and the program asks again. If it came between the socket
 * and the answer, the program would have a socket that it does not know of. So both are one step
 * where the kernel can do that (Linux 5.14), and a received request is not ended by signals where
 * it can do that (5.19, filter.c). Before, such a socket remains until the program ends.
 */
#include "worker/agent/process/netlink.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/cleanup.h"
#include "common/fd.h"
#include "common/syscalls.h"

#ifndef SECCOMP_ADDFD_FLAG_SEND
#define SECCOMP_ADDFD_FLAG_SEND (1u << 1)
#endif

#define SOCKETS_MOST  64
#define SOCKETS_LEAST 8 /* however large their buffers are */
#define HELD_BYTES    ((uint64_t)64 << 20)
#define WAIT_MS       5
#define WAITS_MOST    200
#define COUNTS        "/proc/self/net/protocols"
#define COUNTS_MAX    (64u << 10)
#define ROOM          256 /* for what newer kernels may have to say; today's takes 80 bytes */

bool netlink_is_bounded(void)
{
    struct utsname kernel;
    return uname(&kernel) == 0 && syscalls_can_be_answered(kernel.release);
}

/* ---- the listener ---------------------------------------------------------------------------- */

union passed {
    struct cmsghdr head;
    char room[CMSG_SPACE(sizeof(int))];
};

int netlink_hand_over(int socket_fd, int listener_fd, struct err *err)
{
    char nothing = 0;
    struct iovec part = {.iov_base = &nothing, .iov_len = 1};
    union passed control = {.room = {0}};
    struct msghdr m = {.msg_iov = &part,
                       .msg_iovlen = 1,
                       .msg_control = &control,
                       .msg_controllen = sizeof(control.room)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &listener_fd, sizeof(int));
    return sendmsg(socket_fd, &m, MSG_NOSIGNAL) == 1
               ? 0
               : err_sys(err, ERR_INTERNAL, errno, "let the keeper answer");
}

static int take_listener(int socket_fd)
{
    char nothing;
    struct iovec part = {.iov_base = &nothing, .iov_len = 1};
    union passed control = {.room = {0}};
    struct msghdr m = {.msg_iov = &part,
                       .msg_iovlen = 1,
                       .msg_control = &control,
                       .msg_controllen = sizeof(control.room)};
    int fd = -1;
    if (recvmsg(socket_fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) != 1) {
        return -1;
    }
    const struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    if (c != NULL && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
        memcpy(&fd, CMSG_DATA(c), sizeof(int));
    }
    return fd;
}

/* ---- how many -------------------------------------------------------------------------------- */

/* As many as may hold HELD_BYTES, if each has the largest buffer that it can get. */
static unsigned most_sockets(void)
{
    CLEANUP_FD int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    int bytes = INT_MAX;
    socklen_t len = sizeof(bytes);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes)) < 0 ||
        getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, &len) < 0 || bytes <= 0) {
        return SOCKETS_LEAST;
    }
    uint64_t most = HELD_BYTES / (uint64_t)bytes;
    return most > SOCKETS_MOST    ? SOCKETS_MOST
           : most < SOCKETS_LEAST ? SOCKETS_LEAST
                                  : (unsigned)most;
}

unsigned netlink_count(void)
{
    CLEANUP_BUF struct buf text;
    struct err err;
    unsigned count = UINT_MAX;
    buf_init(&text, COUNTS_MAX);
    const char *all = file_read(COUNTS, &text, &err) == 0 ? buf_cstr(&text) : NULL;
    const char *line = all != NULL ? strstr(all, "\nNETLINK ") : NULL;
    return line != NULL && sscanf(line, " NETLINK %*u %u", &count) == 1 ? count : UINT_MAX;
}

/* ---- one request ----------------------------------------------------------------------------- */

/* Makes a socket in the program that asks. Returns its number there, or -errno. *ret_answered: that
 * was the answer as well. */
static int make_netlink(int listener_fd, const struct seccomp_notif *asked, bool *ret_answered)
{
    int type = (int)asked->data.args[1];
    CLEANUP_FD int fd = socket(AF_NETLINK, type, NETLINK_ROUTE);
    if (fd < 0) {
        return -errno;
    }
    struct seccomp_notif_addfd given = {
        .id = asked->id,
        .flags = SECCOMP_ADDFD_FLAG_SEND,
        .srcfd = (uint32_t)fd,
        .newfd_flags = (type & SOCK_CLOEXEC) != 0 ? O_CLOEXEC : 0,
    };
    int number = ioctl(listener_fd, SECCOMP_IOCTL_NOTIF_ADDFD, &given);
    *ret_answered = number >= 0;
    if (number < 0 && errno == EINVAL) { /* Linux before 5.14 */
        given.flags = 0;
        number = ioctl(listener_fd, SECCOMP_IOCTL_NOTIF_ADDFD, &given);
    }
    return number < 0 ? -errno : number;
}

static void answer_request(const struct netlink *n, bool refuse)
{
    union {
        struct seccomp_notif notif;
        char room[ROOM];
    } asked = {.room = {0}};
    union {
        struct seccomp_notif_resp resp;
        char room[ROOM];
    } answer = {.room = {0}};
    if (ioctl(n->listener_fd, SECCOMP_IOCTL_NOTIF_RECV, &asked) < 0) {
        return; /* who asked has gone */
    }
    bool answered = false;
    int made = refuse ? -EMFILE : make_netlink(n->listener_fd, &asked.notif, &answered);
    if (answered || made == -ENOENT) {
        return; /* or who asked has gone */
    }
    answer.resp.id = asked.notif.id;
    answer.resp.val = made < 0 ? 0 : made;
    answer.resp.error = made < 0 ? made : 0;
    (void)ioctl(n->listener_fd, SECCOMP_IOCTL_NOTIF_SEND, &answer); /* or has gone now */
}

/* ---- in the keeper --------------------------------------------------------------------------- */

void netlink_take(struct netlink *n, int socket_fd, unsigned others)
{
    n->listener_fd = take_listener(socket_fd);
    n->most = n->listener_fd >= 0 ? most_sockets() + others : 0;
}

int netlink_poll_fd(const struct netlink *n)
{
    return n->full ? -1 : n->listener_fd;
}

int netlink_wait_ms(const struct netlink *n)
{
    return n->full ? WAIT_MS : -1;
}

void netlink_handle(struct netlink *n, short events)
{
    if (!n->full && (events & POLLIN) == 0) {
        if (events != 0) { /* no program has the filter any more */
            fd_close(&n->listener_fd);
        }
        return;
    }
    bool room = netlink_count() < n->most;
    n->waits = room ? 0 : n->waits + 1;
    n->full = !room && n->waits < WAITS_MOST;
    if (!n->full) {
        n->waits = n->waits < WAITS_MOST ? n->waits : WAITS_MOST;
        answer_request(n, !room);
    }
}
