/*
 *     version --> rights, all at once --> sweep --> report
 *
 * A right that is missing would show at the first sandbox, as an error that few people connect with
 * a Role. So the API server is asked for each of them beforehand, and those that are missing are
 * listed together. A server that does not answer such questions leaves it at that: the creation
 * will tell.
 */
#include "worker/backend/kubernetes/probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/io/json.h"
#include "worker/backend/json_build.h"
#include "worker/backend/kubernetes/end.h"
#include "worker/backend/kubernetes/pod.h"

#define LOOK_MS          6000
#define KUBE_LEASE_GROUP "coordination.k8s.io"
#define REVIEW_PATH      "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"

/* An exec is a GET of the server before version 1.35, and is checked as a creation since then, too.
 */
static const struct kube_right rights[] = {
    {"create", "pods", "", 0},
    {"get", "pods", "", 0},
    {"list", "pods", "", 0},
    {"watch", "pods", "", 0},
    {"delete", "pods", "", 0},
    {"get", "pods", "exec", 0},
    {"create", "pods", "exec", 35},
    {"get", "configmaps", "", 0},
    {"create", "configmaps", "", 0},
    {"patch", "pods", "", 0, NULL, true},
    {"create", "leases", "", 0, KUBE_LEASE_GROUP, true},
    {"list", "leases", "", 0, KUBE_LEASE_GROUP, true},
    {"watch", "leases", "", 0, KUBE_LEASE_GROUP, true},
    {"patch", "leases", "", 0, KUBE_LEASE_GROUP, true},
    {"delete", "leases", "", 0, KUBE_LEASE_GROUP, true},
};

#define RIGHTS_COUNT (sizeof(rights) / sizeof(rights[0]))

struct question {
    struct kube_probe *probe;
    const struct kube_right *right;
};

struct kube_probe {
    struct tasks *tasks;
    struct kube_api *api;
    struct kube_sweep *sweeping;
    char *runtime;
    unsigned minor;
    size_t pending;
    struct question questions[RIGHTS_COUNT];
    char missing[256], missing_for_several[256];
    char version[400];
    char reason[700];
    kube_probe_fn done;
    void *arg;
};

const struct kube_right *kube_probe_rights(size_t *ret_count)
{
    *ret_count = RIGHTS_COUNT;
    return rights;
}

const char *kube_probe_getenv(void *arg, const char *name)
{
    (void)arg;
    return getenv(name);
}

unsigned kube_probe_minor(const char *text)
{
    unsigned minor = 0;
    for (size_t i = 0; text != NULL && i < 4 && text[i] >= '0' && text[i] <= '9'; i++) {
        minor = minor * 10 + (unsigned)(text[i] - '0');
    }
    return minor;
}

void kube_probe_free(struct kube_probe *p)
{
    if (p != NULL) {
        kube_sweep_free(p->sweeping);
        free(p->runtime);
        free(p);
    }
}

static void report(void *arg)
{
    struct kube_probe *p = arg;
    const struct kube_cluster *cluster = p->api != NULL ? kube_api_cluster(p->api) : NULL;
    bool usable = p->reason[0] == '\0';
    struct backend_probe probe = {
        .usable = usable,
        .runtime = p->runtime,
        .version = p->version,
        .reason = p->reason,
        .mode = usable ? kube_mode_pack(p->minor) : 0,
    };
    struct place place = {.kind = PLACE_NONE};
    if (cluster != NULL) {
        place = (struct place){.kind = PLACE_NAMED, .address = cluster->address};
    }
    probe.tried[probe.tried_count++] = (struct backend_tried){
        cluster != NULL ? cluster->origin : "kubeconfig", place, usable ? p->version : p->reason};
    if (usable) {
        probe.place = place;
        probe.unapplied_count = kube_pod_unapplied(p->minor, false, probe.unapplied);
    }
    p->done(p->arg, &probe);
    kube_probe_free(p);
}

static void on_swept(void *arg)
{
    struct kube_probe *p = arg;
    p->sweeping = NULL;
    report(p);
}

