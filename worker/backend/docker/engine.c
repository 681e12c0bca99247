/*
 * GET /info is slow, because it counts containers and examines storage, and its answer hardly ever
 * changes. So it is requested once per server, and the few bits below are passed to the workers of
 * sandboxes as a number.
 */
#include "worker/backend/docker/engine.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/io/json.h"
#include "common/str.h"
#include "common/syscalls.h"

#define CPUS_MAX  4095u
#define MODE_MARK 1u /* tells a packed number from 0, "unknown" */
#define MINOR_BIT 1
#define FLAGS_BIT 8
#define CPUS_BIT  20

static const size_t flags[] = {
    offsetof(struct docker_engine, podman),      offsetof(struct docker_engine, userns),
    offsetof(struct docker_engine, rootless),    offsetof(struct docker_engine, memory_limit),
    offsetof(struct docker_engine, swap_limit),  offsetof(struct docker_engine, pids_limit),
    offsetof(struct docker_engine, cpu_quota),   offsetof(struct docker_engine, seccomp),
    offsetof(struct docker_engine, cgroup_none), offsetof(struct docker_engine, cgroup_v1),
    offsetof(struct docker_engine, old_kernel),
};

#define FLAG_COUNT (sizeof(flags) / sizeof(flags[0]))
_Static_assert(FLAGS_BIT + FLAG_COUNT <= CPUS_BIT, "the flags fit");

uint32_t docker_engine_pack(const struct docker_engine *e)
{
    uint64_t cpus = e->cpu_milli_max / 1000;
    uint32_t mode = MODE_MARK | (e->api_minor & 0x7fu) << MINOR_BIT;
    for (size_t i = 0; i < FLAG_COUNT; i++) {
        mode |= (*(const bool *)((const char *)e + flags[i]) ? 1u : 0u) << (FLAGS_BIT + i);
    }
    return mode | (uint32_t)(cpus < CPUS_MAX ? cpus : CPUS_MAX) << CPUS_BIT;
}

bool docker_engine_unpack(uint64_t mode, struct docker_engine *ret)
{
    if ((mode & MODE_MARK) == 0 || mode > UINT32_MAX) {
        return false;
    }
    *ret = (struct docker_engine){.api_minor = (unsigned)(mode >> MINOR_BIT) & 0x7fu,
                                  .cpu_milli_max = (mode >> CPUS_BIT) * 1000};
    for (size_t i = 0; i < FLAG_COUNT; i++) {
        *(bool *)((char *)ret + flags[i]) = (mode >> (FLAGS_BIT + i) & 1) != 0;
    }
    return true;
}

/* "1.43" as 43. */
static bool read_minor(struct view version, uint64_t *ret)
{
    CLEANUP_FREE char *text = alloc_viewdup(version);
    return strncmp(text, "1.", 2) == 0 && str_to_u64(text + 2, 0, 1000, ret, NULL) == 0;
}

int docker_engine_negotiate(struct docker_engine *e, struct view api_version, struct view os_type,
                            const char *override, struct err *err)
{
    uint64_t newest;
    uint64_t wanted = DOCKER_API_MINOR_MAX;
    if (os_type.len > 0 && !view_is(os_type, "linux")) {
        return err_set(err, ERR_ENGINE,
                       "the engine runs %.*s containers: switch it to Linux containers",
                       VIEW_ARG(os_type));
    }
    if (!read_minor(api_version, &newest)) {
        return err_set(err, ERR_ENGINE, "this is not a Docker engine: it names no API version");
    }
    if (newest < DOCKER_API_MINOR_MIN) {
        return err_set(err, ERR_ENGINE,
                       "the engine is too old: its API is 1.%u, 1.%d is needed (Docker 20.10)",
                       (unsigned)newest, DOCKER_API_MINOR_MIN);
    }
    if (override != NULL && override[0] != '\0' && !read_minor(view_of(override), &wanted)) {
        return err_set(err, ERR_CONFIG, "DOCKER_API_VERSION=%s is no version such as 1.43",
                       override);
    }
    e->api_minor = (unsigned)(wanted < newest ? wanted : newest);
    return 0;
}

static bool truth(const cJSON *info, const char *key)
{
    return cJSON_IsTrue(json_get(info, key));
}

/* An entry such as "name=seccomp,profile=builtin". */
static bool has_option(const cJSON *info, const char *name)
{
    const cJSON *item;
    size_t len = strlen(name);
    cJSON_ArrayForEach(item, json_get(info, "SecurityOptions"))
    {
        const char *text = cJSON_GetStringValue(item);
        if (text != NULL && strncmp(text, "name=", 5) == 0 && strncmp(text + 5, name, len) == 0 &&
            (text[5 + len] == '\0' || text[5 + len] == ',')) {
            return true;
        }
    }
    return false;
}

