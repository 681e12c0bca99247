/*
 * A server that ends in order has nobody in its Lease's holderIdentity from then on, as clients of
 * Kubernetes do it. The Lease stays: without one the pods of its id might be those of a server that
 * is just beginning.
 */
#include "worker/backend/kubernetes/lease.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/io/json.h"
#include "worker/backend/json_build.h"
#include "worker/backend/kubernetes/cluster.h"
#include "worker/backend/kubernetes/front.h"
#include "worker/backend/kubernetes/pod.h"

#define LEASE_MAX_S 3600
#define HOLDER      "holderIdentity"

char *kube_lease_path(const struct kube_api *api, const char *id)
{
    return alloc_printf("/apis/coordination.k8s.io/v1/namespaces/%s/leases%s%s",
                        kube_api_cluster(api)->namespace_, id[0] != '\0' ? "/cloister-" : "", id);
}

char *kube_lease_renew(const char *id, uint64_t lease_ms, bool is_new)
{
    char host[64] = "";
    char iso[CLOCK_ISO_SIZE];
    cJSON *body = json_build_new();
    clock_iso(clock_wall_ms(), iso, sizeof(iso));
    /* the API wants microseconds */
    CLEANUP_FREE char *now = alloc_printf("%.*s000Z", (int)strcspn(iso, "Z"), iso);
    if (gethostname(host, sizeof(host) - 1) < 0 || host[0] == '\0') {
        snprintf(host, sizeof(host), "%s", id);
    }
    if (is_new) {
        json_build_string(body, "apiVersion", "coordination.k8s.io/v1");
        json_build_string(body, "kind", "Lease");
        cJSON *metadata = json_build_object(body, "metadata");
        CLEANUP_FREE char *name = alloc_printf("cloister-%s", id);
        json_build_string(metadata, "name", name);
        cJSON *labels = json_build_object(metadata, "labels");
        json_build_string(labels, KUBE_LABEL_MANAGED, KUBE_MANAGED);
        json_build_string(labels, KUBE_LABEL_FRONT, id);
    }
    cJSON *spec = json_build_object(body, "spec");
    json_build_string(spec, HOLDER, host); /* who it is, is for people */
    json_build_number(spec, "leaseDurationSeconds", lease_ms / 1000);
    json_build_string(spec, "renewTime", now);
    char *text = json_build_print(body);
    cJSON_Delete(body);
    return text;
}

char *kube_lease_give_up(const char *version)
{
    cJSON *body = json_build_new();
    json_build_string(json_build_object(body, "metadata"), "resourceVersion", version);
    json_build_put(json_build_object(body, "spec"), HOLDER, cJSON_CreateNull());
    char *text = json_build_print(body);
    cJSON_Delete(body);
    return text;
}

bool kube_lease_is_given_up(const cJSON *lease)
{
    const cJSON *spec = json_get(lease, "spec");
    const char *holder = json_get_str(spec, HOLDER);
    return cJSON_IsObject(spec) && (holder == NULL || holder[0] == '\0');
}

uint64_t kube_lease_time_ms(const cJSON *lease)
{
    const cJSON *number = json_get(json_get(lease, "spec"), "leaseDurationSeconds");
    bool good =
        json_is_int(number) && number->valuedouble >= 1 && number->valuedouble <= LEASE_MAX_S;
    return good ? (uint64_t)number->valuedouble * 1000 : (uint64_t)LEASE_MAX_S * 1000;
}
