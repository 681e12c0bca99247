/*
 * The pod satisfies the strictest of Kubernetes' own standards, "restricted", so it may be created
 * wherever pods may be: no root, no capability, no privilege to gain, a root file system that
 * nobody writes to. The price is that the agent has no privilege either. It cannot become another
 * user for code, so both have one uid: code can end its own agent, which ends its own sandbox.
 *
 * The uid is derived from the sandbox's id and belongs to no one, because the kernel counts
 * processes by uid over all containers of a node, and RLIMIT_NPROC is the only limit of processes
 * that a pod can have of its own.
 *
 * All places for files are in memory, as under the other backends: their sizes then hold at once,
 * and they count as the pod's memory. On disk a node would notice late, and evict the pod.
 */
#include "worker/backend/kubernetes/pod.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/room.h"
#include "common/str.h"
#include "worker/backend/json_build.h"
#include "worker/backend/kubernetes/agent.h"
#include "worker/backend/kubernetes/cluster.h"
#include "worker/backend/kubernetes/front.h"
#include "worker/backend/owner.h"
#include "worker/backend/sandbox_defaults.h"
#include "worker/backend/spec_copy.h"

#define MODE_MARK   ((uint64_t)1 << 31)
#define MODE_KIND   ((uint64_t)0x6b << 16) /* "k": numbers of other backends are refused */
#define MINOR_MAX   0xffffu
#define SIZED_MINOR 22 /* since this version a volume in memory has the size that is asked for */

#define SOCKET_BYTES     ((uint64_t)64 << 10)
#define LOG_BYTES        ((uint64_t)64 << 20) /* the agent's own words on the node */
#define CPU_REQUEST_PART 4
#define LIFETIME_SPARE_S 60 /* the server comes first, and tells why */

#if defined(__x86_64__)
#define ARCHITECTURE "amd64"
#elif defined(__aarch64__)
#define ARCHITECTURE "arm64"
#elif defined(__arm__)
#define ARCHITECTURE "arm"
#elif defined(__i386__)
#define ARCHITECTURE "386"
#elif defined(__powerpc64__)
#define ARCHITECTURE "ppc64le"
#elif defined(__s390x__)
#define ARCHITECTURE "s390x"
#elif defined(__riscv)
#define ARCHITECTURE "riscv64"
#endif

uint64_t kube_mode_pack(unsigned minor)
{
    return MODE_MARK | MODE_KIND | (minor < MINOR_MAX ? minor : MINOR_MAX);
}

bool kube_mode_unpack(uint64_t mode, unsigned *ret_minor)
{
    if ((mode & ~(uint64_t)MINOR_MAX) != (MODE_MARK | MODE_KIND)) {
        return false;
    }
    *ret_minor = (unsigned)(mode & MINOR_MAX);
    return true;
}

char *kube_pod_name(const char *sandbox)
{
    CLEANUP_FREE char *name = alloc_printf("cloister-%s", sandbox);
    return kube_is_label(name) ? STEAL_PTR(name) : NULL;
}

void kube_pod_host(char ret[KUBE_HOST_SIZE])
{
    char host[OWNER_HOST_SIZE];
    owner_host(host);
    ret[0] = '\0';
    if (host[0] != '\0') {
        snprintf(ret, KUBE_HOST_SIZE, "%016" PRIx64, hash_text(host));
    }
}

/* ---- process -------------------------------------------------------------------------------- */

/* Kubernetes replaces $(NAME) in words and values; "$$" is a dollar. */
static char *literal(const char *text)
{
    char *out = alloc_array(2 * strlen(text) + 1, 1);
    size_t len = 0;
    for (const char *p = text; *p != '\0'; p++) {
        out[len++] = *p;
        if (*p == '$') {
            out[len++] = '$';
        }
    }
    return out;
}

static void kube_append_word(cJSON *array, const char *word)
{
    CLEANUP_FREE char *text = literal(word);
    json_build_append_string(array, text);
}

static void append_option(cJSON *array, const char *flag, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof(text), "%" PRIu64, value);
    json_build_append_string(array, flag);
    json_build_append_string(array, text);
}

static void append_setting(cJSON *array, const char *flag, const char *value)
{
    json_build_append_string(array, flag);
    kube_append_word(array, value);
}

static uint32_t user_of(const struct backend_spec *spec)
{
    return sandbox_uid_apart(spec->id, (uint64_t)INT32_MAX + 1); /* Kubernetes takes no more */
}

