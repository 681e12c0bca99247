/*
 * A kubeconfig may say how to get at a cluster in more ways than are supported here. What would
 * change who we are or whom we trust is refused by its name; what is only information for other
 * tools is skipped. Nothing of a value is put into an error but names, since values are secrets.
 *
 * Files are merged as kubectl does it: a named cluster, user or context is that of the first file
 * which has one of that name, and so is the current context.
 */
#include "worker/backend/kubernetes/kubeconfig.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/alloc.h"
#include "common/base64.h"
#include "common/cleanup.h"
#include "common/io/yaml_tree.h"
#include "common/str.h"

#define NAMES_MAX 4096 /* items of a list that are looked at */

struct source {
    const struct kubeconfig_file *files;
    struct yaml_tree *trees[KUBECONFIG_FILES_MAX];
    size_t count;
};

/* The body of a named thing, and the file that it stands in. */
struct found {
    struct yaml_tree *tree;
    yaml_at body;
    const char *path;
    const char *kind, *name; /* "user", "admin", for errors */
};

static void source_finish(struct source *s)
{
    for (size_t i = 0; i < s->count; i++) {
        yaml_tree_free(s->trees[i]);
    }
}

static int source_open(struct source *s, const struct kubeconfig_file *files, size_t count,
                       struct err *err)
{
    s->files = files;
    for (size_t i = 0; i < count && i < KUBECONFIG_FILES_MAX; i++) {
        int rc = files[i].text.len > KUBECONFIG_MAX_BYTES
                     ? err_set(err, ERR_CONFIG, "it is larger than %u bytes", KUBECONFIG_MAX_BYTES)
                     : yaml_tree_parse(files[i].text, &s->trees[i], err);
        if (rc == 0 && !yaml_is_map(s->trees[i], yaml_root(s->trees[i]))) {
            yaml_tree_free(s->trees[i]);
            rc = err_set(err, ERR_CONFIG, "it has no clusters, users and contexts");
        }
        if (rc < 0) {
            return err_wrap(err, "kubeconfig %s", files[i].path);
        }
        s->count++;
    }
    return 0;
}

static bool is_clean_value(const char *text)
{
    for (const char *p = text; *p != '\0'; p++) {
        if ((unsigned char)*p < 0x20 || *p == 0x7f) {
            return false;
        }
    }
    return utf8_valid(text, strlen(text));
}

static int find_named(struct source *s, const char *list, const char *kind, const char *name,
                      struct found *ret, struct err *err)
{
    for (size_t i = 0; i < s->count; i++) {
        struct yaml_tree *t = s->trees[i];
        yaml_at items = yaml_member(t, yaml_root(t), list);
        yaml_at item;
        for (size_t n = 0; n < NAMES_MAX && (item = yaml_item(t, items, n)) != 0; n++) {
            const char *own = yaml_text(t, yaml_member(t, item, "name"));
            if (own != NULL && strcmp(own, name) == 0) {
                *ret = (struct found){t, yaml_member(t, item, kind), s->files[i].path, kind, own};
                return 0;
            }
        }
    }
    return err_set(err, ERR_CONFIG, "kubeconfig %s: there is no %s \"%.100s\" in it%s",
                   s->files[0].path, kind, name,
                   strcmp(kind, "context") == 0 ? "; `kubectl config get-contexts` lists them"
                                                : ", which its context names");
}

static int refuse_key(const struct found *f, const char *key, const char *why, struct err *err)
{
    return err_set(err, ERR_CONFIG, "kubeconfig %s: %s \"%.100s\": %s: %s", f->path, f->kind,
                   f->name, key, why);
}

/* Copies a text member, which may be absent. */
static int kube_take_text(const struct found *f, const char *key, char **ret, struct err *err)
{
    yaml_at at = yaml_member(f->tree, f->body, key);
    const char *text = yaml_text(f->tree, at);
    if (text == NULL || text[0] == '\0') {
        return 0;
    }
    if (!is_clean_value(text)) {
        return refuse_key(f, key, "there is a control character in it", err);
    }
    *ret = alloc_strdup(text);
    return 0;
}

static int take_file(const struct found *f, const char *key, char **ret, struct err *err)
{
    CLEANUP_FREE char *path = NULL;
    int rc = kube_take_text(f, key, &path, err);
    if (rc < 0 || path == NULL) {
        return rc;
    }
    const char *slash = strrchr(f->path, '/');
    *ret = path[0] == '/' || slash == NULL
               ? STEAL_PTR(path)
               : alloc_printf("%.*s/%s", (int)(slash - f->path), f->path, path);
    return 0;
}

