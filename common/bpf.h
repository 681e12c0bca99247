/*
 * Building filters of system calls: plain lists of comparisons, each with an answer (seccomp).
 * Linux.
 *
 * Thread: any. Nothing blocks or allocates.
 */
#ifndef CLOISTER_COMMON_BPF_H
#define CLOISTER_COMMON_BPF_H

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__)
#define BPF_NATIVE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define BPF_NATIVE AUDIT_ARCH_AARCH64
#elif defined(__riscv) && __riscv_xlen == 64
#define BPF_NATIVE AUDIT_ARCH_RISCV64
#else
#error "add the name that the audit system has for this architecture"
#endif

#define BPF_PROGRAM_MAX   1024
#define BPF_ERROR(number) (SECCOMP_RET_ERRNO | (unsigned)(number))
#define BPF_COUNT(array)  (sizeof(array) / sizeof((array)[0]))

struct bpf_program {
    unsigned short len;
    struct sock_filter code[BPF_PROGRAM_MAX];
};

static inline void bpf_add(struct bpf_program *p, struct sock_filter instruction)
{
    if (p->len < BPF_PROGRAM_MAX) { /* the kernel refuses a program that is cut short */
        p->code[p->len++] = instruction;
    }
}

/* Loads a word of struct seccomp_data, which the next comparisons are about. */
static inline void bpf_load(struct bpf_program *p, size_t offset)
{
    bpf_add(p, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)offset));
}

/* Compares the loaded word (BPF_JEQ, BPF_JGT, BPF_JGE, BPF_JSET) and skips so many instructions. */
static inline void bpf_jump(struct bpf_program *p, unsigned comparison, unsigned value,
                            unsigned char if_true, unsigned char if_false)
{
    bpf_add(p,
            (struct sock_filter)BPF_JUMP(BPF_JMP | comparison | BPF_K, value, if_true, if_false));
}

static inline void bpf_answer(struct bpf_program *p, unsigned action)
{
    bpf_add(p, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action));
}

/* Answers `action` if the loaded word is `value`. */
static inline void bpf_answer_if(struct bpf_program *p, unsigned value, unsigned action)
{
    bpf_jump(p, BPF_JEQ, value, 0, 1);
    bpf_answer(p, action);
}

static inline void bpf_answer_each(struct bpf_program *p, const unsigned *values, size_t count,
                                   unsigned action)
{
    for (size_t i = 0; i < count; i++) {
        bpf_answer_if(p, values[i], action);
    }
}

/* The first instructions: calls of another architecture, whose numbers mean other calls, are
 * answered with `foreign`. Leaves the call's number loaded. */
static inline void bpf_begin(struct bpf_program *p, unsigned foreign)
{
    p->len = 0;
    bpf_load(p, offsetof(struct seccomp_data, arch));
    bpf_jump(p, BPF_JEQ, BPF_NATIVE, 1, 0);
    bpf_answer(p, foreign);
    bpf_load(p, offsetof(struct seccomp_data, nr));
}

#endif
