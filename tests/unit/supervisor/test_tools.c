/* Tools: their requests to the fleet, and their answers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/io/json.h"
#include "proto/codec.h"
#include "supervisor/front/tools.h"
#include "supervisor/tools/schema.h"
#include "tests/unit/supervisor/client.h"

#define MIB (1u << 20)

/* ---- the table ------------------------------------------------------------------------------ */

static void every_schema_is_enforced_as_published(void **state)
{
    struct client *c = *state;
    struct tools *tools = tools_create(&c->config, c->languages);
    cJSON *list = tools_list(tools, RESULT_FORM_STRUCTURED);
    const cJSON *tool;
    cJSON_ArrayForEach(tool, list)
    {
        const char *keyword = "";
        if (!schema_is_understood(at(tool, "inputSchema"), &keyword)) {
            fail_msg("%s uses %s", text_at(tool, "name"), keyword);
        }
        assert_true(cJSON_IsFalse(at(tool, "inputSchema.additionalProperties")));
        const cJSON *property;
        cJSON_ArrayForEach(property, at(tool, "inputSchema.properties"))
        {
            assert_true(strlen(text_at(property, "description")) > 10);
        }
        CLEANUP_FREE char *text = cJSON_PrintUnformatted(tool);
        for (const char *p = strchr(text, '@'); p != NULL; p = strchr(p + 1, '@')) {
            size_t n = strspn(p + 1, "abcdefghijklmnopqrstuvwxyz_"); /* "name@1.2" is fine */
            assert_false(n > 0 && p[n + 1] == '@');
        }
    }
    cJSON_Delete(list);
    tools_destroy(tools);
}

static void schemas_show_the_configured_limits(void **state)
{
    struct client *c = *state;
    c->config.max_timeout_s = 77;
    c->config.memory_mb = 333;
    struct tools *tools = tools_create(&c->config, c->languages);
    cJSON *list = tools_list(tools, RESULT_FORM_STRUCTURED);
    assert_int_equal(number_at(list, "0.inputSchema.properties.timeout_seconds.maximum"), 77);
    assert_non_null(strstr(text_at(list, "1.inputSchema.properties.memory_mb.description"), "333"));
    cJSON_Delete(list);
    tools_destroy(tools);
}

static void schemas_show_large_numbers_as_they_are(void **state)
{
    struct client *c = *state;
    struct tools *tools = tools_create(&c->config, c->languages);
    cJSON *list = tools_list(tools, RESULT_FORM_STRUCTURED);
    char *text = cJSON_PrintUnformatted(list);
    assert_non_null(strstr(text, "\"maximum\":9007199254740991"));
    for (const char *p = text; (p = strstr(p, "e+")) != NULL; p += 2) {
        assert_false(p > text && p[-1] >= '0' && p[-1] <= '9');
    }
    free(text);
    cJSON_Delete(list);
    tools_destroy(tools);
}

/* ---- execute_code --------------------------------------------------------------------------- */

static void code_runs_with_what_the_call_says(void **state)
{
    struct client *c = *state;
    client_tool(c, "execute_code",
                "{'code':'echo $1','language':'bash','timeout_seconds':1.5,'stdin':'in',"
                "'env':{'A':'1','B_2':''},'args':['x','y z']}");
    const struct fleet_call *run = &c->fleet->last;
    assert_int_equal(run->op.kind, OP_EVAL);
    assert_string_equal(run->data, "echo $1");
    assert_string_equal(run->language, "bash");
    assert_int_equal(run->op.timeout_ms, 1500);
    assert_true(run->op.has_stdin);
    assert_string_equal(run->input, "in");
    assert_string_equal(run->env, "A=1|B_2=");
    assert_string_equal(run->args, "x|y z");

    client_tool(c, "execute_code", "{'code':'1'}");
    assert_string_equal(run->language, "python");
    assert_int_equal(run->op.timeout_ms, 0); /* the sandbox's */
    assert_false(run->op.has_stdin);
    assert_string_equal(run->env, "");
}

static void a_result_has_all_its_fields(void **state)
{
    struct client *c = *state;
    fake_set_output(c->fleet, "out\n", 4);
    c->fleet->outcome.err = view_of("err\n");
    c->fleet->outcome.err_bytes = 4;
    c->fleet->end.has_result = true;
    c->fleet->end.result = view_of("42");
    const cJSON *result = client_tool(c, "execute_code", "{'code':'1'}");
    assert_text(result, "out\n[stderr]\nerr\n42");
    const cJSON *s = at(result, "structuredContent");
    assert_string_equal(text_at(s, "execution_id"), "ex-1");
    assert_string_equal(text_at(s, "sandbox_id"), "sb1");
    assert_string_equal(text_at(s, "language"), "python");
    assert_string_equal(text_at(s, "status"), "ok");
    assert_int_equal(number_at(s, "exit_code"), 0);
    assert_string_equal(text_at(s, "stdout"), "out\n");
    assert_string_equal(text_at(s, "stderr"), "err\n");
    assert_int_equal(number_at(s, "stdout_bytes"), 4);
    assert_int_equal(number_at(s, "stderr_bytes"), 4);
    assert_null(at(s, "truncated"));
    assert_string_equal(text_at(s, "result"), "42");
    assert_null(at(s, "error"));
    assert_string_equal(text_at(s, "interpreter"), "kept");
    assert_true(number_at(s, "duration_ms") == 1.5);
    assert_true(number_at(s, "cpu_ms") == 1.25);
    assert_int_equal(number_at(s, "max_rss_kb"), 9000);
    assert_null(at(result, "isError"));
}

