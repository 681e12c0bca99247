/*
 * Every default of a sandbox is in this file, next to its reason, so that reviewing what user code
 * can reach means reading the resulting config.json and this page. What all backends have in common
 * (sizes, environment) is in sandbox_defaults.
 *
 * Who is who inside: uid 0 is the agent, which keeps four capabilities in order to become, end and
 * bound the user's processes; they are in none of the sets that survive an exec, and user code gets
 * none anyway. uid 1000 is user code. With a single mapped id both are uid 0 without capabilities
 * over anything that the host's user did not own already.
 *
 * What is writable is tmpfs with a size and a number of inodes. Their sum stays below the default
 * memory limit, since pages of a tmpfs count as memory of whoever filled them.
 */
#include "worker/backend/oci_spec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "worker/backend/oci_json.h"
#include "worker/backend/oci_seccomp.h"
#include "worker/backend/sandbox_defaults.h"

#define CPU_PERIOD_US 100000
#define CPU_QUOTA_MIN 1000 /* the kernel refuses less */

static void append_number(cJSON *array, const char *flag, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
    oci_json_append_string(array, flag);
    oci_json_append_string(array, text);
}

/* ---- process -------------------------------------------------------------------------------- */

static void add_args(cJSON *process, const struct oci_spec_input *in)
{
    const struct backend_limits *limits = &in->spec->limits;
    cJSON *args = oci_json_array(process, "args");
    oci_json_append_string(args, OCI_ROOT_AGENT);
    oci_json_append_string(args, in->verb);
    append_number(args, "--fd", OCI_SPEC_AGENT_FD);
    oci_json_append_string(args, "--sandbox");
    oci_json_append_string(args, in->spec->id);
    append_number(args, "--grace-ms", in->spec->grace_ms);
    append_number(args, "--uid", SANDBOX_UID);
    append_number(args, "--gid", SANDBOX_UID);
    append_number(args, "--nproc", limits->pids);
    append_number(args, "--nofile", limits->files);
    /* 0: the cgroup holds memory, which counts what is used rather than what is reserved. */
    append_number(args, "--data-bytes", in->mode->memory ? 0 : limits->memory_bytes);
    oci_json_append_string(args, "--workspace");
    oci_json_append_string(args, "/workspace");
    oci_json_append_string(args, "--home");
    oci_json_append_string(args, SANDBOX_HOME);
    if (in->mode->userns == OCI_USERNS_SINGLE) {
        oci_json_append_string(args, "--single-uid");
    }
}

static void add_rlimit(cJSON *list, const char *type, uint64_t value)
{
    cJSON *limit = oci_json_append_object(list);
    oci_json_string(limit, "type", type);
    oci_json_number(limit, "hard", value);
    oci_json_number(limit, "soft", value);
}

static int add_process(cJSON *config, const struct oci_spec_input *in, struct err *err)
{
    cJSON *process = oci_json_object(config, "process");
    cJSON *user = oci_json_object(process, "user");
    oci_json_number(user, "uid", 0);
    oci_json_number(user, "gid", 0);
    oci_json_number(user, "umask", 022);
    add_args(process, in);
    int rc = sandbox_env_add(oci_json_array(process, "env"), true, &in->spec->env, err);
    if (rc < 0) {
        return rc;
    }
    oci_json_string(process, "cwd", "/");
    oci_json_bool(process, "noNewPrivileges", true);

    /* Become the user (SETUID, SETGID), end its processes (KILL), empty its bounding set (SETPCAP).
     * Not inheritable and not ambient, so they end with the agent's own program. */
    static const char *const caps[] = {"CAP_SETUID", "CAP_SETGID", "CAP_KILL", "CAP_SETPCAP"};
    static const char *const sets[] = {"bounding", "effective", "permitted"};
    cJSON *capabilities = oci_json_object(process, "capabilities");
    for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++) {
        oci_json_strings(capabilities, sets[i], caps, sizeof(caps) / sizeof(caps[0]));
    }

    uint64_t files =
        in->spec->limits.files > SANDBOX_AGENT_FILES ? in->spec->limits.files : SANDBOX_AGENT_FILES;
    cJSON *rlimits = oci_json_array(process, "rlimits");
    add_rlimit(rlimits, "RLIMIT_CORE", 0);
    add_rlimit(rlimits, "RLIMIT_NOFILE", files < in->host->files_max ? files : in->host->files_max);

    int adjust = in->host->oom_score_adj > SANDBOX_OOM_SCORE_ADJ ? in->host->oom_score_adj
                                                                 : SANDBOX_OOM_SCORE_ADJ;
    oci_json_number(process, "oomScoreAdj", (uint64_t)adjust);
    return 0;
}