/* A copy without line breaks, which editors put into long values. */
static char *join_lines(const char *text)
{
    char *out = alloc_strdup(text);
    size_t len = 0;
    for (const char *p = text; *p != '\0'; p++) {
        if (*p != '\n' && *p != '\r' && *p != ' ') {
            out[len++] = *p;
        }
    }
    out[len] = '\0';
    return out;
}

/* Base64 of PEM. */
static int take_pem(const struct found *f, const char *key, char **ret, struct err *err)
{
    const char *text = yaml_text(f->tree, yaml_member(f->tree, f->body, key));
    struct err detail = ERR_INIT;
    struct buf pem;
    if (text == NULL || text[0] == '\0') {
        return 0;
    }
    buf_init(&pem, KUBECONFIG_MAX_BYTES);
    char *joined = join_lines(text);
    int rc = base64_decode(&pem, view_of(joined), &detail);
    explicit_bzero(joined, strlen(joined));
    free(joined);
    if (rc < 0 || pem.len == 0 || memchr(pem.data, '\0', pem.len) != NULL) {
        rc = refuse_key(f, key, "it is not the base64 of a PEM file", err);
    } else {
        *ret = alloc_viewdup(view_bytes(pem.data, pem.len));
    }
    if (pem.len > 0) {
        explicit_bzero(pem.data, pem.len);
    }
    buf_finish(&pem);
    return rc;
}

/* ---- the three parts ------------------------------------------------------------------------ */

static bool is_on(const struct found *f, const char *key)
{
    const char *text = yaml_text(f->tree, yaml_member(f->tree, f->body, key));
    return text != NULL && strcasecmp(text, "false") != 0;
}

static int check_server(const struct found *f, struct kube_cluster *c, struct err *err)
{
    const char *url = c->server;
    bool tls = url != NULL && strncmp(url, "https://", 8) == 0;
    bool plain = url != NULL && strncmp(url, "http://", 7) == 0;
    const char *host = url == NULL ? "" : url + (tls ? 8 : plain ? 7 : 0);
    size_t host_len = strcspn(host, "/");
    if ((!tls && !plain) || host_len == 0 || strpbrk(host, " ?#@\"\\") != NULL) {
        return refuse_key(f, "server", "it is no https://HOST:PORT of an API server", err);
    }
    for (const char *p = host; *p != '\0'; p++) {
        if ((unsigned char)*p >= 0x7f) {
            return refuse_key(f, "server", "it has characters that a URL cannot have", err);
        }
    }
    bool here = strncmp(host, "127.", 4) == 0 || strncmp(host, "[::1]", 5) == 0 ||
                (strncasecmp(host, "localhost", 9) == 0 && strchr(":/", host[9]) != NULL);
    if (plain && !here) {
        return refuse_key(f, "server",
                          "without TLS only an API server on this machine is spoken to", err);
    }
    for (size_t len = strlen(c->server); c->server[len - 1] == '/'; len--) {
        c->server[len - 1] = '\0';
    }
    return 0;
}

static int read_cluster(const struct found *f, struct kube_cluster *c, struct err *err)
{
    int rc = kube_take_text(f, "server", &c->server, err);
    rc = rc < 0 ? rc : check_server(f, c, err);
    rc = rc < 0 ? rc : take_pem(f, "certificate-authority-data", &c->ca_pem, err);
    if (rc == 0 && c->ca_pem == NULL) {
        rc = take_file(f, "certificate-authority", &c->ca_file, err);
    }
    rc = rc < 0 ? rc : kube_take_text(f, "tls-server-name", &c->tls_name, err);
    rc = rc < 0 ? rc : kube_take_text(f, "proxy-url", &c->proxy, err);
    if (rc < 0) {
        return rc;
    }
    if (is_on(f, "insecure-skip-tls-verify")) {
        return refuse_key(f, "insecure-skip-tls-verify",
                          "the server is always checked; write its CA as certificate-authority",
                          err);
    }
    if (c->tls_name != NULL &&
        (strspn(c->tls_name, "abcdefghijklmnopqrstuvwxyz0123456789"
                             "ABCDEFGHIJKLMNOPQRSTUVWXYZ.-:[]") != strlen(c->tls_name))) {
        return refuse_key(f, "tls-server-name", "it is no name of a host", err);
    }
    if (c->proxy != NULL && strncmp(c->proxy, "http://", 7) != 0 &&
        strncmp(c->proxy, "https://", 8) != 0 && strncmp(c->proxy, "socks5://", 9) != 0) {
        return refuse_key(f, "proxy-url", "it begins with none of http://, https:// and socks5://",
                          err);
    }
    return 0;
}

