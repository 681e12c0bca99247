/*
 * What a process gives up at its start because its role never needs it: being read by others,
 * privileges, system calls. Nothing can be taken back, and all programs that it starts inherit it.
 * Linux; nothing happens elsewhere.
 *
 * Thread: the first one, before there is a second, because the kernel confines threads and not
 * processes. Nothing blocks.
 */
#ifndef CLOISTER_COMMON_CONFINE_H
#define CLOISTER_COMMON_CONFINE_H

enum confine_role {
    CONFINE_NOTHING, /* keeps what it has */
    /* starts workers of any backend: it uses little itself and must leave them what they need */
    CONFINE_SUPERVISOR,
    /* starts OCI runtimes */
    CONFINE_STARTS_RUNTIMES,
    /* talks to an engine or a cluster, and starts nothing but a program that fetches a token */
    CONFINE_ONLY_TALKS,
};

/* No other process of this user can read the memory, the environment or the descriptors of this
 * one, or trace it, and it leaves no core dump. Not in debug builds and those with sanitizers. */
void confine_memory(void);

/* What cannot be given up on this host is logged, and the process goes on. */
void confine_process(enum confine_role role);

/* The capabilities that a role keeps when it runs as root, one bit each: `ret_own` for itself,
 * `ret_children` at most for what it starts. For tests. */
void confine_capabilities(enum confine_role role, unsigned long long *ret_own,
                          unsigned long long *ret_children);

#endif