static void after_rights(struct kube_probe *p)
{
    const struct kube_cluster *cluster = kube_api_cluster(p->api);
    if (p->missing[0] != '\0') {
        snprintf(p->reason, sizeof(p->reason),
                 "%.200s: in namespace %s the right is missing to %s; apply "
                 "contrib/kubernetes/role.yaml there and bind it to this user",
                 cluster->origin, cluster->namespace_, p->missing);
        report(p);
    } else {
        size_t used = strlen(p->version);
        if (p->missing_for_several[0] != '\0') {
            snprintf(p->version + used, sizeof(p->version) - used,
                     " (no --front-lease-seconds, since the right is missing to %s)",
                     p->missing_for_several);
        }
        p->sweeping = kube_sweep_start(p->api, on_swept, p);
    }
}

static void on_reviewed(void *arg, int rc, const struct kube_reply *reply, const struct err *err)
{
    struct question *q = arg;
    struct kube_probe *p = q->probe;
    (void)err;
    const cJSON *allowed = json_get(json_get(reply->json, "status"), "allowed");
    if (rc == 0 && cJSON_IsFalse(allowed)) {
        char *list = q->right->is_for_several ? p->missing_for_several : p->missing;
        size_t used = strlen(list);
        snprintf(list + used, sizeof(p->missing) - used, "%s%s %s%s%s", used > 0 ? ", " : "",
                 q->right->verb, q->right->resource, q->right->subresource[0] != '\0' ? "/" : "",
                 q->right->subresource);
    }
    if (--p->pending == 0) {
        after_rights(p);
    }
}

static void ask_rights(struct kube_probe *p)
{
    p->pending = 1;
    for (size_t i = 0; i < RIGHTS_COUNT; i++) {
        if (rights[i].minor > p->minor) {
            continue;
        }
        p->questions[i] = (struct question){p, &rights[i]};
        cJSON *body = json_build_new();
        json_build_string(body, "apiVersion", "authorization.k8s.io/v1");
        json_build_string(body, "kind", "SelfSubjectAccessReview");
        cJSON *attributes =
            json_build_object(json_build_object(body, "spec"), "resourceAttributes");
        json_build_string(attributes, "namespace", kube_api_cluster(p->api)->namespace_);
        if (rights[i].group != NULL) {
            json_build_string(attributes, "group", rights[i].group);
        }
        json_build_string(attributes, "verb", rights[i].verb);
        json_build_string(attributes, "resource", rights[i].resource);
        if (rights[i].subresource[0] != '\0') {
            json_build_string(attributes, "subresource", rights[i].subresource);
        }
        CLEANUP_FREE char *text = json_build_print(body);
        cJSON_Delete(body);
        struct kube_request request = {
            .method = "POST", .path = REVIEW_PATH, .json = text, .total_ms = LOOK_MS};
        p->pending++;
        kube_api_call(p->api, &request, on_reviewed, &p->questions[i]);
    }
    p->pending--;
}

static void on_kube_version(void *arg, int rc, const struct kube_reply *reply,
                            const struct err *failure)
{
    struct kube_probe *p = arg;
    const char *version = json_get_str(reply->json, "gitVersion");
    const char *minor = json_get_str(reply->json, "minor");
    if (rc < 0 || version == NULL) {
        snprintf(p->reason, sizeof(p->reason), "%.200s: %.450s", kube_api_cluster(p->api)->origin,
                 rc < 0 ? failure->text : "what answers there is no API server of Kubernetes");
        report(p);
        return;
    }
    p->minor = kube_probe_minor(minor);
    snprintf(p->version, sizeof(p->version), "Kubernetes %.64s", version);
    ask_rights(p);
}

static void on_begin(void *arg)
{
    struct kube_probe *p = arg;
    struct kube_request request = {.method = "GET", .path = "/version", .total_ms = LOOK_MS};
    kube_api_call(p->api, &request, on_kube_version, p);
}

struct kube_probe *kube_probe_start(struct tasks *tasks, struct kube_api *api,
                                    const struct err *why, const char *runtime, kube_probe_fn done,
                                    void *arg)
{
    struct kube_probe *p = alloc_one(struct kube_probe);
    p->tasks = tasks;
    p->api = api;
    p->runtime = alloc_strdup(runtime != NULL ? runtime : "");
    p->done = done;
    p->arg = arg;
    if (api == NULL) {
        snprintf(p->reason, sizeof(p->reason), "%s", why->text);
    }
    task_later(tasks, 0, api != NULL ? on_begin : report, p);
    return p;
}
