/*
 * `run`: code from a file or from stdin in a fresh sandbox, which goes with it. It is one of the
 * server with a name that runs; where none does, or options say how it is to be, there is one for
 * this code alone (own_server.c). Servers on stdio are their clients', and end with them. Our exit
 * status is the code's. A signal stops the code and closes the sandbox first; should we be killed,
 * the sandbox closes by itself when nothing has run in it for a while.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/fd.h"
#include "common/io/json.h"
#include "common/str.h"
#include "proto/limits.h"
#include "supervisor/base/options.h"
#include "supervisor/commands/internal.h"

#define RUN_LANGUAGE 0
#define RUN_IMAGE    1
#define RUN_TIMEOUT  2
#define RUN_NETWORK  3
#define TTL_S        60

/* By the end of the file's name, as people name their files. */
static const char *language_of(const char *file)
{
    static const struct {
        const char *end, *language;
    } kinds[] = {{".js", "javascript"}, {".mjs", "javascript"},
                 {".ts", "typescript"}, {".sh", "bash"},
                 {".bash", "bash"},     {".rb", "ruby"},
                 {".pl", "perl"},       {".php", "php"},
                 {".lua", "lua"},       {".r", "r"},
                 {".R", "r"},           {".go", "go"},
                 {".c", "c"},           {".cpp", "cpp"},
                 {".rs", "rust"},       {".java", "java"}};
    const char *dot = strrchr(file, '.');
    for (size_t i = 0; dot != NULL && i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strcmp(dot, kinds[i].end) == 0) {
            return kinds[i].language;
        }
    }
    return "python";
}

static int read_stdin_whole(struct buf *out, struct err *err)
{
    char bytes[16384];
    size_t n;
    while ((n = fread(bytes, 1, sizeof(bytes), stdin)) > 0) {
        if (buf_add(out, bytes, n, err) < 0) {
            return -err->code;
        }
    }
    return 0;
}

static int read_code(const char *file, struct buf *out, struct err *err)
{
    int rc = strcmp(file, "-") == 0 ? read_stdin_whole(out, err) : file_read(file, out, err);
    if (rc == 0 &&
        (!utf8_valid((const char *)out->data, out->len) ||
         memchr(out->data != NULL ? (const char *)out->data : "", '\0', out->len) != NULL)) {
        rc = err_set(err, ERR_INVALID, "%s is no text", file);
    }
    return rc;
}

static cJSON *code_body(const struct steer *s, const char *file, const char *code,
                        uint64_t timeout_s)
{
    const char *language = s->values[RUN_LANGUAGE];
    cJSON *body = cJSON_CreateObject();
    cJSON_AddStringToObject(body, "code", code);
    cJSON_AddStringToObject(body, "language", language != NULL ? language : language_of(file));
    talk_add_args(s, body);
    if (timeout_s > 0) {
        cJSON_AddNumberToObject(body, "timeout_seconds", (double)timeout_s);
    }
    return body;
}

/* In the sandbox of this path in the API. */
static int run_in(const struct server *server, const char *sandbox, cJSON *owned_body,
                  struct err *err)
{
    const struct talk talk = {.server = server};
    if (interrupts_came()) {
        cJSON_Delete(owned_body);
        return STATUS_STOPPED;
    }
    return talk_run(&talk, sandbox, owned_body, err);
}

/* In a sandbox of a server that runs. */
static int run_fresh(const struct steer *s, const struct server *server, cJSON *owned_body,
                     struct err *err)
{
    cJSON *wish = cJSON_CreateObject(), *sandbox = NULL, *closed = NULL;
    cJSON_AddNumberToObject(wish, "ttl_seconds", TTL_S);
    if (s->values[RUN_IMAGE] != NULL) {
        cJSON_AddStringToObject(wish, "image", s->values[RUN_IMAGE]);
    }
    if (s->values[RUN_NETWORK] != NULL) {
        cJSON_AddStringToObject(wish, "network", "full");
    }
    int rc = server_post(server, "/v1/sandboxes", wish, &sandbox, err);
    if (rc < 0) {
        cJSON_Delete(owned_body);
        return rc;
    }
    struct err unclosed = ERR_INIT; /* it closes by itself */
    CLEANUP_FREE char *path = alloc_printf("/v1/sandboxes/%s", member_text(sandbox, "sandbox_id"));
    rc = run_in(server, path, owned_body, err);
    err_ignore(server_ask(server, "DELETE", path, &closed, &unclosed));
    cJSON_Delete(closed);
    cJSON_Delete(sandbox);
    return rc;
}

