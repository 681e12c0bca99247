/*
 * Every default of a sandbox on a Docker engine is in this file next to its reason. It follows
 * worker/backend/oci/spec.c as far as the engine allows; differences have one of these reasons:
 *
 * The engine merges the image's configuration into the container. So everything that an image can
 * set is set here to override it: program, user, directory, health check, stop signal. The image's
 * VOLUMEs cannot be overridden: the engine adds each as an anonymous writable volume. These are
 * outside of the disk limit and are removed with the container (DELETE with v=1). User code can
 * write there only if the image made the directory writable for everybody or for user code's id.
 * Paths that matter are safe, because both engines prefer our tmpfs to the image's volume.
 *
 * Podman's compatible socket interprets some options differently: a seccomp profile is a file name
 * to it, and a tmpfs can have neither an owner nor a number of inodes.
 *
 * Limits that the engine reports as unsupported are not requested: Docker would drop most with a
 * warning but refuse CPUs, and Podman would fail at the start. docker_spec_unapplied() lists them.
 */
#include "worker/backend/docker/spec.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/room.h"
#include "common/str.h"
#include "worker/backend/docker/packages.h"
#include "worker/backend/docker/volume.h"
#include "worker/backend/json_build.h"
#include "worker/backend/mode.h"
#include "worker/backend/sandbox_defaults.h"
#include "worker/backend/seccomp.h"
#include "worker/backend/spec_copy.h"

/* The number of ids that certainly exist on a rootless engine. */
#define ROOTLESS_IDS 65536u

#define NANO_PER_MILLI 1000000u
#define CPU_MILLI_MIN  10 /* the engine refuses less than 0.01 */
#define CPU_MILLI_MAX  ((uint64_t)1 << 30)

#define SOCKET_BYTES  65536 /* of the tmpfs that holds nothing but the agent's socket */
#define SOCKET_INODES 16

#define PODMAN_NPROC 32768 /* its own limit, which it does not raise */

#define NOTE_MAX 240

/* ---- what this engine can do ----------------------------------------------------------------- */

static bool holds_memory(const struct docker_engine *e)
{
    return e->memory_limit && !e->cgroup_none;
}

static bool holds_pids(const struct docker_engine *e)
{
    return e->pids_limit && !e->cgroup_none;
}

/* With cgroup v2 Podman reports both as unsupported, because it looks for files of cgroup v1, but
 * it applies both. */
static bool holds_swap(const struct docker_engine *e)
{
    return holds_memory(e) && (e->swap_limit || e->podman);
}

static bool holds_cpus(const struct docker_engine *e)
{
    return (e->cpu_quota || e->podman) && !e->cgroup_none;
}

uint32_t docker_spec_uid(const struct docker_engine *engine, const char *sandbox)
{
    if (engine->userns) {
        return SANDBOX_UID;
    }
    return sandbox_uid_apart(sandbox, engine->rootless ? ROOTLESS_IDS : UINT32_MAX);
}

/* The uid of user code, and its gid unless shares decide both. All installers of one sandbox have
 * the same uid, so that each can replace files of the others. It is not the sandbox's uid, because
 * the process limit would count both together. */
static uint32_t docker_user_of(const struct docker_spec_input *in)
{
    if (in->user.given) {
        return in->user.uid;
    }
    if (!in->spec->packages_write) {
        return docker_spec_uid(in->engine, in->spec->id);
    }
    CLEANUP_FREE char *name = alloc_printf("packages of %s", in->spec->packages);
    return docker_spec_uid(in->engine, name);
}

static uint32_t docker_group_of(const struct docker_spec_input *in)
{
    return in->user.given ? in->user.gid : docker_user_of(in);
}

/* ---- process --------------------------------------------------------------------------------- */

static void append_docker_number(cJSON *array, const char *flag, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
    json_build_append_string(array, flag);
    json_build_append_string(array, text);
}

static void append_pair(cJSON *array, const char *flag, const char *value)
{
    json_build_append_string(array, flag);
    json_build_append_string(array, value);
}

