/*
 * The system calls that a sandbox may make. Two filters use this table: the container's, where the
 * engine takes ours, and the agent's own for user code, which looks at more arguments
 * (worker/agent/process/filter.c).
 *
 * A system call has one of three answers. Calls that ordinary programs need are allowed. Calls for
 * other namespaces, mounts, kernel keys, tracing of the kernel or the machine itself are refused
 * with EPERM, as a program without privileges expects. All other calls, in particular those of
 * newer kernels, get ENOSYS: C libraries then fall back to the older call, whereas EPERM would make
 * them fail. clone3 gets ENOSYS on purpose, because its flags are in memory, which a filter cannot
 * read, while those of clone can be checked.
 *
 * Some calls are missing although the kernel makes no privilege of them. AIO contexts, filters of
 * processes and POSIX message queues take of something that the host has once, or once for a user;
 * messages of System V outlive everybody who could read them; secret memory takes the kernel's own
 * map apart. Programs do without all of them.
 *
 * Network families are allowed by name, because not all of them respect network namespaces:
 * AF_VSOCK would reach the hypervisor from a sandbox that has no network at all.
 *
 * Names are those of the kernel, sorted as strcmp does.
 */
#ifndef CLOISTER_COMMON_SYSCALLS_H
#define CLOISTER_COMMON_SYSCALLS_H

#include <stdbool.h>
#include <stdio.h>

/* clang-format off */
#define SYSCALLS_ALLOWED(X)                                                                        \
    X(accept) X(accept4) X(access) X(alarm) X(arch_prctl) X(bind) X(brk) X(cachestat) X(capget)    \
    X(capset) X(chdir) X(chmod) X(chown) X(clock_getres) X(clock_gettime) X(clock_nanosleep)       \
    X(close) X(close_range) X(connect) X(copy_file_range) X(creat) X(dup) X(dup2) X(dup3)          \
    X(epoll_create) X(epoll_create1) X(epoll_ctl) X(epoll_ctl_old) X(epoll_pwait) X(epoll_pwait2)  \
    X(epoll_wait) X(epoll_wait_old) X(eventfd) X(eventfd2) X(execve) X(execveat) X(exit)           \
    X(exit_group) X(faccessat) X(faccessat2) X(fadvise64) X(fallocate) X(fchdir) X(fchmod)         \
    X(fchmodat) X(fchmodat2) X(fchown) X(fchownat) X(fcntl) X(fdatasync) X(fgetxattr)              \
    X(flistxattr) X(flock) X(fork) X(fremovexattr) X(fsetxattr) X(fstat) X(fstatfs) X(fsync)       \
    X(ftruncate) X(futex) X(futex_requeue) X(futex_wait) X(futex_waitv) X(futex_wake) X(futimesat) \
    X(get_robust_list) X(get_thread_area) X(getcpu) X(getcwd) X(getdents) X(getdents64) X(getegid) \
    X(geteuid) X(getgid) X(getgroups) X(getitimer) X(getpeername) X(getpgid) X(getpgrp) X(getpid)  \
    X(getppid) X(getpriority) X(getrandom) X(getresgid) X(getresuid) X(getrlimit) X(getrusage)     \
    X(getsid) X(getsockname) X(getsockopt) X(gettid) X(gettimeofday) X(getuid) X(getxattr)         \
    X(getxattrat) X(inotify_add_watch) X(inotify_init) X(inotify_init1) X(inotify_rm_watch)        \
    X(ioctl) X(ioprio_get) X(ioprio_set) X(kill) X(landlock_add_rule) X(landlock_create_ruleset)   \
    X(landlock_restrict_self) X(lchown) X(lgetxattr) X(link) X(linkat) X(listen) X(listxattr)      \
    X(listxattrat) X(llistxattr) X(lremovexattr) X(lseek) X(lsetxattr) X(lstat) X(madvise)         \
    X(map_shadow_stack) X(membarrier) X(memfd_create) X(mincore) X(mkdir) X(mkdirat) X(mknod)      \
    X(mknodat) X(mlock) X(mlock2) X(mlockall) X(mmap) X(mprotect) X(mremap) X(mseal) X(msync)      \
    X(munlock) X(munlockall) X(munmap) X(nanosleep) X(newfstatat) X(open) X(openat) X(openat2)     \
    X(pause) X(pidfd_open) X(pidfd_send_signal) X(pipe) X(pipe2) X(pkey_alloc) X(pkey_free)        \
    X(pkey_mprotect) X(poll) X(ppoll) X(prctl) X(pread64) X(preadv) X(preadv2) X(prlimit64)        \
    X(process_mrelease) X(pselect6) X(pwrite64) X(pwritev) X(pwritev2) X(read) X(readahead)        \
    X(readlink) X(readlinkat) X(readv) X(recvfrom) X(recvmmsg) X(recvmsg) X(remap_file_pages)      \
    X(removexattr) X(removexattrat) X(rename) X(renameat) X(renameat2) X(restart_syscall)          \
    X(riscv_flush_icache) X(riscv_hwprobe) X(rmdir) X(rseq) X(rt_sigaction) X(rt_sigpending)       \
    X(rt_sigprocmask) X(rt_sigqueueinfo) X(rt_sigreturn) X(rt_sigsuspend) X(rt_sigtimedwait)       \
    X(rt_tgsigqueueinfo) X(sched_get_priority_max) X(sched_get_priority_min) X(sched_getaffinity)  \
    X(sched_getattr) X(sched_getparam) X(sched_getscheduler) X(sched_rr_get_interval)              \
    X(sched_setaffinity) X(sched_setattr) X(sched_setparam) X(sched_setscheduler) X(sched_yield)   \
    X(select) X(semctl) X(semget) X(semop) X(semtimedop) X(sendfile) X(sendmmsg) X(sendmsg)        \
    X(sendto) X(set_robust_list) X(set_thread_area) X(set_tid_address) X(setfsgid) X(setfsuid)     \
    X(setgid) X(setgroups) X(setitimer) X(setpgid) X(setpriority) X(setregid) X(setresgid)         \
    X(setresuid) X(setreuid) X(setrlimit) X(setsid) X(setsockopt) X(setuid) X(setxattr)            \
    X(setxattrat) X(shmat) X(shmctl) X(shmdt) X(shmget) X(shutdown) X(sigaltstack) X(signalfd)     \
    X(signalfd4) X(socketpair) X(splice) X(stat) X(statfs) X(statx) X(symlink) X(symlinkat)        \
    X(sync) X(sync_file_range) X(syncfs) X(sysinfo) X(tee) X(tgkill) X(time) X(timer_create)       \
    X(timer_delete) X(timer_getoverrun) X(timer_gettime) X(timer_settime) X(timerfd_create)        \
    X(timerfd_gettime) X(timerfd_settime) X(times) X(tkill) X(truncate) X(umask) X(uname)          \
    X(unlink) X(unlinkat) X(utime) X(utimensat) X(utimes) X(vfork) X(vmsplice) X(wait4) X(waitid)  \
    X(write) X(writev)

