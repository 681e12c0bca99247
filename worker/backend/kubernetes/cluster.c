/*
 * The order is that of Kubernetes' own clients: what somebody named, then KUBECONFIG, then the
 * service account if this is a pod, then ~/.kube/config.
 *
 * Certificates are read here, all into memory, so that what is wrong with one is said with its
 * place before a connection is tried: libcurl would only say that it cannot use it. A token in a
 * file is replaced from time to time by whoever put it there, so it is read again.
 */
#include "worker/backend/kubernetes/cluster.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/fd.h"
#include "worker/backend/kubernetes/kubeconfig.h"

#define IN_CLUSTER      "in-cluster"
#define SERVICE_ACCOUNT "/var/run/secrets/kubernetes.io/serviceaccount"
#define PEM_MAX         (1u << 20)
#define TOKEN_MAX       (16u << 10)

bool kube_is_label(const char *name)
{
    size_t len = strlen(name);
    return len > 0 && len <= 63 && name[0] != '-' && name[len - 1] != '-' &&
           strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == len;
}

static void forget_secret(char *secret)
{
    if (secret != NULL) {
        explicit_bzero(secret, strlen(secret));
        free(secret);
    }
}

static void free_list(char **list)
{
    for (size_t i = 0; list != NULL && list[i] != NULL; i++) {
        forget_secret(list[i]);
    }
    free(list);
}

static void free_plugin(struct kube_plugin *plugin)
{
    if (plugin != NULL) {
        free(plugin->command);
        free_list(plugin->args);
        free_list(plugin->env);
        free(plugin->version);
        free(plugin);
    }
}

void kube_cluster_finish(struct kube_cluster *c)
{
    free(c->origin);
    free(c->address);
    free(c->server);
    free(c->namespace_);
    free(c->tls_name);
    free(c->proxy);
    free(c->ca_file);
    free(c->cert_file);
    free(c->key_file);
    free(c->ca_pem);
    free(c->cert_pem);
    forget_secret(c->key_pem);
    forget_secret(c->token);
    free(c->token_file);
    free_plugin(c->plugin);
    *c = (struct kube_cluster){.server = NULL};
}

/* ---- files ---------------------------------------------------------------------------------- */

static int read_text(const char *path, size_t max, char **ret, struct err *err)
{
    struct buf text;
    buf_init(&text, max);
    int rc = file_read(path, &text, err);
    if (rc == 0 && text.len > 0 && memchr(text.data, '\0', text.len) != NULL) {
        rc = err_set(err, ERR_CONFIG, "it is no text");
    }
    if (rc == 0) {
        *ret = alloc_viewdup(view_bytes(text.data, text.len));
    } else {
        rc = err_set(err, ERR_CONFIG, "%.400s", err->text);
    }
    if (text.len > 0) {
        explicit_bzero(text.data, text.len);
    }
    buf_finish(&text);
    return rc;
}

static int load_pem(const struct kube_cluster *c, const char *what, const char *mark,
                    const char *file, char **pem, struct err *err)
{
    if (*pem == NULL && file != NULL && read_text(file, PEM_MAX, pem, err) < 0) {
        struct err why = *err;
        return err_set(err, ERR_CONFIG, "%s: %s %s: %.200s", c->origin, what, file, why.text);
    }
    if (*pem != NULL && (strstr(*pem, "-----BEGIN ") == NULL || strstr(*pem, mark) == NULL)) {
        return err_set(err, ERR_CONFIG, "%s: %s%s%s is no PEM file", c->origin, what,
                       file != NULL ? " " : "", file != NULL ? file : "");
    }
    return 0;
}

int kube_cluster_load(struct kube_cluster *c, struct err *err)
{
    int rc = load_pem(c, "the CA", "CERTIFICATE", c->ca_file, &c->ca_pem, err);
    rc = rc < 0 ? rc
                : load_pem(c, "the client's certificate", "CERTIFICATE", c->cert_file, &c->cert_pem,
                           err);
    rc =
        rc < 0 ? rc : load_pem(c, "the client's key", "PRIVATE KEY", c->key_file, &c->key_pem, err);
    return rc < 0 ? rc : kube_cluster_token(c, err);
}

int kube_cluster_token(struct kube_cluster *c, struct err *err)
{
    CLEANUP_FREE char *text = NULL;
    if (c->token_file != NULL) {
        if (read_text(c->token_file, TOKEN_MAX, &text, err) < 0) {
            struct err why = *err;
            return err_set(err, ERR_CONFIG, "%s: the token %s: %.200s", c->origin, c->token_file,
                           why.text);
        }
        text[strcspn(text, "\r\n")] = '\0';
        forget_secret(c->token);
        c->token = STEAL_PTR(text);
    }
    for (const char *p = c->token; p != NULL && *p != '\0'; p++) {
        if ((unsigned char)*p <= 0x20 || (unsigned char)*p >= 0x7f) {
            return err_set(err, ERR_CONFIG, "%s: the token has a character that none can have",
                           c->origin);
        }
    }
    return 0;
}

