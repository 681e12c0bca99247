/*
 * Profiles: tools of other servers of this kind, with their names, arguments and results, on our
 * sandboxes. `--compat NAME` offers a profile's tools beside our own. If two tools have one name,
 * the profile wins over our own tools; two profiles that have one cannot be on together.
 *
 * Such a tool has no output schema: its result is one text, which also reports failures, instead of
 * isError, because its users expect that.
 *
 * Thread: the loop thread. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_COMPAT_PROFILE_H
#define CLOISTER_SUPERVISOR_COMPAT_PROFILE_H

#include <stddef.h>

#include "common/err.h"

struct config;
struct tool;

struct profile {
    const char *name;         /* the value of --compat */
    const char *server_name;  /* the name that the other server reports */
    const char *instructions; /* how its tools are used */
    const struct tool *const *tools;
    size_t tool_count;
};

#define PROFILE_COUNT 5
extern const struct profile *const profiles[PROFILE_COUNT];

extern const struct profile profile_code_sandbox;
extern const struct profile profile_docker_interpreter;
extern const struct profile profile_python_env;
extern const struct profile profile_python_env_later;
extern const struct profile profile_python_sandbox;

/* -ERR_CONFIG: two profiles that are on have a tool of one name. */
int profiles_check(const struct config *config, struct err *err) WARN_UNUSED;

/* How the tools of all profiles that are on are used; "" if none is. The caller frees it. */
char *profiles_instructions(const struct config *config);

/* Our own name, or that of the profile's server if exactly one profile is on. */
const char *profiles_server_name(const struct config *config);

#endif
