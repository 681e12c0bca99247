/*
 * The agent's own filter of system calls, each tried in a child that has installed it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "worker/agent/process/filter.h"

#define INSTALL_FAILED 250

/* Makes one call with up to three arguments in a child; returns 0 or its errno. */
static int tried(bool tracing, long number, long a, long b, long c)
{
    int status;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct err err = ERR_INIT;
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || filter_install(tracing, &err) < 0) {
            _exit(INSTALL_FAILED);
        }
        errno = 0;
        _exit(syscall(number, a, b, c, 0L, 0L, 0L) < 0 ? errno : 0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_not_equal(WEXITSTATUS(status), INSTALL_FAILED);
    return WEXITSTATUS(status);
}

static int tried_socket(int family, int type)
{
    return tried(true, SYS_socket, family, type, 0);
}

static void ordinary_calls_work(void **state)
{
    (void)state;
    assert_int_equal(tried(true, SYS_getpid, 0, 0, 0), 0);
    assert_int_equal(tried(true, SYS_getppid, 0, 0, 0), 0);
    assert_int_equal(tried(true, SYS_close, -1, 0, 0), EBADF); /* the kernel's own answer */
    assert_int_equal(tried(true, SYS_personality, (long)0xffffffff, 0, 0), 0);
    assert_int_equal(tried_socket(AF_UNIX, SOCK_STREAM), 0);
    assert_int_equal(tried_socket(AF_INET, SOCK_STREAM), 0);
    assert_int_equal(tried_socket(AF_INET6, SOCK_DGRAM), 0);
}

static void doors_of_the_kernel_are_shut(void **state)
{
    (void)state;
    assert_int_equal(tried(true, SYS_unshare, CLONE_NEWUSER, 0, 0), EPERM);
    assert_int_equal(tried(true, SYS_setns, -1, 0, 0), EPERM);
    assert_int_equal(tried(true, SYS_mount, 0, 0, 0), EPERM);
    assert_int_equal(tried(true, SYS_bpf, 0, 0, 0), EPERM);
    assert_int_equal(tried(true, SYS_keyctl, 0, 0, 0), EPERM);
    assert_int_equal(tried(true, SYS_perf_event_open, 0, 0, 0), EPERM);
}

static void namespaces_cannot_be_cloned(void **state)
{
    (void)state;
    assert_int_equal(tried(true, SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0), ENOSYS);
    assert_int_equal(tried(true, SYS_clone, CLONE_NEWNET | SIGCHLD, 0, 0), ENOSYS);
    assert_int_equal(tried(true, SYS_clone, SIGCHLD, 0, 0), 0); /* a plain fork */
}

/* Libraries can do without these calls. */
static void what_nobody_knows_does_not_exist(void **state)
{
    (void)state;
#ifdef SYS_clone3
    assert_int_equal(tried(true, SYS_clone3, 0, 0, 0), ENOSYS);
#endif
    assert_int_equal(tried(true, 425 /* io_uring_setup */, 4, 0, 0), ENOSYS);
    assert_int_equal(tried(true, 9999, 0, 0, 0), ENOSYS);
    assert_int_equal(tried(true, SYS_personality, ADDR_NO_RANDOMIZE, 0, 0), ENOSYS);
#ifdef __x86_64__
    assert_int_equal(tried(true, 0x40000000 | SYS_getpid, 0, 0, 0), ENOSYS); /* x32 */
#endif
}

static void odd_families_are_absent(void **state)
{
    (void)state;
    assert_int_equal(tried_socket(AF_PACKET, SOCK_RAW), EAFNOSUPPORT);
    assert_int_equal(tried_socket(AF_VSOCK, SOCK_STREAM), EAFNOSUPPORT);
    assert_int_equal(tried_socket(AF_ALG, SOCK_SEQPACKET), EAFNOSUPPORT);
    assert_int_equal(tried_socket(AF_RDS, SOCK_SEQPACKET), ENOSYS);
}

static void tracing_is_a_choice(void **state)
{
    (void)state;
    assert_int_equal(tried(true, SYS_ptrace, PTRACE_ATTACH, -1, 0), ESRCH);
    assert_int_equal(tried(false, SYS_ptrace, PTRACE_ATTACH, -1, 0), EPERM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ordinary_calls_work),
        cmocka_unit_test(doors_of_the_kernel_are_shut),
        cmocka_unit_test(namespaces_cannot_be_cloned),
        cmocka_unit_test(what_nobody_knows_does_not_exist),
        cmocka_unit_test(odd_families_are_absent),
        cmocka_unit_test(tracing_is_a_choice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
