/*
 * Calls of version 2, and their like of version 1 for services that do not have it: the second
 * wants to be told that the sandbox's daemon is to be secured by a token, which the first always
 * does.
 *
 * A sandbox has no name that a client chooses. So its metadata names it, by which it is found again
 * when an answer was lost, a worker or a server died: the same labels as on containers.
 */
#include "worker/backend/e2b/api.h"

#include <inttypes.h>
#include <stdio.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/str.h"
#include "worker/backend/e2b/box.h"
#include "worker/backend/json_build.h"

#define MAKE_MS 30000
#define PAGE    "100"
#define STATES  "running,paused"

int e2b_api_open(struct tasks *tasks, const struct e2b_service *service, struct e2b_host **ret,
                 struct err *err)
{
    int rc = e2b_host_create(tasks, "the service", service->api_url, service->key, ret, err);
    if (rc == 0) {
        CLEANUP_FREE char *line = alloc_printf("X-API-Key: %s", service->key);
        e2b_host_header(*ret, 0, line);
        explicit_bzero(line, strlen(line));
    }
    return rc;
}

void e2b_api_this_host(char ret[E2B_HOST_HASH_SIZE])
{
    char host[OWNER_HOST_SIZE];
    owner_host(host);
    ret[0] = '\0';
    if (host[0] != '\0') {
        snprintf(ret, E2B_HOST_HASH_SIZE, "%016" PRIx64, hash_text(host));
    }
}

/* ---- making --------------------------------------------------------------------------------- */

static char *make_body(const struct backend_spec *spec, uint64_t ttl_s, bool says_secure)
{
    char host[E2B_HOST_HASH_SIZE];
    e2b_api_this_host(host);
    cJSON *body = json_build_new();
    json_build_string(body, "templateID", spec->image);
    json_build_number(body, "timeout", ttl_s);
    json_build_bool(body, "autoPause", false);
    if (says_secure) {
        json_build_bool(body, "secure", true);
    }
    json_build_bool(body, "allow_internet_access", spec->network);
    json_build_bool(json_build_object(body, "network"), "allowPublicTraffic", false);
    cJSON *metadata = json_build_object(body, "metadata");
    owner_label(metadata, spec->id, spec->dir);
    json_build_string(metadata, E2B_META_HOST, host);
    char *text = json_build_print(body);
    cJSON_Delete(body);
    return text;
}

struct e2b_call *e2b_api_make(struct e2b_host *api, const struct backend_spec *spec, uint64_t ttl_s,
                              e2b_reply_fn done, void *arg)
{
    CLEANUP_FREE char *body = make_body(spec, ttl_s, false);
    CLEANUP_FREE char *old_body = make_body(spec, ttl_s, true);
    struct e2b_request request = {
        .method = "POST",
        .path = "/v2/sandboxes",
        .json = body,
        .old_path = "/sandboxes",
        .old_json = old_body,
        .total_ms = MAKE_MS,
        .once = true,
    };
    return e2b_host_call(api, &request, done, arg);
}

/* ---- the rest ------------------------------------------------------------------------------- */

struct e2b_call *e2b_api_list(struct e2b_host *api, const char *name, const char *value,
                              struct view page, e2b_reply_fn done, void *arg)
{
    CLEANUP_FREE char *token = alloc_viewdup(page);
    CLEANUP_FREE char *escaped = http_escape(token);
    CLEANUP_FREE char *path =
        alloc_printf("/v2/sandboxes?metadata=%s%%3D%s&state=" STATES "&limit=" PAGE "%s%s", name,
                     value, token[0] != '\0' ? "&nextToken=" : "", escaped);
    CLEANUP_FREE char *old_path = alloc_printf("/sandboxes?metadata=%s%%3D%s", name, value);
    struct e2b_request request = {.method = "GET", .path = path, .old_path = old_path};
    return e2b_host_call(api, &request, done, arg);
}

static struct e2b_call *call_on(struct e2b_host *api, const char *method, const char *id,
                                uint64_t total_ms, e2b_reply_fn done, void *arg)
{
    CLEANUP_FREE char *path = alloc_printf("/sandboxes/%s", id);
    struct e2b_request request = {.method = method, .path = path, .total_ms = total_ms};
    return e2b_host_call(api, &request, done, arg);
}

struct e2b_call *e2b_api_get(struct e2b_host *api, const char *id, uint64_t total_ms,
                             e2b_reply_fn done, void *arg)
{
    return call_on(api, "GET", id, total_ms, done, arg);
}

struct e2b_call *e2b_api_remove(struct e2b_host *api, const char *id, e2b_reply_fn done, void *arg)
{
    return call_on(api, "DELETE", id, 0, done, arg);
}

static char *ttl_body(uint64_t ttl_s)
{
    return alloc_printf("{\"timeout\":%" PRIu64 "}", ttl_s);
}

struct e2b_call *e2b_api_keep(struct e2b_host *api, const char *id, uint64_t ttl_s,
                              e2b_reply_fn done, void *arg)
{
    CLEANUP_FREE char *path = alloc_printf("/sandboxes/%s/timeout", id);
    CLEANUP_FREE char *body = ttl_body(ttl_s);
    struct e2b_request request = {.method = "POST", .path = path, .json = body};
    return e2b_host_call(api, &request, done, arg);
}

struct e2b_call *e2b_api_wake(struct e2b_host *api, const char *id, uint64_t ttl_s,
                              e2b_reply_fn done, void *arg)
{
    CLEANUP_FREE char *path = alloc_printf("/v2/sandboxes/%s/connect", id);
    CLEANUP_FREE char *old_path = alloc_printf("/sandboxes/%s/connect", id);
    CLEANUP_FREE char *body = ttl_body(ttl_s);
    struct e2b_request request = {
        .method = "POST",
        .path = path,
        .json = body,
        .old_path = old_path,
        .old_json = body,
        .total_ms = MAKE_MS,
    };
    return e2b_host_call(api, &request, done, arg);
}