/* True if the engine takes our filter; otherwise the agent's is the only one. */
static bool takes_filter(const struct docker_engine *engine)
{
    return engine->seccomp && !engine->podman;
}

static void add_command(cJSON *body, const struct docker_spec_input *in,
                        const struct backend_limits *limits)
{
    uint32_t uid = docker_user_of(in);
    json_build_append_string(json_build_array(body, "Entrypoint"), DOCKER_AGENT_PATH);
    cJSON *args = json_build_array(body, "Cmd");
    json_build_append_string(args, "serve");
    append_pair(args, "--listen", DOCKER_AGENT_SOCKET);
    json_build_append_string(args, "--relay-stdio");
    append_pair(args, "--sandbox", in->spec->id);
    append_docker_number(args, "--grace-ms", in->spec->grace_ms);
    append_docker_number(args, "--uid", uid);
    append_docker_number(args, "--gid", docker_group_of(in));
    /* of a user of the host others run processes, too: the cgroup limits them alone then */
    append_docker_number(args, "--nproc", in->user.given ? 0 : limits->pids);
    append_docker_number(args, "--nofile", limits->files);
    /* 0 if a cgroup limits memory: it counts used pages, whereas the rlimit counts reserved ones */
    append_docker_number(args, "--data-bytes", holds_memory(in->engine) ? 0 : limits->memory_bytes);
    append_docker_number(args, "--memory-bytes", limits->memory_bytes);
    append_pair(args, "--workspace", backend_workspace(in->spec));
    append_pair(args, "--home", SANDBOX_HOME);
    if (in->spec->packages_write) { /* an installer, which installs by itself */
        append_pair(args, "--packages", BACKEND_PACKAGES);
    } else {
        append_pair(args, "--installs", SANDBOX_INSTALLS);
    }
    if (in->spec->door) {
        append_docker_number(args, "--door", BACKEND_DOOR_PORT);
    }
    json_build_append_string(args, "--filter"); /* arguments, which the engine's cannot */
}

/* Members of the body itself. */
static int add_config(cJSON *body, const struct docker_spec_input *in,
                      const struct backend_limits *limits, struct err *err)
{
    json_build_string(body, "Image", in->image);
    json_build_string(body, "Hostname", SANDBOX_HOST);
    json_build_string(body, "User", "0:0"); /* for the agent, which gives user code its own id */
    json_build_string(body, "WorkingDir", "/");
    add_command(body, in, limits);

    /* No PATH: the engine uses the image's, or its default if the image has none, and the agent
     * passes it on. So user code finds the programs of the image. */
    const struct sandbox_env env = {.network = in->spec->network, .extra = &in->spec->env};
    int rc = sandbox_env_add(json_build_array(body, "Env"), &env, err);
    if (rc < 0) {
        return rc;
    }

    /* the first stream is the container's stdin and stdout; StdinOnce ends stdin with the
     * connection, so that the agent notices the end */
    json_build_bool(body, "OpenStdin", true);
    json_build_bool(body, "StdinOnce", true);
    json_build_bool(body, "AttachStdin", true);
    json_build_bool(body, "AttachStdout", true);
    json_build_bool(body, "AttachStderr", true);
    json_build_bool(body, "Tty", false);

    json_build_string(body, "StopSignal", "SIGKILL"); /* a graceful stop has no use */
    /* a health check of the image would run its program as the agent's user repeatedly */
    json_build_append_string(json_build_array(json_build_object(body, "Healthcheck"), "Test"),
                             "NONE");

    json_build_put(body, "Labels", alloc_check(cJSON_Duplicate(in->labels, true)));
    return 0;
}

static bool has_packages(const struct backend_spec *spec)
{
    return spec->packages != NULL && spec->packages[0] != '\0';
}

/* ---- file systems ---------------------------------------------------------------------------- */

/* `more` and `owner` are further options. Podman does not support an owner, so the directory gets
 * the mode of /tmp there; the container has no other users. */