static void silence_is_said(void **state)
{
    const cJSON *result = client_tool(*state, "execute_code", "{'code':'1'}");
    static const char *const absent[] = {"stdout",       "stderr", "stdout_bytes",
                                         "stderr_bytes", "files",  "files_truncated",
                                         "truncated",    "error",  "displays"};
    assert_text(result, "[no output]");
    for (size_t i = 0; i < sizeof(absent) / sizeof(absent[0]); i++) {
        assert_null(at(at(result, "structuredContent"), absent[i]));
    }
}

static void an_uncaught_error_shows_its_traceback(void **state)
{
    struct client *c = *state;
    fake_set_output(c->fleet, "before", 6);
    c->fleet->end.status = OP_STATUS_ERROR;
    c->fleet->end.exit_code = 1;
    c->fleet->end.error_name = view_of("ValueError");
    c->fleet->end.error_message = view_of("bad");
    c->fleet->end.traceback = view_of("Traceback:\n  x\nValueError: bad\n");
    const cJSON *result = client_tool(c, "execute_code", "{'code':'1'}");
    assert_true(cJSON_IsTrue(at(result, "isError")));
    assert_text(result, "before\nTraceback:\n  x\nValueError: bad");
    assert_string_equal(text_at(result, "structuredContent.status"), "error");
    assert_string_equal(text_at(result, "structuredContent.error.name"), "ValueError");
    assert_string_equal(text_at(result, "structuredContent.error.message"), "bad");
    assert_null(at(result, "structuredContent.error.code"));
}

static void every_way_to_end_is_told_in_words(void **state)
{
    static const struct {
        enum op_status status;
        enum op_interpreter interpreter;
        int exit_code;
        const char *name;
        const char *words;
    } cases[] = {
        {OP_STATUS_TIMEOUT, OP_INTERPRETER_KEPT, 130, "timeout", "variables are still there"},
        {OP_STATUS_TIMEOUT, OP_INTERPRETER_RESTARTED, 137, "timeout", "earlier calls are gone"},
        {OP_STATUS_MEMORY, OP_INTERPRETER_RESTARTED, 137, "memory_exceeded", "memory limit"},
        {OP_STATUS_CANCELLED, OP_INTERPRETER_KEPT, 130, "cancelled", "cancelled"},
        {OP_STATUS_CRASHED, OP_INTERPRETER_RESTARTED, 139, "crashed", "exit code 139"},
        {OP_STATUS_ERROR, OP_INTERPRETER_KEPT, 3, "error", "[exit code 3]"},
        {OP_STATUS_OK, OP_INTERPRETER_RESTARTED, 0, "ok", "interpreter was restarted"},
    };
    struct client *c = *state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        fake_set_output(c->fleet, "", 0);
        c->fleet->end.status = cases[i].status;
        c->fleet->end.interpreter = cases[i].interpreter;
        c->fleet->end.exit_code = cases[i].exit_code;
        const cJSON *result = client_tool(c, "execute_code", "{'code':'1'}");
        assert_string_equal(text_at(result, "structuredContent.status"), cases[i].name);
        assert_int_equal(cJSON_IsTrue(at(result, "isError")), cases[i].status != OP_STATUS_OK);
        if (strstr(text_at(result, "content.0.text"), cases[i].words) == NULL) {
            fail_msg("\"%s\" is not in \"%s\"", cases[i].words, text_at(result, "content.0.text"));
        }
    }
}

static void an_execution_that_never_ran_is_a_failure(void **state)
{
    struct client *c = *state;
    c->fleet->end.status = OP_STATUS_FAILED;
    c->fleet->end.fail_code = ERR_LANGUAGE;
    c->fleet->end.error_message = view_of("no bash in this image");
    assert_failure(client_tool(c, "execute_code", "{'code':'1'}"), "language_unavailable",
                   "no bash in this image");
    fake_set_output(c->fleet, "", 0);
    c->fleet->fail_code = ERR_ENGINE;
    c->fleet->fail_text = "no runtime";
    c->fleet->fail_hint = "install runc";
    const cJSON *result = client_tool(c, "execute_code", "{'code':'1'}");
    assert_failure(result, "engine_unavailable", "no runtime");
    assert_string_equal(text_at(result, "structuredContent.error.hint"), "install runc");
    assert_non_null(strstr(text_at(result, "content.0.text"), "Hint: install runc"));
}

static void output_of_any_bytes_becomes_text(void **state)
{
    struct client *c = *state;
    static const char bytes[] = "a\0b\xff\xc3\xa9\x01";
    fake_set_output(c->fleet, bytes, sizeof(bytes) - 1);
    const cJSON *result = client_tool(c, "execute_code", "{'code':'1'}");
    assert_string_equal(text_at(result, "structuredContent.stdout"), "a\xef\xbf\xbd"
                                                                     "b\xef\xbf\xbd\xc3\xa9\x01");
}

