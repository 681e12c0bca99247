/*
 * Checks whether the configuration may be served, before anything listens.
 *
 * One rule covers all of it: a client on another machine must show a token, and a token must not
 * travel where others can read it. Two settings make us reachable from another machine: an address
 * that is not loopback, and a public URL that is not (it names a proxy). If that URL is https, the
 * proxy does TLS. --insecure-http switches the rule off.
 */
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "supervisor/base/config.h"
#include "supervisor/web/auth/auth.h"
#include "supervisor/web/http/guard.h"
#include "supervisor/web/http/url.h"

static bool given(const char *option)
{
    return option[0] != '\0';
}

static bool is_safe_url(const char *text)
{
    struct url u;
    return url_parse(text, &u) &&
           (url_is(&u, "https") || (url_is(&u, "http") && authority_is_loopback(&u.authority)));
}

/* RFC 6749: printable characters without quotation mark and backslash. */
static int check_scopes(const char *scopes, struct err *err)
{
    for (const char *p = scopes; *p != '\0'; p++) {
        if (*p < ' ' || *p >= 0x7f || *p == '"' || *p == '\\') {
            return err_set(err, ERR_CONFIG, "--oauth-scopes: expected names separated by blanks");
        }
    }
    CLEANUP_FREE char *padded = alloc_printf(" %s ", scopes);
    if (strstr(padded, " offline_access ") != NULL) {
        return err_set(err, ERR_CONFIG,
                       "--oauth-scopes: offline_access is between a client and its issuer; a "
                       "server must not ask for it");
    }
    return 0;
}

static int check_oauth(const struct config *c, const struct authority *bound, struct err *err)
{
    bool all = given(c->oauth_issuer) && given(c->oauth_introspection) && given(c->oauth_client);
    bool any = given(c->oauth_issuer) || given(c->oauth_introspection) || given(c->oauth_client) ||
               given(c->oauth_scopes);
    if (any && !all) {
        return err_set(err, ERR_CONFIG,
                       "--oauth-issuer, --oauth-introspection and --oauth-client go together, and "
                       "one of them is missing");
    }
    if (!any) {
        return 0;
    }
    if (!is_safe_url(c->oauth_issuer)) {
        return err_set(err, ERR_CONFIG,
                       "--oauth-issuer: expected an https URL (http only on this machine)");
    }
    if (!is_safe_url(c->oauth_introspection)) {
        return err_set(err, ERR_CONFIG,
                       "--oauth-introspection: expected an https URL (http only on this machine), "
                       "since tokens are sent there");
    }
    if (authority_is_any(bound) && !given(c->public_url)) {
        return err_set(err, ERR_CONFIG,
                       "--oauth-issuer on %s needs --public-url: clients must know for which URL "
                       "to get a token",
                       c->http);
    }
    return check_scopes(c->oauth_scopes, err);
}

static int check_public_url(const struct config *c, bool *ret_public, bool *ret_tls,
                            struct err *err)
{
    struct url u;
    *ret_public = *ret_tls = false;
    if (!given(c->public_url)) {
        return 0;
    }
    if (!url_parse(c->public_url, &u) || (!url_is(&u, "https") && !url_is(&u, "http"))) {
        return err_set(err, ERR_CONFIG,
                       "--public-url: expected https://HOST[:PORT][/PATH] without a query, got "
                       "\"%.200s\"",
                       c->public_url);
    }
    *ret_public = !authority_is_loopback(&u.authority);
    *ret_tls = url_is(&u, "https");
    return 0;
}

int web_auth_check_config(const struct config *c, struct err *err)
{
    struct authority bound;
    struct guard *guard = NULL;
    bool public, proxy_tls;
    if (!given(c->http)) {
        return 0;
    }
    if (listen_address_parse(c->http, &bound, err) < 0 ||
        check_public_url(c, &public, &proxy_tls, err) < 0 || check_oauth(c, &bound, err) < 0 ||
        guard_create(c, &guard, err) < 0) {
        return -err->code;
    }
    guard_destroy(guard);
    bool elsewhere = public || !authority_is_loopback(&bound);
    bool tokens = given(c->tokens) || given(c->oauth_issuer);
    bool tls = given(c->tls_cert) || proxy_tls;
    if (elsewhere && !tokens && !c->insecure_http) {
        return err_set(err, ERR_CONFIG,
                       "--http %s%s%s: others than this machine's users could run code here. Say "
                       "who may, by --tokens or --oauth-issuer, or listen on 127.0.0.1 only; "
                       "--insecure-http allows it to everybody",
                       c->http, public ? " with --public-url " : "", public ? c->public_url : "");
    }
    if (elsewhere && !tls && !c->insecure_http) {
        return err_set(err, ERR_CONFIG,
                       "--http %s: tokens would travel in the clear. Use --tls-cert and --tls-key, "
                       "or a proxy with TLS that --public-url https://... names; --insecure-http "
                       "allows it",
                       c->http);
    }
    return 0;
}