static void add_docker_tmpfs(cJSON *tmpfs, const struct docker_engine *engine, const char *target,
                             const char *mode, uint64_t size_bytes, uint64_t inodes,
                             const char *more)
{
    CLEANUP_FREE char *options = NULL;
    if (engine->podman) {
        /* otherwise Podman would copy the image's files to it, which may not fit */
        options = alloc_printf("rw,nosuid,nodev,notmpcopyup%s,mode=%s,size=%llu", more, mode,
                               (unsigned long long)size_bytes);
    } else {
        options = alloc_printf("rw,nosuid,nodev%s,mode=%s,size=%llu,nr_inodes=%llu", more, mode,
                               (unsigned long long)size_bytes, (unsigned long long)inodes);
    }
    json_build_string(tmpfs, target, options);
}

static void add_user_tmpfs(cJSON *tmpfs, const struct docker_spec_input *in, const char *target,
                           const char *mode, uint64_t size_bytes)
{
    if (in->engine->podman) {
        add_docker_tmpfs(tmpfs, in->engine, target, "1777", size_bytes, 0, ",exec");
        return;
    }
    uint32_t uid = docker_user_of(in);
    CLEANUP_FREE char *more = alloc_printf(",exec,uid=%lu,gid=%lu", (unsigned long)uid,
                                           (unsigned long)docker_group_of(in));
    add_docker_tmpfs(tmpfs, in->engine, target, mode, size_bytes, sandbox_inodes(size_bytes), more);
}

/* Returns its VolumeOptions. */
static cJSON *add_volume(cJSON *mounts, const char *volume, const char *target, bool read_only)
{
    cJSON *mount = json_build_append_object(mounts);
    json_build_string(mount, "Type", "volume");
    if (volume != NULL) { /* without a name it is anonymous, and removed with the container */
        json_build_string(mount, "Source", volume);
    }
    json_build_string(mount, "Target", target);
    json_build_bool(mount, "ReadOnly", read_only);
    cJSON *options = json_build_object(mount, "VolumeOptions");
    /* otherwise the engine copies the image's files into an empty volume */
    json_build_bool(options, "NoCopy", true);
    return options;
}

/* The engine's own /dev/pts has no limit, and the pseudo-terminals of all of them are one number of
 * the host. So it is a volume of that file system, with a limit, that is made and removed with the
 * container. Podman cannot do that. */
static void add_terminals(cJSON *mounts)
{
    CLEANUP_FREE char *options =
        alloc_printf("nosuid,noexec,newinstance,ptmxmode=0666,mode=0620,max=%d", SANDBOX_PTYS);
    cJSON *driver = json_build_object(add_volume(mounts, NULL, "/dev/pts", false), "DriverConfig");
    json_build_string(driver, "Name", "local");
    cJSON *local = json_build_object(driver, "Options");
    json_build_string(local, "type", "devpts");
    json_build_string(local, "device", "devpts");
    json_build_string(local, "o", options);
}

/* An engine makes a missing volume. The labels then name this container's owner, so that a sweep
 * finds the volume if it is not removed regularly. */
static void label_volume(cJSON *options, const cJSON *labels)
{
    cJSON *own = json_build_object(options, "Labels");
    const cJSON *label;
    cJSON_ArrayForEach(label, labels)
    {
        json_build_string(own, label->string, label->valuestring);
    }
}

/* Without the mounts below it, and without those that appear there later. Nothing in it is a device
 * or sets an id: containers have no devices and no-new-privileges. */
static void add_share(cJSON *mounts, const struct backend_share *share)
{
    cJSON *mount = json_build_append_object(mounts);
    CLEANUP_FREE char *target = alloc_printf(BACKEND_SHARES "/%s", share->name);
    json_build_string(mount, "Type", "bind");
    json_build_string(mount, "Source", share->host_path);
    json_build_string(mount, "Target", target);
    json_build_bool(mount, "ReadOnly", !share->writable);
    cJSON *options = json_build_object(mount, "BindOptions");
    json_build_string(options, "Propagation", "private");
    json_build_bool(options, "NonRecursive", true);
}

