/* Resources: listing, reading and completing files and output. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/alloc.h"
#include "common/base64.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/io/json.h"
#include "proto/codec.h"
#include "supervisor/resources/resources.h"
#include "tests/unit/supervisor/client.h"

#define MIB (1u << 20)

/* ---- steps ---------------------------------------------------------------------------------- */

static void add_entry(struct buf *frames, const char *path, enum file_type type, uint64_t size)
{
    struct msg m = {.type = MSG_ENTRY};
    m.entry.path = view_of(path);
    m.entry.type = type;
    m.entry.size = size;
    m.entry.mode = 0644;
    m.entry.mtime_ms = 1700000000000;
    assert_int_equal(msg_encode_frame(frames, &m, NULL), 0);
}

/* The files that the next operation lists: names one after another, those of directories with a
 * slash. */
static void set_files(struct client *c, struct buf *frames, const char *names)
{
    frames->len = 0;
    while (*names != '\0') {
        size_t n = strcspn(names, " ");
        bool directory = names[n - 1] == '/';
        CLEANUP_FREE char *name = alloc_viewdup(view_bytes(names, n - (directory ? 1 : 0)));
        add_entry(frames, name, directory ? FILE_TYPE_DIRECTORY : FILE_TYPE_FILE, 5);
        names += n + (names[n] == ' ' ? 1 : 0);
    }
    fake_set_output(c->fleet, frames->data, frames->len);
}

static void fail_next(struct client *c, enum err_code code)
{
    fake_set_output(c->fleet, "", 0);
    c->fleet->end.status = OP_STATUS_FAILED;
    c->fleet->end.fail_code = code;
}

static void request(struct client *c, const char *method, const char *params)
{
    client_send(c, "{'jsonrpc':'2.0','id':'r-%zu','method':'%s','params':%s}", c->calls++, method,
                params);
}

static const cJSON *answered(struct client *c, const char *method, const char *params)
{
    size_t before = c->count;
    request(c, method, params);
    fake_settle(c->fleet);
    assert_int_equal(c->count, before + 1);
    return client_last(c);
}

static const cJSON *read_uri(struct client *c, const char *uri)
{
    CLEANUP_FREE char *params = alloc_printf("{'uri':'%s'}", uri);
    return answered(c, "resources/read", params);
}

static void assert_nothing(const cJSON *answer, const char *uri)
{
    assert_int_equal((int)number_at(answer, "error.code"), -32002);
    assert_string_equal(text_at(answer, "error.data.uri"), uri);
    CLEANUP_FREE char *words = alloc_printf("Resource not found: %s", uri);
    assert_string_equal(text_at(answer, "error.message"),
                        words); /* the same error for every reason */
}

/* "a b c": the names of a page */
static char *names_of(const cJSON *answer)
{
    char *all = alloc_strdup("");
    const cJSON *item;
    cJSON_ArrayForEach(item, at(answer, "result.resources"))
    {
        char *more = alloc_printf("%s%s%s", all, all[0] != '\0' ? " " : "", text_at(item, "name"));
        free(all);
        all = more;
    }
    return all;
}

static void assert_names(const cJSON *answer, const char *expected)
{
    CLEANUP_FREE char *names = names_of(answer);
    assert_string_equal(names, expected);
}

/* ---- lists ---------------------------------------------------------------------------------- */

static void the_files_of_all_own_sandboxes_are_listed(void **state)
{
    struct client *c = *state;
    struct buf frames;
    buf_init(&frames, MIB);
    client_tool(c, "create_sandbox", "{'name':'one'}");
    client_tool(c, "create_sandbox", "{}");
    client_tool(c, "create_sandbox", "{}");
    snprintf(c->fleet->sandboxes[2].owner, sizeof(c->fleet->sandboxes[2].owner), "you");
    request(c, "resources/list", "{}");
    assert_int_equal(c->fleet->last.op.kind, OP_FILE_LIST);
    assert_true(c->fleet->last.op.is_look);
    set_files(c, &frames, "a.csv dir/ dir/b c\xc3\xa9 \xff");
    fake_answer(c->fleet, 0);
    set_files(c, &frames, "x.png");
    fake_answer(c->fleet, 0);
    assert_int_equal(c->fleet->pending_count, 0);
    const cJSON *result = at(client_last(c), "result");
    assert_names(client_last(c),
                 "a.csv dir/b c\xc3\xa9 x.png"); /* files whose names are not UTF-8 are left out */
    assert_string_equal(text_at(result, "resources.0.uri"), "sandbox://sb1/workspace/a.csv");
    assert_string_equal(text_at(result, "resources.0.title"), "a.csv in one");
    assert_string_equal(text_at(result, "resources.0.mimeType"), "text/csv");
    assert_int_equal(number_at(result, "resources.0.size"), 5);
    assert_string_equal(text_at(result, "resources.0.annotations.lastModified"),
                        "2023-11-14T22:13:20.000Z");
    assert_null(at(result, "resources.1.mimeType"));
    assert_string_equal(text_at(result, "resources.2.uri"), "sandbox://sb1/workspace/c%C3%A9");
    assert_string_equal(text_at(result, "resources.3.title"), "x.png in sb2");
    assert_null(at(result, "nextCursor"));
    buf_finish(&frames);
}

