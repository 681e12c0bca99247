/*
 * Three answers to a system call. The ones that ordinary programs need are allowed. The ones that
 * would reach for other namespaces, mounts, kernel keys, tracing of the kernel or the machine
 * itself are refused with EPERM, which is what a program without privilege expects to hear.
 * Everything else, above all what kernels newer than this table will add, "does not exist"
 * (ENOSYS): C libraries then fall back to the older call, where EPERM would make them give up.
 * clone3 is answered so on purpose, because its flags lie in memory where a filter cannot look,
 * while those of clone can be checked.
 *
 * Network families are allowed by name, because not all of them respect network namespaces:
 * AF_VSOCK would reach the hypervisor from a sandbox that has no network at all.
 *
 * Only the native system calls exist; 32-bit programs (and "int 0x80") are killed. On 32-bit x86
 * the family of a socket hides in memory behind socketcall, and the library that builds these
 * filters then drops the condition on it, which would open AF_VSOCK again.
 */
#include "worker/backend/oci_seccomp.h"

#include <errno.h>
#include <stdint.h>
#include <sys/socket.h>

#include "worker/backend/oci_json.h"

/* clang-format off */
static const char *const allowed[] = {
    "accept", "accept4", "access", "alarm", "arch_prctl", "bind", "brk", "cachestat", "capget",
    "capset", "chdir", "chmod", "chown", "clock_getres", "clock_gettime", "clock_nanosleep",
    "close", "close_range", "connect", "copy_file_range", "creat", "dup", "dup2", "dup3",
    "epoll_create", "epoll_create1", "epoll_ctl", "epoll_ctl_old", "epoll_pwait",
    "epoll_pwait2", "epoll_wait", "epoll_wait_old", "eventfd", "eventfd2", "execve", "execveat",
    "exit", "exit_group", "faccessat", "faccessat2", "fadvise64", "fallocate", "fchdir",
    "fchmod", "fchmodat", "fchmodat2", "fchown", "fchownat", "fcntl", "fdatasync", "fgetxattr",
    "flistxattr", "flock", "fork", "fremovexattr", "fsetxattr", "fstat", "fstatfs", "fsync",
    "ftruncate", "futex", "futex_requeue", "futex_wait", "futex_waitv", "futex_wake",
    "futimesat", "get_robust_list", "get_thread_area", "getcpu", "getcwd", "getdents",
    "getdents64", "getegid", "geteuid", "getgid", "getgroups", "getitimer", "getpeername",
    "getpgid", "getpgrp", "getpid", "getppid", "getpriority", "getrandom", "getresgid",
    "getresuid", "getrlimit", "getrusage", "getsid", "getsockname", "getsockopt", "gettid",
    "gettimeofday", "getuid", "getxattr", "getxattrat", "inotify_add_watch", "inotify_init",
    "inotify_init1", "inotify_rm_watch", "io_cancel", "io_destroy", "io_getevents",
    "io_pgetevents", "io_setup", "io_submit", "ioctl", "ioprio_get", "ioprio_set", "kill",
    "landlock_add_rule", "landlock_create_ruleset", "landlock_restrict_self", "lchown",
    "lgetxattr", "link", "linkat", "listen", "listxattr", "listxattrat", "llistxattr",
    "lremovexattr", "lseek", "lsetxattr", "lstat", "madvise", "map_shadow_stack", "membarrier",
    "memfd_create", "memfd_secret", "mincore", "mkdir", "mkdirat", "mknod", "mknodat", "mlock",
    "mlock2", "mlockall", "mmap", "mprotect", "mq_getsetattr", "mq_notify", "mq_open",
    "mq_timedreceive", "mq_timedsend", "mq_unlink", "mremap", "mseal", "msgctl", "msgget",
    "msgrcv", "msgsnd", "msync", "munlock", "munlockall", "munmap", "nanosleep", "newfstatat",
    "open", "openat", "openat2", "pause", "pidfd_open", "pidfd_send_signal", "pipe", "pipe2",
    "pkey_alloc", "pkey_free", "pkey_mprotect", "poll", "ppoll", "prctl", "pread64", "preadv",
    "preadv2", "prlimit64", "process_mrelease", "pselect6", "pwrite64", "pwritev", "pwritev2",
    "read", "readahead", "readlink", "readlinkat", "readv", "recvfrom", "recvmmsg", "recvmsg",
    "remap_file_pages", "removexattr", "removexattrat", "rename", "renameat", "renameat2",
    "restart_syscall", "riscv_flush_icache", "riscv_hwprobe", "rmdir", "rseq", "rt_sigaction",
    "rt_sigpending", "rt_sigprocmask", "rt_sigqueueinfo", "rt_sigreturn", "rt_sigsuspend",
    "rt_sigtimedwait", "rt_tgsigqueueinfo", "sched_get_priority_max", "sched_get_priority_min",
    "sched_getaffinity", "sched_getattr", "sched_getparam", "sched_getscheduler",
    "sched_rr_get_interval", "sched_setaffinity", "sched_setattr", "sched_setparam",
    "sched_setscheduler", "sched_yield", "seccomp", "select", "semctl", "semget", "semop",
    "semtimedop", "sendfile", "sendmmsg", "sendmsg", "sendto", "set_robust_list",
    "set_thread_area", "set_tid_address", "setfsgid", "setfsuid", "setgid", "setgroups",
    "setitimer", "setpgid", "setpriority", "setregid", "setresgid", "setresuid", "setreuid",
    "setrlimit", "setsid", "setsockopt", "setuid", "setxattr", "setxattrat", "shmat", "shmctl",
    "shmdt", "shmget", "shutdown", "sigaltstack", "signalfd", "signalfd4", "socketpair",
    "splice", "stat", "statfs", "statx", "symlink", "symlinkat", "sync", "sync_file_range",
    "syncfs", "sysinfo", "tee", "tgkill", "time", "timer_create", "timer_delete",
    "timer_getoverrun", "timer_gettime", "timer_settime", "timerfd_create", "timerfd_gettime",
    "timerfd_settime", "times", "tkill", "truncate", "umask", "uname", "unlink", "unlinkat",
    "utime", "utimensat", "utimes", "vfork", "vmsplice", "wait4", "waitid", "write", "writev",
};