static void add_file_systems(cJSON *host, const struct docker_spec_input *in,
                             const struct backend_limits *limits)
{
    json_build_bool(host, "ReadonlyRootfs", true);
    uint64_t other = room_other(limits->memory_bytes, limits->disk_bytes);
    json_build_number(host, "ShmSize", other);

    cJSON *tmpfs = json_build_object(host, "Tmpfs");
    add_docker_tmpfs(tmpfs, in->engine, "/run", "0755", SANDBOX_RUN_BYTES,
                     sandbox_inodes(SANDBOX_RUN_BYTES), ",noexec");
    /* a separate tmpfs, so that no other file can fill it and prevent the agent from listening */
    add_docker_tmpfs(tmpfs, in->engine, DOCKER_SOCKET_DIR, "0700", SOCKET_BYTES, SOCKET_INODES,
                     ",noexec");
    add_user_tmpfs(tmpfs, in, "/tmp", "1777", other);
    add_user_tmpfs(tmpfs, in, SANDBOX_HOME, "0755", other);
    add_user_tmpfs(tmpfs, in, backend_workspace(in->spec), "0755", limits->disk_bytes);
    if (in->spec->app_dir) { /* engines mount it before the workspace, which is in it */
        add_user_tmpfs(tmpfs, in, BACKEND_APP, "0755", SANDBOX_APP_BYTES);
    }

    if (in->engine->podman) { /* it would make one without a size limit */
        add_user_tmpfs(tmpfs, in, "/var/tmp", "1777", SANDBOX_RUN_BYTES);
    }

    cJSON *mounts = json_build_array(host, "Mounts");
    cJSON *agent = add_volume(mounts, in->volume, DOCKER_AGENT_DIR, true);
    docker_volume_label(json_build_object(agent, "Labels"), in->volume, in->spec->agent_path);
    for (size_t i = 0; has_packages(in->spec) && i < DOCKER_PACKAGES_COUNT; i++) {
        CLEANUP_FREE char *volume = docker_packages_volume(in->spec->packages, i);
        cJSON *options =
            add_volume(mounts, volume, docker_packages_path(i), !in->spec->packages_write);
        label_volume(options, in->labels);
    }
    if (!in->engine->podman) {
        add_terminals(mounts);
    }
    /* not read-only, because files are copied there; they belong to root */
    for (size_t i = 0; i < in->copy_count; i++) {
        add_volume(mounts, NULL, in->copies[i], false);
    }
    for (size_t i = 0; i < in->spec->share_count; i++) {
        add_share(mounts, &in->spec->shares[i]);
    }
}

/* ---- privileges ------------------------------------------------------------------------------ */

/* Our filter in the engine's format, which differs from the OCI's in two ways. Architectures are
 * left out, so that the engine uses its native one, which may not be ours. And clone3 is listed,
 * because old engines ignore `defaultErrnoRet` and would answer EPERM, after which C libraries do
 * not fall back to clone. */
static char *seccomp_option(void)
{
    static const char *const clone3[] = {"clone3"};
    cJSON *profile = oci_seccomp_build(true);
    cJSON_DeleteItemFromObjectCaseSensitive(profile, "architectures");
    cJSON *rules = cJSON_GetObjectItemCaseSensitive(profile, "syscalls");
    cJSON *rule = json_build_append_object(rules);
    json_build_strings(rule, "names", clone3, 1);
    json_build_string(rule, "action", "SCMP_ACT_ERRNO");
    json_build_number(rule, "errnoRet", ENOSYS);
    CLEANUP_FREE char *text = json_build_print(profile);
    cJSON_Delete(profile);
    return alloc_printf("seccomp=%s", text);
}

/* Docker masks these instead of its own, so the heat of each processor is among them, which newer
 * versions mask; Podman masks them as well as its own. */
