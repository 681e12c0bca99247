/*
 * Every default of a sandbox is in this file next to its reason, so reviewing what user code can
 * reach takes this file and the resulting config.json. Defaults of all backends (sizes,
 * environment) are in sandbox_defaults.
 *
 * Inside, uid 0 is the agent. It has four capabilities, to become the user, kill the user's
 * processes and empty the bounding set; none is in a set that survives exec, and user code gets
 * none. User code is uid 1000; without a user namespace that could be a user of the host, so it is
 * an unused id there. With a single mapped id both are uid 0, whose capabilities reach only what
 * the host's user owns already.
 *
 * Writable directories are tmpfs with a size and a number of inodes. Their sum stays below the
 * memory limit (common/room.h), because pages of a tmpfs count as memory of the process that wrote
 * them.
 */
#include "worker/backend/oci/spec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/kernel/apparmor.h"
#include "common/room.h"
#include "worker/backend/json_build.h"
#include "worker/backend/oci/packages.h"
#include "worker/backend/oci/relay.h"
#include "worker/backend/sandbox_defaults.h"
#include "worker/backend/seccomp.h"

#define SOCKET_BYTES 65536 /* of the directory of the agent's socket */

/* What a sandbox's own kernel takes on this host beside what code has, as it ends where that is
 * missing. gVisor was seen with 24 MiB and 77 tasks, and 0.3 MiB and 11 tasks more for each process
 * inside. */
#define KERNEL_BYTES      ((uint64_t)64 << 20)
#define KERNEL_BYTES_EACH ((uint64_t)384 << 10)
#define KERNEL_TASKS      512
#define KERNEL_TASKS_EACH 16

static void append_oci_number(cJSON *array, const char *flag, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
    json_build_append_string(array, flag);
    json_build_append_string(array, text);
}

/* Uid and gid of user code. An installer has those of the sandbox that it works for, as with mapped
 * ids, so that file modes mean the same to both. */
static uint32_t oci_user_of(const struct oci_spec_input *in)
{
    if (in->mode->userns != OCI_USERNS_NONE) {
        return SANDBOX_UID;
    }
    uint64_t uids = (uint64_t)in->host->uids.first + in->host->uids.count;
    uint64_t gids = (uint64_t)in->host->gids.first + in->host->gids.count;
    return sandbox_uid_apart(oci_packages_ids_of(in->spec), uids < gids ? uids : gids);
}

/* ---- process -------------------------------------------------------------------------------- */

/* How streams get in: by a socket that is inherited, or by relays to one that the agent makes. */
static void add_stream_way(cJSON *args, const struct oci_mode *mode)
{
    if (mode->relay) {
        json_build_append_string(args, "--listen");
        json_build_append_string(args, OCI_RELAY_SOCKET);
        json_build_append_string(args, "--relay-stdio");
    } else {
        append_oci_number(args, "--fd", OCI_SPEC_AGENT_FD);
    }
}

static void add_args(cJSON *process, const struct oci_spec_input *in)
{
    const struct backend_limits *limits = &in->spec->limits;
    cJSON *args = json_build_array(process, "args");
    json_build_append_string(args, OCI_ROOT_AGENT);
    json_build_append_string(args, in->verb);
    add_stream_way(args, in->mode);
    json_build_append_string(args, "--sandbox");
    json_build_append_string(args, in->spec->id);
    append_oci_number(args, "--grace-ms", in->spec->grace_ms);
    append_oci_number(args, "--uid", oci_user_of(in));
    append_oci_number(args, "--gid", oci_user_of(in));
    append_oci_number(args, "--nproc", limits->pids);
    append_oci_number(args, "--nofile", limits->files);
    /* 0 if a cgroup limits memory: it counts used pages, whereas the rlimit counts reserved ones */
    append_oci_number(args, "--data-bytes", in->mode->memory ? 0 : limits->memory_bytes);
    append_oci_number(args, "--memory-bytes", limits->memory_bytes);
    json_build_append_string(args, "--workspace");
    json_build_append_string(args, backend_workspace(in->spec));
    json_build_append_string(args, "--home");
    json_build_append_string(args, SANDBOX_HOME);
    if (!in->spec->packages_write) { /* an installer installs by itself */
        json_build_append_string(args, "--installs");
        json_build_append_string(args, SANDBOX_INSTALLS);
    }
    if (in->spec->door) {
        append_oci_number(args, "--door", BACKEND_DOOR_PORT);
    }
    if (in->mode->userns == OCI_USERNS_SINGLE) {
        json_build_append_string(args, "--single-uid");
    }
    if (in->root->lower != NULL) {
        json_build_append_string(args, "--views");
    }
    json_build_append_string(args, "--filter"); /* arguments, which the container's cannot */
}