/* ---- mounts --------------------------------------------------------------------------------- */

/* `options` is a comma list, as mount(8) would take it. */
static void add_mount(cJSON *mounts, const char *target, const char *type, const char *source,
                      const char *options)
{
    cJSON *mount = oci_json_append_object(mounts);
    oci_json_string(mount, "destination", target);
    oci_json_string(mount, "type", type);
    oci_json_string(mount, "source", source);
    cJSON *list = oci_json_array(mount, "options");
    CLEANUP_FREE char *copy = alloc_strdup(options);
    for (char *item = copy, *end; item != NULL; item = end) {
        end = strchr(item, ',');
        if (end != NULL) {
            *end++ = '\0';
        }
        oci_json_append_string(list, item);
    }
}

static void add_tmpfs(cJSON *mounts, const char *target, const char *mode, uint64_t size_bytes,
                      const char *more)
{
    CLEANUP_FREE char *options = alloc_printf("nosuid,nodev,mode=%s,size=%llu,nr_inodes=%llu%s",
                                              mode, (unsigned long long)size_bytes,
                                              (unsigned long long)sandbox_inodes(size_bytes), more);
    add_mount(mounts, target, "tmpfs", "tmpfs", options);
}

static void add_mounts(cJSON *config, const struct oci_spec_input *in)
{
    bool single = in->mode->userns == OCI_USERNS_SINGLE;
    cJSON *mounts = oci_json_array(config, "mounts");

    /* Members of group 0, which is the agent alone, see every process; code sees those that it
     * could trace. With one id for both the group would let everybody in, and the agent is hidden
     * by being untraceable. */
    const char *hide = !in->mode->hide ? "" : single ? ",hidepid=2" : ",hidepid=2,gid=0";
    CLEANUP_FREE char *proc = alloc_printf("nosuid,noexec,nodev%s", hide);
    add_mount(mounts, "/proc", "proc", "proc", proc);
    add_mount(mounts, "/dev", "tmpfs", "tmpfs", "nosuid,noexec,mode=755,size=65536,nr_inodes=256");
    add_mount(mounts, "/dev/pts", "devpts", "devpts",
              "nosuid,noexec,newinstance,ptmxmode=0666,mode=0620");
    add_tmpfs(mounts, "/dev/shm", "1777", SANDBOX_SHM_BYTES, ",noexec");
    add_tmpfs(mounts, "/run", "0755", SANDBOX_RUN_BYTES, ",noexec");
    char ids[48] = "";
    if (!single) {
        snprintf(ids, sizeof(ids), ",uid=%d,gid=%d", SANDBOX_UID, SANDBOX_UID);
    }
    add_tmpfs(mounts, "/tmp", "1777", SANDBOX_TMP_BYTES, ids);
    add_tmpfs(mounts, SANDBOX_HOME, "0755", SANDBOX_HOME_BYTES, ids);
    add_tmpfs(mounts, "/workspace", "0755", in->spec->limits.disk_bytes, ids);

    for (size_t i = 0; i < in->root->bind_count; i++) {
        const struct oci_bind *b = &in->root->binds[i];
        add_mount(mounts, b->target, "bind", b->source,
                  b->deep ? "rbind,ro,nosuid,nodev" : "bind,ro,nosuid,nodev");
    }
}

/* ---- linux ---------------------------------------------------------------------------------- */

static int add_mappings(cJSON *linux, const char *key, const struct oci_spec_input *in,
                        const struct oci_ids *ids, uint32_t own, struct err *err)
{
    struct oci_extent extents[2] = {{0, own, 1}};
    size_t count = 1;
    if (in->mode->userns == OCI_USERNS_RANGE) {
        count = oci_host_extents(in->host, ids, own, in->spec->id, extents);
        if (count == 0) {
            return err_set(err, ERR_ENGINE, "too few ids can be mapped into a user namespace");
        }
    }
    cJSON *list = oci_json_array(linux, key);
    for (size_t i = 0; i < count; i++) {
        cJSON *extent = oci_json_append_object(list);
        oci_json_number(extent, "containerID", extents[i].inside);
        oci_json_number(extent, "hostID", extents[i].outside);
        oci_json_number(extent, "size", extents[i].count);
    }
    return 0;
}

static void add_namespaces(cJSON *linux, const struct oci_spec_input *in)
{
    static const char *const types[] = {"pid", "network", "ipc", "uts", "mount", "cgroup", "user"};
    size_t count = sizeof(types) / sizeof(types[0]);
    if (in->mode->userns == OCI_USERNS_NONE) {
        count--;
    }
    cJSON *list = oci_json_array(linux, "namespaces");
    for (size_t i = 0; i < count; i++) {
        oci_json_string(oci_json_append_object(list), "type", types[i]);
    }
}

