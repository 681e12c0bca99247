/*
 * Replaces the agent in tests of the oci backend: it is the first process of the sandbox, and
 * serves one connection at a time on the inherited socket. A client sends one line, "user
 * <command>" or "agent <command>", and receives the output of the shell command, run as user code
 * or as the agent itself, until the connection is closed. "quit" ends the sandbox, "sleep" of
 * `check` hangs.
 *
 * Statically linked, so that it runs in any root directory.
 */
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <linux/capability.h>
#include <unistd.h>

#include "common/relay.h"

#define LISTEN_FD 3

static const char *value_of(int argc, char **argv, const char *option)
{
    for (int i = 1; i + 1 < argc; i++) {
        if (strcmp(argv[i], option) == 0) {
            return argv[i + 1];
        }
    }
    return "";
}

static int has(int argc, char **argv, const char *option)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], option) == 0) {
            return 1;
        }
    }
    return 0;
}

static void become_user(int single, uid_t user)
{
    for (int cap = 0; cap < 64; cap++) {
        prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
    }
    if (!single && (setgroups(0, NULL) < 0 || setresgid(user, user, user) < 0 ||
                    setresuid(user, user, user) < 0)) {
        _exit(90);
    }
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {{0}};
    if (syscall(SYS_capset, &head, none) < 0) {
        _exit(91);
    }
}

static void serve(int fd, int single, uid_t user)
{
    char line[4096];
    size_t len = 0;
    while (len < sizeof(line) - 1 && read(fd, line + len, 1) == 1 && line[len] != '\n') {
        len++;
    }
    line[len] = '\0';
    if (strcmp(line, "quit") == 0) {
        _exit(0);
    }
    char *command = strchr(line, ' ');
    if (command == NULL) {
        return;
    }
    *command++ = '\0';
    pid_t pid = fork();
    if (pid == 0) {
        dup2(fd, 1);
        dup2(fd, 2);
        close(fd);
        close(LISTEN_FD);
        if (strcmp(line, "user") == 0) {
            become_user(single, user);
        }
        if (chdir("/workspace") == 0) {
            execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        }
        _exit(92);
    }
    int status;
    waitpid(pid, &status, 0);
}

int main(int argc, char **argv)
{
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    if (argc > 1 && strcmp(argv[1], "check") == 0) {
        printf(TRIAL_PASSED TRIAL_HIDDEN TRIAL_COUNTED);
        return access("/bin/sh", X_OK) == 0 ? 0 : 1;
    }
    if (argc < 2 || strcmp(argv[1], "serve") != 0 ||
        strcmp(value_of(argc, argv, "--fd"), "3") != 0) {
        return 64;
    }
    signal(SIGPIPE, SIG_IGN);
    int single = has(argc, argv, "--single-uid");
    uid_t user = (uid_t)strtoul(value_of(argc, argv, "--uid"), NULL, 10);
    for (;;) {
        int fd = accept(LISTEN_FD, NULL, NULL);
        if (fd < 0) {
            return 1;
        }
        serve(fd, single, user);
        close(fd);
        while (waitpid(-1, NULL, WNOHANG) > 0) {
        }
    }
}
