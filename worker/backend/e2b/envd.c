/*
 * The daemon speaks the Connect protocol with JSON. It is behind a proxy that finds the sandbox by
 * two headers, and wants the token of the sandbox; the user comes as the name of a login without a
 * password.
 */
#include "worker/backend/e2b/envd.h"

#include "common/alloc.h"
#include "common/base64.h"
#include "common/cleanup.h"
#include "worker/backend/json_build.h"

#define WHAT        "the sandbox's daemon"
#define ROOT        "Authorization: Basic cm9vdDo=" /* "root:" */
#define UPLOAD_MS   120000
#define LIST_MS     8000
#define INPUT_BYTES (1u << 20) /* of the text of a request */

enum { HEADER_ID, HEADER_PORT, HEADER_USER, HEADER_TOKEN };

int e2b_envd_create(struct tasks *tasks, const struct e2b_service *service,
                    const struct e2b_box *box, struct e2b_host **ret, struct err *err)
{
    CLEANUP_FREE char *url = e2b_service_envd_url(service, box->id, box->domain);
    CLEANUP_FREE char *id = alloc_printf("E2b-Sandbox-Id: %s", box->id);
    int rc = e2b_host_create(tasks, WHAT, url, service->key, ret, err);
    if (rc == 0) {
        e2b_host_header(*ret, HEADER_ID, id);
        e2b_host_header(*ret, HEADER_PORT, "E2b-Sandbox-Port: " E2B_ENVD_PORT);
        e2b_host_header(*ret, HEADER_USER, ROOT);
        e2b_envd_token(*ret, box->token);
    }
    return rc;
}

void e2b_envd_token(struct e2b_host *envd, const char *token)
{
    CLEANUP_FREE char *line = token != NULL ? alloc_printf("X-Access-Token: %s", token) : NULL;
    e2b_host_header(envd, HEADER_TOKEN, line);
    e2b_host_token(envd, token);
}

/* ---- files ---------------------------------------------------------------------------------- */

struct e2b_call *e2b_envd_stat(struct e2b_host *envd, const char *path, e2b_reply_fn done,
                               void *arg)
{
    cJSON *body = json_build_new();
    json_build_string(body, "path", path);
    CLEANUP_FREE char *text = json_build_print(body);
    cJSON_Delete(body);
    struct e2b_request request = {
        .method = "POST", .path = "/filesystem.Filesystem/Stat", .json = text};
    return e2b_host_call(envd, &request, done, arg);
}

struct e2b_call *e2b_envd_upload(struct e2b_host *envd, const char *path, struct view bytes,
                                 e2b_reply_fn done, void *arg)
{
    CLEANUP_FREE char *escaped = http_escape(path);
    CLEANUP_FREE char *at = alloc_printf("/files?path=%s&username=root", escaped);
    struct e2b_request request = {
        .method = "POST",
        .path = at,
        .bytes = bytes,
        .content_type = "application/octet-stream",
        .total_ms = UPLOAD_MS,
    };
    return e2b_host_call(envd, &request, done, arg);
}

/* ---- processes ------------------------------------------------------------------------------ */

static cJSON *about_process(uint64_t pid)
{
    cJSON *body = json_build_new();
    json_build_number(json_build_object(body, "process"), "pid", pid);
    return body;
}

struct e2b_call *e2b_envd_input(struct e2b_host *envd, uint64_t pid, struct view bytes,
                                e2b_reply_fn done, void *arg)
{
    CLEANUP_BUF struct buf text;
    buf_init(&text, INPUT_BYTES);
    cJSON *body = about_process(pid);
    err_ignore(base64_encode(&text, bytes, NULL)); /* a piece is far smaller than the limit */
    CLEANUP_FREE char *encoded = alloc_viewdup(view_bytes(alloc_check(text.data), text.len));
    json_build_string(json_build_object(body, "input"), "stdin", encoded);
    CLEANUP_FREE char *json = json_build_print(body);
    cJSON_Delete(body);
    struct e2b_request request = {
        .method = "POST", .path = "/process.Process/SendInput", .json = json, .once = true};
    return e2b_host_call(envd, &request, done, arg);
}

struct e2b_call *e2b_envd_list(struct e2b_host *envd, e2b_reply_fn done, void *arg)
{
    struct e2b_request request = {
        .method = "POST", .path = "/process.Process/List", .json = "{}", .total_ms = LIST_MS};
    return e2b_host_call(envd, &request, done, arg);
}

static void on_killed(void *arg, int rc, const struct e2b_reply *reply, const struct err *err)
{
    (void)arg, (void)rc, (void)reply,
        (void)err; /* it has ended already, or ends with the sandbox */
}

void e2b_envd_kill(struct e2b_host *envd, uint64_t pid)
{
    cJSON *body = about_process(pid);
    json_build_string(body, "signal", "SIGNAL_SIGKILL");
    CLEANUP_FREE char *json = json_build_print(body);
    cJSON_Delete(body);
    struct e2b_request request = {
        .method = "POST", .path = "/process.Process/SendSignal", .json = json};
    e2b_host_call(envd, &request, on_killed, NULL);
}
