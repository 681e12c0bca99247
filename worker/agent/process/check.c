/*
 * Tries once all that the agent needs, in the order in which it would fail. Without this, a fault
 * of the sandbox would show in the first call, as an error that explains nothing.
 */
#include "worker/agent/process/check.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statfs.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/fd.h"
#include "common/relay.h"

/* Of none, since this process may still count for root, who it was. */
static void tell_whether_counted(void)
{
    const struct rlimit none = {0, 0};
    if (setrlimit(RLIMIT_NPROC, &none) < 0) {
        return;
    }
    pid_t pid = fork();
    if (pid == 0) {
        _exit(0);
    }
    if (pid > 0) {
        (void)waitpid(pid, NULL, 0);
    } else if (errno == EAGAIN) {
        dprintf(STDOUT_FILENO, TRIAL_COUNTED);
    }
}

/* As the sandbox user: tries what user code may do. */
static int try_as_user(const struct spawn_config *c, struct err *err)
{
    int rc = spawn_become_user(c, 0, err);
    if (rc < 0) {
        return rc;
    }
    if (!c->single_uid && setresuid(0, 0, 0) == 0) {
        return err_set(err, ERR_DENIED, "the sandbox user can become root again");
    }
    if (chdir(c->workspace) < 0) {
        return err_sys(err, ERR_PATH, errno, "workspace %s", c->workspace);
    }
    char name[64];
    snprintf(name, sizeof(name), ".cloister-check-%d", (int)getpid());
    CLEANUP_FD int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        return err_sys(err, ERR_DENIED, errno, "write to the workspace %s", c->workspace);
    }
    unlink(name);
    if (access("/proc/1", F_OK) < 0 && errno == ENOENT) {
        dprintf(STDOUT_FILENO, TRIAL_HIDDEN);
    }
    tell_whether_counted();
    return 0;
}

static int try_in_child(const struct spawn_config *c, struct err *err)
{
    int pipe_fds[2];
    int rc = spawn_pipe(c, 0, pipe_fds, err);
    if (rc < 0) {
        return rc;
    }
    pid_t pid = fork();
    if (pid < 0) {
        rc = err_sys(err, ERR_BUSY, errno, "cannot start a process");
    } else if (pid == 0) {
        struct err why = ERR_INIT;
        if (try_as_user(c, &why) < 0) {
            err_ignore(fd_write_all(pipe_fds[1], why.text, strlen(why.text), NULL));
            _exit(1);
        }
        _exit(0);
    }
    close(pipe_fds[1]);
    int status = 0;
    if (pid > 0 && waitpid(pid, &status, 0) == pid && status != 0) {
        char text[256] = "";
        ssize_t n = read(pipe_fds[0], text, sizeof(text) - 1);
        rc = err_set(err, ERR_DENIED, "%s",
                     n > 0 ? text : "a process of the sandbox user was killed");
    }
    close(pipe_fds[0]);
    return rc;
}

/* A runtime may leave out a mount that it does not know. */
static int check_views(struct err *err)
{
    struct statfs fs;
    if (statfs("/", &fs) < 0 || fs.f_type != OVERLAYFS_SUPER_MAGIC) {
        return err_set(err, ERR_DENIED, "the root is no overlay, though it was to be");
    }
    if (access("/usr/bin", X_OK) < 0) {
        return err_sys(err, ERR_DENIED, errno, "the overlay of /usr shows no programs");
    }
    return 0;
}

static int check_socket(int fd, struct err *err)
{
    int listens = 0;
    socklen_t len = sizeof(listens);
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) < 0 || listens == 0) {
        return err_set(err, ERR_DENIED, "descriptor %d, the agent's socket, was not passed on", fd);
    }
    dprintf(STDOUT_FILENO, TRIAL_PASSED);
    return 0;
}

int check_sandbox(const struct spawn_config *c, int listen_fd, bool views, struct err *err)
{
    struct utsname kernel;
    if (uname(&kernel) == 0) {
        dprintf(STDOUT_FILENO, TRIAL_KERNEL, kernel.release, kernel.version);
    }
    int rc = listen_fd >= 0 ? check_socket(listen_fd, err) : 0;
    if (rc < 0) {
        return rc;
    }
    if (getpid() != 1) {
        return err_set(err, ERR_DENIED, "not the first process: pid %d", (int)getpid());
    }
    if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1) {
        return err_set(err, ERR_DENIED, "no_new_privs is not set");
    }
    if (access("/proc/self/stat", R_OK) < 0) {
        return err_sys(err, ERR_DENIED, errno, "/proc is not usable");
    }
    rc = views ? check_views(err) : 0;
    return rc < 0 ? rc : try_in_child(c, err);
}