/* A null says nothing: some builds of kubectl write one for each member that they know. */
static bool says_something(const struct found *f, const char *key)
{
    yaml_at at = yaml_member(f->tree, f->body, key);
    return at != 0 && (yaml_is_map(f->tree, at) || yaml_is_list(f->tree, at) ||
                       yaml_text(f->tree, at) != NULL);
}

static int refuse_strange(const struct found *f, struct err *err)
{
    static const struct {
        const char *key, *why;
    } strange[] = {
        {"auth-provider", "Kubernetes has given these up; use a token or a client's certificate"},
        {"username", "passwords are not sent; use a token or a client's certificate"},
        {"as", "nobody is impersonated here; name the user itself in the context"},
        {"as-uid", "nobody is impersonated here; name the user itself in the context"},
        {"as-groups", "nobody is impersonated here; name the user itself in the context"},
        {"as-user-extra", "nobody is impersonated here; name the user itself in the context"},
    };
    for (size_t i = 0; i < sizeof(strange) / sizeof(strange[0]); i++) {
        if (says_something(f, strange[i].key)) {
            return refuse_key(f, strange[i].key, strange[i].why, err);
        }
    }
    return 0;
}

/* ---- a program that fetches a token --------------------------------------------------------- */

/* Copies one text of a list; *count is how many there are. */
static int add_word(const struct found *f, const char *key, const char *text, char **list,
                    size_t *count, struct err *err)
{
    if (text == NULL || *count == KUBE_PLUGIN_WORDS_MAX || !is_clean_value(text)) {
        return refuse_key(f, key, "at most 64 texts without control characters are taken", err);
    }
    list[(*count)++] = alloc_strdup(text);
    return 0;
}

static int read_args(const struct found *f, struct kube_plugin *plugin, struct err *err)
{
    yaml_at args = yaml_member(f->tree, f->body, "args"), item;
    size_t count = 0;
    int rc = 0;
    plugin->args = alloc_array(KUBE_PLUGIN_WORDS_MAX + 1, sizeof(char *));
    for (size_t i = 0; rc == 0 && (item = yaml_item(f->tree, args, i)) != 0; i++) {
        rc = add_word(f, "args", yaml_text(f->tree, item), plugin->args, &count, err);
    }
    return rc;
}

static int read_env(const struct found *f, struct kube_plugin *plugin, struct err *err)
{
    yaml_at env = yaml_member(f->tree, f->body, "env"), item;
    size_t count = 0;
    int rc = 0;
    plugin->env = alloc_array(KUBE_PLUGIN_WORDS_MAX + 1, sizeof(char *));
    for (size_t i = 0; rc == 0 && (item = yaml_item(f->tree, env, i)) != 0; i++) {
        const char *name = yaml_text(f->tree, yaml_member(f->tree, item, "name"));
        const char *value = yaml_text(f->tree, yaml_member(f->tree, item, "value"));
        bool named = name != NULL && name[0] != '\0' && strchr(name, '=') == NULL;
        CLEANUP_FREE char *pair =
            named ? alloc_printf("%s=%s", name, value != NULL ? value : "") : NULL;
        rc = add_word(f, "env", pair, plugin->env, &count, err);
    }
    return rc;
}

/* A path is relative to the file, a name is looked for in PATH. */
static int read_command(const struct found *f, struct kube_plugin *plugin, struct err *err)
{
    CLEANUP_FREE char *command = NULL;
    int rc = kube_take_text(f, "command", &command, err);
    if (rc < 0 || command == NULL) {
        return rc < 0 ? rc : refuse_key(f, "command", "it is missing", err);
    }
    if (strchr(command, '/') == NULL) {
        plugin->command = STEAL_PTR(command);
        return 0;
    }
    return take_file(f, "command", &plugin->command, err);
}

static int read_plugin(const struct found *user, struct kube_cluster *c, struct err *err)
{
    struct found f = *user;
    CLEANUP_FREE char *mode = NULL;
    f.body = yaml_member(user->tree, user->body, "exec");
    if (f.body == 0) {
        return 0;
    }
    struct kube_plugin *plugin = c->plugin = alloc_one(struct kube_plugin);
    int rc = kube_take_text(&f, "apiVersion", &plugin->version, err);
    rc = rc < 0 ? rc : kube_take_text(&f, "interactiveMode", &mode, err);
    if (rc == 0 && (plugin->version == NULL ||
                    (strcmp(plugin->version, "client.authentication.k8s.io/v1") != 0 &&
                     strcmp(plugin->version, "client.authentication.k8s.io/v1beta1") != 0))) {
        rc = refuse_key(&f, "exec: apiVersion",
                        "it is neither client.authentication.k8s.io/v1 nor v1beta1", err);
    }
    if (rc == 0 && mode != NULL && strcmp(mode, "Always") == 0) {
        rc = refuse_key(&f, "exec: interactiveMode",
                        "there is no terminal on which the program could ask; put a token of a "
                        "service account into tokenFile (`kubectl create token NAME`)",
                        err);
    }
    plugin->wants_cluster = is_on(&f, "provideClusterInfo");
    rc = rc < 0 ? rc : read_command(&f, plugin, err);
    rc = rc < 0 ? rc : read_args(&f, plugin, err);
    return rc < 0 ? rc : read_env(&f, plugin, err);
}

