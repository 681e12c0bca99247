/*
 * The variables and their order are those of E2B's SDKs, so what works for them works here. A whole
 * URL wins over a domain.
 *
 * The proxy in front of all sandboxes is reached in two ways: by a host of its own for each sandbox
 * and port, or by one host for all and two headers. The second needs no wildcard certificate, but
 * only the service's own domains have that host. The headers go with every request, which does no
 * harm where they are not needed.
 *
 * Keys had a form once (e2b_ and hexadecimal digits), and services that people run themselves give
 * others. So only what no header can carry is refused; whether a key is one, the service says.
 */
#include "worker/backend/e2b/service.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/net/authority.h"

#define DOMAIN_DEFAULT "e2b.app"
#define KEY_MAX        1024

static const char *const shared_host[] = {"e2b.app", "e2b.dev", "e2b.pro", "e2b-staging.dev"};

void e2b_service_finish(struct e2b_service *s)
{
    free(s->origin);
    free(s->api_url);
    free(s->domain);
    free(s->sandbox_url);
    if (s->key != NULL) {
        explicit_bzero(s->key, strlen(s->key));
        free(s->key);
    }
    *s = (struct e2b_service){.key = NULL};
}

static bool is_domain(const char *text)
{
    size_t len = strlen(text);
    return len > 0 && len < 254 && isalnum((unsigned char)text[0]) &&
           strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-:") == len;
}

/* Without slashes at the end. */
static int take_url(const char *origin, const char *text, char **ret, struct err *err)
{
    struct authority_url url;
    bool is_plain = strncmp(text, "http://", 7) == 0;
    size_t len = strlen(text);
    while (len > 0 && text[len - 1] == '/') {
        len--;
    }
    if ((!is_plain && strncmp(text, "https://", 8) != 0) ||
        !authority_parse_url(view_of(text), &url) || strpbrk(text, "?#@\"\\") != NULL) {
        return err_set(err, ERR_CONFIG,
                       "%s: \"%.100s\" is no address of a service: write https://HOST", origin,
                       text);
    }
    if (is_plain && !authority_is_loopback(&url.authority)) {
        return err_set(err, ERR_CONFIG,
                       "%s: %.100s: the key would be sent in plain text; only on this machine "
                       "http:// is taken",
                       origin, text);
    }
    *ret = alloc_viewdup(view_bytes(text, len));
    return 0;
}

/* Below which domain a control plane's sandboxes are: "https://api.example.com" says it. */
static char *domain_of_url(const char *url)
{
    const char *host = strstr(url, "://") + 3;
    host += strncmp(host, "api.", 4) == 0 ? 4 : 0;
    return alloc_viewdup(view_bytes(host, strcspn(host, "/")));
}

static int take_control_plane(const char *origin, const char *url, struct e2b_service *s,
                              struct err *err)
{
    s->origin = alloc_strdup(origin);
    int rc = take_url(origin, url, &s->api_url, err);
    s->domain = rc == 0 ? domain_of_url(s->api_url) : NULL;
    return rc;
}

static int take_domain(const char *origin, const char *domain, struct e2b_service *s,
                       struct err *err)
{
    s->origin = alloc_strdup(origin);
    if (!is_domain(domain)) {
        return err_set(err, ERR_CONFIG,
                       "%s: \"%.100s\" is no domain of a service, such as " DOMAIN_DEFAULT, origin,
                       domain);
    }
    s->api_url = alloc_printf("https://api.%s", domain);
    s->domain = alloc_strdup(domain);
    return 0;
}

static int take_key(const char *key, struct e2b_service *s, struct err *err)
{
    if (key == NULL) {
        return err_set(err, ERR_CONFIG, "E2B_API_KEY is not set: no key for the service at %.200s",
                       s->api_url);
    }
    for (const char *p = key; *p != '\0'; p++) {
        if ((unsigned char)*p <= 0x20 || (unsigned char)*p >= 0x7f || p - key >= KEY_MAX) {
            return err_set(err, ERR_CONFIG,
                           "E2B_API_KEY: a key is one word of letters, digits and signs, and this "
                           "has %s",
                           p - key >= KEY_MAX ? "more than 1024 characters"
                                              : "a character that none can have");
        }
    }
    s->key = alloc_strdup(key);
    return 0;
}

static const char *get_set(e2b_getenv_fn get, void *arg, const char *name)
{
    const char *value = get(arg, name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

int e2b_service_find(const struct place *named, e2b_getenv_fn get, void *arg,
                     struct e2b_service *ret, struct err *err)
{
    struct e2b_service s = {.key = NULL};
    const char *url = get_set(get, arg, "E2B_API_URL");
    const char *domain = get_set(get, arg, "E2B_DOMAIN");
    const char *sandbox_url = get_set(get, arg, "E2B_SANDBOX_URL");
    int rc = 0;
    if (named->kind == PLACE_NAMED) {
        bool is_url = strstr(named->address, "://") != NULL;
        rc = (is_url ? take_control_plane : take_domain)("--engine", named->address, &s, err);
    } else if (named->kind != PLACE_NONE) {
        rc = err_set(err, ERR_CONFIG, "that is no place of a service");
    } else if (url != NULL) {
        rc = take_control_plane("E2B_API_URL", url, &s, err);
    } else {
        rc = take_domain(domain != NULL ? "E2B_DOMAIN" : "the hosted service",
                         domain != NULL ? domain : DOMAIN_DEFAULT, &s, err);
    }
    if (rc == 0 && url != NULL && strncmp(url, s.api_url, strlen(s.api_url)) == 0 &&
        domain != NULL && is_domain(domain)) {
        free(s.domain);
        s.domain = alloc_strdup(domain);
    }
    if (rc == 0 && sandbox_url != NULL) {
        rc = take_url("E2B_SANDBOX_URL", sandbox_url, &s.sandbox_url, err);
    }
    rc = rc < 0 ? rc : take_key(get_set(get, arg, "E2B_API_KEY"), &s, err);
    if (rc < 0) {
        e2b_service_finish(&s);
        return rc;
    }
    *ret = s;
    return 0;
}

char *e2b_service_envd_url(const struct e2b_service *s, const char *sandbox, const char *domain)
{
    if (s->sandbox_url != NULL) {
        return alloc_strdup(s->sandbox_url);
    }
    const char *below = domain != NULL ? domain : s->domain;
    for (size_t i = 0; i < sizeof(shared_host) / sizeof(shared_host[0]); i++) {
        if (strcmp(below, shared_host[i]) == 0) {
            return alloc_printf("https://sandbox.%s", below);
        }
    }
    return alloc_printf("https://" E2B_ENVD_PORT "-%s.%s", sandbox, below);
}