static void the_worst_result_stays_below_a_mebibyte(void **state)
{
    struct client *c = *state;
    static const char *const kinds[] = {"\x01", "\xff", "\"", "x", "\n", "\xe2\x82\xac"};
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        size_t n = strlen(kinds[k]);
        CLEANUP_FREE char *bytes = alloc_array(MIB, 1);
        for (size_t i = 0; i + n <= MIB; i += n) {
            memcpy(bytes + i, kinds[k], n);
        }
        fake_set_output(c->fleet, bytes, 200u << 10);
        c->fleet->outcome.out_tail = view_bytes(bytes, 256u << 10);
        c->fleet->outcome.out_bytes = 5000000000;
        c->fleet->outcome.err = view_bytes(bytes, 200u << 10);
        c->fleet->outcome.err_bytes = 200u << 10;
        c->fleet->end.status = OP_STATUS_ERROR;
        c->fleet->end.has_result = true;
        c->fleet->end.result = view_bytes(bytes, LIMIT_RESULT);
        c->fleet->end.error_name = view_bytes(bytes, LIMIT_TEXT);
        c->fleet->end.error_message = view_bytes(bytes, LIMIT_RESULT);
        c->fleet->end.traceback = view_bytes(bytes, LIMIT_RESULT);
        const cJSON *result = client_tool(c, "execute_code", "{'code':'1'}");
        assert_true(strlen(c->texts[c->count - 1]) < MIB);
        assert_true(cJSON_IsTrue(at(result, "structuredContent.truncated")));
        assert_int_equal(number_at(result, "structuredContent.stdout_bytes"), 5000000000);
        assert_non_null(strstr(text_at(result, "content.0.text"), " bytes left out, "));
    }
}

static void arguments_that_no_schema_can_express_are_checked(void **state)
{
    struct client *c = *state;
    const cJSON *result = client_tool(c, "execute_code", "{'code':'1','env':{'A B':'1'}}");
    assert_failure(result, "invalid_argument", "env");
    assert_non_null(
        strstr(text_at(result, "structuredContent.error.hint"), "correct the arguments"));
    assert_failure(client_tool(c, "execute_code", "{'code':'1','sandbox_id':'../x'}"),
                   "invalid_argument", "sandbox_id");
    assert_failure(client_tool(c, "create_run_close", "{'code':'1','env':{'':'1'}}"),
                   "invalid_argument", "env");
    assert_failure(client_tool(c, "create_sandbox", "{'name':'..'}"), "invalid_argument", "name");
    assert_failure(client_tool(c, "create_sandbox", "{'name':'a\\nb'}"), "invalid_argument",
                   "name");
    assert_int_equal(c->fleet->opens, 0);
}

/* ---- the default sandbox -------------------------------------------------------------------- */

static void calls_without_a_sandbox_share_one(void **state)
{
    struct client *c = *state;
    client_call(c, false, "execute_code", "{'code':'1'}");
    client_call(c, false, "write_file", "{'path':'a','content':'x'}");
    client_call(c, true, "execute_code", "{'code':'2'}");
    assert_int_equal(c->fleet->opens, 1);
    assert_int_equal(c->fleet->runs, 0);
    fake_answer(c->fleet, 0);
    assert_int_equal(c->fleet->runs, 3);
    fake_settle(c->fleet);
    client_tool(c, "execute_code", "{'code':'3'}");
    assert_int_equal(c->fleet->opens, 1);
    assert_string_equal(c->fleet->last.id, "sb1");
    client_tool(c, "execute_code", "{'code':'3','sandbox_id':'sb1'}");
    assert_int_equal(c->fleet->opens, 1);
}

static void a_default_sandbox_that_cannot_be_created_fails_all_who_waited(void **state)
{
    struct client *c = *state;
    size_t before = c->count;
    client_call(c, false, "execute_code", "{'code':'1'}");
    client_call(c, false, "execute_code", "{'code':'2'}");
    c->fleet->fail_code = ERR_SANDBOX_LIMIT;
    c->fleet->fail_text = "32 sandboxes are open";
    c->fleet->fail_hint = "close one";
    fake_settle(c->fleet);
    assert_int_equal(c->count, before + 2);
    assert_failure(at(c->answers[before], "result"), "sandbox_limit", "32 sandboxes");
    assert_failure(at(c->answers[before + 1], "result"), "sandbox_limit", "32 sandboxes");
    fake_set_output(c->fleet, "", 0);
    assert_null(at(client_tool(c, "execute_code", "{'code':'3'}"), "isError")); /* a new attempt */
}