void kube_cluster_set_token(struct kube_cluster *c, const char *token)
{
    forget_secret(c->token);
    c->token = alloc_strdup(token);
}

/* ---- finding -------------------------------------------------------------------------------- */

static int take_account(kube_getenv_fn get, void *arg, struct kube_cluster *ret, struct err *err)
{
    const char *host = get(arg, "KUBERNETES_SERVICE_HOST");
    const char *port = get(arg, "KUBERNETES_SERVICE_PORT");
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.:-";
    if (host == NULL || host[0] == '\0' || port == NULL || port[0] == '\0') {
        return err_set(err, ERR_CONFIG,
                       "in-cluster: this is no pod: KUBERNETES_SERVICE_HOST and "
                       "KUBERNETES_SERVICE_PORT are not set");
    }
    if (strspn(host, plain) != strlen(host) || strspn(port, "0123456789") != strlen(port)) {
        return err_set(err, ERR_CONFIG, "in-cluster: KUBERNETES_SERVICE_HOST is no address");
    }
    CLEANUP_FREE char *space = NULL;
    if (read_text(SERVICE_ACCOUNT "/namespace", TOKEN_MAX, &space, err) < 0) {
        struct err why = *err;
        return err_set(err, ERR_CONFIG,
                       "in-cluster: the pod has no service account (%.200s); set "
                       "automountServiceAccountToken in its template",
                       why.text);
    }
    space[strcspn(space, "\r\n")] = '\0';
    if (!kube_is_label(space)) {
        return err_set(err, ERR_CONFIG, "in-cluster: " SERVICE_ACCOUNT "/namespace holds no name");
    }
    bool ipv6 = strchr(host, ':') != NULL;
    *ret = (struct kube_cluster){
        .origin = alloc_strdup(IN_CLUSTER),
        .address = alloc_strdup(IN_CLUSTER),
        .server = alloc_printf("https://%s%s%s:%s", ipv6 ? "[" : "", host, ipv6 ? "]" : "", port),
        .namespace_ = STEAL_PTR(space),
        .is_ours = true,
        .ca_file = alloc_strdup(SERVICE_ACCOUNT "/ca.crt"),
        .token_file = alloc_strdup(SERVICE_ACCOUNT "/token"),
    };
    return 0;
}

/* `files` are separated by colons. One that does not exist is skipped if there are others. */
static int take_files(const char *files, const char *context, struct kube_cluster *ret,
                      struct err *err)
{
    struct kubeconfig_file list[KUBECONFIG_FILES_MAX];
    char *paths[KUBECONFIG_FILES_MAX], *texts[KUBECONFIG_FILES_MAX];
    size_t count = 0;
    int rc = 0;
    bool several = strchr(files, ':') != NULL;
    for (const char *at = files; rc == 0 && *at != '\0' && count < KUBECONFIG_FILES_MAX;) {
        size_t len = strcspn(at, ":");
        CLEANUP_FREE char *given = alloc_viewdup(view_bytes(at, len));
        at += len + (at[len] == ':');
        char *path = len > 0 && len < PATH_MAX ? realpath(given, NULL) : NULL;
        if (path == NULL) {
            if (len > 0 && !several) {
                rc = err_sys(err, ERR_CONFIG, errno, "kubeconfig %.300s", given);
            }
            continue;
        }
        paths[count] = path;
        texts[count] = NULL;
        if (read_text(path, KUBECONFIG_MAX_BYTES, &texts[count], err) < 0) {
            struct err why = *err;
            rc = err_set(err, ERR_CONFIG, "kubeconfig %.200s: %.200s", path, why.text);
        }
        list[count] = (struct kubeconfig_file){path, view_of(texts[count])};
        count++;
    }
    if (rc == 0 && count == 0) {
        rc = err_set(err, ERR_CONFIG, "kubeconfig %.300s: there is no such file", files);
    }
    rc = rc < 0 ? rc : kubeconfig_choose(list, count, context, ret, err);
    if (rc == 0) {
        struct buf address;
        buf_init(&address, PLACE_ADDRESS_MAX + 1);
        int fits = buf_printf(&address, NULL, "%s@%s", ret->address, paths[0]);
        for (size_t i = 1; i < count && fits == 0; i++) {
            fits = buf_printf(&address, NULL, ":%s", paths[i]);
        }
        free(ret->address);
        ret->address = alloc_viewdup(view_bytes(address.data, address.len));
        if (fits < 0) {
            kube_cluster_finish(ret);
            rc = err_set(err, ERR_CONFIG, "the paths of KUBECONFIG are too long all together");
        }
        buf_finish(&address);
    }
    for (size_t i = 0; i < count; i++) {
        free(paths[i]);
        forget_secret(texts[i]);
    }
    return rc;
}