static const char *const refused[] = {
    "acct", "add_key", "adjtimex", "bpf", "chroot", "clock_adjtime", "clock_settime",
    "delete_module", "fanotify_init", "fanotify_mark", "finit_module", "fsconfig", "fsmount",
    "fsopen", "fspick", "get_mempolicy", "init_module", "ioperm", "iopl", "kcmp",
    "kexec_file_load", "kexec_load", "keyctl", "listmount", "lookup_dcookie", "mbind",
    "migrate_pages", "modify_ldt", "mount", "mount_setattr", "move_mount", "move_pages",
    "name_to_handle_at", "open_by_handle_at", "open_tree", "open_tree_attr", "perf_event_open",
    "pidfd_getfd", "pivot_root", "process_madvise", "quotactl", "quotactl_fd", "reboot",
    "request_key", "set_mempolicy", "set_mempolicy_home_node", "setdomainname", "sethostname",
    "setns", "settimeofday", "statmount", "swapoff", "swapon", "syslog", "umount2", "unshare",
    "userfaultfd", "vhangup",
};

static const char *const tracers[] = {"process_vm_readv", "process_vm_writev", "ptrace"};
/* clang-format on */

/* Every flag of clone() that makes a namespace. CLONE_NEWTIME shares its bit with the signal number
 * in clone() and works in clone3 and unshare only. */
#define NEW_NAMESPACES                                                                             \
    (0x00020000u /* NEWNS */ | 0x02000000u /* NEWCGROUP */ | 0x04000000u /* NEWUTS */ |            \
     0x08000000u /* NEWIPC */ | 0x10000000u /* NEWUSER */ | 0x20000000u /* NEWPID */ |             \
     0x40000000u /* NEWNET */)

/* Plain Linux, 32-bit Linux, both claiming to be version 2.6, and "which is it?". */
static const uint32_t personalities[] = {0x0, 0x8, 0x20000, 0x20008, 0xffffffff};