static void a_lost_default_sandbox_is_replaced_and_the_client_told_once(void **state)
{
    struct client *c = *state;
    client_tool(c, "execute_code", "{'code':'1'}");
    fake_lose(c->fleet, "sb1");
    const cJSON *result = client_tool(c, "execute_code", "{'code':'2'}");
    assert_string_equal(text_at(result, "structuredContent.sandbox_id"), "sb2");
    assert_non_null(strstr(text_at(result, "content.0.text"), "this is a new one"));
    result = client_tool(c, "execute_code", "{'code':'3'}");
    assert_string_equal(text_at(result, "structuredContent.sandbox_id"), "sb2");
    assert_null(strstr(text_at(result, "content.0.text"), "this is a new one"));
}

static void a_default_sandbox_that_died_under_a_call_is_not_used_again(void **state)
{
    struct client *c = *state;
    client_tool(c, "execute_code", "{'code':'1'}");
    c->fleet->fail_code = ERR_GONE;
    c->fleet->fail_text = "the sandbox has ended";
    c->fleet->fail_hint = "";
    assert_failure(client_tool(c, "execute_code", "{'code':'2'}"), "sandbox_not_found", "ended");
    fake_set_output(c->fleet, "", 0);
    assert_string_equal(
        text_at(client_tool(c, "execute_code", "{'code':'3'}"), "structuredContent.sandbox_id"),
        "sb2");
}

static void a_call_cancelled_while_the_default_sandbox_opens_leaves_the_others_alone(void **state)
{
    struct client *c = *state;
    size_t before = c->count;
    for (int i = 1; i <= 3; i++) {
        client_send(c,
                    "{'jsonrpc':'2.0','id':%d,'method':'tools/call','params':{'name':"
                    "'execute_code','arguments':{'code':'%d'}}}",
                    i, i);
    }
    client_send(c, "{'jsonrpc':'2.0','method':'notifications/cancelled','params':{'requestId':2}}");
    fake_settle(c->fleet);
    assert_int_equal(c->fleet->runs, 2);
    assert_int_equal(c->count, before + 2);
}

static void an_unknown_sandbox_is_not_found(void **state)
{
    struct client *c = *state;
    static const char *const tools[][2] = {
        {"execute_code", "{'sandbox_id':'sb9','code':'1'}"},
        {"close_sandbox", "{'sandbox_id':'sb9'}"},
        {"get_sandbox_status", "{'sandbox_id':'sb9'}"},
        {"list_files", "{'sandbox_id':'sb9'}"},
        {"read_file", "{'sandbox_id':'sb9','path':'a'}"},
        {"write_file", "{'sandbox_id':'sb9','path':'a','content':''}"},
    };
    for (size_t i = 0; i < 6; i++) {
        const cJSON *result = client_tool(c, tools[i][0], tools[i][1]);
        assert_failure(result, "sandbox_not_found", "sb9");
        assert_true(strlen(text_at(result, "structuredContent.error.hint")) > 10);
    }
    assert_int_equal(c->fleet->opens, 0);
}

/* ---- sandboxes ------------------------------------------------------------------------------ */

static void a_sandbox_is_created_as_wanted_and_described(void **state)
{
    struct client *c = *state;
    free(c->config.image_dir);
    c->config.image_dir = strdup("/"); /* its entry "usr" exists on every machine */
    const cJSON *result =
        client_tool(c, "create_sandbox",
                    "{'name':'n1','image':'usr','memory_mb':64,'cpus':0.5,'pids':32,'disk_mb':9,"
                    "'network':'none','env':{'K':'v'},'timeout_seconds':2.5,'ttl_seconds':600}");
    const struct fleet_spec *spec = &c->fleet->spec;
    assert_string_equal(c->fleet->spec_name, "n1");
    assert_string_equal(c->fleet->spec_env, "K=v");
    assert_string_equal(c->fleet->spec_image, "//usr");
    assert_int_equal(spec->memory_mb, 64);
    assert_true(spec->cpus == 0.5);
    assert_int_equal(spec->pids, 32);
    assert_int_equal(spec->disk_mb, 9);
    assert_int_equal(spec->timeout_ms, 2500);
    assert_int_equal(spec->ttl_ms, 600000);
    const cJSON *s = at(result, "structuredContent");
    assert_string_equal(text_at(s, "sandbox_id"), "sb1");
    assert_string_equal(text_at(s, "name"), "n1");
    assert_string_equal(text_at(s, "backend"), "fake");
    assert_string_equal(text_at(s, "state"), "ready");
    assert_string_equal(text_at(s, "languages.1"), "bash");
    assert_int_equal(number_at(s, "limits.memory_mb"), 512);
    assert_true(number_at(s, "limits.cpus") == 1.5);
    assert_string_equal(text_at(s, "limits.unapplied.0"), "disk: no quota on this file system");
    assert_string_equal(text_at(s, "network"), "none");
    assert_string_equal(text_at(s, "workspace"), "/workspace");
    assert_string_equal(text_at(s, "created_at"), "2023-11-14T22:13:20.000Z");
    assert_string_equal(text_at(s, "expires_at"), "2023-11-14T22:43:20.000Z");
    assert_string_equal(text_at(s, "ends_at"), "2023-11-15T22:13:20.000Z");
    assert_int_equal(number_at(s, "limits.lifetime_seconds"), 86400);
    assert_non_null(strstr(text_at(result, "content.0.text"), "sb1 (n1)"));
    assert_non_null(strstr(text_at(result, "content.0.text"), "no quota"));

    client_tool(c, "create_sandbox", "{}");
    assert_int_equal(spec->memory_mb, 0); /* 0: the configured default */
    assert_true(spec->cpus == 0);
}

