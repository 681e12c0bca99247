/*
 * A ConfigMap holds 1 MiB and the agent is larger, so it comes in parts. All of them are in one
 * projected volume, read-only, and are joined in the pod by a program of a few lines
 * (worker/agent/start.c), which every exec uses as well. The names hold a hash of all bytes, so
 * another build has other names, and what exists under a name is what is wanted. ConfigMaps are
 * immutable: no kubelet has to watch them, and nobody changes one below a running sandbox.
 *
 * They are shared by all sandboxes of the namespace and stay. Whether one is there is asked for by
 * its metadata alone, since the answer would be the agent otherwise. They are made one after the
 * other, so where the last is there all of them were made, and it alone is asked for. If somebody
 * has deleted one of the others, a pod waits for it in vain, and then each is looked for.
 */
#include "worker/backend/kubernetes/agent.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/base64.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/fd.h"
#include "common/str.h"
#include "worker/backend/json_build.h"
#include "worker/backend/kubernetes/pod.h"

#define AGENT_MAX (KUBE_PARTS_MAX * KUBE_PART_BYTES)
#define START_MAX (1000u << 10) /* one ConfigMap */
#define PUT_MS    60000
#define METADATA_ONLY                                                                              \
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"

struct kube_agent {
    struct buf agent, start;
    uint64_t hash;
    size_t parts;

    struct kube_api *api; /* while they are put there */
    struct kube_call *call;
    size_t next;
    bool quick; /* all are there if the next one is */
    kube_agent_fn done;
    void *arg;
};

void kube_agent_free(struct kube_agent *a)
{
    if (a != NULL) {
        if (a->call != NULL) {
            kube_api_cancel(a->call);
        }
        buf_finish(&a->agent);
        buf_finish(&a->start);
        free(a);
    }
}

static int seal(struct kube_agent *a, struct err *err)
{
    if (a->agent.len == 0 || a->start.len == 0) {
        return err_set(err, ERR_CONFIG, "the agent is an empty file");
    }
    a->parts = (a->agent.len + KUBE_PART_BYTES - 1) / KUBE_PART_BYTES;
    a->hash = hash_bytes(a->agent.data, a->agent.len) * UINT64_C(1099511628211) ^
              hash_bytes(a->start.data, a->start.len);
    return 0;
}

static struct kube_agent *agent_new(void)
{
    struct kube_agent *a = alloc_one(struct kube_agent);
    buf_init(&a->agent, AGENT_MAX);
    buf_init(&a->start, START_MAX);
    return a;
}

int kube_agent_of(struct view agent, struct view start, struct kube_agent **ret, struct err *err)
{
    struct kube_agent *a = agent_new();
    int rc = buf_add(&a->agent, agent.data, agent.len, err);
    rc = rc < 0 ? rc : buf_add(&a->start, start.data, start.len, err);
    rc = rc < 0 ? rc : seal(a, err);
    if (rc < 0) {
        kube_agent_free(a);
        return rc;
    }
    *ret = a;
    return 0;
}

int kube_agent_read(const char *agent_path, struct kube_agent **ret, struct err *err)
{
    struct kube_agent *a = agent_new();
    const char *slash = strrchr(agent_path, '/');
    CLEANUP_FREE char *start = alloc_printf(
        "%.*s" KUBE_START_PROGRAM, slash != NULL ? (int)(slash + 1 - agent_path) : 0, agent_path);
    int rc = file_read(agent_path, &a->agent, err);
    rc = rc < 0 ? rc : file_read(start, &a->start, err);
    rc = rc < 0 ? rc : seal(a, err);
    if (rc < 0) {
        kube_agent_free(a);
        struct err why = *err;
        return err_set(err, ERR_CONFIG, "the agent for pods: %.300s; is the installation whole?",
                       why.text);
    }
    *ret = a;
    return 0;
}

size_t kube_agent_count(const struct kube_agent *a)
{
    return 1 + a->parts;
}

char *kube_agent_name(const struct kube_agent *a, size_t i)
{
    return i == 0 ? alloc_printf("cloister-agent-%016" PRIx64 "-start", a->hash)
                  : alloc_printf("cloister-agent-%016" PRIx64 "-%zu", a->hash, i - 1);
}

/* Key in the ConfigMap, and name of the file in the pod. */
static char *file_name(size_t i)
{
    return i == 0 ? alloc_strdup("start") : alloc_printf("agent.%zu", i - 1);
}

static struct view content(const struct kube_agent *a, size_t i)
{
    if (i == 0) {
        return view_bytes(a->start.data, a->start.len);
    }
    size_t at = (i - 1) * KUBE_PART_BYTES;
    size_t rest = a->agent.len - at;
    return view_bytes(a->agent.data + at, rest < KUBE_PART_BYTES ? rest : KUBE_PART_BYTES);
}

