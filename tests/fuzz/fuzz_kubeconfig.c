/*
 * A kubeconfig, and the same text as the second of two files. What is taken has every part that a
 * request needs, and what is refused says why without a value of the file in it.
 */
#include <string.h>

#include "common/place.h"
#include "tests/fuzz/fuzz.h"
#include "worker/backend/kubernetes/kubeconfig.h"

static void check(struct kube_cluster *c)
{
    struct http_endpoint http;
    char *base = NULL;
    char *to = NULL;
    FUZZ_REQUIRE(c->server != NULL && strpbrk(c->server, " ?#@\"\\\r\n") == NULL);
    FUZZ_REQUIRE(c->namespace_ != NULL && kube_is_label(c->namespace_));
    FUZZ_REQUIRE(c->origin != NULL && c->address != NULL);
    FUZZ_REQUIRE((c->cert_pem != NULL || c->cert_file != NULL) ==
                 (c->key_pem != NULL || c->key_file != NULL));
    const char *const files[] = {c->ca_file, c->cert_file, c->key_file, c->token_file};
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        FUZZ_REQUIRE(files[i] == NULL || files[i][0] == '/');
    }
    kube_cluster_http(c, &http, &base, &to);
    FUZZ_REQUIRE(strncmp(http.base_url, "http", 4) == 0);
    FUZZ_REQUIRE(http.verify == (strncmp(http.base_url, "https", 5) == 0));
    free(base);
    free(to);
    kube_cluster_finish(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct view text = view_bytes(data, size);
    struct kubeconfig_file files[] = {
        {"/fuzz/config", text},
        {"/fuzz/other", view_of("current-context: c\n"
                                "contexts: [{name: c, context: {cluster: k, user: u}}]\n"
                                "clusters: [{name: k, cluster: {server: 'https://h'}}]\n"
                                "users: [{name: u, user: {token: t}}]\n")},
    };
    for (size_t count = 1; count <= 2; count++) {
        struct kube_cluster c = {.server = NULL};
        struct err err = ERR_INIT;
        if (kubeconfig_choose(files, count, NULL, &c, &err) == 0) {
            check(&c);
        } else {
            FUZZ_REQUIRE((err.code == ERR_CONFIG || err.code == ERR_ENGINE) &&
                         err.text[0] != '\0' && c.server == NULL);
        }
    }
    return 0;
}