static void add_rlimit(cJSON *list, const char *type, uint64_t value)
{
    cJSON *limit = json_build_append_object(list);
    json_build_string(limit, "type", type);
    json_build_number(limit, "hard", value);
    json_build_number(limit, "soft", value);
}

static int add_process(cJSON *config, const struct oci_spec_input *in, struct err *err)
{
    cJSON *process = json_build_object(config, "process");
    cJSON *user = json_build_object(process, "user");
    json_build_number(user, "uid", 0);
    json_build_number(user, "gid", 0);
    json_build_number(user, "umask", 022);
    add_args(process, in);
    const struct sandbox_env env = {
        .path = true, .network = in->spec->network, .extra = &in->spec->env};
    int rc = sandbox_env_add(json_build_array(process, "env"), &env, err);
    if (rc < 0) {
        return rc;
    }
    json_build_string(process, "cwd", "/");
    json_build_bool(process, "noNewPrivileges", true);
    if (in->host->apparmor && !in->mode->own_kernel) { /* another kernel does not have it */
        json_build_string(process, "apparmorProfile", APPARMOR_PROFILE);
    }

    /* To become the user (SETUID, SETGID), end its processes (KILL) and empty its bounding set
     * (SETPCAP). Neither inheritable nor ambient, so an exec drops them. */
    static const char *const caps[] = {"CAP_SETUID", "CAP_SETGID", "CAP_KILL", "CAP_SETPCAP"};
    static const char *const sets[] = {"bounding", "effective", "permitted"};
    cJSON *capabilities = json_build_object(process, "capabilities");
    for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++) {
        json_build_strings(capabilities, sets[i], caps, sizeof(caps) / sizeof(caps[0]));
    }

    uint64_t files =
        in->spec->limits.files > SANDBOX_AGENT_FILES ? in->spec->limits.files : SANDBOX_AGENT_FILES;
    cJSON *rlimits = json_build_array(process, "rlimits");
    /* see worker/agent/process/filter.c: 1 also keeps the host's handler of crashes from running */
    add_rlimit(rlimits, "RLIMIT_CORE", in->host->core_max < 1 ? 0 : 1);
    add_rlimit(rlimits, "RLIMIT_NOFILE", files < in->host->files_max ? files : in->host->files_max);

    if (in->spec->packages_write && in->spec->packages_bytes > 0) {
        add_rlimit(rlimits, "RLIMIT_FSIZE", sandbox_packages_file_max(in->spec->packages_bytes));
    }

    int adjust = in->host->oom_score_adj > SANDBOX_OOM_SCORE_ADJ ? in->host->oom_score_adj
                                                                 : SANDBOX_OOM_SCORE_ADJ;
    json_build_number(process, "oomScoreAdj", (uint64_t)adjust);
    return 0;
}

/* ---- mounts --------------------------------------------------------------------------------- */

/* `options` is a comma list, as mount(8) would take it. */
static void add_mount(cJSON *mounts, const char *target, const char *type, const char *source,
                      const char *options)
{
    cJSON *mount = json_build_append_object(mounts);
    json_build_string(mount, "destination", target);
    json_build_string(mount, "type", type);
    json_build_string(mount, "source", source);
    cJSON *list = json_build_array(mount, "options");
    CLEANUP_FREE char *copy = alloc_strdup(options);
    for (char *item = copy, *end; item != NULL; item = end) {
        end = strchr(item, ',');
        if (end != NULL) {
            *end++ = '\0';
        }
        json_build_append_string(list, item);
    }
}

static void add_oci_tmpfs(cJSON *mounts, const char *target, const char *mode, uint64_t size_bytes,
                          const char *more)
{
    CLEANUP_FREE char *options = alloc_printf("nosuid,nodev,mode=%s,size=%llu,nr_inodes=%llu%s",
                                              mode, (unsigned long long)size_bytes,
                                              (unsigned long long)sandbox_inodes(size_bytes), more);
    add_mount(mounts, target, "tmpfs", "tmpfs", options);
}

/* Directories seen through an overlay: its inodes are the sandbox's own, so that locks and watches
 * on them reach nobody else, while memory has their content once. */
static void add_view(cJSON *mounts, const char *target, const char *lower, bool noexec)
{
    CLEANUP_FREE char *options =
        alloc_printf("ro,nosuid,nodev%s,lowerdir=%s", noexec ? ",noexec" : "", lower);
    add_mount(mounts, target, "overlay", "overlay", options);
}

