/*
 * The properties of an engine that matter here, and a number that holds all of them, so that only
 * the first worker has to ask.
 *
 * Thread: any. Nothing blocks.
 */
#ifndef CLOISTER_WORKER_BACKEND_DOCKER_ENGINE_H
#define CLOISTER_WORKER_BACKEND_DOCKER_ENGINE_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/view.h"

#define DOCKER_API_MINOR_MIN 41 /* Docker 20.10; Podman 4 says the same */
#define DOCKER_API_MINOR_MAX 51 /* the newest version that this code is written for */

struct docker_engine {
    unsigned api_minor; /* of the version to speak, 1.x; 0: not negotiated */
    bool podman;
    bool userns;   /* each container has a user namespace of its own ("name=userns") */
    bool rootless; /* "name=rootless" */
    bool memory_limit, swap_limit, pids_limit, cpu_quota; /* what the kernel there can enforce */
    bool seccomp;
    bool cgroup_none; /* CgroupDriver "none": no limit at all is applied */
    bool cgroup_v1;
    bool old_kernel;        /* before Linux 5.9, see syscalls_can_be_answered() */
    uint64_t cpu_milli_max; /* all CPUs of the engine's host; 0: unknown */
};

/* Reads the headers of /_ping; `override` is DOCKER_API_VERSION or NULL. -ERR_ENGINE if both sides
 * have no version in common, or the engine does not run Linux containers. */
int docker_engine_negotiate(struct docker_engine *e, struct view api_version, struct view os_type,
                            const char *override, struct err *err) WARN_UNUSED;

/* Reads the answer of /info. -ERR_ENGINE if it is not an object. */
int docker_engine_read(struct docker_engine *e, const cJSON *info, struct err *err) WARN_UNUSED;

/* True if the engine has an OCI runtime of this name. */
bool docker_engine_has_runtime(const cJSON *info, const char *name);

/* What would make the engine apply a limit of docker_spec_unapplied(); NULL if nothing is known to.
 */
const char *docker_engine_remedy(const struct docker_engine *e, const char *note);

/* Never 0. */
uint32_t docker_engine_pack(const struct docker_engine *e);

/* False for a number that is not one of ours. */
bool docker_engine_unpack(uint64_t mode, struct docker_engine *ret);

#endif