static void add_resources(cJSON *linux, const struct oci_spec_input *in)
{
    const struct oci_mode *mode = in->mode;
    const struct backend_limits *limits = &in->spec->limits;
    if (mode->cgroups == OCI_CGROUPS_NONE) {
        return;
    }
    CLEANUP_FREE char *path = NULL;
    if (mode->cgroups == OCI_CGROUPS_SYSTEMD) {
        path = alloc_printf("%s:cloister:%s", in->host->root ? "system.slice" : "user.slice",
                            in->spec->id);
    } else {
        path = alloc_printf("%s/%s", in->host->cgroup.parent, in->container);
    }
    oci_json_string(linux, "cgroupsPath", path);

    cJSON *resources = oci_json_object(linux, "resources");
    if (mode->userns == OCI_USERNS_NONE) {
        /* In a user namespace nobody can make or mount a device node, and asking for the rule costs
         * some runtimes privileges that a contained root does not have. */
        cJSON *device = oci_json_append_object(oci_json_array(resources, "devices"));
        oci_json_bool(device, "allow", false);
        oci_json_string(device, "access", "rwm");
    }
    if (mode->memory) {
        cJSON *memory = oci_json_object(resources, "memory");
        oci_json_number(memory, "limit", limits->memory_bytes);
        if (mode->swap) {
            /* Memory and swap together, so none on top. */
            oci_json_number(memory, "swap", limits->memory_bytes);
        }
    }
    if (mode->cpu) {
        uint64_t quota = limits->cpu_milli * (CPU_PERIOD_US / 1000);
        cJSON *cpu = oci_json_object(resources, "cpu");
        oci_json_number(cpu, "quota", (quota < CPU_QUOTA_MIN ? CPU_QUOTA_MIN : quota));
        oci_json_number(cpu, "period", CPU_PERIOD_US);
    }
    if (mode->pids) {
        cJSON *pids = oci_json_object(resources, "pids");
        oci_json_number(pids, "limit", (limits->pids + OCI_SPEC_PIDS_ROOM));
    }
}

static int add_linux(cJSON *config, const struct oci_spec_input *in, struct err *err)
{
    /* What leaks the host's state or could change it, as in the defaults of container engines. */
    static const char *const masked[] = {
        "/proc/acpi",
        "/proc/asound",
        "/proc/interrupts",
        "/proc/kcore",
        "/proc/keys",
        "/proc/latency_stats",
        "/proc/sched_debug",
        "/proc/scsi",
        "/proc/timer_list",
        "/proc/timer_stats",
        "/sys/firmware",
        "/sys/dev/block",
        "/sys/devices/virtual/powercap",
    };
    static const char *const fixed[] = {
        "/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger",
    };
    cJSON *linux = oci_json_object(config, "linux");
    add_namespaces(linux, in);
    if (in->mode->userns != OCI_USERNS_NONE) {
        int rc = add_mappings(linux, "uidMappings", in, &in->host->uids, in->host->uid, err);
        rc = rc < 0 ? rc
                    : add_mappings(linux, "gidMappings", in, &in->host->gids, in->host->gid, err);
        if (rc < 0) {
            return rc;
        }
    }
    add_resources(linux, in);
    oci_json_strings(linux, "maskedPaths", masked, sizeof(masked) / sizeof(masked[0]));
    oci_json_strings(linux, "readonlyPaths", fixed, sizeof(fixed) / sizeof(fixed[0]));
    /* With one id for both, tracing others of one's uid would include the agent. */
    oci_json_put(linux, "seccomp", oci_seccomp_build(in->mode->userns != OCI_USERNS_SINGLE));
    return 0;
}

int oci_spec_build(const struct oci_spec_input *in, char **ret_text, struct err *err)
{
    cJSON *config = oci_json_new();
    oci_json_string(config, "ociVersion", "1.0.2");
    cJSON *root = oci_json_object(config, "root");
    oci_json_string(root, "path", in->root->path);
    oci_json_bool(root, "readonly", true);
    oci_json_string(config, "hostname", SANDBOX_HOST);
    int rc = add_process(config, in, err);
    if (rc == 0) {
        add_mounts(config, in);
        rc = add_linux(config, in, err);
    }
    if (rc == 0) {
        *ret_text = oci_json_print(config);
    }
    cJSON_Delete(config);
    return rc;
}
