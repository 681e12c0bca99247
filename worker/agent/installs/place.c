/*
 * Everything belongs to the agent's user, so code can use it and not change it. With a single uid
 * it can, and then only harms itself: what comes by the socket is checked again at every hop.
 */
#include "worker/agent/installs/place.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/fd.h"
#include "proto/limits.h"
#include "worker/agent/interp/drivers.h"
#include "worker/agent/link/endpoint.h"
#include "worker/agent/run/userenv.h"

static int make_directory(const char *top, const char *name, struct err *err)
{
    CLEANUP_FREE char *path = alloc_printf("%s%s", top, name);
    int rc = dir_make_one(path, 0755, err);
    return rc < 0                  ? rc
           : chmod(path, 0755) < 0 ? err_sys(err, ERR_IO, errno, "cannot open %s to the user", path)
                                   : 0;
}

static int make_name(const char *top, const char *name, const char *program, struct err *err)
{
    CLEANUP_FREE char *path = alloc_printf("%s/bin/%s", top, name);
    if (symlink(program, path) < 0 && errno != EEXIST) {
        return err_sys(err, ERR_IO, errno, "cannot make %s", path);
    }
    return 0;
}

static int make_names(const char *top, const struct spawn_config *spawn, struct err *err)
{
    char program[LIMIT_PATH];
    ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);
    if (n < 0) {
        return err_sys(err, ERR_IO, errno, "cannot find this program");
    }
    program[n] = '\0';
    int rc = make_name(top, "pip", program, err);
    rc = rc < 0 ? rc : make_name(top, "pip3", program, err);
    CLEANUP_FREE char *npm = NULL;
    bool has_npm = spawn_find_program(spawn, "npm", &npm) == SPAWN_FOUND;
    return rc < 0 || !has_npm ? rc : make_name(top, "npm", program, err);
}

static int make_module(const char *top, struct err *err)
{
    CLEANUP_FREE char *path = alloc_printf("%s/python/pip/__init__.py", top);
    CLEANUP_FD int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0) {
        return err_sys(err, ERR_IO, errno, "cannot make %s", path);
    }
    int rc = fd_write_all(fd, driver_pip_front, strlen(driver_pip_front), err);
    return rc < 0                 ? rc
           : fchmod(fd, 0644) < 0 ? err_sys(err, ERR_IO, errno, "cannot open %s to the user", path)
                                  : 0;
}

/* Anybody may connect. */
static int make_installs_socket(const char *path, int *ret_fd, struct err *err)
{
    CLEANUP_FD int fd = -1;
    int rc = endpoint_listen(path, &fd, err);
    if (rc < 0) {
        return rc;
    }
    if (chmod(path, 0666) < 0) {
        return err_sys(err, ERR_IO, errno, "cannot open %s to the user", path);
    }
    *ret_fd = steal_fd(&fd);
    return 0;
}

int place_open(const char *dir, const struct spawn_config *spawn, bool on, int *ret_fd,
               struct err *err)
{
    CLEANUP_FREE char *path = alloc_printf("%s/socket", dir);
    CLEANUP_FD int fd = -1;
    int rc = make_directory(dir, "", err);
    rc = rc < 0 ? rc : make_directory(dir, "/bin", err);
    rc = rc < 0 ? rc : make_directory(dir, "/python", err);
    rc = rc < 0 ? rc : make_directory(dir, "/python/pip", err);
    rc = rc < 0 ? rc : make_names(dir, spawn, err);
    rc = rc < 0 ? rc : make_module(dir, err);
    if (rc == 0 && on) {
        rc = make_installs_socket(path, &fd, err);
    }
    if (rc == 0 && setenv(PLACE_VARIABLE, fd >= 0 ? path : PLACE_OFF, 1) < 0) {
        rc = err_sys(err, ERR_NO_MEMORY, errno, "cannot set %s", PLACE_VARIABLE);
    }
    rc = rc < 0 ? rc : userenv_add("PATH", dir, "/bin", true, SPAWN_DEFAULT_PATH, err);
    rc = rc < 0 ? rc : userenv_add("PYTHONPATH", dir, "/python", true, "", err);
    if (rc == 0) {
        *ret_fd = steal_fd(&fd);
    }
    return rc;
}
