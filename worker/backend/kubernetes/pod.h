/*
 * The body of a pod: every default of a sandbox on a cluster, next to its reason.
 *
 * Thread: any. Nothing blocks but reading a few small files for the labels of the owner.
 */
#ifndef CLOISTER_WORKER_BACKEND_KUBERNETES_POD_H
#define CLOISTER_WORKER_BACKEND_KUBERNETES_POD_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "worker/backend/backend.h"

#define KUBE_CONTAINER "sandbox"

#define KUBE_LABEL_MANAGED "app.kubernetes.io/managed-by"
#define KUBE_MANAGED       "cloister"
#define KUBE_LABEL_SANDBOX "cloister.sandbox" /* its id */
#define KUBE_LABEL_HOST    "cloister.host"    /* a hash of the host that its server runs on */
#define KUBE_LABEL_NETWORK "cloister.network" /* "none" or "open", for a NetworkPolicy */

#define KUBE_SOCKET_DIR   "/run/cloister"
#define KUBE_AGENT_SOCKET "/run/cloister/agent.sock"

#define KUBE_HOST_SIZE 17

/* A cluster as a number that travels with a sandbox: the minor version of its API. */
uint64_t kube_mode_pack(unsigned minor);                   /* never 0 */
bool kube_mode_unpack(uint64_t mode, unsigned *ret_minor); /* false for a number of others */

/* Of a sandbox. NULL if its id makes no name. To be freed. */
char *kube_pod_name(const char *sandbox);

/* The value of KUBE_LABEL_HOST here; "" if this host has no identity. */
void kube_pod_host(char ret[KUBE_HOST_SIZE]);

struct kube_agent;

/* The pod that goes with another one: when that is removed, the cluster removes this one. */
struct kube_owner {
    const char *name, *uid;
};

/* JSON text, to be freed. Limits of 0 are those of spec_copy_limits(). -ERR_INVALID: an environment
 * entry that is none, or an id that makes no name. `owner` NULL: nobody. */
int kube_pod_build(const struct backend_spec *spec, const struct kube_agent *agent,
                   const struct kube_owner *owner, char **ret_text, struct err *err) WARN_UNUSED;

/* What a pod of this spec is like, as the value of a label (to be freed): the same for another id
 * and another server, and different if anything else is that is not changed later. */
int kube_pod_like(const struct backend_spec *spec, const struct kube_agent *agent, char **ret,
                  struct err *err) WARN_UNUSED;

/* Lists what a cluster of this version does not apply, as "name: reason"; returns their number. The
 * texts are constants. */
size_t kube_pod_unapplied(unsigned minor, bool network, const char *ret[BACKEND_UNAPPLIED_MAX]);

#endif