static void add_program(cJSON *container, const struct backend_spec *spec,
                        const struct backend_limits *limits)
{
    json_build_append_string(json_build_array(container, "command"), KUBE_AGENT_START);
    cJSON *args = json_build_array(container, "args");
    json_build_append_string(args, "serve");
    append_setting(args, "--listen", KUBE_AGENT_SOCKET);
    append_setting(args, "--sandbox", spec->id);
    append_option(args, "--grace-ms", spec->grace_ms);
    append_option(args, "--uid", user_of(spec));
    append_option(args, "--gid", user_of(spec));
    append_option(args, "--nproc", limits->pids);
    append_option(args, "--nofile", limits->files);
    append_option(args, "--data-bytes", 0); /* the pod's control group limits memory */
    append_option(args, "--memory-bytes", limits->memory_bytes);
    append_setting(args, "--workspace", backend_workspace(spec));
    append_setting(args, "--home", SANDBOX_HOME);
    json_build_append_string(args, "--single-uid");
    json_build_append_string(args, "--any-peer"); /* relays have the one uid that there is */
    json_build_append_string(args, "--filter");
    json_build_string(container, "workingDir", "/");
}

static int add_env(cJSON *container, const struct backend_spec *spec, struct err *err)
{
    /* no PATH: the image's own is used, and the agent passes it on */
    const struct sandbox_env env = {.network = spec->network, .extra = &spec->env};
    cJSON *pairs = json_build_new();
    cJSON *list = json_build_array(pairs, "env");
    int rc = sandbox_env_add(list, &env, err);
    cJSON *out = json_build_array(container, "env");
    const cJSON *pair;
    cJSON_ArrayForEach(pair, list)
    {
        size_t len = strcspn(pair->valuestring, "=");
        CLEANUP_FREE char *name = alloc_viewdup(view_bytes(pair->valuestring, len));
        CLEANUP_FREE char *value =
            literal(pair->valuestring[len] != '\0' ? pair->valuestring + len + 1 : "");
        cJSON *item = json_build_append_object(out);
        json_build_string(item, "name", name);
        json_build_string(item, "value", value);
    }
    cJSON_Delete(pairs);
    return rc;
}

/* ---- files ---------------------------------------------------------------------------------- */

static void kube_add_mount(cJSON *container, const char *name, const char *path, bool read_only)
{
    cJSON *mount =
        json_build_append_object(cJSON_GetObjectItemCaseSensitive(container, "volumeMounts"));
    json_build_string(mount, "name", name);
    json_build_string(mount, "mountPath", path);
    if (read_only) {
        json_build_bool(mount, "readOnly", true);
    }
}

static void add_memory(cJSON *spec, cJSON *container, const char *name, const char *path,
                       uint64_t bytes)
{
    char size[24];
    snprintf(size, sizeof(size), "%" PRIu64, bytes);
    cJSON *volume = json_build_append_object(cJSON_GetObjectItemCaseSensitive(spec, "volumes"));
    json_build_string(volume, "name", name);
    cJSON *empty = json_build_object(volume, "emptyDir");
    json_build_string(empty, "medium", "Memory");
    json_build_string(empty, "sizeLimit", size);
    kube_add_mount(container, name, path, false);
}

static void add_files(cJSON *pod, cJSON *container, const struct backend_spec *spec,
                      const struct backend_limits *limits, const struct kube_agent *agent)
{
    uint64_t other = room_other(limits->memory_bytes, limits->disk_bytes);
    cJSON *volumes = json_build_array(pod, "volumes");
    json_build_array(container, "volumeMounts");
    kube_agent_volume(agent, volumes, "agent");
    kube_add_mount(container, "agent", KUBE_AGENT_DIR, true);
    add_memory(pod, container, "run", "/run", SANDBOX_RUN_BYTES);
    /* of its own, so that no other file can fill it and keep the agent from listening */
    add_memory(pod, container, "socket", KUBE_SOCKET_DIR, SOCKET_BYTES);
    add_memory(pod, container, "tmp", "/tmp", other);
    add_memory(pod, container, "home", SANDBOX_HOME, other);
    if (spec->app_dir) {
        add_memory(pod, container, "app", BACKEND_APP, SANDBOX_APP_BYTES);
    }
    add_memory(pod, container, "workspace", backend_workspace(spec), limits->disk_bytes);
}