static void add_masked(cJSON *host, cJSON *options, const struct docker_engine *engine)
{
    size_t count;
    const char *const *paths = sandbox_masked(&count);
    if (engine->podman) {
        CLEANUP_FREE char *list = alloc_strdup("mask=");
        for (size_t i = 0; i < count; i++) {
            char *longer = alloc_printf("%s%s%s", list, i > 0 ? ":" : "", paths[i]);
            free(list);
            list = longer;
        }
        json_build_append_string(options, list);
        return;
    }
    cJSON *masked = json_build_array(host, "MaskedPaths");
    for (size_t i = 0; i < count; i++) {
        json_build_append_string(masked, paths[i]);
    }
    for (uint64_t i = 0; i < engine->cpu_milli_max / 1000; i++) {
        CLEANUP_FREE char *path =
            alloc_printf("/sys/devices/system/cpu/cpu%llu/thermal_throttle", (unsigned long long)i);
        json_build_append_string(masked, path);
    }
}

static void add_privileges(cJSON *host, const struct docker_engine *engine, bool network)
{
    /* the engine's default is a bridge, or user-mode networking if it is rootless; neither reaches
     * the host's loopback, and no port is published */
    json_build_string(host, "NetworkMode", network ? "default" : "none");
    json_build_bool(host, "Privileged", false);
    json_build_string(host, "IpcMode", "private"); /* private: no other container can join */
    json_build_string(host, "CgroupnsMode", "private");

    /* To become the user (SETUID, SETGID), end its processes (KILL) and empty its bounding set
     * (SETPCAP). The agent drops them for user code. */
    static const char *const caps[] = {"SETUID", "SETGID", "KILL", "SETPCAP"};
    json_build_append_string(json_build_array(host, "CapDrop"), "ALL");
    json_build_strings(host, "CapAdd", caps, sizeof(caps) / sizeof(caps[0]));

    /* read-only paths, AppArmor and SELinux stay the engine's defaults, which fit its host */
    cJSON *options = json_build_array(host, "SecurityOpt");
    json_build_append_string(options, "no-new-privileges");
    add_masked(host, options, engine);
    if (takes_filter(engine)) {
        CLEANUP_FREE char *seccomp = seccomp_option();
        json_build_append_string(options, seccomp);
    }
}

/* ---- limits ---------------------------------------------------------------------------------- */

static void add_ulimit(cJSON *list, const char *name, uint64_t value)
{
    cJSON *limit = json_build_append_object(list);
    json_build_string(limit, "Name", name);
    json_build_number(limit, "Soft", value);
    json_build_number(limit, "Hard", value);
}

static uint64_t nano_cpus(const struct docker_engine *engine, uint64_t milli)
{
    /* the engine refuses more than all CPUs, so the number is capped */
    uint64_t most = engine->cpu_milli_max != 0 ? engine->cpu_milli_max : CPU_MILLI_MAX;
    milli = milli < CPU_MILLI_MIN ? CPU_MILLI_MIN : milli;
    return (milli < most ? milli : most) * NANO_PER_MILLI;
}

/* False where the kernel may refuse to set limits of an IPC namespace: to root of a user namespace
 * before Linux 6.9. The engine would then not start the container. */
static bool holds_sysctls(const struct docker_engine *engine)
{
    return !engine->userns && !engine->rootless;
}

/* Only the operator knows which disk of its host has the engine's files. */
static bool holds_io(const struct docker_engine *engine, const struct backend_spec *spec)
{
    return !engine->rootless && !engine->cgroup_none && spec->io_device != NULL &&
           spec->io_device[0] != '\0';
}

static void add_io(cJSON *host, const struct docker_spec_input *in)
{
    const struct backend_limits *limits = &in->spec->limits;
    const struct {
        const char *key;
        uint64_t rate;
    } rows[] = {
        {"BlkioDeviceReadBps", limits->io_read_bytes},
        {"BlkioDeviceWriteBps", limits->io_write_bytes},
        {"BlkioDeviceReadIOps", limits->io_ops},
        {"BlkioDeviceWriteIOps", limits->io_ops},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (rows[i].rate > 0 && holds_io(in->engine, in->spec)) {
            cJSON *row = json_build_append_object(json_build_array(host, rows[i].key));
            json_build_string(row, "Path", in->spec->io_device);
            json_build_number(row, "Rate", rows[i].rate);
        }
    }
}

