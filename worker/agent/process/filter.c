/*
 * Some engines take no seccomp profile from us and have a permissive one: Podman's lets user code
 * make user namespaces, and in them mounts, raw sockets and whatever else root may do. So the agent
 * filters its own children. A process may always add a filter to itself and can never remove one;
 * where the engine filters, too, the stricter answer applies.
 *
 * The program is a plain list of comparisons. Since Linux 5.11 the kernel computes once which calls
 * are allowed whatever their arguments, and does not run the program for them; before, a few
 * hundred comparisons cost a fraction of a microsecond.
 */
#include "worker/agent/process/filter.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "common/syscalls.h"

#if defined(__x86_64__)
#define NATIVE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE AUDIT_ARCH_AARCH64
#elif defined(__riscv) && __riscv_xlen == 64
#define NATIVE AUDIT_ARCH_RISCV64
#else
#error "add the name that the audit system has for this architecture"
#endif

/* The lower half of the first argument, which decides for clone, socket and personality. */
#define FIRST_ARGUMENT offsetof(struct seccomp_data, args[0])
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the lower half comes first");

#define PROGRAM_MAX 1024

struct program {
    unsigned short len;
    struct sock_filter code[PROGRAM_MAX];
};

static void emit(struct program *p, struct sock_filter instruction)
{
    if (p->len < PROGRAM_MAX) { /* the kernel refuses a program that is cut short */
        p->code[p->len++] = instruction;
    }
}

static void load(struct program *p, size_t offset)
{
    emit(p, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)offset));
}

static void add_verdict(struct program *p, unsigned action)
{
    emit(p, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action));
}

/* Answers `action` if the loaded word is `value`. */
static void answer_if(struct program *p, unsigned value, unsigned action)
{
    emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1));
    add_verdict(p, action);
}

static void answer_each(struct program *p, const unsigned *values, size_t count, unsigned action)
{
    for (size_t i = 0; i < count; i++) {
        answer_if(p, values[i], action);
    }
}

/* Begins the rules of one call; end_call() ends them. The call's number must be loaded. */
static unsigned short begin_call(struct program *p, unsigned number)
{
    emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 0));
    load(p, FIRST_ARGUMENT);
    return p->len;
}

static void end_call(struct program *p, unsigned short begun, unsigned action)
{
    add_verdict(p, action);
    p->code[begun - 2].jf = (uint8_t)(p->len - begun + 1);
}

static void build_filter(struct program *p, bool tracing)
{
    static const unsigned personalities[] = {SYSCALLS_PERSONALITIES};
    static const unsigned families[] = {SYSCALLS_FAMILIES};
    static const unsigned absent[] = {SYSCALLS_ABSENT_FAMILIES};
    const unsigned refuse = SECCOMP_RET_ERRNO | EPERM;
    const unsigned unknown = SECCOMP_RET_ERRNO | ENOSYS;

    load(p, offsetof(struct seccomp_data, arch));
    emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NATIVE, 1, 0));
    add_verdict(p, SECCOMP_RET_KILL_PROCESS);
    load(p, offsetof(struct seccomp_data, nr));

    unsigned short begun = begin_call(p, __NR_clone);
    emit(p,
         (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, SYSCALLS_NEW_NAMESPACES, 1, 0));
    add_verdict(p, SECCOMP_RET_ALLOW);
    end_call(p, begun, unknown);

    begun = begin_call(p, __NR_socket);
    answer_each(p, families, sizeof(families) / sizeof(families[0]), SECCOMP_RET_ALLOW);
    answer_each(p, absent, sizeof(absent) / sizeof(absent[0]), SECCOMP_RET_ERRNO | EAFNOSUPPORT);
    end_call(p, begun, unknown);

    begun = begin_call(p, __NR_personality);
    answer_each(p, personalities, sizeof(personalities) / sizeof(personalities[0]),
                SECCOMP_RET_ALLOW);
    end_call(p, begun, unknown);

    answer_each(p, filter_allowed, filter_allowed_count, SECCOMP_RET_ALLOW);
    answer_each(p, filter_tracing, filter_tracing_count, tracing ? SECCOMP_RET_ALLOW : refuse);
    answer_each(p, filter_refused, filter_refused_count, refuse);
    add_verdict(p, unknown);
}

int filter_install(bool tracing, struct err *err)
{
    struct program program = {0};
    build_filter(&program, tracing);
    struct sock_fprog wanted = {.len = program.len, .filter = program.code};
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &wanted, 0, 0) < 0) {
        return err_sys(err, ERR_DENIED, errno, "cannot filter system calls");
    }
    return 0;
}