static void status_tells_of_one_or_of_all(void **state)
{
    struct client *c = *state;
    const cJSON *all = client_tool(c, "get_sandbox_status", "{}");
    assert_int_equal(number_at(all, "structuredContent.count"), 0);
    assert_int_equal(c->fleet->opens, 0);
    client_tool(c, "create_sandbox", "{'name':'x'}");
    client_tool(c, "create_sandbox", "{}");
    all = client_tool(c, "get_sandbox_status", "{}");
    assert_int_equal(number_at(all, "structuredContent.count"), 2);
    assert_string_equal(text_at(all, "structuredContent.sandboxes.0.name"), "x");
    assert_string_equal(text_at(all, "structuredContent.backend"), "fake");
    assert_int_equal(number_at(all, "structuredContent.pool.size"), 2);
    assert_int_equal(number_at(all, "structuredContent.pool.ready"), 1);
    assert_int_equal(number_at(all, "structuredContent.pool.hits"), 3);
    assert_int_equal(number_at(all, "structuredContent.pool.misses"), 4);
    fleet_set_shared(c->fleet, true); /* what others do is no concern of anybody */
    all = client_tool(c, "get_sandbox_status", "{}");
    assert_int_equal(number_at(all, "structuredContent.pool.ready"), 1);
    assert_null(at(all, "structuredContent.pool.hits"));
    const cJSON *one = client_tool(c, "get_sandbox_status", "{'sandbox_id':'x'}");
    assert_string_equal(text_at(one, "structuredContent.sandbox_id"), "sb1");
    assert_int_equal(number_at(one, "structuredContent.executions"), 3);
    assert_int_equal(number_at(one, "structuredContent.worker.pid"), 4711);
    assert_int_equal(number_at(one, "structuredContent.usage.memory_bytes"), 5 << 20);
}

static void a_sandbox_is_closed_by_id_or_name(void **state)
{
    struct client *c = *state;
    client_tool(c, "create_sandbox", "{'name':'x'}");
    const cJSON *result = client_tool(c, "close_sandbox", "{'sandbox_id':'x'}");
    assert_string_equal(text_at(result, "structuredContent.sandbox_id"), "sb1");
    assert_string_equal(text_at(result, "structuredContent.state"), "closed");
    assert_failure(client_tool(c, "close_sandbox", "{'sandbox_id':'x'}"), "sandbox_not_found", "x");
}

static void create_run_close_leaves_nothing(void **state)
{
    struct client *c = *state;
    fake_set_output(c->fleet, "hi", 2);
    const cJSON *result =
        client_tool(c, "create_run_close", "{'code':'1','memory_mb':32,'language':'bash'}");
    assert_text(result, "hi");
    assert_true(cJSON_IsTrue(at(result, "structuredContent.sandbox_closed")));
    assert_string_equal(text_at(result, "structuredContent.status"), "ok");
    assert_int_equal(c->fleet->spec.memory_mb, 32);
    assert_int_equal(c->fleet->closes, 1);
    /* and is not the default sandbox */
    client_tool(c, "execute_code", "{'code':'1'}");
    assert_int_equal(c->fleet->opens, 2);
}

static void create_run_close_closes_after_a_failure_too(void **state)
{
    struct client *c = *state;
    client_call(c, false, "create_run_close", "{'code':'1'}");
    fake_answer(c->fleet, 0);
    c->fleet->fail_code = ERR_INTERNAL;
    c->fleet->fail_text = "broken";
    c->fleet->fail_hint = "";
    fake_settle(c->fleet);
    assert_failure(at(client_last(c), "result"), "internal", "broken");
    assert_int_equal(c->fleet->closes, 1);
}

/* ---- files ---------------------------------------------------------------------------------- */

static void add_entry(struct buf *b, const char *path, size_t len, enum file_type type)
{
    struct msg m = {.type = MSG_ENTRY};
    m.entry = (struct msg_entry){
        .path = view_bytes(path, len), .type = type, .size = 5, .mode = 0644, .mtime_ms = 1000};
    assert_int_equal(msg_encode_frame(b, &m, NULL), 0);
}