static void add_limits(cJSON *host, const struct docker_spec_input *in,
                       const struct backend_limits *limits)
{
    const struct docker_engine *engine = in->engine;
    if (holds_sysctls(engine)) {
        cJSON *sysctls = json_build_object(host, "Sysctls");
        for (size_t i = 0; i < SANDBOX_SYSCTLS; i++) {
            char value[SANDBOX_SYSCTL_MAX];
            const char *name = sandbox_sysctl(i, limits->memory_bytes, value);
            CLEANUP_FREE char *key = alloc_printf("kernel.%s", name);
            json_build_string(sysctls, key, value);
        }
    }
    if (holds_memory(engine)) {
        json_build_number(host, "Memory", limits->memory_bytes);
        /* memory and swap together, so no swap; the default would allow as much swap as memory */
        json_build_number(host, "MemorySwap", limits->memory_bytes);
    }
    if (holds_cpus(engine)) {
        json_build_number(host, "NanoCpus", nano_cpus(engine, limits->cpu_milli));
    }
    if (holds_pids(engine)) {
        json_build_number(host, "PidsLimit", limits->pids + DOCKER_PIDS_ROOM);
    }
    json_build_number(host, "OomScoreAdj", SANDBOX_OOM_SCORE_ADJ);

    add_io(host, in);

    cJSON *ulimits = json_build_array(host, "Ulimits");
    add_ulimit(ulimits, "nofile",
               limits->files > SANDBOX_AGENT_FILES ? limits->files : SANDBOX_AGENT_FILES);
    if (in->spec->packages_write && in->spec->packages_bytes > 0) {
        add_ulimit(ulimits, "fsize", sandbox_packages_file_max(in->spec->packages_bytes));
    }
    if (!engine->rootless) { /* which may not raise its user's limit; the agent sets it for code */
        add_ulimit(ulimits, "core", 1); /* see worker/agent/process/filter.c */
    }
    if (engine->podman && !engine->rootless) {
        /* Podman's default is 2^20, which may exceed its own limit inside a container */
        add_ulimit(ulimits, "nproc", limits->pids > PODMAN_NPROC ? limits->pids : PODMAN_NPROC);
    }
}

int docker_spec_build(const struct docker_spec_input *in, char **ret_text, struct err *err)
{
    struct backend_limits limits = spec_copy_limits(&in->spec->limits);
    cJSON *body = json_build_new();
    int rc = add_config(body, in, &limits, err);
    if (rc == 0) {
        cJSON *host = json_build_object(body, "HostConfig");
        add_privileges(host, in->engine, in->spec->network);
        add_file_systems(host, in, &limits);
        add_limits(host, in, &limits);
        /* the agent's output is read from the stream; a log would grow without a limit */
        json_build_string(json_build_object(host, "LogConfig"), "Type", "none");
        /* an ended sandbox is not restarted, and can be inspected until it is removed */
        json_build_string(json_build_object(host, "RestartPolicy"), "Name", "no");
        json_build_bool(host, "AutoRemove", false);
        json_build_bool(host, "Init", false); /* the agent is pid 1 and reaps */
        if (in->runtime[0] != '\0') {
            json_build_string(host, "Runtime", in->runtime);
        }
        *ret_text = json_build_print(body);
    }
    cJSON_Delete(body);
    return rc;
}

/* ---- what will not hold ---------------------------------------------------------------------- */

struct notes {
    char **texts;
    size_t count;
};

/* Adds a note. Only the first note for a name is kept, because it has the best reason; other
 * warnings of the engine are all kept.
 */
static void note_setting(struct notes *n, const char *name, const char *reason)
{
    size_t len = strlen(name);
    for (size_t i = 0; i < n->count && strcmp(name, "engine") != 0; i++) {
        if (strncmp(n->texts[i], name, len) == 0 && n->texts[i][len] == ':') {
            return;
        }
    }
    if (n->count < BACKEND_UNAPPLIED_MAX) {
        n->texts[n->count++] = alloc_printf("%s: %s", name, reason);
    }
}

