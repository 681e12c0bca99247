/*
 * A client that knows nothing learns from a 401 where the document is, from the document who issues
 * tokens, and from the issuer the rest. So the 401 comes before anything else of the request is
 * looked at, and says nothing about it. A request without a token gets no error code, because it
 * made no error.
 *
 * Quoted texts are our own, or were checked when the options were read: they contain no quotation
 * mark and no backslash.
 */
#include "supervisor/web/auth/challenge.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "supervisor/metrics/metrics.h"
#include "supervisor/web/http/exchange.h"
#include "supervisor/web/http/url.h"

#define WELL_KNOWN      "/.well-known/oauth-protected-resource"
#define ENDPOINT        "/mcp"
#define UNKNOWN_RETRY_S "5"

void challenge_init(struct challenge *c, const char *issuer, const char *scopes)
{
    *c = (struct challenge){
        .issuer = issuer != NULL ? alloc_strdup(issuer) : NULL,
        .scopes = alloc_strdup(scopes),
    };
}

static void finish_urls(struct challenge *c)
{
    free(c->resource);
    free(c->metadata_url);
    free(c->metadata_path);
}

void challenge_finish(struct challenge *c)
{
    finish_urls(c);
    free(c->issuer);
    free(c->scopes);
}

void challenge_set_url(struct challenge *c, const char *url)
{
    struct url u;
    if (!url_parse(url, &u)) {
        return; /* cannot happen: the options were checked, and the listener makes good URLs */
    }
    finish_urls(c);
    c->resource = alloc_printf("%.*s%.*s" ENDPOINT, VIEW_ARG(u.origin), VIEW_ARG(u.path));
    c->metadata_path = alloc_printf(WELL_KNOWN "%.*s" ENDPOINT, VIEW_ARG(u.path));
    c->metadata_url = alloc_printf("%.*s%s", VIEW_ARG(u.origin), c->metadata_path);
}

/* ---- refusals ------------------------------------------------------------------------------- */

static void respond_challenge(struct web_exchange *x, int status, const char *error,
                              const char *why)
{
    cJSON *body = cJSON_CreateObject();
    cJSON_AddStringToObject(body, "error", error);
    cJSON_AddStringToObject(body, "error_description", why);
    char *text = alloc_check(cJSON_PrintUnformatted(body));
    cJSON_Delete(body);
    web_set_header(x, "Cache-Control", "no-store");
    web_respond_text(x, status, "application/json", text);
}

/* Appends a parameter to the challenge if it has a value. Frees `so_far`. */
static char *add_param(char *so_far, const char *name, const char *value)
{
    if (value == NULL || value[0] == '\0') {
        return so_far;
    }
    char *longer =
        alloc_printf("%s%s%s=\"%s\"", so_far, so_far[0] != '\0' ? ", " : "", name, value);
    free(so_far);
    return longer;
}

/* The URL of the document. NULL without an issuer, because the document would name nobody. */
static const char *metadata_url(const struct challenge *c)
{
    return c->issuer != NULL ? c->metadata_url : NULL;
}

static const char *scopes(const struct challenge *c)
{
    return c->issuer != NULL ? c->scopes : NULL;
}

/* Takes ownership of `params`. */
static void refuse_token(struct web_exchange *x, int status, char *params, const char *error,
                         const char *why)
{
    CLEANUP_FREE char *value = alloc_printf("Bearer %s", params);
    free(params);
    metrics_count(METRIC_REJECTED,
                  status == 403 ? METRIC_REASON_FORBIDDEN : METRIC_REASON_UNAUTHORIZED);
    web_set_header(x, "WWW-Authenticate", value);
    respond_challenge(x, status, error, why);
}

void challenge_no_token(const struct challenge *c, struct web_exchange *x)
{
    char *params = add_param(alloc_strdup(""), "resource_metadata", metadata_url(c));
    params = add_param(params, "scope", scopes(c));
    if (params[0] == '\0') {
        /* a challenge needs at least one parameter */
        params = add_param(params, "realm", "cloister");
    }
    refuse_token(x, 401, params, "unauthorized",
                 "a bearer token is needed, in the Authorization header");
}