static void a_directory_is_listed(void **state)
{
    struct client *c = *state;
    CLEANUP_BUF struct buf frames;
    buf_init(&frames, MIB);
    add_entry(&frames, "sub/a.txt", 9, FILE_TYPE_FILE);
    add_entry(&frames, "od\xff", 3, FILE_TYPE_DIRECTORY);
    fake_set_output(c->fleet, frames.data, frames.len);
    const cJSON *result = client_tool(c, "list_files", "{'path':'/tmp','recursive':true}");
    assert_int_equal(c->fleet->last.op.kind, OP_FILE_LIST);
    assert_string_equal(c->fleet->last.path, "/tmp");
    assert_int_equal(c->fleet->last.op.flags, OP_FLAG_RECURSIVE);
    assert_int_equal(c->fleet->last.op.length, LIMIT_ENTRIES);
    const cJSON *s = at(result, "structuredContent");
    assert_string_equal(text_at(s, "path"), "/tmp");
    assert_string_equal(text_at(s, "entries.0.name"), "a.txt");
    assert_string_equal(text_at(s, "entries.0.path"), "/tmp/sub/a.txt");
    assert_string_equal(text_at(s, "entries.0.type"), "file");
    assert_int_equal(number_at(s, "entries.0.size"), 5);
    assert_string_equal(text_at(s, "entries.0.mode"), "0644");
    assert_string_equal(text_at(s, "entries.0.modified_at"), "1970-01-01T00:00:01.000Z");
    assert_string_equal(text_at(s, "entries.1.path"), "/tmp/od\xef\xbf\xbd");
    assert_true(cJSON_IsFalse(at(s, "truncated")));

    result = client_tool(c, "list_files", "{}");
    assert_string_equal(c->fleet->last.path, ".");
    assert_string_equal(text_at(result, "structuredContent.entries.0.path"), "sub/a.txt");
}

static void looking_makes_no_sandbox(void **state)
{
    static const char *const calls[][2] = {
        {"list_files", "{}"},
        {"read_file", "{'path':'a'}"},
        {"check_package_status", "{'package_name':'six'}"},
    };
    struct client *c = *state;
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        const cJSON *result = client_tool(c, calls[i][0], calls[i][1]);
        assert_failure(result, "sandbox_not_found", "no sandbox yet");
        assert_non_null(strstr(text_at(result, "structuredContent.error.hint"), "execute_code"));
    }
    assert_int_equal(c->fleet->opens, 0);
    client_tool(c, "execute_code", "{'code':'1'}");
    fake_lose(c->fleet, "sb1");
    assert_failure(client_tool(c, "list_files", "{}"), "sandbox_not_found", "has ended");
    const cJSON *result = client_tool(c, "execute_code", "{'code':'1'}");
    assert_non_null(strstr(text_at(result, "content.0.text"), "files and variables are gone"));
}

static void an_empty_directory_is_said(void **state)
{
    assert_text(client_tool(*state, "list_files", "{}"), "[no files]");
}

static void a_huge_directory_is_cut_below_a_mebibyte(void **state)
{
    struct client *c = *state;
    CLEANUP_BUF struct buf frames;
    buf_init(&frames, 16 * MIB);
    char name[200];
    memset(name, '\\', sizeof(name));
    for (int i = 0; i < 10000; i++) {
        add_entry(&frames, name, i % 2 == 0 ? 20 : sizeof(name), FILE_TYPE_FILE);
    }
    fake_set_output(c->fleet, frames.data, frames.len);
    const cJSON *result = client_tool(c, "list_files", "{}");
    assert_true(cJSON_IsTrue(at(result, "structuredContent.truncated")));
    assert_true(cJSON_GetArraySize(at(result, "structuredContent.entries")) > 300);
    assert_true(strlen(c->texts[c->count - 1]) < MIB);
}

static void garbage_instead_of_entries_is_an_error(void **state)
{
    struct client *c = *state;
    fake_set_output(c->fleet, "\0\0\0\3abc", 7);
    assert_true(cJSON_IsTrue(at(client_tool(c, "list_files", "{}"), "isError")));
    CLEANUP_BUF struct buf frames;
    buf_init(&frames, MIB);
    struct msg m = {.type = MSG_RUNNING};
    m.running.op = view_of("x");
    assert_int_equal(msg_encode_frame(&frames, &m, NULL), 0);
    fake_set_output(c->fleet, frames.data, frames.len);
    assert_true(cJSON_IsTrue(at(client_tool(c, "list_files", "{}"), "isError")));
}

static void an_empty_file_is_said_to_be_empty(void **state)
{
    struct client *c = *state;
    fake_set_output(c->fleet, "", 0);
    c->fleet->end.file_size = 0;
    const cJSON *result = client_tool(c, "read_file", "{'path':'a.txt'}");
    assert_text(result, "[the file is empty]"); /* APIs of models refuse an empty text */
    assert_string_equal(text_at(result, "structuredContent.content"), "");
}

static void text_is_read_as_text(void **state)
{
    struct client *c = *state;
    fake_set_output(c->fleet, "h\xc3\xa9llo\n", 7);
    c->fleet->end.file_size = 7;
    const cJSON *result = client_tool(c, "read_file", "{'path':'a.txt'}");
    assert_int_equal(c->fleet->last.op.kind, OP_FILE_READ);
    assert_string_equal(c->fleet->last.path, "a.txt");
    assert_text(result, "h\xc3\xa9llo\n");
    const cJSON *s = at(result, "structuredContent");
    assert_string_equal(text_at(s, "content"), "h\xc3\xa9llo\n");
    assert_string_equal(text_at(s, "encoding"), "utf-8");
    assert_int_equal(number_at(s, "size"), 7);
    assert_int_equal(number_at(s, "length"), 7);
    assert_true(cJSON_IsFalse(at(s, "truncated")));
    assert_int_equal(cJSON_GetArraySize(at(result, "content")), 2);
    assert_string_equal(text_at(result, "content.1.type"), "resource_link");
    assert_string_equal(text_at(result, "content.1.uri"), "sandbox://sb1/workspace/a.txt");
    assert_string_equal(text_at(result, "content.1.name"), "a.txt");
    assert_string_equal(text_at(result, "content.1.mimeType"), "text/plain");
    assert_int_equal(number_at(result, "content.1.size"), 7);
    client_tool(c, "read_file", "{'path':'d/../a.txt'}"); /* its text does not tell where this is */
    assert_int_equal(cJSON_GetArraySize(at(client_last(c), "result.content")), 1);
}