static void a_list_without_sandboxes_is_empty(void **state)
{
    struct client *c = *state;
    const cJSON *answer = answered(c, "resources/list", "{}");
    assert_true(cJSON_IsArray(at(answer, "result.resources")));
    assert_int_equal(cJSON_GetArraySize(at(answer, "result.resources")), 0);
    assert_int_equal(c->fleet->opens, 0);
}

/* 250 files in one sandbox and one in the next: three pages, each file once, even if files are
 * added and removed between the pages. */
static void pages_go_on_behind_the_last_file(void **state)
{
    struct client *c = *state;
    struct buf frames;
    buf_init(&frames, MIB);
    client_tool(c, "create_sandbox", "{}");
    client_tool(c, "create_sandbox", "{}");
    CLEANUP_FREE char *cursor = NULL;
    unsigned seen[251] = {0};
    for (unsigned page = 0; page < 3; page++) {
        CLEANUP_FREE char *params =
            cursor != NULL ? alloc_printf("{'cursor':'%s'}", cursor) : alloc_strdup("{}");
        request(c, "resources/list", params);
        frames.len = 0;
        for (unsigned i = page == 2 ? 150 : 0; i < 250; i++) { /* the earlier ones are removed */
            char name[32];
            snprintf(name, sizeof(name), "d/%03u", i);
            add_entry(&frames, name, FILE_TYPE_FILE, i);
        }
        fake_set_output(c->fleet, frames.data, frames.len);
        fake_answer(c->fleet, 0);
        if (page == 2) {
            set_files(c, &frames, "d/250");
            fake_answer(c->fleet, 0);
        }
        const cJSON *result = at(client_last(c), "result");
        assert_int_equal(cJSON_GetArraySize(at(result, "resources")), page < 2 ? 100 : 51);
        const cJSON *item;
        cJSON_ArrayForEach(item, at(result, "resources"))
        {
            seen[strtoul(text_at(item, "name") + 2, NULL, 10)]++;
        }
        free(cursor);
        cursor = page < 2 ? alloc_strdup(text_at(result, "nextCursor")) : NULL;
        if (page == 2) {
            assert_null(at(result, "nextCursor"));
        }
    }
    for (unsigned i = 0; i < 251; i++) {
        assert_int_equal(seen[i], 1);
    }
    buf_finish(&frames);
}

static void a_cursor_of_a_sandbox_that_is_gone_goes_on_with_the_next(void **state)
{
    struct client *c = *state;
    struct buf frames;
    buf_init(&frames, MIB);
    client_tool(c, "create_sandbox", "{}");
    client_tool(c, "create_sandbox", "{}");
    fake_lose(c->fleet, "sb1");
    request(c, "resources/list", "{'cursor':'sandbox://sb1/zzz'}");
    set_files(c, &frames, "a b");
    fake_answer(c->fleet, 0);
    assert_names(client_last(c), "a b");
    request(c, "resources/list", "{'cursor':'sandbox://sb2/a'}");
    fake_answer(c->fleet, 0);
    assert_names(client_last(c), "b");
    /* ordered by segments, as directories are walked: files in "a" come before "a.b" */
    set_files(c, &frames, "a/ a/z a.b");
    request(c, "resources/list", "{'cursor':'sandbox://sb2/a/z'}");
    fake_answer(c->fleet, 0);
    assert_names(client_last(c), "a.b");
    buf_finish(&frames);
}

