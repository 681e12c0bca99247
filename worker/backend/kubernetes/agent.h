/*
 * The agent as ConfigMaps of a namespace: parts of its program, and the small program that joins
 * them in a pod.
 *
 * Thread: the loop thread. Nothing blocks for longer than reading the programs takes.
 */
#ifndef CLOISTER_WORKER_BACKEND_KUBERNETES_AGENT_H
#define CLOISTER_WORKER_BACKEND_KUBERNETES_AGENT_H

#include <cjson/cJSON.h>
#include <stdbool.h>

#include "common/err.h"
#include "common/view.h"
#include "worker/backend/kubernetes/api.h"

#define KUBE_AGENT_DIR     "/.cloister"
#define KUBE_AGENT_START   "/.cloister/start"
#define KUBE_AGENT_PARTS   "/.cloister/agent." /* and a number from 0 */
#define KUBE_PART_BYTES    (700u << 10)        /* of 1 MiB that a ConfigMap may hold */
#define KUBE_PARTS_MAX     48
#define KUBE_START_PROGRAM "cloister-agent-start" /* beside the agent on this host */

struct kube_agent;

/* Reads the agent and what starts it. -ERR_CONFIG if one of them is missing. */
int kube_agent_read(const char *agent_path, struct kube_agent **ret, struct err *err) WARN_UNUSED;

/* The same from memory; copies. */
int kube_agent_of(struct view agent, struct view start, struct kube_agent **ret,
                  struct err *err) WARN_UNUSED;
void kube_agent_free(struct kube_agent *a); /* NULL is fine; no callback follows */

/* How many ConfigMaps it is: the start program, then the parts. */
size_t kube_agent_count(const struct kube_agent *a);

/* The name of one, and the body of its creation (both to be freed). */
char *kube_agent_name(const struct kube_agent *a, size_t i);
char *kube_agent_body(const struct kube_agent *a, size_t i, struct err *err);

/* Adds the volume that shows them at KUBE_AGENT_DIR to a pod's list of volumes. */
void kube_agent_volume(const struct kube_agent *a, cJSON *volumes, const char *name);

/* Makes those that the namespace lacks: asks for `each`, or only for the last one that is made. One
 * at a time. */
typedef void (*kube_agent_fn)(void *arg, int rc, const struct err *err);
void kube_agent_put(struct kube_agent *a, struct kube_api *api, bool each, kube_agent_fn done,
                    void *arg);

#endif
