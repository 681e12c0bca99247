/*
 * Requests to the API server of a cluster: JSON in both directions within one namespace, errors
 * with a code of ERR_LIST in the server's own words, tokens that are read again, and servers that
 * ask for patience.
 *
 * Thread: the loop thread. Nothing blocks but reading a token. Callbacks as in http_client.h.
 */
#ifndef CLOISTER_WORKER_BACKEND_KUBERNETES_API_H
#define CLOISTER_WORKER_BACKEND_KUBERNETES_API_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/io/http_client.h"
#include "worker/backend/kubernetes/cluster.h"
#include "worker/backend/task.h"

#define KUBE_CALL_MS 15000

struct kube_api;
struct kube_call;

/* The answer. Borrowed during the callback. */
struct kube_reply {
    int status;        /* of HTTP; 0 if there was no answer */
    const cJSON *json; /* the body, if it is JSON; else NULL */
    bool is_absent;    /* the server says that exactly this object does not exist */
    bool is_there;     /* 409: an object of this name exists */
    bool is_unsent;    /* there was no token to ask with */
};

/* rc is 0 for a status of 2xx, else -ERR_*: -ERR_GONE if the object does not exist, -ERR_INVALID if
 * the server calls the request bad, -ERR_ENGINE for the rest. */
typedef void (*kube_reply_fn)(void *arg, int rc, const struct kube_reply *reply,
                              const struct err *err);

struct kube_request {
    const char *method;
    const char *path;   /* from the slash on; copied */
    const char *json;   /* body; copied; NULL: none */
    const char *accept; /* NULL: application/json */
    uint64_t total_ms;  /* 0: KUBE_CALL_MS */
    /* Gets the body of a 2xx answer in pieces instead of a reply with JSON, for as long as the
     * server goes on and never says nothing for silence_ms. It may cancel the call. */
    bool (*on_data)(void *arg, struct view piece);
    uint64_t silence_ms; /* with on_data only, instead of total_ms */
};

/* Takes the cluster over, also on failure. `tasks` must be closed before the api. */
int kube_api_create(struct tasks *tasks, struct kube_cluster *cluster, struct kube_api **ret,
                    struct err *err) WARN_UNUSED;

/* Drops all calls. */
void kube_api_close(struct kube_api *api, void (*closed)(void *arg), void *arg);

const struct kube_cluster *kube_api_cluster(const struct kube_api *api);

/* "/api/v1/namespaces/NS/pods/NAME"; name "" for the collection. To be freed. */
char *kube_api_path(const struct kube_api *api, const char *resource, const char *name);

/* Valid until `done`. */
struct kube_call *kube_api_call(struct kube_api *api, const struct kube_request *request,
                                kube_reply_fn done, void *arg);
void kube_api_cancel(struct kube_call *call);

/* Upgrades GET `path` (copied) to a WebSocket of the protocol for exec. The tunnel is NULL when rc
 * < 0, owned by the receiver otherwise. */
typedef void (*kube_tunnel_fn)(void *arg, int rc, struct http_tunnel *tunnel,
                               const struct err *err);
struct kube_call *kube_api_upgrade(struct kube_api *api, const char *path, uint64_t total_ms,
                                   kube_tunnel_fn done, void *arg);

#endif