static void add_mounts(cJSON *config, const struct oci_spec_input *in)
{
    bool single = in->mode->userns == OCI_USERNS_SINGLE;
    const struct backend_limits *limits = &in->spec->limits;
    uint64_t other = room_other(limits->memory_bytes, limits->disk_bytes);
    cJSON *mounts = json_build_array(config, "mounts");
    if (in->root->lower != NULL) { /* over the skeleton, and below all else */
        add_view(mounts, "/", in->root->lower, false);
    }

    /* Members of group 0, so only the agent, see every process; code sees those that it could
     * trace. With one id for both the group would include user code; the agent is hidden there
     * because it is not dumpable. */
    const char *hide = !in->mode->hide ? "" : single ? ",hidepid=2" : ",hidepid=2,gid=0";
    CLEANUP_FREE char *proc = alloc_printf("nosuid,noexec,nodev%s", hide);
    add_mount(mounts, "/proc", "proc", "proc", proc);
    add_mount(mounts, "/dev", "tmpfs", "tmpfs", "nosuid,noexec,mode=755,size=65536,nr_inodes=256");
    CLEANUP_FREE char *pts =
        alloc_printf("nosuid,noexec,newinstance,ptmxmode=0666,mode=0620,max=%d", SANDBOX_PTYS);
    add_mount(mounts, "/dev/pts", "devpts", "devpts", pts);
    add_oci_tmpfs(mounts, "/dev/shm", "1777", other, ",noexec");
    add_oci_tmpfs(mounts, "/run", "0755", SANDBOX_RUN_BYTES, ",noexec");
    if (in->mode->relay) { /* apart, so that no other file can fill it */
        add_oci_tmpfs(mounts, OCI_RELAY_SOCKET_DIR, "0700", SOCKET_BYTES, ",noexec");
    }
    char ids[48] = "";
    if (!single) {
        unsigned long user = oci_user_of(in);
        snprintf(ids, sizeof(ids), ",uid=%lu,gid=%lu", user, user);
    }
    add_oci_tmpfs(mounts, "/tmp", "1777", other, ids);
    add_oci_tmpfs(mounts, SANDBOX_HOME, "0755", other, ids);
    if (in->spec->app_dir) { /* first, as the workspace is a mount in it */
        add_oci_tmpfs(mounts, BACKEND_APP, "0755", SANDBOX_APP_BYTES, ids);
    }
    add_oci_tmpfs(mounts, backend_workspace(in->spec), "0755", limits->disk_bytes, ids);

    for (size_t i = 0; i < in->root->bind_count; i++) {
        const struct oci_bind *b = &in->root->binds[i];
        if (b->cover) {
            add_mount(mounts, b->target, "tmpfs", "tmpfs",
                      "ro,nosuid,nodev,noexec,mode=555,size=4096,nr_inodes=2");
            continue;
        }
        if (b->lower != NULL) {
            add_view(mounts, b->target, b->lower, b->noexec);
            continue;
        }
        char options[64];
        snprintf(options, sizeof(options), "%s,%s,nosuid,nodev%s%s", b->deep ? "rbind" : "bind",
                 b->writable ? "rw" : "ro", b->noexec ? ",noexec" : "", b->alone ? ",private" : "");
        add_mount(mounts, b->target, "bind", b->source, options);
    }
}

/* ---- linux ---------------------------------------------------------------------------------- */

/* The extents of one kind of ids; 0 if there are too few. */
static size_t extents_of(const struct oci_spec_input *in, const struct oci_ids *ids, uint32_t own,
                         struct oci_extent extents[OCI_EXTENTS_MAX])
{
    extents[0] = (struct oci_extent){0, own, 1};
    if (in->mode->userns != OCI_USERNS_RANGE) {
        return 1;
    }
    return oci_host_extents(in->host, ids, own, oci_packages_ids_of(in->spec), extents);
}

/* As what number of this host an id of the sandbox counts. */
static int find_outside(const struct oci_spec_input *in, const struct oci_ids *ids, uint32_t own,
                        uint32_t inside, uint32_t *ret, struct err *err)
{
    struct oci_extent extents[OCI_EXTENTS_MAX];
    *ret = inside;
    if (in->mode->userns == OCI_USERNS_NONE) {
        return 0;
    }
    inside = in->mode->userns == OCI_USERNS_SINGLE ? 0 : inside;
    size_t count = extents_of(in, ids, own, extents);
    for (size_t i = 0; i < count; i++) {
        if (inside >= extents[i].inside && inside - extents[i].inside < extents[i].count) {
            *ret = extents[i].outside + (inside - extents[i].inside);
            return 0;
        }
    }
    return err_set(err, ERR_ENGINE, "too few ids can be mapped into a user namespace");
}

