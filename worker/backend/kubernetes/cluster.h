/*
 * Which cluster, who we are there, and in which namespace: what a kubeconfig or the service account
 * of a pod says, with all certificates read and checked.
 *
 * Thread: any. Reads files, and loads libyaml once where there is a kubeconfig.
 */
#ifndef CLOISTER_WORKER_BACKEND_KUBERNETES_CLUSTER_H
#define CLOISTER_WORKER_BACKEND_KUBERNETES_CLUSTER_H

#include <stdbool.h>

#include "common/err.h"
#include "common/io/http_client.h"
#include "common/place.h"

/* A program that fetches a token (plugin.h). Lists end with NULL. */
struct kube_plugin {
    char *command;      /* a path, or a name for PATH */
    char **args, **env; /* without the command; "K=V" */
    char *version;      /* of the format that it speaks */
    bool wants_cluster; /* it is told of the cluster, too */
};
#define KUBE_PLUGIN_WORDS_MAX 64 /* arguments, and variables */

/* Strings are owned; NULL: none. Of a secret nothing is ever put into an error or a log. */
struct kube_cluster {
    char *origin;     /* for people: "context c of /home/u/.kube/config", "in-cluster" */
    char *address;    /* says the same in the words of --engine: "c@/home/u/.kube/config" */
    char *server;     /* "https://host:6443/base", no slash at the end */
    char *namespace_; /* that sandboxes are made in */
    bool is_ours;     /* this process runs in a pod of it, in that namespace */
    char *tls_name;   /* name in the server's certificate, if it is not the address's */
    char *proxy;
    char *ca_file, *cert_file, *key_file; /* absolute paths, read into the next three */
    char *ca_pem, *cert_pem, *key_pem;
    char *token;
    char *token_file; /* wins over token; read for each request that is a while after the last */
    struct kube_plugin *plugin; /* asked for a token if there is none */
};

void kube_cluster_finish(struct kube_cluster *c);

/* Environment, so that tests have their own. NULL: not set. */
typedef const char *(*kube_getenv_fn)(void *arg, const char *name);

/* Finds it. Named in the words of --engine: "in-cluster", the path of a kubeconfig, CONTEXT@/PATH,
 * or a context of the usual kubeconfig. Else KUBECONFIG, the service account of the pod that this
 * is, and ~/.kube/config. -ERR_CONFIG with the place in its text. */
int kube_cluster_find(const struct place *named, kube_getenv_fn get, void *arg,
                      struct kube_cluster *ret, struct err *err) WARN_UNUSED;

/* Reads and checks the files of TLS. */
int kube_cluster_load(struct kube_cluster *c, struct err *err) WARN_UNUSED;

/* Reads the token anew. No file: nothing happens. */
int kube_cluster_token(struct kube_cluster *c, struct err *err) WARN_UNUSED;

/* Takes a copy of a token that was fetched. */
void kube_cluster_set_token(struct kube_cluster *c, const char *token);

/* Borrows from c, and from *ret_base and *ret_connect_to, which are the caller's (free). */
void kube_cluster_http(const struct kube_cluster *c, struct http_endpoint *ret, char **ret_base,
                       char **ret_connect_to);

/* A DNS label as Kubernetes has it for names of namespaces and pods: at most 63 of [a-z0-9-]. */
bool kube_is_label(const char *name);

#endif
