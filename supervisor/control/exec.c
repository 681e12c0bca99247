/*
 * Running something: a sandbox is made, code or a program is started in one, and what runs gets its
 * stdin. That is all that `cloister run` and `exec` need beside the logs, by which they follow it.
 *
 * What an operator starts in somebody's sandbox is that principal's, as if he had started it: he
 * sees it in his list and can stop it. Sandboxes that are made here belong to OWNER, who is nobody
 * on a server with tokens, so that no client finds them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/base64.h"
#include "common/cleanup.h"
#include "common/io/json.h"
#include "proto/limits.h"
#include "supervisor/base/config.h"
#include "supervisor/control/internal.h"
#include "supervisor/results/result.h"
#include "supervisor/tools/sandbox_json.h"

#define OWNER        "local"
#define TERMINAL_MAX 1000 /* rows and columns */

/* ---- lists ---------------------------------------------------------------------------------- */

struct texts {
    struct view *items; /* the texts are borrowed */
    struct view_list list;
};

static struct texts texts_of(const cJSON *list)
{
    struct texts texts = {.items = NULL};
    size_t count = 0;
    const cJSON *item;
    texts.items = alloc_array((size_t)cJSON_GetArraySize(list) + 1, sizeof(*texts.items));
    cJSON_ArrayForEach(item, list)
    {
        texts.items[count++] = view_of(item->valuestring);
    }
    texts.list = (struct view_list){texts.items, count};
    return texts;
}

static void finish_texts(struct texts *texts)
{
    free(texts->items);
}

/* ---- a sandbox ------------------------------------------------------------------------------ */

static void on_made(void *arg, int rc, const struct fleet_info *info, const struct err *err,
                    const char *hint)
{
    struct web_exchange *x = arg;
    if (rc < 0) {
        control_fail(x, rc, err->text, hint);
    } else {
        control_deed_on(x, info->id, NULL);
        control_answer(x, 201, control_sandbox(info));
    }
}

static int check_network(const cJSON *body, struct err *err)
{
    const char *network = json_get_str(body, "network");
    if (network != NULL && strcmp(network, "none") != 0 && strcmp(network, "full") != 0) {
        return err_set(err, ERR_INVALID, "network: expected none or full");
    }
    return 0;
}

void control_make_sandbox(struct control *c, struct web_exchange *x, const char *name)
{
    static const struct control_member members[] = {
        {"name", CONTROL_TEXT}, {"image", CONTROL_TEXT},   {"memory_mb", CONTROL_UINT},
        {"pids", CONTROL_UINT}, {"disk_mb", CONTROL_UINT}, {"ttl_seconds", CONTROL_UINT},
        {"env", CONTROL_TEXTS}, {"network", CONTROL_TEXT}, {NULL, CONTROL_TEXT},
    };
    (void)name;
    struct err err = ERR_INIT;
    struct sandbox_choice choice;
    cJSON *body = NULL;
    if (!control_body(x, members, &body)) {
        return;
    }
    cJSON *env = cJSON_DetachItemFromObjectCaseSensitive(body, "env");
    struct texts words = texts_of(env);
    int rc = check_network(body, &err);
    rc = rc == 0 ? sandbox_choice_read(&choice, body, c->config, &err) : rc;
    if (rc < 0) {
        control_fail(x, rc, err.text, NULL);
    } else {
        choice.spec.env = words.list;
        fleet_open(c->fleet, OWNER, &choice.spec, on_made, x);
        sandbox_choice_finish(&choice);
    }
    finish_texts(&words);
    cJSON_Delete(env);
    cJSON_Delete(body);
}

/* ---- something that runs -------------------------------------------------------------------- */

static bool is_true(const cJSON *body, const char *name)
{
    return cJSON_IsTrue(json_get(body, name));
}

/* How long it may run: as long as may be asked for if it talks with somebody, who takes his time.
 */
static int read_time(const struct control *c, const cJSON *body, uint64_t *ret, struct err *err)
{
    uint64_t asked_s = control_uint(body, "timeout_seconds");
    bool talks = is_true(body, "stdin_open") || is_true(body, "tty");
    if (asked_s > c->config->max_timeout_s) {
        return err_set(err, ERR_INVALID, "timeout_seconds: at most %llu (--max-timeout-seconds)",
                       (unsigned long long)c->config->max_timeout_s);
    }
    *ret = 1000 * (asked_s != 0 || !talks ? asked_s : c->config->max_timeout_s);
    return 0;
}

/* Fills the operation but for its lists. */
static int read_op(const struct control *c, const cJSON *body, struct fleet_op *ret,
                   struct err *err)
{
    const char *code = json_get_str(body, "code"), *language = json_get_str(body, "language");
    const char *input = json_get_str(body, "stdin");
    bool has_program = cJSON_GetArraySize(json_get(body, "args")) > 0;
    uint64_t timeout_ms = 0;
    if (code == NULL && !has_program) {
        return err_set(err, ERR_INVALID, "expected code, or a program in args");
    }
    if ((code != NULL && strlen(code) > LIMIT_CODE) ||
        (input != NULL && strlen(input) > LIMIT_CODE)) {
        return err_set(err, ERR_TOO_BIG, "code and stdin have at most %u bytes", LIMIT_CODE);
    }
    if (read_time(c, body, &timeout_ms, err) < 0) {
        return -err->code;
    }
    *ret = (struct fleet_op){
        .kind = code != NULL ? OP_EVAL : OP_RUN,
        .language = code == NULL       ? NULL
                    : language != NULL ? language
                                       : "python",
        .data = view_of(code),
        .has_stdin = input != NULL,
        .stdin_data = view_of(input),
        .path = "",
        .flags = is_true(body, "tty")          ? OP_FLAG_TTY
                 : is_true(body, "stdin_open") ? OP_FLAG_STDIN_OPEN
                                               : 0,
        .timeout_ms = timeout_ms,
        .keep_bytes = RESULT_KEEP_BYTES,
    };
    return 0;
}