int docker_engine_read(struct docker_engine *e, const cJSON *info, struct err *err)
{
    const char *driver = json_get_str(info, "CgroupDriver");
    const char *version = json_get_str(info, "CgroupVersion");
    const char *kernel = json_get_str(info, "KernelVersion");
    const cJSON *cpus = json_get(info, "NCPU");
    if (!cJSON_IsObject(info) || json_get_str(info, "OSType") == NULL) {
        return err_set(err, ERR_ENGINE, "the engine does not describe itself as one");
    }
    if (strcmp(json_get_str(info, "OSType"), "linux") != 0) {
        return err_set(err, ERR_ENGINE,
                       "the engine runs %.32s containers: switch it to Linux containers",
                       json_get_str(info, "OSType"));
    }
    e->userns = has_option(info, "userns");
    e->rootless = has_option(info, "rootless");
    e->seccomp = has_option(info, "seccomp");
    e->memory_limit = truth(info, "MemoryLimit");
    e->swap_limit = truth(info, "SwapLimit");
    e->pids_limit = truth(info, "PidsLimit");
    e->cpu_quota = truth(info, "CpuCfsQuota");
    e->cgroup_none = driver != NULL && strcmp(driver, "none") == 0;
    e->cgroup_v1 = version != NULL && strcmp(version, "1") == 0;
    e->old_kernel = kernel != NULL && !syscalls_can_be_answered(kernel);
    if (e->podman && e->rootless && e->cgroup_v1) {
        e->cgroup_none = true; /* Podman cannot apply limits there, and does not report that */
    }
    if (json_is_int(cpus) && cpus->valuedouble > 0 && cpus->valuedouble <= CPUS_MAX) {
        e->cpu_milli_max = (uint64_t)cpus->valuedouble * 1000;
    }
    return 0;
}

bool docker_engine_has_runtime(const cJSON *info, const char *name)
{
    return cJSON_IsObject(json_get(json_get(info, "Runtimes"), name));
}

/* ---- what would help ------------------------------------------------------------------------- */

static const char *remedy_for_engine_cgroups(const struct docker_engine *e)
{
    if (e->cgroup_none && e->rootless) {
        return "an engine without root limits only where its host has cgroups of version 2 and "
               "systemd hands them to users: \"[Service] Delegate=cpu cpuset io memory pids\" in "
               "/etc/systemd/system/user@.service.d/delegate.conf, sudo systemctl daemon-reload, "
               "log "
               "in again and start the engine anew; or use an engine that root runs";
    }
    if (e->cgroup_none) {
        return "give the engine control groups: start it where /sys/fs/cgroup can be written, with "
               "its usual cgroup driver";
    }
    return "boot the engine's host with the controllers switched on: cgroup_enable=memory "
           "swapaccount=1 on the kernel's command line";
}

const char *docker_engine_remedy(const struct docker_engine *e, const char *note)
{
    static const struct {
        const char *name, *remedy;
    } rows[] = {
        {"swap",
         "boot the engine's host with swapaccount=1 on the kernel's command line, or switch "
         "swap off there: swapoff -a"},
        {"sockets",
         "boot the engine's host with systemd.unified_cgroup_hierarchy=1 on the kernel's "
         "command line (cgroups of version 2)"},
        {"ptys", "use Docker Engine instead of Podman, or a runtime of this host (--backend oci)"},
        {"shm",
         "use an engine that maps no ids (Docker Engine of root, without userns-remap), or a "
         "runtime of this host (--backend oci)"},
        {"inotify", "as for shm"},
        {"netlink", "boot a newer kernel (Linux 5.9 or later) on the engine's host"},
        {"io",
         "name the disk of the engine's host that has its files: --io-device /dev/sda; a rootless "
         "engine and one without cgroups have no such limit"},
        {"io writes",
         "boot the engine's host with systemd.unified_cgroup_hierarchy=1 on the kernel's "
         "command line (cgroups of version 2)"},
        {"packages", "leave --build-packages off, or use a runtime of this host (--backend oci)"},
    };
    size_t len = strcspn(note, ":");
    if (strncmp(note, "memory:", len + 1) == 0 || strncmp(note, "cpus:", len + 1) == 0 ||
        strncmp(note, "pids:", len + 1) == 0) {
        return remedy_for_engine_cgroups(e);
    }
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (strlen(rows[i].name) == len && strncmp(note, rows[i].name, len) == 0) {
            return rows[i].remedy;
        }
    }
    return NULL;
}