static void a_cursor_that_is_none_is_refused(void **state)
{
    struct client *c = *state;
    static const char *const bad[] = {"", "x", "sandbox://sb1/../a", "execution://x/stdout",
                                      "file:///etc/passwd"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        CLEANUP_FREE char *params = alloc_printf("{'cursor':'%s'}", bad[i]);
        const cJSON *answer = answered(c, "resources/list", params);
        assert_int_equal((int)number_at(answer, "error.code"), -32602);
    }
}

static void a_sandbox_that_does_not_tell_is_left_out(void **state)
{
    struct client *c = *state;
    struct buf frames;
    buf_init(&frames, MIB);
    client_tool(c, "create_sandbox", "{}");
    client_tool(c, "create_sandbox", "{}");
    request(c, "resources/list", "{}");
    fail_next(c, ERR_PATH);
    fake_answer(c->fleet, 0);
    set_files(c, &frames, "a");
    fake_answer(c->fleet, 0);
    assert_names(client_last(c), "a");
    request(c, "resources/list", "{}");
    c->fleet->fail_code = ERR_BUSY;
    c->fleet->fail_text = "busy";
    c->fleet->fail_hint = "";
    fake_answer(c->fleet, 0);
    set_files(c, &frames, "b");
    fake_answer(c->fleet, 0);
    assert_names(client_last(c), "b");
    buf_finish(&frames);
}

static void the_templates_say_what_else_there_is(void **state)
{
    struct client *c = *state;
    const cJSON *result = at(answered(c, "resources/templates/list", "{}"), "result");
    assert_string_equal(text_at(result, "resourceTemplates.0.uriTemplate"),
                        "sandbox://{sandbox_id}/{+path}");
    assert_string_equal(text_at(result, "resourceTemplates.1.uriTemplate"),
                        "execution://{execution_id}/{stream}");
    assert_string_equal(text_at(result, "resourceTemplates.1.title"), "Output of an execution");
}

/* ---- reading -------------------------------------------------------------------------------- */

static void a_file_is_read_as_what_it_is(void **state)
{
    struct client *c = *state;
    client_tool(c, "create_sandbox", "{'name':'x'}");
    fake_set_output(c->fleet, "h\xc3\xa9llo", 6);
    const cJSON *content = at(read_uri(c, "sandbox://sb1/workspace/a%20b.md"), "result.contents.0");
    assert_int_equal(c->fleet->last.op.kind, OP_FILE_READ);
    assert_string_equal(c->fleet->last.path, "/workspace/a b.md");
    assert_string_equal(text_at(content, "uri"), "sandbox://sb1/workspace/a%20b.md");
    assert_string_equal(text_at(content, "mimeType"), "text/markdown");
    assert_string_equal(text_at(content, "text"), "h\xc3\xa9llo");
    assert_null(at(content, "blob"));
    content = at(read_uri(c, "sandbox://x/etc/hostname"),
                 "result.contents.0"); /* its type comes from its name */
    assert_string_equal(text_at(content, "mimeType"), "text/plain");
    fake_set_output(c->fleet, "\xff\0x", 3);
    content = at(read_uri(c, "sandbox://sb1/workspace/plot.png"), "result.contents.0");
    assert_string_equal(text_at(content, "mimeType"), "image/png");
    assert_string_equal(text_at(content, "blob"), "/wB4");
    assert_null(at(content, "text"));
    content = at(read_uri(c, "sandbox://sb1/workspace/data"), "result.contents.0");
    assert_string_equal(text_at(content, "mimeType"), "application/octet-stream");
    fake_set_output(c->fleet, "", 0);
    content = at(read_uri(c, "sandbox://sb1/workspace/empty"), "result.contents.0");
    assert_string_equal(text_at(content, "text"), "");
}

