/*
 * In a user namespace no file of a device can be made, so a runtime binds those of the host's /dev
 * into the container. Each sandbox would have the same inode as all others and the host: a lock on
 * a range of /dev/null is seen by all, and so carries bytes from one to the other.
 *
 * So this program makes such files in a small tmpfs and binds them over those of /dev, for the
 * runtime only: its mount namespace ends with it, and the container has binds of the files by then.
 */
#include "worker/agent/process/devices.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "proto/exit_codes.h"

/* What every OCI runtime puts into a container. */
static const struct {
    const char *name;
    unsigned major, minor;
} device_files[] = {
    {"null", 1, 3},   {"zero", 1, 5},    {"full", 1, 7},
    {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0},
};

#define DEVICE_COUNT (sizeof(device_files) / sizeof(device_files[0]))

static int put_device(const char *at, size_t i, struct err *err)
{
    char made[4096], seen[64];
    const char *name = device_files[i].name;
    int len = snprintf(made, sizeof(made), "%s/%s", at, name);
    snprintf(seen, sizeof(seen), "/dev/%s", name);
    if (len < 0 || (size_t)len >= sizeof(made)) {
        return err_set(err, ERR_CONFIG, "devices: too long a path: %.256s", at);
    }
    dev_t number = makedev(device_files[i].major, device_files[i].minor);
    if (mknod(made, S_IFCHR | 0666, number) < 0 || chmod(made, 0666) < 0) {
        return err_sys(err, ERR_CONFIG, errno, "devices: cannot make %s", name);
    }
    if (mount(made, seen, NULL, MS_BIND, NULL) < 0) {
        return err_sys(err, ERR_CONFIG, errno, "devices: cannot mount on %s", seen);
    }
    return 0;
}

int devices_run(int argc, char **argv, struct err *err)
{
    if (argc < 4 || strcmp(argv[0], "--at") != 0 || strcmp(argv[2], "--") != 0) {
        err_set(err, ERR_INVALID, "devices: --at and -- with a command are needed");
        return EXIT_CODE_USAGE;
    }
    /* what the host mounts or unmounts later is followed, nothing goes back */
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0 ||
        mount("devices", argv[1], "tmpfs", MS_NOSUID | MS_NOEXEC,
              "mode=0755,size=4096,nr_inodes=16") < 0) {
        err_sys(err, ERR_CONFIG, errno, "devices: cannot mount on %.256s", argv[1]);
        return EXIT_CODE_SETUP;
    }
    for (size_t i = 0; i < DEVICE_COUNT; i++) {
        if (put_device(argv[1], i, err) < 0) {
            return EXIT_CODE_SETUP;
        }
    }
    execv(argv[3], &argv[3]);
    err_sys(err, ERR_CONFIG, errno, "%.256s", argv[3]);
    return EXIT_CODE_SETUP;
}