/* ---- limits and privileges ------------------------------------------------------------------ */

static void put_quantity(cJSON *object, const char *key, uint64_t value, const char *unit)
{
    char text[32];
    snprintf(text, sizeof(text), "%" PRIu64 "%s", value, unit);
    json_build_string(object, key, text);
}

static void kube_add_resources(cJSON *container, const struct backend_limits *limits)
{
    cJSON *resources = json_build_object(container, "resources");
    cJSON *most = json_build_object(resources, "limits");
    cJSON *sure = json_build_object(resources, "requests");
    uint64_t cpu = limits->cpu_milli / CPU_REQUEST_PART;
    put_quantity(most, "cpu", limits->cpu_milli, "m");
    put_quantity(most, "memory", limits->memory_bytes, "");
    put_quantity(most, "ephemeral-storage", LOG_BYTES, "");
    put_quantity(sure, "cpu", cpu > 0 ? cpu : 1, "m"); /* most sandboxes wait most of the time */
    put_quantity(sure, "memory", limits->memory_bytes, ""); /* no node promises it twice */
    put_quantity(sure, "ephemeral-storage", LOG_BYTES, "");
}

static void kube_add_privileges(cJSON *pod, cJSON *container, const struct backend_spec *spec)
{
    cJSON *all = json_build_object(pod, "securityContext");
    json_build_bool(all, "runAsNonRoot", true);
    json_build_number(all, "runAsUser", user_of(spec));
    json_build_number(all, "runAsGroup", user_of(spec));
    json_build_string(json_build_object(all, "seccompProfile"), "type", "RuntimeDefault");
    cJSON *own = json_build_object(container, "securityContext");
    json_build_bool(own, "allowPrivilegeEscalation", false);
    json_build_bool(own, "privileged", false);
    json_build_bool(own, "readOnlyRootFilesystem", true);
    json_build_append_string(json_build_array(json_build_object(own, "capabilities"), "drop"),
                             "ALL");
}

static void add_names(cJSON *body, const struct backend_spec *spec, const char *name)
{
    char host[KUBE_HOST_SIZE];
    kube_pod_host(host);
    cJSON *metadata = json_build_object(body, "metadata");
    json_build_string(metadata, "name", name);
    cJSON *labels = json_build_object(metadata, "labels");
    json_build_string(labels, KUBE_LABEL_MANAGED, KUBE_MANAGED);
    json_build_string(labels, KUBE_LABEL_SANDBOX, spec->id);
    json_build_string(labels, KUBE_LABEL_HOST, host);
    CLEANUP_FREE char *front = kube_front_own(spec->shared_dir);
    if (front != NULL) {
        json_build_string(labels, KUBE_LABEL_FRONT, front);
    }
    json_build_string(labels, KUBE_LABEL_NETWORK, spec->network ? "open" : "none");
    /* paths and names of hosts are no labels, which are short and plain */
    owner_label(json_build_object(metadata, "annotations"), spec->id, spec->dir);
}

static void add_owner(cJSON *metadata, const struct kube_owner *owner)
{
    cJSON *item = json_build_append_object(json_build_array(metadata, "ownerReferences"));
    json_build_string(item, "apiVersion", "v1");
    json_build_string(item, "kind", "Pod");
    json_build_string(item, "name", owner->name);
    json_build_string(item, "uid", owner->uid);
}

static void add_pod(cJSON *pod, const struct backend_spec *spec)
{
    json_build_string(pod, "restartPolicy", "Never"); /* an ended sandbox is not restarted */
    json_build_bool(pod, "automountServiceAccountToken", false);
    json_build_bool(pod, "enableServiceLinks", false);
    json_build_bool(pod, "hostNetwork", false);
    json_build_bool(pod, "hostPID", false);
    json_build_bool(pod, "hostIPC", false);
    json_build_bool(pod, "shareProcessNamespace", false);
    json_build_string(pod, "hostname", SANDBOX_HOST);
    json_build_number(pod, "terminationGracePeriodSeconds", 1); /* its agent needs less */
    if (spec->lifetime_s > 0) { /* if neither its server nor its agent ends it */
        uint64_t most = spec->lifetime_s + LIFETIME_SPARE_S;
        json_build_number(pod, "activeDeadlineSeconds", most < INT32_MAX ? most : INT32_MAX);
    }
    cJSON *node = json_build_object(pod, "nodeSelector");
    json_build_string(node, "kubernetes.io/os", "linux");
#ifdef ARCHITECTURE
    json_build_string(node, "kubernetes.io/arch", ARCHITECTURE); /* the agent's */
#endif
    if (spec->runtime != NULL && spec->runtime[0] != '\0') {
        json_build_string(pod, "runtimeClassName", spec->runtime);
    }
    if (!spec->network) { /* nobody answers there, at once, where a NetworkPolicy lets time pass */
        json_build_string(pod, "dnsPolicy", "None");
        json_build_append_string(
            json_build_array(json_build_object(pod, "dnsConfig"), "nameservers"), "127.0.0.1");
    }
}