static void bytes_are_read_as_base64(void **state)
{
    struct client *c = *state;
    fake_set_output(c->fleet, "\xff\0x", 3);
    const cJSON *result = client_tool(c, "read_file", "{'path':'a'}");
    assert_string_equal(text_at(result, "structuredContent.encoding"), "base64");
    assert_string_equal(text_at(result, "structuredContent.content"), "/wB4");
    result = client_tool(c, "read_file", "{'path':'a','encoding':'utf-8'}");
    assert_string_equal(text_at(result, "structuredContent.content"), "\xef\xbf\xbd\xef\xbf\xbdx");
    fake_set_output(c->fleet, "abc", 3);
    result = client_tool(c, "read_file", "{'path':'a','encoding':'base64'}");
    assert_string_equal(text_at(result, "structuredContent.content"), "YWJj");
}

static void pictures_are_shown(void **state)
{
    static const struct {
        const char *bytes;
        size_t len;
        const char *type;
    } cases[] = {
        {"\x89PNG\r\n\x1a\n\0", 9, "image/png"},
        {"\xff\xd8\xff\xe0", 4, "image/jpeg"},
        {"GIF89a\x80", 7, "image/gif"},
        {"RIFF\x80\0\0\0WEBPVP8 ", 16, "image/webp"},
    };
    struct client *c = *state;
    for (size_t i = 0; i < 4; i++) {
        fake_set_output(c->fleet, cases[i].bytes, cases[i].len);
        const cJSON *result = client_tool(c, "read_file", "{'path':'p'}");
        assert_string_equal(text_at(result, "content.0.type"), "image");
        assert_string_equal(text_at(result, "content.0.mimeType"), cases[i].type);
        assert_string_equal(text_at(result, "content.0.data"),
                            text_at(result, "structuredContent.content"));
        assert_string_equal(text_at(result, "structuredContent.mime_type"), cases[i].type);
    }
    c->fleet->end.truncated = true; /* half a picture is not shown */
    assert_string_equal(text_at(client_tool(c, "read_file", "{'path':'p'}"), "content.0.type"),
                        "text");
}

static void a_long_file_is_read_in_parts_between_characters(void **state)
{
    struct client *c = *state;
    fake_set_output(c->fleet, "ab\xe2\x82", 4);
    c->fleet->end.truncated = true;
    c->fleet->end.file_size = 100;
    const cJSON *result = client_tool(c, "read_file", "{'path':'a','offset':10,'length':4}");
    assert_int_equal(c->fleet->last.op.offset, 10);
    assert_int_equal(c->fleet->last.op.length, 4);
    assert_text(result, "ab");
    assert_int_equal(number_at(result, "structuredContent.length"), 2);
    assert_true(cJSON_IsTrue(at(result, "structuredContent.truncated")));
    assert_non_null(strstr(text_at(result, "content.1.text"), "go on with offset 12"));
}

static void the_worst_file_stays_below_a_mebibyte(void **state)
{
    struct client *c = *state;
    static const char kinds[] = {'\x01', '\xff', '"', 'x', '\n'};
    size_t len = 360u << 10;
    CLEANUP_FREE char *bytes = alloc_array(len, 1);
    for (size_t k = 0; k < sizeof(kinds); k++) {
        memset(bytes, kinds[k], len);
        fake_set_output(c->fleet, bytes, len);
        client_tool(c, "read_file", "{'path':'a','encoding':'utf-8'}");
        assert_true(strlen(c->texts[c->count - 1]) < MIB);
        client_tool(c, "read_file", "{'path':'a'}");
        assert_true(strlen(c->texts[c->count - 1]) < MIB);
    }
}

static void a_file_is_written_as_said(void **state)
{
    struct client *c = *state;
    c->fleet->end.file_size = 5;
    const cJSON *result = client_tool(
        c, "write_file", "{'path':'d/a','content':'hello','append':true,'mode':'0755'}");
    const struct fleet_call *run = &c->fleet->last;
    assert_int_equal(run->op.kind, OP_FILE_WRITE);
    assert_string_equal(run->path, "d/a");
    assert_string_equal(run->data, "hello");
    assert_int_equal(run->op.flags, OP_FLAG_APPEND);
    assert_int_equal(run->op.mode, 0755);
    assert_int_equal(number_at(result, "structuredContent.size"), 5);
    assert_string_equal(text_at(result, "content.1.uri"), "sandbox://sb1/workspace/d/a");
    assert_string_equal(text_at(result, "content.1.name"), "a");
    assert_string_equal(text_at(result, "content.1.title"), "a");
    client_tool(c, "write_file", "{'path':'a','content':'/w==','encoding':'base64','mode':'600'}");
    assert_int_equal(run->op.data.len, 1);
    assert_string_equal(run->data, "\xff");
    assert_int_equal(run->op.mode, 0600);
    assert_int_equal(run->op.flags, 0);
    client_tool(c, "write_file", "{'path':'a','content':''}");
    assert_int_equal(run->op.data.len, 0);
    assert_int_equal(run->op.mode, 0);
}