static void a_large_file_is_for_read_file(void **state)
{
    struct client *c = *state;
    CLEANUP_FREE char *bytes = alloc_array(RESOURCE_MAX_BYTES, 1);
    client_tool(c, "create_sandbox", "{}");
    memset(bytes, 'x', RESOURCE_MAX_BYTES);
    fake_set_output(c->fleet, bytes, RESOURCE_MAX_BYTES);
    c->fleet->end.file_size = RESOURCE_MAX_BYTES;
    const cJSON *answer = read_uri(c, "sandbox://sb1/workspace/big");
    assert_int_equal(strlen(text_at(answer, "result.contents.0.text")), RESOURCE_MAX_BYTES);
    c->fleet->end.file_size = RESOURCE_MAX_BYTES + 1;
    answer = read_uri(c, "sandbox://sb1/workspace/big");
    assert_int_equal((int)number_at(answer, "error.code"), RESOURCE_TOO_LARGE);
    assert_non_null(strstr(text_at(answer, "error.message"), "read_file"));
    assert_int_equal(number_at(answer, "error.data.size"), RESOURCE_MAX_BYTES + 1);
    /* text that JSON would make six times as long is sent as base64 */
    memset(bytes, '\x01', RESOURCE_MAX_BYTES);
    c->fleet->end.file_size = RESOURCE_MAX_BYTES;
    answer = read_uri(c, "sandbox://sb1/workspace/big");
    assert_non_null(at(answer, "result.contents.0.blob"));
    assert_true(strlen(c->texts[c->count - 1]) < 3u << 19);
}

static void a_directory_is_read_as_its_entries(void **state)
{
    struct client *c = *state;
    struct buf frames;
    buf_init(&frames, MIB);
    client_tool(c, "create_sandbox", "{}");
    set_files(c, &frames, "a.txt sub/ \xff");
    const cJSON *content = at(read_uri(c, "sandbox://sb1/workspace/"), "result.contents.0");
    assert_int_equal(c->fleet->last.op.kind, OP_FILE_LIST);
    assert_string_equal(c->fleet->last.path, "/workspace");
    assert_string_equal(text_at(content, "mimeType"), "application/json");
    cJSON *tree = cJSON_Parse(text_at(content, "text"));
    assert_string_equal(text_at(tree, "path"), "/workspace");
    assert_int_equal(cJSON_GetArraySize(at(tree, "entries")), 2);
    assert_string_equal(text_at(tree, "entries.0.uri"), "sandbox://sb1/workspace/a.txt");
    assert_string_equal(text_at(tree, "entries.1.type"), "directory");
    assert_true(cJSON_IsFalse(at(tree, "truncated")));
    cJSON_Delete(tree);
    /* without the slash, an attempt to read it shows that it is a directory */
    request(c, "resources/read", "{'uri':'sandbox://sb1/workspace'}");
    assert_int_equal(c->fleet->last.op.kind, OP_FILE_READ);
    fail_next(c, ERR_PATH);
    fake_answer(c->fleet, 0);
    assert_int_equal(c->fleet->last.op.kind, OP_FILE_LIST);
    set_files(c, &frames, "x");
    fake_answer(c->fleet, 0);
    assert_non_null(strstr(text_at(client_last(c), "result.contents.0.text"), "workspace/x"));
    buf_finish(&frames);
}

static void what_is_not_there_and_what_is_not_yours_are_the_same(void **state)
{
    struct client *c = *state;
    client_tool(c, "create_sandbox", "{'name':'mine'}");
    client_tool(c, "create_sandbox", "{'name':'yours'}");
    client_tool(c, "execute_code", "{'code':'1','sandbox_id':'mine'}");
    snprintf(c->fleet->sandboxes[1].owner, sizeof(c->fleet->sandboxes[1].owner), "you");
    snprintf(c->fleet->executions[0].owner, sizeof(c->fleet->executions[0].owner), "you");
    static const char *const nothing[] = {
        "sandbox://sb2/workspace/a",  "sandbox://yours/workspace/a", "sandbox://none/a",
        "sandbox://sb2/workspace/",   "sandbox://sb1/../etc/passwd", "sandbox://sb1/%2e%2e/x",
        "sandbox://sb1/a%00",         "file:///etc/passwd",          "execution://ex-1/stdout",
        "execution://nothing/stderr", "execution://ex-1/stdin",      "nonsense",
    };
    size_t runs = c->fleet->runs;
    for (size_t i = 0; i < sizeof(nothing) / sizeof(nothing[0]); i++) {
        assert_nothing(read_uri(c, nothing[i]), nothing[i]);
    }
    assert_int_equal(c->fleet->runs, runs); /* no operation was tried */
    static const enum err_code codes[] = {ERR_FILE_NOT_FOUND, ERR_DENIED, ERR_PATH};
    for (size_t i = 0; i < 3; i++) {
        fail_next(c, codes[i]);
        assert_nothing(read_uri(c, "sandbox://sb1/root/x"), "sandbox://sb1/root/x");
    }
}

