/*
 * Somebody who runs code in a process of ours, to be preloaded into programs under test: when the
 * process has set itself up and enters its loop, it tries what an attacker would try and notes the
 * answers, a line "<what> <errno>" each (0: done), in "$TMPDIR/inside.<pid>".
 *
 * Nothing here changes the machine where it is allowed: keys go into a keyring of the process, new
 * namespaces to a child that ends at once.
 */
#include <dlfcn.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/timex.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define PUBLIC          __attribute__((visibility("default")))
#define PROCESS_KEYRING (-2)
#define NOBODY_PID      0x3ffffffe /* above every pid */

static void note(FILE *out, const char *what, long result)
{
    fprintf(out, "%s %d\n", what, result >= 0 ? 0 : errno);
}

static long try_child(unsigned long flags)
{
    long child = syscall(SYS_clone, flags | SIGCHLD, NULL, NULL, NULL, NULL);
    if (child == 0) {
        _exit(0);
    }
    if (child > 0) {
        waitpid((pid_t)child, NULL, 0);
    }
    return child;
}

static long try_read(void)
{
    char from = 'x', to = 0;
    struct iovec theirs = {&from, 1}, ours = {&to, 1};
    return syscall(SYS_process_vm_readv, getpid(), &ours, 1, &theirs, 1, 0);
}

static long try_perf(void)
{
    struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE, .size = sizeof(attr)};
    return syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
}

static long try_clock(void)
{
    struct timex t = {.modes = 0};
    return adjtimex(&t);
}

static long try_io_uring(void)
{
    char params[120] = {0};
    return syscall(SYS_io_uring_setup, 1, params);
}

static void try_all(FILE *out)
{
    note(out, "add_key", syscall(SYS_add_key, "user", "inside", "x", 1, PROCESS_KEYRING));
    note(out, "adjtimex", try_clock());
    note(out, "init_module", syscall(SYS_init_module, NULL, 0, ""));
    note(out, "io_uring", try_io_uring());
    note(out, "perf_event_open", try_perf());
    note(out, "swapoff", syscall(SYS_swapoff, "/nonexistent"));
    note(out, "syslog", syscall(SYS_syslog, 10, NULL, 0));
    note(out, "userfaultfd", syscall(SYS_userfaultfd, 0));
    note(out, "child", try_child(0));
    note(out, "namespace", try_child(CLONE_NEWUSER));
    note(out, "mount", syscall(SYS_mount, "none", "/nonexistent", "tmpfs", 0, NULL));
    note(out, "memory", try_read());
    note(out, "setns", syscall(SYS_setns, -1, 0));
    note(out, "trace", ptrace(PTRACE_ATTACH, NOBODY_PID, NULL, NULL));
    note(out, "unshare", syscall(SYS_unshare, 0));
}

static void tell(void)
{
    const char *place = getenv("TMPDIR");
    char path[512], draft[512];
    int n = snprintf(path, sizeof(path), "%s/inside.%d", place != NULL ? place : "/tmp", getpid());
    snprintf(draft, sizeof(draft), "%s/draft.%d", place != NULL ? place : "/tmp", getpid());
    FILE *out = n > 0 && (size_t)n < sizeof(path) ? fopen(draft, "we") : NULL;
    if (out != NULL) {
        try_all(out);
        fclose(out);
        (void)!rename(draft, path); /* the test reads it when it has its name */
    }
}

/* The loop of libuv, which all of our processes but the agent run. */
PUBLIC int uv_run(void *loop, int mode);

int uv_run(void *loop, int mode)
{
    static int (*real)(void *loop, int mode);
    if (real == NULL) {
        void *found = dlsym(RTLD_NEXT, "uv_run");
        memcpy(&real, &found, sizeof(real));
        tell();
    }
    return real(loop, mode);
}
