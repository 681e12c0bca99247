/*
 * What user code may ask the kernel for. The container has a filter as well where the engine takes
 * one from us (worker/backend/seccomp.c), but that one decides by names and few arguments, because
 * libseccomp has no "all but these" for an argument. And Podman's own lets user code make user
 * namespaces, and in them mounts, raw sockets and whatever else root may do. So the agent filters
 * its children on every backend. A process may always add a filter to itself and can never remove
 * one; of two filters the stricter answer applies.
 *
 * Arguments decide where a call is a door to many parts of the kernel: sockets are ordinary ones,
 * since others load modules; requests to devices are those that terminals, sockets and files of
 * programs need; no program is attached to a socket, and no filter to a process, as both take of
 * the memory for such programs that the whole host has once. Refused requests get the error of a
 * kernel or a device that does not know them, which programs are prepared for.
 *
 * A kernel with a handler for crashes runs it as root on the host, with names that user code has
 * chosen, unless RLIMIT_CORE is 1; 0 does not prevent it. So that limit stays as the agent has set
 * it. To set it succeeds without effect, since who does so wants no core file, and gets none.
 *
 * A socket for lists of interfaces is made by the keeper, which counts them (netlink.c).
 *
 * The kernel reads the lower half of an argument that is an int, and so does the filter: a value
 * with other bits above it is no way around.
 *
 * The program is a plain list of comparisons. Since Linux 5.11 the kernel computes once which calls
 * are allowed whatever their arguments, and does not run the program for them; before, some two
 * hundred comparisons cost a fraction of a microsecond.
 */
#include "worker/agent/process/filter.h"

#include <asm/termbits.h>
#include <assert.h>
#include <errno.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/netlink.h>
#include <linux/random.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/bpf.h"
#include "common/syscalls.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the lower half comes first");

#define NUMBERS 1024 /* of system calls; the highest is below 500 */

/* Begins rules that apply if the loaded word is `value`; end_if() ends them with what is answered
 * if none of them did. They may load other words. */
static unsigned short begin_if(struct bpf_program *p, unsigned value)
{
    bpf_jump(p, BPF_JEQ, value, 0, 0);
    return p->len;
}

static void end_if(struct bpf_program *p, unsigned short begun, unsigned action)
{
    bpf_answer(p, action);
    assert(p->len - begun <= UINT8_MAX);
    p->code[begun - 1].jf = (uint8_t)(p->len - begun);
}

static size_t lower_half(unsigned argument)
{
    return offsetof(struct seccomp_data, args) + argument * sizeof(uint64_t);
}

/* The call's number must be loaded; loads its first argument. */
static unsigned short begin_call(struct bpf_program *p, unsigned number)
{
    unsigned short begun = begin_if(p, number);
    bpf_load(p, lower_half(0));
    return begun;
}

/* Answers `action` if an argument that is a pointer is NULL. */
static void answer_if_null(struct bpf_program *p, unsigned argument, unsigned action)
{
    bpf_load(p, lower_half(argument));
    bpf_jump(p, BPF_JEQ, 0, 0, 3);
    bpf_load(p, lower_half(argument) + sizeof(uint32_t));
    bpf_answer_if(p, 0, action);
}

/* ---- sockets --------------------------------------------------------------------------------- */

/* TCP, UDP and ping. Others load modules, each with its own history of errors: SCTP, DCCP, MPTCP,
 * SMC. Raw sockets take a capability that user code has nowhere. */
static void add_internet_socket(struct bpf_program *p, unsigned family)
{
    static const unsigned protocols[] = {0, IPPROTO_ICMP, IPPROTO_TCP, IPPROTO_UDP, IPPROTO_ICMPV6};
    unsigned short begun = begin_if(p, family);
    bpf_load(p, lower_half(1));
    bpf_add(p,
            (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xf)); /* without its flags */
    bpf_answer_if(p, SOCK_RAW, BPF_ERROR(EPERM));
    bpf_jump(p, BPF_JEQ, SOCK_STREAM, 2, 0);
    bpf_jump(p, BPF_JEQ, SOCK_DGRAM, 1, 0);
    bpf_answer(p, BPF_ERROR(ESOCKTNOSUPPORT));
    bpf_load(p, lower_half(2));
    bpf_answer_each(p, protocols, BPF_COUNT(protocols), SECCOMP_RET_ALLOW);
    end_if(p, begun, BPF_ERROR(EPROTONOSUPPORT));
}

static void add_socket(struct bpf_program *p, unsigned for_netlink)
{
    unsigned short begun = begin_call(p, __NR_socket);
    bpf_answer_if(p, AF_UNIX, SECCOMP_RET_ALLOW);
    add_internet_socket(p, AF_INET);
    add_internet_socket(p, AF_INET6);
    /* lists of interfaces and routes, of which there may be only so many; not audit, netfilter,
     * IPsec, devices, the crypto API */
    unsigned short netlink = begin_if(p, AF_NETLINK);
    bpf_load(p, lower_half(2));
    bpf_answer_if(p, NETLINK_ROUTE, for_netlink);
    end_if(p, netlink, BPF_ERROR(EPROTONOSUPPORT));
    end_if(p, begun, BPF_ERROR(EAFNOSUPPORT));

    begun = begin_call(p, __NR_socketpair);
    bpf_answer_if(p, AF_UNIX, SECCOMP_RET_ALLOW);
    end_if(p, begun, BPF_ERROR(EOPNOTSUPP));
}

