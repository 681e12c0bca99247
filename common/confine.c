/*
 * A bug in one of our processes should give its finder as little as possible. So each gives up what
 * its role does not need. What that can be depends on what it starts, because the kernel lets no
 * child have more:
 *
 *   - An OCI runtime that an ordinary user starts needs the set-user-id programs newuidmap and
 *     newgidmap, so supervisor and worker of such a user may not give up the right to gain
 *     privileges, without which a process without privileges may install no filter either. Only the
 *     workers that start nothing can.
 *   - As root nothing that is started gains anything. Then the capabilities of a process are a
 * limit for all below it, too: a program that root starts gets no more than its parent was
 * permitted. The supervisor must permit what runtimes need, though it switches off most of it for
 * itself. That holds also with an engine, since it sweeps what servers with other backends left.
 *
 * The filter is a list of what is refused, as runtimes differ in what they use. What is refused for
 * all is what the filter of a sandbox refuses its code, too, as far as no runtime makes a sandbox
 * by it: runc needs bpf for the devices of control groups and keyctl for a keyring of its own.
 */
#include "common/confine.h"

#ifdef __linux__
#include <errno.h>
#include <linux/capability.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/bpf.h"
#endif

#include "checked.h"
#include "common/log.h"
#include "common/syscalls.h"

#ifdef __linux__

/* ---- capabilities ---------------------------------------------------------------------------- */

#define CAPABILITY(name) (1ull << (name))

/* Files of others: configured ones, sockets of engines, what code left in a sandbox's directories.
 */
#define FILES (CAPABILITY(CAP_DAC_OVERRIDE) | CAPABILITY(CAP_DAC_READ_SEARCH))

/* To remove what code left, to give a saved file its owner (local_save.c), to kill what runs in
 * sandboxes (firsts.c) before it gets the CPU (urgency.c), to listen on port 443. */
#define SUPERVISOR                                                                                 \
    (FILES | CAPABILITY(CAP_CHOWN) | CAPABILITY(CAP_FOWNER) | CAPABILITY(CAP_FSETID) |             \
     CAPABILITY(CAP_KILL) | CAPABILITY(CAP_SYS_NICE) | CAPABILITY(CAP_NET_BIND_SERVICE))

/* Namespaces, mounts, devices, ids, limits, control groups. */
#define RUNTIMES                                                                                   \
    (SUPERVISOR | CAPABILITY(CAP_SETUID) | CAPABILITY(CAP_SETGID) | CAPABILITY(CAP_SETPCAP) |      \
     CAPABILITY(CAP_SETFCAP) | CAPABILITY(CAP_SYS_ADMIN) | CAPABILITY(CAP_SYS_CHROOT) |            \
     CAPABILITY(CAP_SYS_PTRACE) | CAPABILITY(CAP_SYS_RESOURCE) | CAPABILITY(CAP_NET_ADMIN) |       \
     CAPABILITY(CAP_MKNOD) | CAPABILITY(CAP_IPC_LOCK))

void confine_capabilities(enum confine_role role, unsigned long long *ret_own,
                          unsigned long long *ret_children)
{
    static const unsigned long long rows[][2] = {
        [CONFINE_NOTHING] = {~0ull, ~0ull},
        [CONFINE_SUPERVISOR] = {SUPERVISOR, RUNTIMES},
        [CONFINE_STARTS_RUNTIMES] = {RUNTIMES, RUNTIMES},
        [CONFINE_ONLY_TALKS] = {FILES, FILES},
    };
    *ret_own = rows[role][0];
    *ret_children = rows[role][1];
}

static void keep_capabilities(enum confine_role role)
{
    unsigned long long own, children;
    confine_capabilities(role, &own, &children);
    for (unsigned long cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++) {
        if ((children & CAPABILITY(cap)) == 0 && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0) {
            log_debug("keeps capability %lu for what it starts: %s", cap, strerror(errno));
        }
    }
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3];
    if (syscall(SYS_capget, &head, sets) < 0) {
        log_warn("keeps its capabilities: %s", strerror(errno));
        return;
    }
    for (unsigned i = 0; i < _LINUX_CAPABILITY_U32S_3; i++) {
        sets[i].permitted &= (uint32_t)(children >> (32 * i));
        sets[i].inheritable &= (uint32_t)(children >> (32 * i));
        sets[i].effective &= (uint32_t)(own >> (32 * i));
    }
    if (syscall(SYS_capset, &head, sets) < 0) {
        log_warn("keeps its capabilities: %s", strerror(errno));
    }
}

/* ---- system calls ---------------------------------------------------------------------------- */