#define SYSCALLS_REFUSED(X)                                                                        \
    X(acct) X(add_key) X(adjtimex) X(bpf) X(chroot) X(clock_adjtime) X(clock_settime)              \
    X(delete_module) X(fanotify_init) X(fanotify_mark) X(finit_module) X(fsconfig) X(fsmount)      \
    X(fsopen) X(fspick) X(get_mempolicy) X(init_module) X(ioperm) X(iopl) X(kcmp)                  \
    X(kexec_file_load) X(kexec_load) X(keyctl) X(listmount) X(lookup_dcookie) X(mbind)             \
    X(migrate_pages) X(modify_ldt) X(mount) X(mount_setattr) X(move_mount) X(move_pages)           \
    X(name_to_handle_at) X(open_by_handle_at) X(open_tree) X(open_tree_attr) X(perf_event_open)    \
    X(pidfd_getfd) X(pivot_root) X(process_madvise) X(quotactl) X(quotactl_fd) X(reboot)           \
    X(request_key) X(set_mempolicy) X(set_mempolicy_home_node) X(setdomainname) X(sethostname)     \
    X(setns) X(settimeofday) X(statmount) X(swapoff) X(swapon) X(syslog) X(umount2) X(unshare)     \
    X(userfaultfd) X(vhangup)

/* Tracing of other processes with the same uid, for debuggers. */
#define SYSCALLS_TRACING(X)                                                                        \
    X(process_vm_readv) X(process_vm_writev) X(ptrace)

/* What the agent alone needs, to filter the others. */
#define SYSCALLS_OF_AGENT(X) X(seccomp)
/* clang-format on */

/* Every flag of clone() that makes a namespace. CLONE_NEWTIME shares its bit with the signal number
 * in clone() and works in clone3 and unshare only. */
#define SYSCALLS_NEW_NAMESPACES                                                                    \
    (0x00020000u /* NEWNS */ | 0x02000000u /* NEWCGROUP */ | 0x04000000u /* NEWUTS */ |            \
     0x08000000u /* NEWIPC */ | 0x10000000u /* NEWUSER */ | 0x20000000u /* NEWPID */ |             \
     0x40000000u /* NEWNET */)

/* Plain Linux, 32-bit Linux, both claiming to be version 2.6, and "which is it?". */
#define SYSCALLS_PERSONALITIES 0x0, 0x8, 0x20000, 0x20008, 0xffffffff

/* First arguments of socket(). */
#define SYSCALLS_FAMILIES AF_UNIX, AF_INET, AF_INET6, AF_NETLINK

/* Families that get the error of a kernel without them, which programs can handle. */
#define SYSCALLS_ABSENT_FAMILIES AF_PACKET, AF_CAN, AF_BLUETOOTH, AF_ALG, AF_VSOCK

/* Whether a kernel that says this is its release ("6.1.0-13-amd64") lets one process answer calls
 * of another, and give it descriptors so: Linux 5.9 or later. A filter cannot be taken back, and
 * whether descriptors can be given shows only when somebody waits for one; so the number has to do.
 * gVisor has none of it, and says it is older. */
static inline bool syscalls_can_be_answered(const char *release)
{
    unsigned first, second;
    return sscanf(release, "%u.%u", &first, &second) == 2 &&
           (first > 5 || (first == 5 && second >= 9));
}

#endif
