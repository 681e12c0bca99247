/*
 * Which cluster a kubeconfig, the environment or --engine names; and what is refused, with words
 * that name the place and never a value.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/cleanup.h"
#include "common/fd.h"
#include "worker/backend/kubernetes/kubeconfig.h"
#include "worker/backend/kubernetes/plugin.h"

/* "-----BEGIN CERTIFICATE-----\n", and the same of a private key, as base64 */
#define CERT "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg=="
#define KEY  "LS0tLS1CRUdJTiBQUklWQVRFIEtFWS0tLS0tCg=="

#define HEAD     "current-context: c\ncontexts: [{name: c, context: {cluster: k, user: u}}]\n"
#define CLUSTERS "clusters: [{name: k, cluster: {server: 'https://h:6443'}}]\n"

/* A user whose token comes from a program. */
#define EXEC(words) HEAD CLUSTERS "users: [{name: u, user: {exec: {" words "}}}]\n"
#define V1          "apiVersion: client.authentication.k8s.io/v1, "

static int choose(const char *text, const char *context, struct kube_cluster *ret, struct err *err)
{
    struct kubeconfig_file file = {"/etc/kube/config", view_of(text)};
    return kubeconfig_choose(&file, 1, context, ret, err);
}

static void all_of_a_context_is_taken(void **state)
{
    static const char text[] =
        "apiVersion: v1\nkind: Config\ncurrent-context: other\n"
        "contexts:\n"
        "- {name: other, context: {cluster: none}}\n"
        "- name: a@b\n  context: {cluster: k, user: u, namespace: sand}\n"
        "clusters:\n- name: k\n  cluster:\n    server: https://h:6443/base/\n"
        "    certificate-authority: pki/ca.crt\n    tls-server-name: api.example\n"
        "    proxy-url: http://p:3128\n"
        "users:\n- name: u\n  user:\n    client-certificate-data: " CERT "\n"
        "    client-key-data: " KEY "\n    token: sesame\n    tokenFile: /run/token\n"
        "    as: null\n    as-user-extra: ~\n"; /* which says nothing */
    struct kube_cluster c;
    struct err err = ERR_INIT;
    struct http_endpoint http;
    (void)state;
    assert_int_equal(choose(text, "a@b", &c, &err), 0);
    assert_string_equal(c.server, "https://h:6443/base");
    assert_string_equal(c.namespace_, "sand");
    assert_string_equal(c.ca_file, "/etc/kube/pki/ca.crt");
    assert_string_equal(c.cert_pem, "-----BEGIN CERTIFICATE-----\n");
    assert_string_equal(c.key_pem, "-----BEGIN PRIVATE KEY-----\n");
    assert_string_equal(c.token, "sesame");
    assert_string_equal(c.token_file, "/run/token");
    assert_string_equal(c.proxy, "http://p:3128");
    CLEANUP_FREE char *base = NULL;
    CLEANUP_FREE char *to = NULL;
    kube_cluster_http(&c, &http, &base, &to);
    assert_string_equal(http.base_url, "https://api.example:6443/base");
    assert_string_equal(http.connect_to, "h:6443");
    assert_true(http.verify);
    kube_cluster_finish(&c);
}