static const uint64_t families[] = {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK};

/* Programs that look for these can cope with a kernel that was built without them. */
static const uint64_t absent_families[] = {AF_PACKET, AF_CAN, AF_BLUETOOTH, AF_ALG, AF_VSOCK};

static cJSON *add_rule(cJSON *rules, const char *const *names, size_t count, const char *action)
{
    cJSON *rule = oci_json_append_object(rules);
    oci_json_strings(rule, "names", names, count);
    oci_json_string(rule, "action", action);
    return rule;
}

static void refuse(cJSON *rules, const char *const *names, size_t count, int number)
{
    oci_json_number(add_rule(rules, names, count, "SCMP_ACT_ERRNO"), "errnoRet", (uint64_t)number);
}

static void add_arg(cJSON *rule, uint64_t value, const char *op)
{
    cJSON *arg = oci_json_append_object(oci_json_array(rule, "args"));
    oci_json_number(arg, "index", 0);
    oci_json_number(arg, "value", value);
    oci_json_number(arg, "valueTwo", 0);
    oci_json_string(arg, "op", op);
}

static void add_architectures(cJSON *seccomp)
{
    static const char *const names[] = {
#if defined(__x86_64__)
        "SCMP_ARCH_X86_64",
#elif defined(__aarch64__)
        "SCMP_ARCH_AARCH64",
#elif defined(__riscv)
        "SCMP_ARCH_RISCV64",
#else
#error "add the names that seccomp has for this architecture"
#endif
    };
    oci_json_strings(seccomp, "architectures", names, sizeof(names) / sizeof(names[0]));
}

cJSON *oci_seccomp_build(bool tracing)
{
    cJSON *seccomp = oci_json_new();
    oci_json_string(seccomp, "defaultAction", "SCMP_ACT_ERRNO");
    oci_json_number(seccomp, "defaultErrnoRet", ENOSYS);
    add_architectures(seccomp);

    cJSON *rules = oci_json_array(seccomp, "syscalls");
    size_t tracer_count = sizeof(tracers) / sizeof(tracers[0]);
    add_rule(rules, allowed, sizeof(allowed) / sizeof(allowed[0]), "SCMP_ACT_ALLOW");
    refuse(rules, refused, sizeof(refused) / sizeof(refused[0]), EPERM);
    if (tracing) {
        add_rule(rules, tracers, tracer_count, "SCMP_ACT_ALLOW");
    } else {
        refuse(rules, tracers, tracer_count, EPERM);
    }

    static const char *const clone_name[] = {"clone"};
    add_arg(add_rule(rules, clone_name, 1, "SCMP_ACT_ALLOW"), NEW_NAMESPACES, "SCMP_CMP_MASKED_EQ");

    static const char *const personality_name[] = {"personality"};
    for (size_t i = 0; i < sizeof(personalities) / sizeof(personalities[0]); i++) {
        add_arg(add_rule(rules, personality_name, 1, "SCMP_ACT_ALLOW"), personalities[i],
                "SCMP_CMP_EQ");
    }

    static const char *const socket_name[] = {"socket"};
    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
        add_arg(add_rule(rules, socket_name, 1, "SCMP_ACT_ALLOW"), families[i], "SCMP_CMP_EQ");
    }
    /* One rule for each: libseccomp takes no ranges beside exact values of the same argument. */
    for (size_t i = 0; i < sizeof(absent_families) / sizeof(absent_families[0]); i++) {
        cJSON *rule = add_rule(rules, socket_name, 1, "SCMP_ACT_ERRNO");
        oci_json_number(rule, "errnoRet", EAFNOSUPPORT);
        add_arg(rule, absent_families[i], "SCMP_CMP_EQ");
    }
    return seccomp;
}

const char *const *oci_seccomp_allowed(size_t *ret_count)
{
    *ret_count = sizeof(allowed) / sizeof(allowed[0]);
    return allowed;
}

const char *const *oci_seccomp_refused(size_t *ret_count)
{
    *ret_count = sizeof(refused) / sizeof(refused[0]);
    return refused;
}