/* Programs attached to a socket take of the memory that the host has once for all such programs;
 * TCP_ULP puts another protocol on top (TLS, SMC, MPTCP). */
static void add_setsockopt(struct bpf_program *p)
{
    static const unsigned programs[] = {SO_ATTACH_FILTER, SO_ATTACH_BPF, SO_ATTACH_REUSEPORT_CBPF,
                                        SO_ATTACH_REUSEPORT_EBPF};
    static const unsigned levels[] = {SOL_IP,     IPPROTO_UDP, SOL_IPV6,
                                      SOL_ICMPV6, SOL_RAW,     SOL_NETLINK};
    unsigned short call = begin_if(p, __NR_setsockopt);
    bpf_load(p, lower_half(1));
    bpf_answer_each(p, levels, BPF_COUNT(levels), SECCOMP_RET_ALLOW);
    unsigned short begun = begin_if(p, SOL_SOCKET);
    bpf_load(p, lower_half(2));
    bpf_answer_each(p, programs, BPF_COUNT(programs), BPF_ERROR(ENOPROTOOPT));
    end_if(p, begun, SECCOMP_RET_ALLOW);
    begun = begin_if(p, IPPROTO_TCP);
    bpf_load(p, lower_half(2));
    bpf_answer_if(p, TCP_ULP, BPF_ERROR(ENOPROTOOPT));
    end_if(p, begun, SECCOMP_RET_ALLOW);
    end_if(p, call, BPF_ERROR(ENOPROTOOPT));
}

/* ---- requests to devices --------------------------------------------------------------------- */

/* Of terminals all but those that act on somebody else's or load modules: TIOCSTI, TIOCLINUX,
 * TIOCCONS, TIOCSETD, TIOCVHANGUP, and what serial lines and consoles have. Of sockets what tells
 * about interfaces; of files what copies, finds holes and shows attributes, and sets the flags that
 * the owner of a file may set (chattr). */
static void add_ioctl(struct bpf_program *p)
{
    static const unsigned terminals[] = {
        TCGETS,    TCSETS,     TCSETSW,    TCSETSF,    TCGETA,     TCSETA,     TCSETAW,   TCSETAF,
        TCGETS2,   TCSETS2,    TCSETSW2,   TCSETSF2,   TCSBRK,     TCSBRKP,    TIOCSBRK,  TIOCCBRK,
        TCXONC,    TCFLSH,     TIOCEXCL,   TIOCNXCL,   TIOCGEXCL,  TIOCSCTTY,  TIOCNOTTY, TIOCGPGRP,
        TIOCSPGRP, TIOCGSID,   TIOCOUTQ,   TIOCGWINSZ, TIOCSWINSZ, TIOCPKT,    TIOCGPKT,  TIOCGETD,
        TIOCGPTN,  TIOCSPTLCK, TIOCGPTLCK, TIOCGDEV,   TIOCSIG,    TIOCGPTPEER};
    static const unsigned descriptors[] = {FIONREAD, FIONBIO,  FIONCLEX,  FIOCLEX,
                                           FIOASYNC, FIOQSIZE, FIOSETOWN, FIOGETOWN};
    static const unsigned sockets[] = {
        SIOCSPGRP,      SIOCGPGRP,        SIOCATMARK,     SIOCGSTAMP_OLD, SIOCGSTAMPNS_OLD,
        SIOCGSTAMP_NEW, SIOCGSTAMPNS_NEW, SIOCOUTQNSD,    SIOCGIFNAME,    SIOCGIFCONF,
        SIOCGIFFLAGS,   SIOCGIFADDR,      SIOCGIFDSTADDR, SIOCGIFBRDADDR, SIOCGIFNETMASK,
        SIOCGIFMETRIC,  SIOCGIFMTU,       SIOCGIFHWADDR,  SIOCGIFINDEX,   SIOCGIFTXQLEN,
        SIOCGIFMAP,     SIOCETHTOOL};
    static const unsigned files[] = {FIGETBSZ,          FICLONE,         FICLONERANGE,
                                     FS_IOC_GETFLAGS,   FS_IOC_SETFLAGS, FS_IOC_GETVERSION,
                                     FS_IOC_FSGETXATTR, FS_IOC_FIEMAP,   RNDGETENTCNT};
    unsigned short begun = begin_if(p, __NR_ioctl);
    bpf_load(p, lower_half(1));
    bpf_answer_each(p, terminals, BPF_COUNT(terminals), SECCOMP_RET_ALLOW);
    bpf_answer_each(p, descriptors, BPF_COUNT(descriptors), SECCOMP_RET_ALLOW);
    bpf_answer_each(p, sockets, BPF_COUNT(sockets), SECCOMP_RET_ALLOW);
    bpf_answer_each(p, files, BPF_COUNT(files), SECCOMP_RET_ALLOW);
    end_if(p, begun, BPF_ERROR(ENOTTY));
}