static void start_op(struct control *c, struct web_exchange *x, const char *id, struct fleet_op *op,
                     const cJSON *body)
{
    char execution[FLEET_ID_SIZE];
    struct texts args = texts_of(json_get(body, "args"));
    struct texts env = texts_of(json_get(body, "env"));
    op->args = args.list;
    op->env = env.list;
    fleet_execute(c->fleet, fleet_owner(c->fleet, id), id, op, execution);
    control_deed_on(x, NULL, execution);
    control_deed_runs(x, json_get_str(body, "code"), args.list);
    finish_texts(&args);
    finish_texts(&env);
    cJSON *answer = cJSON_CreateObject();
    result_put_text(answer, "sandbox_id", id);
    result_put_text(answer, "execution_id", execution);
    control_answer(x, 201, answer);
}

void control_exec(struct control *c, struct web_exchange *x, const char *name)
{
    static const struct control_member members[] = {
        {"code", CONTROL_TEXT},  {"language", CONTROL_TEXT},
        {"args", CONTROL_TEXTS}, {"stdin", CONTROL_TEXT},
        {"tty", CONTROL_BOOL},   {"stdin_open", CONTROL_BOOL},
        {"env", CONTROL_TEXTS},  {"timeout_seconds", CONTROL_UINT},
        {NULL, CONTROL_TEXT},
    };
    struct err err = ERR_INIT;
    struct fleet_op op;
    char id[FLEET_ID_SIZE];
    cJSON *body = NULL;
    if (!control_find_sandbox(c, x, name, id) || !control_body(x, members, &body)) {
        return;
    }
    if (read_op(c, body, &op, &err) < 0) {
        control_fail(x, err.code, err.text, NULL);
    } else {
        start_op(c, x, id, &op, body);
    }
    cJSON_Delete(body);
}

/* ---- its stdin ------------------------------------------------------------------------------ */

static void on_written(void *arg, int rc, const struct fleet_input_state *state,
                       const struct err *err, const char *hint)
{
    struct web_exchange *x = arg;
    if (rc < 0) {
        control_fail(x, rc, err->text, hint);
        return;
    }
    cJSON *answer = cJSON_CreateObject();
    result_put_uint(answer, "stdin_bytes", state->next);
    result_put_uint(answer, "stdin_unread", state->unread);
    control_answer(x, 200, answer);
}

/* The bytes of `text` or `base64`, which are put into `room`. */
static int read_stdin_bytes(const cJSON *body, struct buf *room, struct view *ret, struct err *err)
{
    const char *text = json_get_str(body, "text"), *base64 = json_get_str(body, "base64");
    *ret = view_of(text);
    if (base64 != NULL) {
        if (base64_decode(room, view_of(base64), err) < 0) {
            return err_wrap(err, "base64");
        }
        *ret = view_bytes(room->data, room->len);
    }
    if (ret->len > LIMIT_INPUT) {
        return err_set(err, ERR_TOO_BIG, "at most %u bytes at a time", LIMIT_INPUT);
    }
    return 0;
}

void control_write_stdin(struct control *c, struct web_exchange *x, const char *name)
{
    static const struct control_member members[] = {
        {"text", CONTROL_TEXT}, {"base64", CONTROL_TEXT}, {"eof", CONTROL_BOOL},
        {"rows", CONTROL_UINT}, {"cols", CONTROL_UINT},   {NULL, CONTROL_TEXT},
    };
    struct err err = ERR_INIT;
    CLEANUP_BUF struct buf room;
    cJSON *body = NULL;
    const char *owner = fleet_execution_owner(c->fleet, name);
    buf_init(&room, LIMIT_LINE_BYTES);
    control_deed_on(x, NULL, owner != NULL ? name : NULL);
    if (owner == NULL) {
        control_fail(x, ERR_EXECUTION_NOT_FOUND, "no such execution", NULL);
        return;
    }
    if (!control_body(x, members, &body)) {
        return;
    }
    struct fleet_input in = {.eof = is_true(body, "eof"),
                             .rows = control_uint(body, "rows"),
                             .cols = control_uint(body, "cols")};
    if (in.rows > TERMINAL_MAX || in.cols > TERMINAL_MAX) {
        control_fail(x, ERR_INVALID, "rows and cols: at most 1000", NULL);
    } else if (read_stdin_bytes(body, &room, &in.data, &err) < 0) {
        control_fail(x, err.code, err.text, NULL);
    } else {
        fleet_input(c->fleet, owner, name, &in, on_written, x);
    }
    cJSON_Delete(body);
}
