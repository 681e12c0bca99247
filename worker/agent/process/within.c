/*
 * A helper of a sandbox that has to run on the host, for the host's network, gets the ids of the
 * sandbox: nothing on the host belongs to them, and its capabilities count in the sandbox's
 * namespaces only. The worker cannot start it so by itself, because a process with threads cannot
 * enter a user namespace, and to lower its ids between fork and exec libuv has no means.
 */
#include "worker/agent/process/within.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "proto/exit_codes.h"
#include "worker/agent/process/namespace.h"

static int enter_namespace(uint64_t pid, struct err *err)
{
    CLEANUP_FD int fd = -1;
    bool own = false;
    int rc = namespace_open(pid, "user", &fd, &own, err);
    rc = rc < 0 || own ? rc : namespace_enter_user(fd, false, err);
    return rc < 0 ? err_wrap(err, "within") : 0;
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