/* ---- processes ------------------------------------------------------------------------------- */

static void add_clone(struct bpf_program *p)
{
    static const unsigned personalities[] = {SYSCALLS_PERSONALITIES};
    unsigned short begun = begin_call(p, __NR_clone);
    bpf_jump(p, BPF_JSET, SYSCALLS_NEW_NAMESPACES, 1, 0);
    bpf_answer(p, SECCOMP_RET_ALLOW);
    end_if(p, begun, BPF_ERROR(ENOSYS));

    begun = begin_call(p, __NR_personality);
    bpf_answer_each(p, personalities, BPF_COUNT(personalities), SECCOMP_RET_ALLOW);
    end_if(p, begun, BPF_ERROR(ENOSYS));
}

/* An answer of 0 is a success without any effect; but who wants the old limit as well would get
 * none, and so gets an error. */
static void add_core_limit(struct bpf_program *p)
{
    unsigned short begun;
#ifdef __NR_setrlimit
    begun = begin_call(p, __NR_setrlimit);
    bpf_answer_if(p, RLIMIT_CORE, BPF_ERROR(0));
    end_if(p, begun, SECCOMP_RET_ALLOW);
#endif
    begun = begin_if(p, __NR_prlimit64);
    bpf_load(p, lower_half(1));
    unsigned short core = begin_if(p, RLIMIT_CORE);
    answer_if_null(p, 2, SECCOMP_RET_ALLOW); /* only asks */
    answer_if_null(p, 3, BPF_ERROR(0));
    end_if(p, core, BPF_ERROR(EPERM));
    end_if(p, begun, SECCOMP_RET_ALLOW);
}

/* As a kernel without filters for processes says it. */
static void add_prctl(struct bpf_program *p)
{
    unsigned short begun = begin_call(p, __NR_prctl);
    bpf_answer_if(p, PR_SET_SECCOMP, BPF_ERROR(EINVAL));
    end_if(p, begun, SECCOMP_RET_ALLOW);
}

static void put_verdict(unsigned *verdicts, const unsigned *numbers, size_t count, unsigned action)
{
    for (size_t i = 0; i < count; i++) {
        assert(numbers[i] < NUMBERS);
        verdicts[numbers[i]] = action;
    }
}

/* What names alone decide: one comparison for each run of neighbours with the same answer. */
static void add_lists(struct bpf_program *p, bool tracing)
{
    unsigned verdicts[NUMBERS];
    const unsigned refuse = BPF_ERROR(EPERM), unknown = BPF_ERROR(ENOSYS);
    for (size_t i = 0; i < NUMBERS; i++) {
        verdicts[i] = unknown;
    }
    put_verdict(verdicts, filter_allowed, filter_allowed_count, SECCOMP_RET_ALLOW);
    put_verdict(verdicts, filter_tracing, filter_tracing_count,
                tracing ? SECCOMP_RET_ALLOW : refuse);
    put_verdict(verdicts, filter_refused, filter_refused_count, refuse);
    for (unsigned last = 0; last + 1 < NUMBERS; last++) {
        if (verdicts[last + 1] != verdicts[last]) {
            bpf_jump(p, BPF_JGT, last, 1, 0);
            bpf_answer(p, verdicts[last]);
        }
    }
    bpf_answer(p, unknown);
}

static void build_filter(struct bpf_program *p, bool tracing, unsigned for_netlink)
{
    bpf_begin(p, SECCOMP_RET_KILL_PROCESS);

    /* first: the lists below have these calls as well, for the container's filter */
    add_clone(p);
    add_core_limit(p);
    add_prctl(p);
    add_ioctl(p);
    add_socket(p, for_netlink);
    add_setsockopt(p);

    add_lists(p, tracing);
}

/* -1 if the kernel knows no listeners, or a filter of the container refuses to make one. */
#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif

static int install_with_listener(bool tracing)
{
    struct bpf_program program;
    build_filter(&program, tracing, SECCOMP_RET_USER_NOTIF);
    struct sock_fprog wanted = {.len = program.len, .filter = program.code};
    /* whose request is received is not woken up by signals before the answer, from Linux 5.19 on */
    const unsigned long flags[] = {
        SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV,
        SECCOMP_FILTER_FLAG_NEW_LISTENER,
    };
    int fd = -1;
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]) && fd < 0; i++) {
        fd = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags[i], &wanted);
    }
    return fd;
}

int filter_install(bool tracing, int *ret_listener, struct err *err)
{
    if (ret_listener != NULL) {
        *ret_listener = install_with_listener(tracing);
        if (*ret_listener >= 0) {
            return 0;
        }
    }
    struct bpf_program program;
    build_filter(&program, tracing, SECCOMP_RET_ALLOW);
    struct sock_fprog wanted = {.len = program.len, .filter = program.code};
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &wanted, 0, 0) < 0) {
        return err_sys(err, ERR_DENIED, errno, "cannot filter system calls");
    }
    return 0;
}