/* The files that kubectl would read; "" if there is no home. To be freed. */
static char *usual_files(kube_getenv_fn get, void *arg)
{
    const char *given = get(arg, "KUBECONFIG");
    const char *home = get(arg, "HOME");
    if (given != NULL && given[0] != '\0') {
        return alloc_strdup(given);
    }
    return home != NULL && home[0] == '/' ? alloc_printf("%s/.kube/config", home)
                                          : alloc_strdup("");
}

static int take_named(const char *text, kube_getenv_fn get, void *arg, struct kube_cluster *ret,
                      struct err *err)
{
    if (strcmp(text, IN_CLUSTER) == 0) {
        return take_account(get, arg, ret, err);
    }
    if (strstr(text, "://") != NULL) {
        return err_set(err, ERR_CONFIG,
                       "\"%.100s\" is no place of a cluster: write the path of a kubeconfig, "
                       "CONTEXT@/PATH, a context, or " IN_CLUSTER,
                       text);
    }
    const char *mark = NULL; /* the last "@/": contexts may have an @ in them */
    for (const char *p = text; (p = strstr(p, "@/")) != NULL; p++) {
        mark = p;
    }
    if (mark != NULL) {
        CLEANUP_FREE char *context = alloc_viewdup(view_bytes(text, (size_t)(mark - text)));
        return take_files(mark + 1, context[0] != '\0' ? context : NULL, ret, err);
    }
    if (text[0] == '/' || text[0] == '.') {
        return take_files(text, NULL, ret, err);
    }
    CLEANUP_FREE char *files = usual_files(get, arg);
    return take_files(files, text, ret, err);
}

static bool is_set(kube_getenv_fn get, void *arg, const char *name)
{
    const char *value = get(arg, name);
    return value != NULL && value[0] != '\0';
}

int kube_cluster_find(const struct place *named, kube_getenv_fn get, void *arg,
                      struct kube_cluster *ret, struct err *err)
{
    if (named->kind == PLACE_NAMED) {
        return take_named(named->address, get, arg, ret, err);
    }
    if (named->kind != PLACE_NONE) {
        return err_set(err, ERR_CONFIG, "that is no place of a cluster");
    }
    if (!is_set(get, arg, "KUBECONFIG") && is_set(get, arg, "KUBERNETES_SERVICE_HOST")) {
        return take_account(get, arg, ret, err);
    }
    CLEANUP_FREE char *files = usual_files(get, arg);
    return take_files(files, NULL, ret, err);
}

/* ---- for requests --------------------------------------------------------------------------- */

static struct view pem_of(const char *text)
{
    return view_of(text != NULL ? text : "");
}

void kube_cluster_http(const struct kube_cluster *c, struct http_endpoint *ret, char **ret_base,
                       char **ret_connect_to)
{
    bool tls = strncmp(c->server, "https://", 8) == 0;
    const char *host = c->server + (tls ? 8 : 7);
    size_t len = strcspn(host, "/");
    *ret_base = NULL;
    *ret_connect_to = NULL;
    if (c->tls_name != NULL && tls) {
        const char *close = host[0] == '[' ? memchr(host, ']', len) : NULL;
        const char *port = memchr(close != NULL ? close : host, ':',
                                  len - (size_t)(close != NULL ? close - host : 0));
        *ret_connect_to = alloc_printf("%.*s%s", (int)len, host, port != NULL ? "" : ":443");
        *ret_base = alloc_printf("https://%s%.*s%s", c->tls_name,
                                 port != NULL ? (int)(host + len - port) : 0,
                                 port != NULL ? port : "", host + len);
    } else {
        *ret_base = alloc_strdup(c->server);
    }
    *ret = (struct http_endpoint){
        .name = c->server,
        .base_url = *ret_base,
        .ca_pem = tls ? pem_of(c->ca_pem) : view_of(""),
        .cert_pem = tls ? pem_of(c->cert_pem) : view_of(""),
        .key_pem = tls ? pem_of(c->key_pem) : view_of(""),
        .proxy = c->proxy,
        .connect_to = *ret_connect_to,
        .verify = tls,
    };
}
