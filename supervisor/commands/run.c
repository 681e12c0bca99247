/*
 * `run`: code from a file or from stdin in a fresh sandbox, which goes with it. Our exit status is
 * the code's. A signal stops the code and closes the sandbox first; should we be killed, the
 * sandbox closes by itself when nothing has run in it for a while.
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
#include "supervisor/commands/internal.h"

#define RUN_LANGUAGE 0
#define RUN_IMAGE    1
#define RUN_TIMEOUT  2
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
    cJSON *args = cJSON_AddArrayToObject(body, "args");
    for (size_t i = 1; i < s->word_count; i++) {
        cJSON_AddItemToArray(args, cJSON_CreateString(s->words[i]));
    }
    if (timeout_s > 0) {
        cJSON_AddNumberToObject(body, "timeout_seconds", (double)timeout_s);
    }
    return body;
}

static int run_in(const struct server *server, const char *sandbox, cJSON *owned_body,
                  struct err *err)
{
    CLEANUP_FREE char *path = alloc_printf("/v1/sandboxes/%s/exec", sandbox);
    cJSON *started = NULL;
    int rc = server_post(server, path, owned_body, &started, err);
    if (rc == 0) {
        const struct talk talk = {.server = server,
                                  .execution = member_text(started, "execution_id")};
        rc = talk_run(&talk, err);
    }
    cJSON_Delete(started);
    return rc;
}

static int run_fresh(const struct steer *s, const struct server *server, cJSON *owned_body,
                     struct err *err)
{
    cJSON *wish = cJSON_CreateObject(), *sandbox = NULL, *closed = NULL;
    cJSON_AddNumberToObject(wish, "ttl_seconds", TTL_S);
    if (s->values[RUN_IMAGE] != NULL) {
        cJSON_AddStringToObject(wish, "image", s->values[RUN_IMAGE]);
    }
    int rc = server_post(server, "/v1/sandboxes", wish, &sandbox, err);
    if (rc < 0) {
        cJSON_Delete(owned_body);
        return rc;
    }
    const char *id = member_text(sandbox, "sandbox_id");
    struct err unclosed = ERR_INIT; /* it closes by itself */
    CLEANUP_FREE char *path = alloc_printf("/v1/sandboxes/%s", id);
    if (interrupts_came()) {
        cJSON_Delete(owned_body);
        rc = STATUS_STOPPED;
    } else {
        rc = run_in(server, id, owned_body, err);
    }
    err_ignore(server_ask(server, "DELETE", path, &closed, &unclosed));
    cJSON_Delete(closed);
    cJSON_Delete(sandbox);
    return rc;
}

int command_run_code(const struct steer *s)
{
    struct servers servers;
    struct err err = ERR_INIT;
    const struct server *server;
    const char *file = s->word_count > 0 ? s->words[0] : "-";
    const char *timeout = s->values[RUN_TIMEOUT];
    uint64_t timeout_s = 0;
    CLEANUP_BUF struct buf code;
    buf_init(&code, LIMIT_CODE);
    servers_find(s->config, &servers);
    int rc = timeout != NULL ? str_to_u64(timeout, 1, 86400, &timeout_s, &err) : 0;
    rc = rc == 0 ? servers_only(&servers, &server, &err) : err_wrap(&err, "--timeout");
    rc = rc == 0 ? read_code(file, &code, &err) : rc;
    if (rc == 0) {
        interrupts_begin();
        const char *text = buf_cstr(&code);
        rc = run_fresh(s, server, code_body(s, file, text != NULL ? text : "", timeout_s), &err);
    }
    servers_finish(&servers);
    interrupts_end();
    return rc < 0 ? command_fail(&err) : rc;
}
