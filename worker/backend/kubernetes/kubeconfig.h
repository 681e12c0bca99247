/*
 * Kubeconfig files, as kubectl writes them: YAML with named clusters, users and contexts.
 *
 * Thread: any. No file is touched but libyaml's, once.
 */
#ifndef CLOISTER_WORKER_BACKEND_KUBERNETES_KUBECONFIG_H
#define CLOISTER_WORKER_BACKEND_KUBERNETES_KUBECONFIG_H

#include <stddef.h>

#include "common/err.h"
#include "common/view.h"
#include "worker/backend/kubernetes/cluster.h"

#define KUBECONFIG_MAX_BYTES (1u << 20)
#define KUBECONFIG_FILES_MAX 16

struct kubeconfig_file {
    const char *path; /* absolute; relative paths in it are relative to its directory */
    struct view text;
};

/* Takes the context of that name, or the current one if it is NULL, from files of which the first
 * that has something wins. What is written for a user or a cluster but not supported here is
 * refused by its name. -ERR_CONFIG: the text says in which file and what to do; -ERR_ENGINE if
 * libyaml is missing. */
int kubeconfig_choose(const struct kubeconfig_file *files, size_t count, const char *context,
                      struct kube_cluster *ret, struct err *err) WARN_UNUSED;

#endif
