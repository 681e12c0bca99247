/*
 * Asking the kernel for the name of each descriptor takes a few microseconds for the few
 * descriptors of our processes, and is done only when a link ends.
 *
 * Another thread may close a descriptor at any time, and its number may be reused. So a descriptor
 * with the right name is duplicated and checked again before it is used.
 */
#include "common/io/unix_link.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#ifdef __linux__
#include <linux/sockios.h>
#endif

#include "common/cleanup.h"
#include "common/str.h"

enum kind { KIND_OTHER, KIND_LINK, KIND_LISTENER };

static enum kind kind_of(int fd, const char *path, bool accepted)
{
    struct sockaddr_un addr;
    socklen_t len = sizeof(addr);
    int listening = 0;
    memset(&addr, 0, sizeof(addr));
    int rc = accepted ? getsockname(fd, (struct sockaddr *)&addr, &len)
                      : getpeername(fd, (struct sockaddr *)&addr, &len);
    if (rc < 0 || addr.sun_family != AF_UNIX ||
        strncmp(addr.sun_path, path, sizeof(addr.sun_path)) != 0) {
        return KIND_OTHER;
    }
    len = sizeof(listening);
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &len) < 0) {
        return KIND_OTHER;
    }
    return listening != 0 ? KIND_LISTENER : KIND_LINK;
}

typedef void (*link_fn)(int fd, enum kind kind, int *total);

static void each_link(const char *path, bool accepted, link_fn fn, int *total)
{
    DIR *dir = opendir("/dev/fd");
    const struct dirent *entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        struct err err = ERR_INIT;
        uint64_t number;
        if (str_to_u64(entry->d_name, 0, INT32_MAX, &number, &err) < 0 ||
            kind_of((int)number, path, accepted) == KIND_OTHER) {
            continue;
        }
        CLEANUP_FD int fd = fcntl((int)number, F_DUPFD_CLOEXEC, 0);
        enum kind kind = fd < 0 ? KIND_OTHER : kind_of(fd, path, accepted);
        if (kind != KIND_OTHER) {
            fn(fd, kind, total);
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
}

static void shut_down_side(int fd, enum kind kind, int *total)
{
    if (kind == KIND_LINK) {
        shutdown(fd, SHUT_RDWR);
    }
    struct pollfd waiting = {.fd = fd, .events = POLLIN};
    *total += kind == KIND_LINK || poll(&waiting, 1, 0) > 0 ? 1 : 0;
}

int unix_link_shutdown(const char *path, bool accepted)
{
    int total = 0;
    each_link(path, accepted, shut_down_side, &total);
    return total;
}

static void add_unread(int fd, enum kind kind, int *total)
{
#if defined(SIOCOUTQ)
    int bytes = 0;
    if (kind == KIND_LINK && ioctl(fd, SIOCOUTQ, &bytes) == 0) {
        *total = (*total < 0 ? 0 : *total) + bytes;
    }
#endif
}

int unix_link_unread(const char *path, bool accepted)
{
    int total = -1;
    each_link(path, accepted, add_unread, &total);
    return total;
}