/* All of the pod but its metadata. */
static int fill_pod(cJSON *pod, const struct backend_spec *spec, const struct kube_agent *agent,
                    struct err *err)
{
    struct backend_limits limits = spec_copy_limits(&spec->limits);
    add_pod(pod, spec);
    cJSON *container = json_build_append_object(json_build_array(pod, "containers"));
    json_build_string(container, "name", KUBE_CONTAINER);
    json_build_string(container, "image", spec->image != NULL ? spec->image : "");
    json_build_string(container, "imagePullPolicy", spec->pull ? "IfNotPresent" : "Never");
    /* the last words of an agent that cannot start are in the pod's state then */
    json_build_string(container, "terminationMessagePolicy", "FallbackToLogsOnError");
    json_build_bool(container, "stdin", false);
    json_build_bool(container, "tty", false);
    add_program(container, spec, &limits);
    int rc = add_env(container, spec, err);
    add_files(pod, container, spec, &limits, agent);
    kube_add_resources(container, &limits);
    kube_add_privileges(pod, container, spec);
    return rc;
}

int kube_pod_build(const struct backend_spec *spec, const struct kube_agent *agent,
                   const struct kube_owner *owner, char **ret_text, struct err *err)
{
    CLEANUP_FREE char *name = kube_pod_name(spec->id);
    if (name == NULL) {
        return err_set(err, ERR_INVALID, "the sandbox's id makes no name of a pod");
    }
    cJSON *body = json_build_new();
    json_build_string(body, "apiVersion", "v1");
    json_build_string(body, "kind", "Pod");
    add_names(body, spec, name);
    if (owner != NULL) {
        add_owner(cJSON_GetObjectItemCaseSensitive(body, "metadata"), owner);
    }
    int rc = fill_pod(json_build_object(body, "spec"), spec, agent, err);
    if (rc == 0) {
        *ret_text = json_build_print(body);
    }
    cJSON_Delete(body);
    return rc;
}

/* All of the pod counts, so that nothing that is added to it later can be forgotten here; but not
 * its metadata, which say whose it is. The parts of the agent are named after what is in them, so
 * one of another build is another pod. */
int kube_pod_like(const struct backend_spec *spec, const struct kube_agent *agent, char **ret,
                  struct err *err)
{
    struct backend_spec same = *spec;
    same.id = "any";
    cJSON *pod = json_build_new();
    int rc = fill_pod(pod, &same, agent, err);
    if (rc == 0) {
        CLEANUP_FREE char *text = json_build_print(pod);
        *ret = alloc_printf("%016" PRIx64 "-%016" PRIx64, hash_text(text), spec->told);
    }
    cJSON_Delete(pod);
    return rc;
}

size_t kube_pod_unapplied(unsigned minor, bool network, const char *ret[BACKEND_UNAPPLIED_MAX])
{
    size_t count = 0;
    if (!network) {
        ret[count++] = "network: a pod has the cluster's, unless its network plug-in applies the "
                       "NetworkPolicy of contrib/kubernetes";
    }
    ret[count++] =
        "user: code has the agent's uid in a pod without privileges, and can end its own "
        "sandbox";
    ret[count++] = "pids: pods have no limit of their own; RLIMIT_NPROC of a uid that is no "
                   "other's stands in";
    if (minor < SIZED_MINOR) {
        ret[count++] = "disk: clusters before version 1.22 do not limit volumes in memory; they "
                       "count as the pod's memory";
    }
    ret[count++] = "ptys: pods have no limit for them; a sandbox can use up the node's";
    ret[count++] = "shm: /dev/shm has the size that the node's runtime gives it; it counts as the "
                   "pod's memory";
    return count;
}