static void trouble_of_the_server_is_told_as_that(void **state)
{
    struct client *c = *state;
    client_tool(c, "create_sandbox", "{}");
    c->fleet->fail_code = ERR_BUSY;
    c->fleet->fail_text = "32 operations are in flight";
    c->fleet->fail_hint = "";
    const cJSON *answer = read_uri(c, "sandbox://sb1/a");
    assert_int_equal((int)number_at(answer, "error.code"), -32603);
    assert_non_null(strstr(text_at(answer, "error.message"), "in flight"));
    fake_set_output(c->fleet, "", 0);
    c->fleet->end.status = OP_STATUS_TIMEOUT;
    answer = read_uri(c, "sandbox://sb1/a");
    assert_int_equal((int)number_at(answer, "error.code"), -32603);
}

static void a_cancelled_read_is_stopped(void **state)
{
    struct client *c = *state;
    client_tool(c, "create_sandbox", "{}");
    size_t before = c->count;
    request(c, "resources/read", "{'uri':'sandbox://sb1/a'}");
    client_send(c,
                "{'jsonrpc':'2.0','method':'notifications/cancelled','params':{'requestId':"
                "'r-%zu'}}",
                c->calls - 1);
    assert_true(c->fleet->pending[0]->cancelled);
    fake_settle(c->fleet);
    assert_int_equal(c->count, before);
}

static void output_is_read_as_far_as_it_is_kept(void **state)
{
    struct client *c = *state;
    client_tool(c, "execute_code", "{'code':'1'}");
    fake_set_output(c->fleet, "all\xe2\x82", 5);
    const cJSON *content = at(read_uri(c, "execution://ex-1/stdout"), "result.contents.0");
    assert_string_equal(text_at(content, "text"), "all\xef\xbf\xbd\xef\xbf\xbd");
    assert_string_equal(text_at(content, "mimeType"), "text/plain");
    c->fleet->outcome.out_bytes = 500;
    content = at(read_uri(c, "execution://ex-1/stdout"), "result.contents.0");
    assert_string_equal(text_at(content, "text"), "all\n[... 495 bytes are not kept ...]\n");
    c->fleet->outcome.out_tail = view_of("\x82\xac the end");
    content = at(read_uri(c, "execution://ex-1/stdout"), "result.contents.0");
    assert_string_equal(text_at(content, "text"),
                        "all\n[... 487 bytes are not kept ...]\n the end");
    c->fleet->outcome.err = view_of("oh");
    c->fleet->outcome.err_bytes = 2;
    content = at(read_uri(c, "execution://ex-1/stderr"), "result.contents.0");
    assert_string_equal(text_at(content, "text"), "oh");

    client_call(c, false, "execute_code", "{'code':'2'}");
    fake_stand(c->fleet, 0);
    fake_set_output(c->fleet, "so far\xe2", 7);
    request(c, "resources/read", "{'uri':'execution://ex-2/stdout'}");
    assert_int_equal(c->fleet->pending[0]->wait_ms, 0);
    fake_stand(c->fleet, 0);
    assert_string_equal(text_at(client_last(c), "result.contents.0.text"),
                        "so far\n[stdout: this is what has come so far, the code is running]\n");
}

/* ---- completion ----------------------------------------------------------------------------- */

static void assert_completed(const cJSON *answer, const char *expected)
{
    CLEANUP_FREE char *all = alloc_strdup("");
    const cJSON *value;
    assert_non_null(at(answer, "result.completion"));
    cJSON_ArrayForEach(value, at(answer, "result.completion.values"))
    {
        char *more = alloc_printf("%s%s%s", all, all[0] != '\0' ? " " : "", value->valuestring);
        free(all);
        all = more;
    }
    assert_string_equal(all, expected);
}

#define COMPLETE_FILE                                                                              \
    "{'ref':{'type':'ref/resource','uri':'sandbox://{sandbox_id}/{+path}'},'argument':{'name':"
#define COMPLETE_STREAM                                                                            \
    "{'ref':{'type':'ref/resource','uri':'execution://{execution_id}/{stream}'},"                  \
    "'argument':{'name':"

static const cJSON *complete(struct client *c, const char *params)
{
    return answered(c, "completion/complete", params);
}