void challenge_bad_token(const struct challenge *c, struct web_exchange *x, const char *why)
{
    char *params = add_param(alloc_strdup(""), "resource_metadata", metadata_url(c));
    params = add_param(params, "scope", scopes(c));
    params = add_param(params, "error", "invalid_token");
    refuse_token(x, 401, add_param(params, "error_description", why), "invalid_token", why);
}

void challenge_scope(const struct challenge *c, struct web_exchange *x, const char *why)
{
    char *params = add_param(alloc_strdup(""), "error", "insufficient_scope");
    params = add_param(params, "scope", scopes(c));
    params = add_param(params, "resource_metadata", metadata_url(c));
    refuse_token(x, 403, add_param(params, "error_description", why), "insufficient_scope", why);
}

void challenge_malformed(const struct challenge *c, struct web_exchange *x, const char *why)
{
    char *params = add_param(alloc_strdup(""), "error", "invalid_request");
    params = add_param(params, "resource_metadata", metadata_url(c));
    refuse_token(x, 400, add_param(params, "error_description", why), "invalid_request", why);
}

void challenge_busy(struct web_exchange *x, uint64_t wait_ms)
{
    CLEANUP_FREE char *seconds = alloc_printf("%llu", (unsigned long long)((wait_ms + 999) / 1000));
    web_set_header(x, "Retry-After", seconds);
    metrics_count(METRIC_REJECTED, METRIC_REASON_GUESSING);
    respond_challenge(x, 429, "too_many_requests",
                      "too many wrong tokens came from this address; try again later");
}

void challenge_crowd(struct web_exchange *x)
{
    metrics_count(METRIC_REJECTED, METRIC_REASON_CONNECTIONS);
    web_set_header(x, "Retry-After", UNKNOWN_RETRY_S);
    respond_challenge(x, 429, "too_many_requests",
                      "you have half of this server's connections, and the rest is for others; use "
                      "those that you have, or close some");
}

void challenge_unknown(struct web_exchange *x)
{
    web_set_header(x, "Retry-After", UNKNOWN_RETRY_S);
    respond_challenge(x, 503, "temporarily_unavailable",
                      "the token cannot be checked at the moment; try again later");
}

/* ---- metadata ------------------------------------------------------------------------------- */

static char *document(const struct challenge *c)
{
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "resource", c->resource);
    cJSON_AddItemToArray(cJSON_AddArrayToObject(json, "authorization_servers"),
                         cJSON_CreateString(c->issuer));
    const char *scope = c->scopes + strspn(c->scopes, " ");
    cJSON *list = scope[0] != '\0' ? cJSON_AddArrayToObject(json, "scopes_supported") : NULL;
    while (scope[0] != '\0') {
        size_t len = strcspn(scope, " ");
        CLEANUP_FREE char *name = alloc_viewdup(view_bytes(scope, len));
        cJSON_AddItemToArray(list, cJSON_CreateString(name));
        scope += len;
        scope += strspn(scope, " ");
    }
    cJSON_AddItemToArray(cJSON_AddArrayToObject(json, "bearer_methods_supported"),
                         cJSON_CreateString("header"));
    char *text = alloc_check(cJSON_PrintUnformatted(json));
    cJSON_Delete(json);
    return text;
}

/* Accepts the path with and without the path of the public URL, since a proxy may have removed
 * that. */
static bool is_metadata_path(const struct challenge *c, const char *path)
{
    return strcmp(path, WELL_KNOWN) == 0 || strcmp(path, WELL_KNOWN ENDPOINT) == 0 ||
           strcmp(path, c->metadata_path) == 0;
}

bool challenge_metadata(const struct challenge *c, struct web_exchange *x)
{
    if (c->issuer == NULL || c->resource == NULL || !is_metadata_path(c, web_path(x))) {
        return false;
    }
    if (strcmp(web_method(x), "GET") != 0 && strcmp(web_method(x), "HEAD") != 0) {
        web_set_header(x, "Allow", "GET, HEAD");
        web_respond(x, 405, NULL, view_of(""));
        return true;
    }
    web_set_header(x, "Cache-Control", "max-age=300");
    web_respond_text(x, 200, "application/json", document(c));
    return true;
}
