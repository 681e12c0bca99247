/*
 * A helper of a sandbox that has to run on the host, for the host's network, gets the ids of the
 * sandbox: nothing on the host belongs to them, and its capabilities count in the sandbox's
 * namespaces only. The worker cannot start it so by itself, because a process with threads cannot
 * enter a user namespace, and to lower its ids between fork and exec libuv has no means.
 */
#include "worker/agent/process/within.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "proto/exit_codes.h"

#define OWN_NAMESPACE "/proc/self/ns/user"

static int enter_namespace(uint64_t pid, struct err *err)
{
    char path[64];
    struct stat own, theirs;
    snprintf(path, sizeof(path), "/proc/%llu/ns/user", (unsigned long long)pid);
    CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &theirs) < 0 || stat(OWN_NAMESPACE, &own) < 0) {
        return err_sys(err, ERR_IO, errno, "within: %s", path);
    }
    if (own.st_dev == theirs.st_dev && own.st_ino == theirs.st_ino) {
        return 0;
    }
    if (setns(fd, CLONE_NEWUSER) < 0) {
        return err_sys(err, ERR_DENIED, errno, "within: cannot enter %s", path);
    }
    /* the ids of before have no meaning there */
    if (setgroups(0, NULL) < 0 || setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0) {
        return err_sys(err, ERR_DENIED, errno, "within: cannot become root of %s", path);
    }
    return 0;
}

int within_run(int argc, char **argv, struct err *err)
{
    uint64_t pid = 0;
    if (argc < 4 || strcmp(argv[0], "--pid") != 0 || strcmp(argv[2], "--") != 0) {
        err_set(err, ERR_INVALID, "within: --pid and -- with a command are needed");
        return EXIT_CODE_USAGE;
    }
    if (str_to_u64(argv[1], 1, INT32_MAX, &pid, err) < 0) {
        err_ignore(err_wrap(err, "within: --pid"));
        return EXIT_CODE_USAGE;
    }
    if (enter_namespace(pid, err) < 0) {
        return EXIT_CODE_SETUP;
    }
    execv(argv[3], &argv[3]);
    err_sys(err, ERR_CONFIG, errno, "within: %.256s", argv[3]);
    return EXIT_CODE_SETUP;
}