static void bad_file_arguments_fail_before_a_sandbox_is_created(void **state)
{
    struct client *c = *state;
    assert_failure(client_tool(c, "read_file", "{'path':'/../etc/passwd'}"), "path_invalid", "..");
    assert_failure(client_tool(c, "read_file", "{'path':'a\\tb'}"), "path_invalid", "control");
    assert_failure(client_tool(c, "list_files", "{'path':'../../..'}"), "path_invalid", "..");
    assert_failure(client_tool(c, "write_file", "{'path':'/..','content':''}"), "path_invalid",
                   "..");
    assert_failure(client_tool(c, "write_file", "{'path':'a','content':'x','encoding':'base64'}"),
                   "invalid_argument", "content: base64");
    assert_failure(client_tool(c, "write_file", "{'path':'a','content':'','mode':'8755'}"),
                   "invalid_argument", "mode");
    assert_failure(client_tool(c, "write_file", "{'path':'a','content':'','mode':'rwx'}"),
                   "invalid_argument", "mode");
    assert_int_equal(c->fleet->opens, 0);
}

static void file_failures_keep_their_code(void **state)
{
    static const struct {
        enum err_code code;
        const char *wire;
    } cases[] = {{ERR_FILE_NOT_FOUND, "file_not_found"},
                 {ERR_PATH, "path_invalid"},
                 {ERR_DENIED, "path_invalid"},
                 {ERR_NO_SPACE, "too_large"}};
    struct client *c = *state;
    for (size_t i = 0; i < 4; i++) {
        fake_set_output(c->fleet, "", 0);
        c->fleet->end.status = OP_STATUS_FAILED;
        c->fleet->end.fail_code = cases[i].code;
        c->fleet->end.error_message = view_of("because");
        assert_failure(client_tool(c, "read_file", "{'path':'a'}"), cases[i].wire, "because");
    }
    c->fleet->end.fail_code = 9999; /* from a worker with a fault */
    assert_failure(client_tool(c, "read_file", "{'path':'a'}"), "internal", "because");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, client_setup, client_teardown)
#define LOOK(name) cmocka_unit_test_setup_teardown(name, setup_there, client_teardown)

/* For tools that use an existing sandbox, and make none. */
static int setup_there(void **state)
{
    int rc = client_setup(state);
    client_tool(*state, "write_file", "{'path':'a','content':'x'}");
    return rc;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_schema_is_enforced_as_published),
        TEST(schemas_show_the_configured_limits),
        TEST(schemas_show_large_numbers_as_they_are),
        TEST(code_runs_with_what_the_call_says),
        TEST(a_result_has_all_its_fields),
        TEST(silence_is_said),
        TEST(an_uncaught_error_shows_its_traceback),
        TEST(every_way_to_end_is_told_in_words),
        TEST(an_execution_that_never_ran_is_a_failure),
        TEST(output_of_any_bytes_becomes_text),
        TEST(the_worst_result_stays_below_a_mebibyte),
        TEST(arguments_that_no_schema_can_express_are_checked),
        TEST(calls_without_a_sandbox_share_one),
        TEST(a_default_sandbox_that_cannot_be_created_fails_all_who_waited),
        TEST(a_lost_default_sandbox_is_replaced_and_the_client_told_once),
        TEST(a_default_sandbox_that_died_under_a_call_is_not_used_again),
        TEST(a_call_cancelled_while_the_default_sandbox_opens_leaves_the_others_alone),
        TEST(an_unknown_sandbox_is_not_found),
        TEST(a_sandbox_is_created_as_wanted_and_described),
        TEST(status_tells_of_one_or_of_all),
        TEST(a_sandbox_is_closed_by_id_or_name),
        TEST(create_run_close_leaves_nothing),
        TEST(create_run_close_closes_after_a_failure_too),
        LOOK(a_directory_is_listed),
        TEST(looking_makes_no_sandbox),
        LOOK(an_empty_directory_is_said),
        LOOK(a_huge_directory_is_cut_below_a_mebibyte),
        TEST(garbage_instead_of_entries_is_an_error),
        LOOK(an_empty_file_is_said_to_be_empty),
        LOOK(text_is_read_as_text),
        LOOK(bytes_are_read_as_base64),
        LOOK(pictures_are_shown),
        LOOK(a_long_file_is_read_in_parts_between_characters),
        LOOK(the_worst_file_stays_below_a_mebibyte),
        TEST(a_file_is_written_as_said),
        TEST(bad_file_arguments_fail_before_a_sandbox_is_created),
        LOOK(file_failures_keep_their_code),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
