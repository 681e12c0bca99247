/*
 * Asking the kernel for the name of each descriptor costs a few microseconds for the handful that a
 * process of ours has, and is done only when a link ends.
 */
#include "common/io/unix_link.h"

#include <dirent.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#ifdef __linux__
#include <linux/sockios.h>
#endif

#include "common/str.h"

static bool is_link(int fd, const char *path, bool accepted)
{
    struct sockaddr_un addr;
    socklen_t len = sizeof(addr);
    int listening = 0;
    memset(&addr, 0, sizeof(addr));
    int rc = accepted ? getsockname(fd, (struct sockaddr *)&addr, &len)
                      : getpeername(fd, (struct sockaddr *)&addr, &len);
    if (rc < 0 || addr.sun_family != AF_UNIX ||
        strncmp(addr.sun_path, path, sizeof(addr.sun_path)) != 0) {
        return false;
    }
    len = sizeof(listening);
    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &len) == 0 && listening == 0;
}

static void each_link(const char *path, bool accepted, void (*fn)(int fd, int *total), int *total)
{
    DIR *dir = opendir("/dev/fd");
    const struct dirent *entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        struct err err = ERR_INIT;
        uint64_t fd;
        if (str_to_u64(entry->d_name, 0, INT32_MAX, &fd, &err) == 0 &&
            is_link((int)fd, path, accepted)) {
            fn((int)fd, total);
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
}

static void shut_down(int fd, int *total)
{
    *total += shutdown(fd, SHUT_RDWR) == 0 ? 1 : 0;
}

void unix_link_shutdown(const char *path, bool accepted)
{
    int count = 0;
    each_link(path, accepted, shut_down, &count);
}

static void add_unread(int fd, int *total)
{
#if defined(SIOCOUTQ)
    int bytes = 0;
    if (ioctl(fd, SIOCOUTQ, &bytes) == 0) {
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
