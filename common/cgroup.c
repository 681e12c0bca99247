/*
 * Since Linux 5.14, version 2 kills a whole group with one write. Otherwise the list of its
 * processes is read and each is signalled. A pid of the list could only be reused in between if all
 * other pids were allocated within these microseconds.
 */
#include "common/cgroup.h"

#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/fd.h"
#include "common/str.h"

#define LIST_MAX (256u << 10)

static bool kill_by_file(const char *dir)
{
    CLEANUP_FREE char *path = alloc_printf("%s/cgroup.kill", dir);
    CLEANUP_FD int fd = open(path, O_WRONLY | O_CLOEXEC);
    return fd >= 0 && write(fd, "1", 1) == 1;
}

bool cgroup_kill(const char *dir)
{
    if (kill_by_file(dir)) {
        return true;
    }
    bool any = false;
    CLEANUP_FREE char *path = alloc_printf("%s/cgroup.procs", dir);
    CLEANUP_BUF struct buf list;
    buf_init(&list, LIST_MAX);
    char *rest =
        file_read(path, &list, NULL) == 0 && buf_cstr(&list) != NULL ? (char *)list.data : NULL;
    char *line;
    while (rest != NULL && (line = strsep(&rest, "\n")) != NULL) {
        uint64_t pid;
        /* 0 stands for a process of another pid namespace; kill(0) would kill our own process
         * group */
        if (str_to_u64(line, 2, INT32_MAX, &pid, NULL) == 0 && pid != (uint64_t)getpid() &&
            kill((pid_t)pid, SIGKILL) == 0) {
            any = true;
        }
    }
    return any;
}
