/*
 * Profiles: tools of other servers of this kind, by their names, with their arguments and results,
 * on our sandboxes. `--compat NAME` offers those of a profile beside our own; where two tools have
 * one name the first profile of the table has it, and any profile before us.
 *
 * Such a tool has no output schema: its result is one text, and what goes wrong in it is told
 * in that text, not by isError, because that is what its users know.
 *
 * Thread: the loop thread. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_COMPAT_PROFILE_H
#define CLOISTER_SUPERVISOR_COMPAT_PROFILE_H

#include <stddef.h>

struct config;
struct tool;

struct profile {
    const char *name;        /* as --compat knows it */
    const char *server_name; /* what that server calls itself */
    const struct tool *const *tools;
    size_t tool_count;
};

#define PROFILE_COUNT 4
extern const struct profile *const profiles[PROFILE_COUNT];

extern const struct profile profile_code_sandbox;
extern const struct profile profile_docker_interpreter;
extern const struct profile profile_python_env;
extern const struct profile profile_python_sandbox;

/* What we call ourselves: by the name of the profile's server if there is just one. */
const char *profiles_server_name(const struct config *config);

#endif