char *kube_agent_body(const struct kube_agent *a, size_t i, struct err *err)
{
    CLEANUP_BUF struct buf text;
    buf_init(&text, START_MAX * 2);
    if (base64_encode(&text, content(a, i), err) < 0) {
        return NULL;
    }
    const char *encoded = buf_cstr(&text);
    if (encoded == NULL) {
        err_ignore(err_set(err, ERR_NO_MEMORY, "no memory for a part of the agent"));
        return NULL;
    }
    CLEANUP_FREE char *name = kube_agent_name(a, i);
    CLEANUP_FREE char *key = file_name(i);
    cJSON *body = json_build_new();
    json_build_string(body, "apiVersion", "v1");
    json_build_string(body, "kind", "ConfigMap");
    cJSON *metadata = json_build_object(body, "metadata");
    json_build_string(metadata, "name", name);
    json_build_string(json_build_object(metadata, "labels"), KUBE_LABEL_MANAGED, KUBE_MANAGED);
    json_build_bool(body, "immutable", true);
    json_build_string(json_build_object(body, "binaryData"), key, encoded);
    char *out = json_build_print(body);
    cJSON_Delete(body);
    return out;
}

void kube_agent_volume(const struct kube_agent *a, cJSON *volumes, const char *name)
{
    cJSON *volume = json_build_append_object(volumes);
    json_build_string(volume, "name", name);
    cJSON *projected = json_build_object(volume, "projected");
    json_build_number(projected, "defaultMode", 0555);
    cJSON *sources = json_build_array(projected, "sources");
    for (size_t i = 0; i < kube_agent_count(a); i++) {
        CLEANUP_FREE char *map = kube_agent_name(a, i);
        CLEANUP_FREE char *key = file_name(i);
        cJSON *source = json_build_object(json_build_append_object(sources), "configMap");
        json_build_string(source, "name", map);
        cJSON *item = json_build_append_object(json_build_array(source, "items"));
        json_build_string(item, "key", key);
        json_build_string(item, "path", key);
    }
}

/* ---- into the namespace --------------------------------------------------------------------- */

static void look_for_map(struct kube_agent *a);

static void end_put(struct kube_agent *a, int rc, const struct err *err)
{
    a->done(a->arg, rc, err);
}

static void on_made(void *arg, int rc, const struct kube_reply *reply, const struct err *failure)
{
    struct kube_agent *a = arg;
    a->call = NULL;
    if (rc < 0 && !reply->is_there) {
        struct err err = *failure;
        err.code = ERR_ENGINE;
        rc = err_wrap(&err, "the agent's ConfigMap cannot be made");
        end_put(a, rc, &err);
        return;
    }
    a->next++;
    look_for_map(a);
}

static void on_looked(void *arg, int rc, const struct kube_reply *reply, const struct err *failure)
{
    struct kube_agent *a = arg;
    struct err err = ERR_INIT;
    a->call = NULL;
    if (rc == 0) {
        a->next = a->quick ? kube_agent_count(a) : a->next + 1;
        look_for_map(a);
        return;
    }
    if (!reply->is_absent) {
        err = *failure;
        err.code = ERR_ENGINE;
        rc = err_wrap(&err, "the agent's ConfigMaps");
        end_put(a, rc, &err);
        return;
    }
    if (a->quick) {
        a->quick = false;
        a->next = 0;
        look_for_map(a);
        return;
    }
    CLEANUP_FREE char *path = kube_api_path(a->api, "configmaps", "");
    CLEANUP_FREE char *body = kube_agent_body(a, a->next, &err);
    if (body == NULL) {
        end_put(a, -err.code, &err);
        return;
    }
    struct kube_request request = {
        .method = "POST", .path = path, .json = body, .total_ms = PUT_MS};
    a->call = kube_api_call(a->api, &request, on_made, a);
}

static void look_for_map(struct kube_agent *a)
{
    if (a->next == kube_agent_count(a)) {
        end_put(a, 0, NULL);
        return;
    }
    CLEANUP_FREE char *name = kube_agent_name(a, a->next);
    CLEANUP_FREE char *path = kube_api_path(a->api, "configmaps", name);
    struct kube_request request = {.method = "GET", .path = path, .accept = METADATA_ONLY};
    a->call = kube_api_call(a->api, &request, on_looked, a);
}

void kube_agent_put(struct kube_agent *a, struct kube_api *api, bool each, kube_agent_fn done,
                    void *arg)
{
    a->api = api;
    a->quick = !each;
    a->next = each ? 0 : kube_agent_count(a) - 1;
    a->done = done;
    a->arg = arg;
    look_for_map(a);
}