static void what_is_not_usable_is_refused_by_its_name(void **state)
{
    static const struct {
        const char *text, *context, *words;
    } rows[] = {
        {"", NULL, "it is empty"},
        {"{", NULL, "it is no YAML"},
        {"a: [\n\tb", NULL, "it is no YAML"},
        {"- a\n- b\n", NULL, "it has no clusters"},
        {"just words", NULL, "it has no clusters"},
        {"contexts: []\n", NULL, "no current-context"},
        {"current-context: c\n", NULL, "there is no context \"c\""},
        {HEAD CLUSTERS, "missing", "there is no context \"missing\""},
        {HEAD, NULL, "there is no cluster \"k\""},
        {HEAD CLUSTERS, NULL, "there is no user \"u\""},
        {"current-context: c\ncontexts: [{name: c, context: {user: u}}]\n", NULL,
         "cluster: it is missing"},
        {"current-context: c\ncontexts: [{name: c, context: {cluster: k, namespace: A/b}}]\n", NULL,
         "namespace: it is no name"},
        {HEAD "clusters: [{name: k, cluster: {}}]\n", NULL, "server: it is no https://"},
        {HEAD "clusters: [{name: k, cluster: {server: 'ftp://h'}}]\n", NULL, "server: it is no"},
        {HEAD "clusters: [{name: k, cluster: {server: 'https://u@h'}}]\n", NULL,
         "server: it is no"},
        {HEAD "clusters: [{name: k, cluster: {server: 'http://far:80'}}]\n", NULL, "without TLS"},
        {HEAD "clusters: [{name: k, cluster: {server: 'http://localhost.far'}}]\n", NULL,
         "without TLS"},
        {HEAD "clusters: [{name: k, cluster: {server: 'https://h', certificate-authority-data: "
              "'%%'}}]\n",
         NULL, "certificate-authority-data: it is not the base64"},
        {HEAD "clusters: [{name: k, cluster: {server: 'https://h', insecure-skip-tls-verify: "
              "true}}]\n",
         NULL, "insecure-skip-tls-verify: the server is always checked"},
        {HEAD "clusters: [{name: k, cluster: {server: 'https://h', proxy-url: 'file:///x'}}]\n",
         NULL, "proxy-url: it begins"},
        {HEAD "clusters: [{name: k, cluster: {server: 'https://h', tls-server-name: 'a/b'}}]\n",
         NULL, "tls-server-name: it is no name"},
        {EXEC("command: aws"), NULL, "exec: apiVersion: it is neither"},
        {EXEC(V1 "args: [secret]"), NULL, "command: it is missing"},
        {EXEC(V1 "command: aws, args: [[a]]"), NULL, "args: at most"},
        {EXEC(V1 "command: aws, env: [{value: secret}]"), NULL, "env: at most"},
        {EXEC(V1 "command: aws, interactiveMode: Always"), NULL, "there is no terminal"},
        {HEAD CLUSTERS "users: [{name: u, user: {auth-provider: {name: gcp}}}]\n", NULL,
         "auth-provider: "},
        {HEAD CLUSTERS "users: [{name: u, user: {username: a, password: secret}}]\n", NULL,
         "username: passwords"},
        {HEAD CLUSTERS "users: [{name: u, user: {token: secret, as: root}}]\n", NULL, "as: nobody"},
        {HEAD CLUSTERS "users: [{name: u, user: {client-certificate: f}}]\n", NULL,
         "client-key: it is missing"},
        {HEAD CLUSTERS "users: [{name: u, user: {client-key-data: " KEY "}}]\n", NULL,
         "client-certificate: it is missing"},
        {HEAD CLUSTERS "users: [{name: u, user: {token: \"secret\\n\"}}]\n", NULL,
         "token: there is a control character"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct kube_cluster c = {.server = NULL};
        struct err err = ERR_INIT;
        if (choose(rows[i].text, rows[i].context, &c, &err) != -ERR_CONFIG ||
            strstr(err.text, rows[i].words) == NULL || strstr(err.text, "/etc/kube") == NULL ||
            strstr(err.text, "secret") != NULL) {
            fail_msg("row %zu: %s", i, err.text);
        }
    }
}

static void a_program_is_taken_with_its_words(void **state)
{
    struct kube_cluster c;
    struct err err = ERR_INIT;
    (void)state;
    assert_int_equal(
        choose(EXEC(V1 "command: bin/login, args: [get, token], provideClusterInfo: true, "
                       "env: [{name: REGION, value: eu}, {name: EMPTY}]"),
               NULL, &c, &err),
        0);
    assert_string_equal(c.plugin->command, "/etc/kube/bin/login");
    assert_string_equal(c.plugin->args[1], "token");
    assert_null(c.plugin->args[2]);
    assert_string_equal(c.plugin->env[0], "REGION=eu");
    assert_string_equal(c.plugin->env[1], "EMPTY=");
    assert_true(c.plugin->wants_cluster);
    CLEANUP_FREE char *info = kube_plugin_info(&c);
    assert_non_null(strstr(info, "\"server\":\"https://h:6443\""));
    kube_cluster_finish(&c);
    assert_int_equal(choose(EXEC(V1 "command: aws"), NULL, &c, &err), 0);
    assert_string_equal(c.plugin->command, "aws");
    kube_cluster_finish(&c);
}

static void the_first_file_that_has_something_wins(void **state)
{
    struct kubeconfig_file files[] = {
        {"/one", view_of("users: [{name: u, user: {token: first}}]\n" CLUSTERS)},
        {"/two", view_of(HEAD "users: [{name: u, user: {token: second}}]\n")},
    };
    struct kube_cluster c;
    struct err err = ERR_INIT;
    (void)state;
    assert_int_equal(kubeconfig_choose(files, 2, NULL, &c, &err), 0);
    assert_string_equal(c.token, "first");
    assert_string_equal(c.namespace_, "default");
    kube_cluster_finish(&c);
}

static void a_circle_of_aliases_is_no_trap(void **state)
{
    struct kube_cluster c = {.server = NULL};
    struct err err = ERR_INIT;
    (void)state;
    assert_int_equal(
        choose("&a {contexts: *a, current-context: c, clusters: [*a, *a]}", NULL, &c, &err),
        -ERR_CONFIG);
}

/* ---- finding -------------------------------------------------------------------------------- */

struct world {
    char dir[64];
    const char *names[4], *values[4];
};

static const char *get(void *arg, const char *name)
{
    const struct world *w = arg;
    for (size_t i = 0; i < 4 && w->names[i] != NULL; i++) {
        if (strcmp(w->names[i], name) == 0) {
            return w->values[i];
        }
    }
    return NULL;
}

static void put(const struct world *w, const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof(path), "%s/%s", w->dir, name);
    assert_int_equal(file_replace(path, text, strlen(text), 0600, NULL), 0);
}

