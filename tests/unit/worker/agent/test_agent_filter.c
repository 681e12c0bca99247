/*
 * The agent's own filter of system calls, each tried in a child that has installed it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "worker/agent/process/filter.h"
#include "worker/agent/process/netlink.h"

#define INSTALL_FAILED 250
#define NO_NETWORK     251
#define NETLINK_MOST   2
#define SIGNALLED      5  /* sockets */
#define SIGNALLED_MOST 10 /* more than are made: closed ones may count for a while */
#define SIGNAL_MS      5000

/* Makes one call with up to three arguments in a child; returns 0 or its errno. */
static int tried(bool tracing, long number, long a, long b, long c)
{
    int status;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct err err = ERR_INIT;
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || filter_install(tracing, NULL, &err) < 0) {
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
    assert_int_equal(tried(true, SYS_io_setup, 1, 0, 0), ENOSYS);
    assert_int_equal(tried(true, SYS_mq_open, 0, 0, 0), ENOSYS);
    assert_int_equal(tried(true, SYS_msgget, 0, 0, 0), ENOSYS);
    assert_int_equal(tried(true, SYS_seccomp, 2, 0, 0), ENOSYS);
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
    assert_int_equal(tried_socket(AF_RDS, SOCK_SEQPACKET), EAFNOSUPPORT);
    assert_int_equal(tried_socket(43 /* AF_SMC */, SOCK_STREAM), EAFNOSUPPORT);
    assert_int_equal(tried(true, SYS_socketpair, 30 /* AF_TIPC */, SOCK_STREAM, 0), EOPNOTSUPP);
}

/* The kernel would look for a module with the protocol. */
static void protocols_are_the_usual_ones(void **state)
{
    (void)state;
    static const int families[] = {AF_INET, AF_INET6};
    for (size_t i = 0; i < 2; i++) {
        int family = families[i];
        assert_int_equal(tried(true, SYS_socket, family, SOCK_STREAM, IPPROTO_TCP), 0);
        assert_int_equal(tried(true, SYS_socket, family, SOCK_DGRAM | SOCK_CLOEXEC, IPPROTO_UDP),
                         0);
        assert_int_equal(tried(true, SYS_socket, family, SOCK_STREAM, IPPROTO_SCTP),
                         EPROTONOSUPPORT);
        assert_int_equal(tried(true, SYS_socket, family, SOCK_STREAM, 262 /* MPTCP */),
                         EPROTONOSUPPORT);
        assert_int_equal(tried(true, SYS_socket, family, SOCK_STREAM, 256 /* SMC */),
                         EPROTONOSUPPORT);
        assert_int_equal(tried(true, SYS_socket, family, SOCK_DCCP, 0), ESOCKTNOSUPPORT);
        assert_int_equal(tried(true, SYS_socket, family, SOCK_SEQPACKET, 0), ESOCKTNOSUPPORT);
        assert_int_equal(tried(true, SYS_socket, family, SOCK_RAW, IPPROTO_TCP), EPERM);
    }
    assert_int_equal(tried(true, SYS_socket, AF_NETLINK, SOCK_RAW, NETLINK_ROUTE), 0);
    for (int protocol = 1; protocol < 32; protocol++) {
        assert_int_equal(tried(true, SYS_socket, AF_NETLINK, SOCK_RAW, protocol), EPROTONOSUPPORT);
    }
}

/* Bits that the kernel does not look at are no way around. */
static void upper_halves_do_not_matter(void **state)
{
    (void)state;
    const long above = 1L << 32;
    assert_int_equal(tried(true, SYS_socket, AF_NETLINK | above, SOCK_RAW, 6 /* XFRM */),
                     EPROTONOSUPPORT);
    assert_int_equal(tried(true, SYS_socket, AF_UNIX | above, SOCK_STREAM, 0), 0);
    assert_int_equal(tried(true, SYS_ioctl, -1, TIOCSTI | above, 0), ENOTTY);
    assert_int_equal(tried(true, SYS_prctl, PR_SET_SECCOMP | above, 2, 0), EINVAL);
}