int oci_spec_user(const struct oci_spec_input *in, uint32_t *ret_uid, uint32_t *ret_gid,
                  struct err *err)
{
    uint32_t user = oci_user_of(in);
    int rc = find_outside(in, &in->host->uids, in->host->uid, user, ret_uid, err);
    return rc < 0 ? rc : find_outside(in, &in->host->gids, in->host->gid, user, ret_gid, err);
}

static int add_mappings(cJSON *linux, const char *key, const struct oci_spec_input *in,
                        const struct oci_ids *ids, uint32_t own, struct err *err)
{
    struct oci_extent extents[OCI_EXTENTS_MAX];
    size_t count = extents_of(in, ids, own, extents);
    if (count == 0) {
        return err_set(err, ERR_ENGINE, "too few ids can be mapped into a user namespace");
    }
    cJSON *list = json_build_array(linux, key);
    for (size_t i = 0; i < count; i++) {
        cJSON *extent = json_build_append_object(list);
        json_build_number(extent, "containerID", extents[i].inside);
        json_build_number(extent, "hostID", extents[i].outside);
        json_build_number(extent, "size", extents[i].count);
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
    cJSON *list = json_build_array(linux, "namespaces");
    for (size_t i = 0; i < count; i++) {
        json_build_string(json_build_append_object(list), "type", types[i]);
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
    json_build_string(linux, "cgroupsPath", path);

    cJSON *resources = json_build_object(linux, "resources");
    if (mode->userns == OCI_USERNS_NONE) {
        /* In a user namespace no device node can be made or mounted, and the rule takes privileges
         * that a contained root does not have with some runtimes. */
        cJSON *device = json_build_append_object(json_build_array(resources, "devices"));
        json_build_bool(device, "allow", false);
        json_build_string(device, "access", "rwm");
    }
    if (mode->memory) {
        uint64_t kernel = mode->own_kernel ? KERNEL_BYTES + limits->pids * KERNEL_BYTES_EACH : 0;
        uint64_t bytes = limits->memory_bytes + kernel;
        cJSON *memory = json_build_object(resources, "memory");
        json_build_number(memory, "limit", bytes);
        if (mode->swap) {
            /* Memory and swap together, so none on top. */
            json_build_number(memory, "swap", bytes);
        }
    }
    if (mode->cpu) {
        cJSON *cpu = json_build_object(resources, "cpu");
        json_build_number(cpu, "quota", oci_cgroup_quota_us(limits->cpu_milli));
        json_build_number(cpu, "period", OCI_CGROUP_PERIOD_US);
    }
    if (mode->pids) {
        cJSON *pids = json_build_object(resources, "pids");
        json_build_number(pids, "limit",
                          mode->own_kernel ? limits->pids * KERNEL_TASKS_EACH + KERNEL_TASKS
                                           : limits->pids + OCI_SPEC_PIDS_ROOM);
    }
}

static int add_linux(cJSON *config, const struct oci_spec_input *in, struct err *err)
{
    size_t masked_count;
    const char *const *masked = sandbox_masked(&masked_count);
    static const char *const fixed[] = {
        "/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger",
    };
    cJSON *linux = json_build_object(config, "linux");
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
    json_build_strings(linux, "maskedPaths", masked, masked_count);
    json_build_strings(linux, "readonlyPaths", fixed, sizeof(fixed) / sizeof(fixed[0]));
    /* With one id for both, tracing processes of the same uid would include the agent. */
    json_build_put(linux, "seccomp", oci_seccomp_build(in->mode->userns != OCI_USERNS_SINGLE));
    return 0;
}

/* Runtimes leave a limit of 0 out of what they ask systemd for, and write it themselves; systemd
 * then puts its own, none, in its place whenever it looks at its units again. */
static void add_annotations(cJSON *config, const struct oci_spec_input *in)
{
    if (in->mode->cgroups == OCI_CGROUPS_SYSTEMD && in->mode->swap &&
        in->host->cgroup.version == OCI_CGROUP_VERSION_2) {
        cJSON *annotations = json_build_object(config, "annotations");
        json_build_string(annotations, "org.systemd.property.MemorySwapMax", "uint64 0");
    }
}

int oci_spec_build(const struct oci_spec_input *in, char **ret_text, struct err *err)
{
    cJSON *config = json_build_new();
    json_build_string(config, "ociVersion", "1.0.2");
    cJSON *root = json_build_object(config, "root");
    json_build_string(root, "path", in->root->dir);
    json_build_bool(root, "readonly", true);
    json_build_string(config, "hostname", SANDBOX_HOST);
    int rc = add_process(config, in, err);
    if (rc == 0) {
        add_mounts(config, in);
        add_annotations(config, in);
        rc = add_linux(config, in, err);
    }
    if (rc == 0) {
        *ret_text = json_build_print(config);
    }
    cJSON_Delete(config);
    return rc;
}