static void ids_and_names_are_completed(void **state)
{
    struct client *c = *state;
    client_tool(c, "create_sandbox", "{'name':'sample'}");
    client_tool(c, "create_sandbox", "{}");
    client_tool(c, "create_sandbox", "{'name':'secret'}");
    snprintf(c->fleet->sandboxes[2].owner, sizeof(c->fleet->sandboxes[2].owner), "you");
    client_tool(c, "execute_code", "{'code':'1','sandbox_id':'sb1'}");
    client_tool(c, "execute_code", "{'code':'1','sandbox_id':'sb2'}");
    assert_completed(complete(c, COMPLETE_FILE "'sandbox_id','value':''}}"), "sample sb1 sb2");
    assert_completed(complete(c, COMPLETE_FILE "'sandbox_id','value':'sb'}}"), "sb1 sb2");
    assert_completed(complete(c, COMPLETE_FILE "'sandbox_id','value':'se'}}"), "");
    assert_completed(complete(c, COMPLETE_STREAM "'execution_id','value':'ex'}}"), "ex-1 ex-2");
    assert_completed(complete(c, COMPLETE_STREAM "'stream','value':'stde'}}"), "stderr");
    assert_completed(complete(c, COMPLETE_STREAM "'nothing','value':''}}"), "");
}

static void paths_are_completed_directory_by_directory(void **state)
{
    struct client *c = *state;
    struct buf frames;
    buf_init(&frames, MIB);
    client_tool(c, "create_sandbox", "{}");
    request(c, "completion/complete",
            COMPLETE_FILE "'path','value':'workspace/da'},'context':{'arguments':{'sandbox_id':"
                          "'sb1'}}}");
    assert_string_equal(c->fleet->last.path, "/workspace");
    assert_true(c->fleet->last.op.is_look);
    set_files(c, &frames, "data.csv data/ other");
    fake_answer(c->fleet, 0);
    assert_completed(client_last(c), "workspace/data.csv workspace/data/");
    request(c, "completion/complete",
            COMPLETE_FILE "'path','value':''},'context':{'arguments':{'sandbox_id':'sb1'}}}");
    assert_string_equal(c->fleet->last.path, "/");
    fake_answer(c->fleet, 0);
    assert_completed(client_last(c), "data.csv data/ other");
    size_t runs = c->fleet->runs;
    assert_completed(complete(c, COMPLETE_FILE "'path','value':'a'}}"), "");
    assert_completed(complete(c, COMPLETE_FILE "'path','value':'../x'},'context':{'arguments':"
                                               "{'sandbox_id':'sb1'}}}"),
                     "");
    assert_completed(complete(c, COMPLETE_FILE "'path','value':'x'},'context':{'arguments':"
                                               "{'sandbox_id':'none'}}}"),
                     "");
    assert_int_equal(c->fleet->runs, runs);
    fail_next(c, ERR_FILE_NOT_FOUND);
    assert_completed(complete(c, COMPLETE_FILE "'path','value':'no/x'},'context':{'arguments':"
                                               "{'sandbox_id':'sb1'}}}"),
                     "");
    buf_finish(&frames);
}

static void only_templates_are_completed(void **state)
{
    struct client *c = *state;
    const cJSON *answer =
        complete(c, "{'ref':{'type':'ref/resource','uri':'file:///{x}'},'argument':{'name':'x',"
                    "'value':''}}");
    assert_int_equal((int)number_at(answer, "error.code"), -32602);
    answer = complete(c, "{'ref':{'type':'ref/prompt','name':'x'},'argument':{'name':'x','value':"
                         "''}}");
    assert_int_equal((int)number_at(answer, "error.code"), -32602);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, client_setup, client_teardown)
    const struct CMUnitTest tests[] = {
        TEST(the_files_of_all_own_sandboxes_are_listed),
        TEST(a_list_without_sandboxes_is_empty),
        TEST(pages_go_on_behind_the_last_file),
        TEST(a_cursor_of_a_sandbox_that_is_gone_goes_on_with_the_next),
        TEST(a_cursor_that_is_none_is_refused),
        TEST(a_sandbox_that_does_not_tell_is_left_out),
        TEST(the_templates_say_what_else_there_is),
        TEST(a_file_is_read_as_what_it_is),
        TEST(a_large_file_is_for_read_file),
        TEST(a_directory_is_read_as_its_entries),
        TEST(what_is_not_there_and_what_is_not_yours_are_the_same),
        TEST(trouble_of_the_server_is_told_as_that),
        TEST(a_cancelled_read_is_stopped),
        TEST(output_is_read_as_far_as_it_is_kept),
        TEST(ids_and_names_are_completed),
        TEST(paths_are_completed_directory_by_directory),
        TEST(only_templates_are_completed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