/* The machine, its clock, its modules, and old parts of the kernel. */
static const unsigned refused_to_all[] = {
#ifdef SYS_iopl
    SYS_iopl,
    SYS_ioperm,
#endif
#ifdef SYS_kexec_file_load
    SYS_kexec_file_load,
#endif
#ifdef SYS_lookup_dcookie
    SYS_lookup_dcookie,
#endif
#ifdef SYS_quotactl_fd
    SYS_quotactl_fd,
#endif
    SYS_acct,
    SYS_add_key,
    SYS_adjtimex,
    SYS_clock_adjtime,
    SYS_clock_settime,
    SYS_delete_module,
    SYS_finit_module,
    SYS_init_module,
    SYS_kcmp,
    SYS_kexec_load,
    SYS_migrate_pages,
    SYS_move_pages,
    SYS_quotactl,
    SYS_open_by_handle_at,
    SYS_perf_event_open,
    SYS_reboot,
    SYS_request_key,
    SYS_settimeofday,
    SYS_swapoff,
    SYS_swapon,
    SYS_syslog,
    SYS_userfaultfd,
    SYS_vhangup,
};

/* Those get the answer of a kernel without them, since libraries then do without. */
static const unsigned absent_for_all[] = {SYS_io_uring_setup, SYS_io_uring_enter,
                                          SYS_io_uring_register};

/* Mounts, namespaces, other processes. */
static const unsigned refused_to_talkers[] = {
#if !CLOISTER_TRACEABLE /* the leak checker traces the process that it is in */
    SYS_ptrace,
#endif
#ifdef SYS_pidfd_getfd
    SYS_pidfd_getfd,
#endif
#ifdef SYS_mount_setattr
    SYS_mount_setattr,
#endif
#ifdef SYS_open_tree
    SYS_open_tree,
    SYS_move_mount,
    SYS_fsopen,
    SYS_fsconfig,
    SYS_fsmount,
    SYS_fspick,
#endif
    SYS_bpf,
    SYS_chroot,
    SYS_keyctl,
    SYS_mount,
    SYS_umount2,
    SYS_name_to_handle_at,
    SYS_setns,
    SYS_pivot_root,
    SYS_unshare,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
};

#define REFUSE_EACH(p, calls, number) bpf_answer_each(p, calls, BPF_COUNT(calls), BPF_ERROR(number))

/* The call's number is loaded, and in the end again. */
static void refuse_namespaces(struct bpf_program *p)
{
    /* its flags are in memory, where a filter cannot look; libc goes on with clone() */
    static const unsigned unseen[] = {SYS_clone3};
    REFUSE_EACH(p, unseen, ENOSYS);
    bpf_jump(p, BPF_JEQ, SYS_clone, 0, 4);
    bpf_load(p, offsetof(struct seccomp_data, args[0]));
    bpf_jump(p, BPF_JSET, SYSCALLS_NEW_NAMESPACES, 0, 1);
    bpf_answer(p, BPF_ERROR(EPERM));
    bpf_load(p, offsetof(struct seccomp_data, nr));
}

static int install_refusals(enum confine_role role)
{
    struct bpf_program p;
    bpf_begin(&p, BPF_ERROR(ENOSYS));
#ifdef __x86_64__
    bpf_jump(&p, BPF_JGE, 0x40000000u, 0, 1); /* x32 */
    bpf_answer(&p, BPF_ERROR(ENOSYS));
#endif
    REFUSE_EACH(&p, refused_to_all, EPERM);
    REFUSE_EACH(&p, absent_for_all, ENOSYS);
    if (role == CONFINE_ONLY_TALKS) {
        REFUSE_EACH(&p, refused_to_talkers, EPERM);
        refuse_namespaces(&p);
    }
    bpf_answer(&p, SECCOMP_RET_ALLOW);
    struct sock_fprog wanted = {.len = p.len, .filter = p.code};
    /* Kernels before 5.16 slow a filtered process down against attacks by speculation that need
     * code of the attacker in the same process. */
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW,
                        &wanted);
}

/* ---- interface ------------------------------------------------------------------------------- */

void confine_memory(void)
{
#if !CLOISTER_TRACEABLE
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
#endif
}

void confine_process(enum confine_role role)
{
    bool is_root = geteuid() == 0;
    if (role == CONFINE_NOTHING || (!is_root && role != CONFINE_ONLY_TALKS)) {
        return;
    }
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) {
        log_warn("may gain privileges: %s", strerror(errno));
        return; /* then a filter could make a set-user-id program fail half-way */
    }
    if (is_root) {
        keep_capabilities(role);
    }
    if (install_refusals(role) < 0) {
        log_warn("runs without a filter of its system calls: %s", strerror(errno));
    }
}

#else

void confine_memory(void)
{
}

void confine_process(enum confine_role role)
{
    (void)role;
}

void confine_capabilities(enum confine_role role, unsigned long long *ret_own,
                          unsigned long long *ret_children)
{
    (void)role;
    *ret_own = *ret_children = ~0ull;
}

#endif