/* In a server of its own. */
static int run_alone(const struct steer *s, cJSON *owned_body, struct err *err)
{
    const struct own_server_wish wish = {.image = s->values[RUN_IMAGE],
                                         .network = s->values[RUN_NETWORK] != NULL};
    struct own_server *own;
    int rc = own_server_start(s, &wish, &own, err);
    if (rc < 0) {
        cJSON_Delete(owned_body);
        return rc;
    }
    CLEANUP_FREE char *path = alloc_printf("/v1/sandboxes/%s", own_server_sandbox(own));
    rc = run_in(own_server_place(own), path, owned_body, err);
    own_server_end(own);
    return rc;
}

/* ---- where ---------------------------------------------------------------------------------- */

static bool names_instance(const struct option *o)
{
    return strcmp(o->name, "instance") == 0;
}

/* Whether somebody has said which server it is to be. A configuration file says how a server is
 * called that may run or not. */
static bool is_server_named(const struct steer *s)
{
    CLEANUP_FREE char *variable = option_env_name(option_find(view_of("instance")));
    const char *value = getenv(variable);
    return typed_option(s, names_instance) != NULL || (value != NULL && value[0] != '\0');
}

/* *ret is the server that is meant; NULL: one of its own. */
static int choose_server(const struct steer *s, struct servers *servers, const struct server **ret,
                         struct err *err)
{
    const struct option *shape = typed_option(s, typed_shapes_server),
                        *refused = own_server_refuses(s);
    bool is_named = is_server_named(s);
    *ret = NULL;
    if (refused != NULL) {
        return err_set(err, ERR_INVALID,
                       "--%s means nothing to a server that runs this code alone, on stdio",
                       refused->name);
    }
    if (is_named && shape != NULL) {
        return err_set(err, ERR_INVALID,
                       "--%s is for a server that is started for this code, and --instance names "
                       "one that runs: leave one of them out",
                       shape->name);
    }
    if (shape != NULL) {
        return 0;
    }
    if (!is_named) {
        servers_keep_standing(servers);
    }
    if (is_named && servers->count == 0) {
        return err_set(
            err, ERR_ENGINE,
            "no server \"%.64s\" of this user runs below %s; without --instance the code "
            "runs in a server of its own",
            s->config->instance, servers->top);
    }
    return servers->count == 0 ? 0 : servers_only(servers, ret, err);
}

static int run_somewhere(const struct steer *s, cJSON *owned_body, struct err *err)
{
    struct servers servers;
    const struct server *server = NULL;
    servers_find(s->config, &servers);
    int rc = choose_server(s, &servers, &server, err);
    if (rc < 0) {
        cJSON_Delete(owned_body);
    } else if (server != NULL) {
        rc = run_fresh(s, server, owned_body, err);
    } else {
        rc = run_alone(s, owned_body, err);
    }
    servers_finish(&servers);
    return rc;
}

int command_run_code(const struct steer *s)
{
    struct err err = ERR_INIT;
    const char *file = s->word_count > 0 ? s->words[0] : "-";
    const char *timeout = s->values[RUN_TIMEOUT];
    uint64_t timeout_s = 0;
    CLEANUP_BUF struct buf code;
    buf_init(&code, LIMIT_CODE);
    int rc = timeout != NULL ? str_to_u64(timeout, 1, 86400, &timeout_s, &err) : 0;
    rc = rc == 0 ? read_code(file, &code, &err) : err_wrap(&err, "--timeout");
    if (rc == 0) {
        interrupts_begin();
        const char *text = buf_cstr(&code);
        rc = run_somewhere(s, code_body(s, file, text != NULL ? text : "", timeout_s), &err);
    }
    interrupts_end();
    return rc < 0 ? command_fail(&err) : rc;
}