/* A warning as one line of bounded length that is safe to log. */
static char *clean_warning(const char *warning)
{
    size_t len = strnlen(warning, NOTE_MAX);
    len = utf8_valid_prefix(warning, len);
    char *line = alloc_viewdup(view_bytes(warning, len));
    for (char *p = line; *p != '\0'; p++) {
        *p = (unsigned char)*p < 0x20 || *p == 0x7f ? ' ' : *p;
    }
    return line;
}

/* Notes the limit that a warning is about; both engines use the same texts. */
static void note_warning(struct notes *n, const char *warning)
{
    static const struct {
        const char *words, *name;
    } known[] = {
        {"swap limit", "swap"}, /* before "memory", because its text contains that word */
        {"memory limit", "memory"}, {"pids limit", "pids"},
        {"cpu cfs", "cpus"},        {"nanocpus", "cpus"},
    };
    CLEANUP_FREE char *text = clean_warning(warning);
    if (strcasestr(text, "resource limits are not supported") != NULL) {
        note_setting(n, "memory", text);
        note_setting(n, "cpus", text);
        note_setting(n, "pids", text);
        return;
    }
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (strcasestr(text, known[i].words) != NULL) {
            note_setting(n, known[i].name, text);
            return;
        }
    }
    note_setting(n, "engine", text);
}

size_t docker_spec_unapplied(const struct docker_engine *engine, const char *const *warnings,
                             size_t warning_count, char *ret[BACKEND_UNAPPLIED_MAX])
{
    struct notes n = {.texts = ret};
    const char *why = engine->cgroup_none ? "the engine runs without cgroups"
                                          : "the engine's kernel has no such cgroup controller";
    if (!holds_memory(engine)) {
        CLEANUP_FREE char *text = alloc_printf("%s; RLIMIT_DATA per process stands in", why);
        note_setting(&n, "memory", text);
    } else if (!holds_swap(engine)) {
        note_setting(&n, "swap", "the engine's kernel does not account it; memory may swap out");
    }
    if (!holds_cpus(engine)) {
        note_setting(&n, "cpus", why);
    }
    if (!holds_pids(engine)) {
        CLEANUP_FREE char *text = alloc_printf("%s; RLIMIT_NPROC stands in", why);
        note_setting(&n, "pids", text);
    }
    for (size_t i = 0; i < warning_count; i++) {
        note_warning(&n, warnings[i]);
    }
    if (holds_memory(engine) && engine->cgroup_v1) {
        note_setting(&n, "sockets",
                     "cgroups of version 1 do not count their buffers as memory, and the engine's "
                     "runtimes ignore a limit for them");
    }
    if (engine->podman) {
        note_setting(&n, "ptys",
                     "the engine has no limit for them; a sandbox can use up the host's");
    }
    if (engine->old_kernel) {
        note_setting(&n, "netlink", SANDBOX_WHY_NETLINK);
    }
    if (!holds_sysctls(engine)) {
        note_setting(&n, "shm",
                     "the engine maps ids, and the kernel may refuse to limit System V's "
                     "shared memory there; it stays until the sandbox is closed");
        note_setting(&n, "inotify",
                     "the engine maps ids; what a sandbox takes counts for the user "
                     "that runs the engine");
    }
    return n.count;
}

size_t docker_spec_unapplied_asked(const struct docker_engine *engine,
                                   const struct backend_spec *spec, size_t count,
                                   char *texts[BACKEND_UNAPPLIED_MAX])
{
    if (spec->packages_bytes > 0 && count < BACKEND_UNAPPLIED_MAX) {
        texts[count++] =
            alloc_strdup("packages: the engine's volumes have no size, so what code of "
                         "packages writes while it is built is not limited");
    }
    if (backend_limits_io(&spec->limits) && count < BACKEND_UNAPPLIED_MAX) {
        if (!holds_io(engine, spec)) {
            texts[count++] = alloc_strdup(
                engine->rootless || engine->cgroup_none
                    ? "io: this engine cannot limit reads and writes"
                    : "io: which disk of the engine's host has its files is not known");
        } else if (engine->cgroup_v1 && backend_limits_writes(&spec->limits)) {
            texts[count++] = alloc_strdup(SANDBOX_NOTE_IO_WRITES);
        }
    }
    return count;
}
