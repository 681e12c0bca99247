/*
 * Builds a profile from the tables of common/syscalls.h, which has the reasons.
 *
 * Only native system calls are allowed; 32-bit programs (and "int 0x80") are killed. On 32-bit x86
 * socketcall passes the family of a socket in memory, and libseccomp then drops the condition on
 * it, which would allow AF_VSOCK.
 */
#include "worker/backend/seccomp.h"

#include <errno.h>
#include <stdint.h>
#include <sys/socket.h>

#include "common/syscalls.h"
#include "worker/backend/json_build.h"

#define NAME(name) #name,
static const char *const allowed[] = {SYSCALLS_ALLOWED(NAME)};
static const char *const refused[] = {SYSCALLS_REFUSED(NAME)};
static const char *const tracers[] = {SYSCALLS_TRACING(NAME)};
static const char *const agents[] = {SYSCALLS_OF_AGENT(NAME)};
#undef NAME

static const uint32_t personalities[] = {SYSCALLS_PERSONALITIES};
static const uint64_t families[] = {SYSCALLS_FAMILIES};
static const uint64_t absent_families[] = {SYSCALLS_ABSENT_FAMILIES};

static cJSON *add_rule(cJSON *rules, const char *const *names, size_t count, const char *action)
{
    cJSON *rule = json_build_append_object(rules);
    json_build_strings(rule, "names", names, count);
    json_build_string(rule, "action", action);
    return rule;
}

static void refuse_syscalls(cJSON *rules, const char *const *names, size_t count, int number)
{
    json_build_number(add_rule(rules, names, count, "SCMP_ACT_ERRNO"), "errnoRet",
                      (uint64_t)number);
}

static void add_arg(cJSON *rule, uint64_t value, const char *op)
{
    cJSON *arg = json_build_append_object(json_build_array(rule, "args"));
    json_build_number(arg, "index", 0);
    json_build_number(arg, "value", value);
    json_build_number(arg, "valueTwo", 0);
    json_build_string(arg, "op", op);
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
    json_build_strings(seccomp, "architectures", names, sizeof(names) / sizeof(names[0]));
}

cJSON *oci_seccomp_build(bool tracing)
{
    cJSON *seccomp = json_build_new();
    json_build_string(seccomp, "defaultAction", "SCMP_ACT_ERRNO");
    json_build_number(seccomp, "defaultErrnoRet", ENOSYS);
    add_architectures(seccomp);

    cJSON *rules = json_build_array(seccomp, "syscalls");
    size_t tracer_count = sizeof(tracers) / sizeof(tracers[0]);
    add_rule(rules, allowed, sizeof(allowed) / sizeof(allowed[0]), "SCMP_ACT_ALLOW");
    add_rule(rules, agents, sizeof(agents) / sizeof(agents[0]), "SCMP_ACT_ALLOW");
    refuse_syscalls(rules, refused, sizeof(refused) / sizeof(refused[0]), EPERM);
    if (tracing) {
        add_rule(rules, tracers, tracer_count, "SCMP_ACT_ALLOW");
    } else {
        refuse_syscalls(rules, tracers, tracer_count, EPERM);
    }

    static const char *const clone_name[] = {"clone"};
    add_arg(add_rule(rules, clone_name, 1, "SCMP_ACT_ALLOW"), SYSCALLS_NEW_NAMESPACES,
            "SCMP_CMP_MASKED_EQ");

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
        json_build_number(rule, "errnoRet", EAFNOSUPPORT);
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