static int read_user(const struct found *f, struct kube_cluster *c, struct err *err)
{
    int rc = refuse_strange(f, err);
    rc = rc < 0 ? rc : take_pem(f, "client-certificate-data", &c->cert_pem, err);
    if (rc == 0 && c->cert_pem == NULL) {
        rc = take_file(f, "client-certificate", &c->cert_file, err);
    }
    rc = rc < 0 ? rc : take_pem(f, "client-key-data", &c->key_pem, err);
    if (rc == 0 && c->key_pem == NULL) {
        rc = take_file(f, "client-key", &c->key_file, err);
    }
    rc = rc < 0 ? rc : kube_take_text(f, "token", &c->token, err);
    rc = rc < 0 ? rc : take_file(f, "tokenFile", &c->token_file, err);
    rc = rc < 0 ? rc : read_plugin(f, c, err);
    if (rc < 0) {
        return rc;
    }
    bool cert = c->cert_pem != NULL || c->cert_file != NULL;
    bool key = c->key_pem != NULL || c->key_file != NULL;
    if (cert != key) {
        return refuse_key(f, cert ? "client-key" : "client-certificate",
                          "it is missing: a certificate and its key belong together", err);
    }
    return 0;
}

static int kube_read_context(struct source *s, const char *name, struct kube_cluster *c,
                             struct err *err)
{
    struct found context, part;
    CLEANUP_FREE char *cluster = NULL;
    CLEANUP_FREE char *user = NULL;
    int rc = find_named(s, "contexts", "context", name, &context, err);
    rc = rc < 0 ? rc : kube_take_text(&context, "cluster", &cluster, err);
    rc = rc < 0 ? rc : kube_take_text(&context, "user", &user, err);
    rc = rc < 0 ? rc : kube_take_text(&context, "namespace", &c->namespace_, err);
    if (rc < 0) {
        return rc;
    }
    if (cluster == NULL) {
        return refuse_key(&context, "cluster", "it is missing", err);
    }
    if (c->namespace_ == NULL) {
        c->namespace_ = alloc_strdup("default");
    }
    if (!kube_is_label(c->namespace_)) {
        return refuse_key(&context, "namespace", "it is no name of a namespace", err);
    }
    rc = find_named(s, "clusters", "cluster", cluster, &part, err);
    rc = rc < 0 ? rc : read_cluster(&part, c, err);
    if (rc == 0 && user != NULL) {
        rc = find_named(s, "users", "user", user, &part, err);
        rc = rc < 0 ? rc : read_user(&part, c, err);
    }
    return rc;
}

static const char *kube_current_context(struct source *s)
{
    for (size_t i = 0; i < s->count; i++) {
        struct yaml_tree *t = s->trees[i];
        const char *name = yaml_text(t, yaml_member(t, yaml_root(t), "current-context"));
        if (name != NULL && name[0] != '\0') {
            return name;
        }
    }
    return NULL;
}

int kubeconfig_choose(const struct kubeconfig_file *files, size_t count, const char *context,
                      struct kube_cluster *ret, struct err *err)
{
    struct source s = {.count = 0};
    struct kube_cluster c = {.server = NULL};
    int rc = source_open(&s, files, count, err);
    const char *name = rc == 0 && context == NULL ? kube_current_context(&s) : context;
    if (rc == 0 && name == NULL) {
        rc = err_set(err, ERR_CONFIG,
                     "kubeconfig %s: no current-context is set; `kubectl config use-context NAME` "
                     "does it, or name one: --engine CONTEXT@%s",
                     files[0].path, files[0].path);
    }
    if (rc == 0 && (strlen(name) > 512 || !is_clean_value(name))) {
        rc = err_set(err, ERR_CONFIG, "kubeconfig %s: the name of the context is not usable",
                     files[0].path);
    }
    rc = rc < 0 ? rc : kube_read_context(&s, name, &c, err);
    if (rc == 0) {
        c.origin = alloc_printf("context %s of %s", name, files[0].path);
        c.address = alloc_strdup(name); /* the caller knows the files */
        *ret = c;
    } else {
        kube_cluster_finish(&c);
    }
    source_finish(&s);
    return rc;
}