static void places_are_looked_at_in_order(void **state)
{
    struct world w = {.dir = "/tmp/kubeconfig-XXXXXX"};
    char path[256], named[300], both[600];
    struct kube_cluster c;
    struct err err = ERR_INIT;
    (void)state;
    assert_non_null(mkdtemp(w.dir));
    snprintf(path, sizeof(path), "%s/.kube", w.dir);
    assert_int_equal(mkdir(path, 0700), 0);
    put(&w, ".kube/config", HEAD CLUSTERS "users: [{name: u, user: {token: home}}]\n");
    put(&w, "own", HEAD CLUSTERS "users: [{name: u, user: {token: own}}]\n");
    w.names[0] = "HOME";
    w.values[0] = w.dir;

    struct place none = {.kind = PLACE_NONE};
    assert_int_equal(kube_cluster_find(&none, get, &w, &c, &err), 0);
    assert_string_equal(c.token, "home");
    kube_cluster_finish(&c);

    snprintf(both, sizeof(both), "%s/absent:%s/own", w.dir, w.dir);
    w.names[1] = "KUBECONFIG";
    w.values[1] = both;
    assert_int_equal(kube_cluster_find(&none, get, &w, &c, &err), 0);
    assert_string_equal(c.token, "own");
    snprintf(named, sizeof(named), "%s", c.address); /* what a worker gets finds the same */
    kube_cluster_finish(&c);
    struct place place = {.kind = PLACE_NAMED, .address = named};
    assert_int_equal(place_check(&place, &err), 0);
    w.names[0] = NULL;
    assert_int_equal(kube_cluster_find(&place, get, &w, &c, &err), 0);
    assert_string_equal(c.token, "own");
    assert_string_equal(c.address, named);
    kube_cluster_finish(&c);

    static const char *const bad[] = {"in-cluster", "unix:///run/docker.sock", "/no/such/file",
                                      "nobody@/no/such/file"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        place.address = bad[i];
        assert_int_equal(kube_cluster_find(&place, get, &w, &c, &err), -ERR_CONFIG);
    }
    assert_int_equal(dir_remove(w.dir, NULL), 0);
}

static void files_of_tls_are_checked_before_they_are_used(void **state)
{
    struct world w = {.dir = "/tmp/kubeconfig-XXXXXX"};
    char path[256];
    struct err err = ERR_INIT;
    (void)state;
    assert_non_null(mkdtemp(w.dir));
    put(&w, "ca", "this is no certificate\n");
    put(&w, "token", "new-token\n");
    snprintf(path, sizeof(path), "%s/ca", w.dir);
    struct kube_cluster c = {.origin = strdup("here"), .ca_file = strdup(path)};
    assert_int_equal(kube_cluster_load(&c, &err), -ERR_CONFIG);
    assert_non_null(strstr(err.text, "is no PEM file"));
    assert_non_null(strstr(err.text, path));
    free(c.ca_file);
    free(c.ca_pem);
    c.ca_pem = NULL;
    c.ca_file = strdup("/no/such/ca");
    assert_int_equal(kube_cluster_load(&c, &err), -ERR_CONFIG);
    assert_non_null(strstr(err.text, "/no/such/ca"));
    free(c.ca_file);
    c.ca_file = NULL;
    snprintf(path, sizeof(path), "%s/token", w.dir);
    c.token_file = strdup(path);
    assert_int_equal(kube_cluster_load(&c, &err), 0);
    assert_string_equal(c.token, "new-token");
    put(&w, "token", "two words\n");
    assert_int_equal(kube_cluster_token(&c, &err), -ERR_CONFIG);
    assert_null(strstr(err.text, "two"));
    kube_cluster_finish(&c);
    assert_int_equal(dir_remove(w.dir, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_of_a_context_is_taken),
        cmocka_unit_test(what_is_not_usable_is_refused_by_its_name),
        cmocka_unit_test(a_program_is_taken_with_its_words),
        cmocka_unit_test(the_first_file_that_has_something_wins),
        cmocka_unit_test(a_circle_of_aliases_is_no_trap),
        cmocka_unit_test(places_are_looked_at_in_order),
        cmocka_unit_test(files_of_tls_are_checked_before_they_are_used),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