static void requests_to_devices_are_the_usual_ones(void **state)
{
    (void)state;
    static const unsigned long known[] = {TCGETS,      TIOCGWINSZ,   FIONREAD, FIONBIO,
                                          SIOCGIFCONF, SIOCGIFINDEX, FICLONE,  FS_IOC_GETFLAGS};
    static const unsigned long unknown[] = {
        TIOCSTI,   TIOCLINUX, TIOCSETD, TIOCCONS, TIOCVHANGUP,           SIOCSIFADDR,
        SIOCADDRT, FITRIM,    FIFREEZE, FIBMAP,   0x4b33 /* KDSKBENT */, 0x5606 /* VT_ACTIVATE */,
        0xb701 /* NS_GET_USERNS */};
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        assert_int_equal(tried(true, SYS_ioctl, -1, (long)known[i], 0), EBADF); /* the kernel's */
    }
    for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
        assert_int_equal(tried(true, SYS_ioctl, -1, (long)unknown[i], 0), ENOTTY);
    }
}

static void nothing_is_attached_to_sockets(void **state)
{
    (void)state;
    static const int programs[] = {26, 50, 51, 52}; /* SO_ATTACH_… */
    for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++) {
        assert_int_equal(tried(true, SYS_setsockopt, -1, SOL_SOCKET, programs[i]), ENOPROTOOPT);
    }
    assert_int_equal(tried(true, SYS_setsockopt, -1, SOL_SOCKET, SO_REUSEADDR), EBADF);
    assert_int_equal(tried(true, SYS_setsockopt, -1, IPPROTO_TCP, TCP_NODELAY), EBADF);
    assert_int_equal(tried(true, SYS_setsockopt, -1, IPPROTO_TCP, TCP_ULP), ENOPROTOOPT);
    assert_int_equal(tried(true, SYS_setsockopt, -1, 282 /* SOL_TLS */, 1), ENOPROTOOPT);
    assert_int_equal(tried(true, SYS_prctl, PR_SET_SECCOMP, 2, 0), EINVAL);
}

static int open_netlink(int flags)
{
    int fd = socket(AF_NETLINK, SOCK_RAW | flags, NETLINK_ROUTE);
    return fd < 0 ? -errno : fd;
}

/* Becomes a program whose keeper is at the other end. */
static bool is_kept(int keeper_fd)
{
    struct err err = ERR_INIT;
    int listener = -1;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || filter_install(true, &listener, &err) < 0 ||
        listener < 0 || netlink_hand_over(keeper_fd, listener, &err) < 0) {
        return false;
    }
    close(listener);
    close(keeper_fd);
    return true;
}

/* What a program does returns the number of the step that failed. */
static int use_netlink(void)
{
    int first = open_netlink(0);
    int second = open_netlink(SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (first < 0 || fcntl(first, F_GETFD) != 0 || (fcntl(first, F_GETFL) & O_NONBLOCK) != 0) {
        return 1;
    }
    if (second < 0 || fcntl(second, F_GETFD) != FD_CLOEXEC ||
        (fcntl(second, F_GETFL) & O_NONBLOCK) == 0) {
        return 2;
    }
    if (open_netlink(0) != -EMFILE || open_netlink(0) != -EMFILE) {
        return 3;
    }
    close(first);
    if (open_netlink(0) < 0 || open_netlink(0) != -EMFILE) {
        return 4;
    }
    /* of the kernel's own errors */
    if (socket(AF_NETLINK, SOCK_STREAM, NETLINK_ROUTE) >= 0 || errno != EMFILE) {
        return 5;
    }
    close(second);
    return socket(AF_NETLINK, SOCK_STREAM, NETLINK_ROUTE) < 0 && errno == ESOCKTNOSUPPORT ? 0 : 6;
}

static volatile sig_atomic_t alarms;
static int told[2] = {-1, -1}; /* a pipe; the program writes a byte for each signal */
static pid_t signalled;        /* the program that gets signals; 0: none does */

static void on_alarm(int sig)
{
    (void)sig;
    alarms++;
    (void)!write(told[1], "", 1);
}

/* Names of the linker's --wrap. */
int __real_ioctl(int fd, unsigned long request, ...);
int __wrap_ioctl(int fd, unsigned long request, ...);

/* The program gets a signal at the worst time: when it has the socket, and before its keeper does
 * anything else. A call that signals do not wake up is answered first; the byte comes later then,
 * and this wait ends by its time. */
int __wrap_ioctl(int fd, unsigned long request, ...)
{
    va_list args;
    va_start(args, request);
    int rc = __real_ioctl(fd, request, va_arg(args, void *));
    int sys = errno;
    va_end(args);
    if (request == SECCOMP_IOCTL_NOTIF_ADDFD && rc >= 0 && signalled > 0) {
        struct pollfd comes = {.fd = told[0], .events = POLLIN};
        char byte;
        kill(signalled, SIGALRM);
        if (poll(&comes, 1, SIGNAL_MS) == 1) {
            (void)!read(told[0], &byte, 1);
        }
    }
    errno = sys;
    return rc;
}

static int count_files(void)
{
    int count = 0;
    for (int fd = 0; fd < 1024; fd++) {
        count += fcntl(fd, F_GETFD) >= 0;
    }
    return count;
}

static int use_netlink_under_signals(void)
{
    struct sigaction action = {.sa_handler = on_alarm};
    int before = count_files();
    sigaction(SIGALRM, &action, NULL);
    for (int made = 0; made < SIGNALLED;) {
        int fd = open_netlink(0);
        if (fd < 0 && fd != -EINTR) {
            return 1;
        }
        made += fd >= 0;
        if (fd >= 0) {
            close(fd);
        }
    }
    return alarms == 0 ? 2 : count_files() == before ? 0 : 3;
}

/* In a network of its own, since the kernel counts for one. */
static int keep_netlink(int (*use)(void))
{
    int ends[2];
    if (unshare(CLONE_NEWNET) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0) {
        return NO_NETWORK;
    }
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0 || pipe(told) < 0) {
        return INSTALL_FAILED;
    }
    pid_t pid = fork();
    if (pid == 0) {
        _exit(is_kept(ends[1]) ? use() : INSTALL_FAILED);
    }
    signalled = use == use_netlink_under_signals ? pid : 0;
    close(ends[1]);
    struct netlink n = {.listener_fd = -1};
    struct pollfd comes = {.fd = ends[0], .events = POLLIN};
    poll(&comes, 1, -1);
    netlink_take(&n, ends[0], 0);
    n.most = signalled > 0 ? SIGNALLED_MOST : NETLINK_MOST;
    while (n.listener_fd >= 0) { /* until the program has ended */
        struct pollfd asks = {.fd = netlink_poll_fd(&n), .events = POLLIN};
        poll(&asks, 1, netlink_wait_ms(&n));
        netlink_handle(&n, asks.revents);
    }
    int status = 0;
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status)
                                                                : INSTALL_FAILED;
}

static void must_use_netlink(int (*use)(void))
{
    int status;
    if (!netlink_is_bounded()) {
        skip();
    }
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        _exit(keep_netlink(use));
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == NO_NETWORK) {
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void sockets_of_netlink_are_made_by_the_keeper_and_counted(void **state)
{
    (void)state;
    must_use_netlink(use_netlink);
}

static void a_signal_while_a_socket_is_made_leaves_none_behind(void **state)
{
    (void)state;
    struct utsname kernel;
    unsigned major = 0;
    unsigned minor = 0;
    assert_int_equal(uname(&kernel), 0);
    assert_int_equal(sscanf(kernel.release, "%u.%u", &major, &minor), 2);
    if (major < 5 || (major == 5 && minor < 14)) {
        skip(); /* socket and answer are two steps there */
    }
    must_use_netlink(use_netlink_under_signals);
}

/* A success without effect, for those who want no core files. */
static void the_limit_of_core_files_stays(void **state)
{
    (void)state;
    long other = (long)(uintptr_t)state;
    assert_int_equal(tried(true, SYS_prlimit64, 0, RLIMIT_CORE, 1 /* would be EFAULT */), 0);
    assert_int_equal(tried(true, SYS_prlimit64, 0, RLIMIT_NOFILE, 1), EFAULT);
    assert_int_equal(tried(true, SYS_prlimit64, 0, RLIMIT_CORE, 0), 0);
    assert_int_equal(tried(true, SYS_prlimit64, 0, RLIMIT_CORE, other & ~0xffffffffL), 0);
#ifdef SYS_setrlimit
    assert_int_equal(tried(true, SYS_setrlimit, RLIMIT_CORE, 1, 0), 0);
    assert_int_equal(tried(true, SYS_setrlimit, RLIMIT_NOFILE, 1, 0), EFAULT);
#endif
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
        cmocka_unit_test(protocols_are_the_usual_ones),
        cmocka_unit_test(upper_halves_do_not_matter),
        cmocka_unit_test(requests_to_devices_are_the_usual_ones),
        cmocka_unit_test(nothing_is_attached_to_sockets),
        cmocka_unit_test(sockets_of_netlink_are_made_by_the_keeper_and_counted),
        cmocka_unit_test(a_signal_while_a_socket_is_made_leaves_none_behind),
        cmocka_unit_test(the_limit_of_core_files_stays),
        cmocka_unit_test(tracing_is_a_choice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
