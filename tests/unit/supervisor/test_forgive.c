/* Arguments and code as models write them, which are understood as they were meant. */
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
#include "supervisor/tools/cell.h"
#include "tests/unit/supervisor/client.h"

/* ---- arguments ------------------------------------------------------------------------------ */

static void a_number_may_be_a_text(void **state)
{
    struct client *c = *state;
    client_tool(c, "execute_code", "{'code':'1','timeout_seconds':'2.5'}");
    assert_int_equal(c->fleet->last.op.timeout_ms, 2500);
    client_tool(c, "create_sandbox", "{'memory_mb':'64'}");
    assert_int_equal(c->fleet->spec.memory_mb, 64);
    assert_failure(client_tool(c, "execute_code", "{'code':'1','timeout_seconds':'soon'}"),
                   "invalid_argument", "timeout_seconds");
}

static void null_is_absent(void **state)
{
    struct client *c = *state;
    client_tool(c, "execute_code", "{'code':'1','stdin':null,'sandbox_id':null,'other':null}");
    assert_false(c->fleet->last.op.has_stdin);
    assert_failure(client_tool(c, "execute_code", "{'code':null}"), "invalid_argument", "code");
    client_tool(c, "write_file", "{'file_path':'a','path':null,'content':'x'}");
    assert_string_equal(c->fleet->last.path, "a");
}

/* Many hosts have their models fill in everything. */
static void what_is_empty_is_absent_where_it_means_nothing(void **state)
{
    struct client *c = *state;
    client_tool(c, "execute_code",
                "{'code':'1','sandbox_id':'','language':'','stdin':'','timeout_seconds':'',"
                "'args':'','env':'','stdin_open':'','tty':null,'max_output_bytes':''}");
    assert_string_equal(c->fleet->last.language, "python");
    assert_true(c->fleet->last.op.has_stdin); /* empty, so it ends at once */
    client_tool(c, "execute_code", "{'code':'1','session_id':'','timeout':'','env':{}}");
    assert_string_equal(c->fleet->last.data, "1");
    client_tool(c, "create_sandbox",
                "{'name':'','image':'','memory_mb':'','network':'','packages':'','env':''}");
    assert_string_equal(c->fleet->spec_name, "");
    client_tool(c, "write_file",
                "{'path':'a','content':'','sandbox_id':'','encoding':'','mode':'','append':''}");
    assert_string_equal(c->fleet->last.path, "a");
    assert_string_equal(c->fleet->last.data, "");
    client_tool(c, "upload_file", "{'path':'b','content':'','local_path':'','encoding':''}");
    assert_string_equal(c->fleet->last.path, "b");
    assert_failure(client_tool(c, "upload_file", "{'path':'b','content':'','local_path':'/x'}"),
                   "path_invalid", "local_path: this server takes no files");
    client_tool(c, "list_files", "{'sandbox_id':'','path':'','recursive':''}");
    assert_string_equal(c->fleet->last.path, ".");
    client_tool(c, "read_file", "{'path':'a','sandbox_id':'','length':'','encoding':''}");
    assert_string_equal(c->fleet->last.path, "a");
    assert_failure(client_tool(c, "install_package", "{'package_name':'','packages':[]}"),
                   "invalid_argument", "package_name");
    assert_null(at(client_tool(c, "get_sandbox_status", "{'sandbox_id':''}"), "isError"));
    /* what is required cannot be left out */
    assert_failure(client_tool(c, "execute_code", "{'code':'','language':''}"), "invalid_argument",
                   "code: expected a string that is not empty");
    assert_failure(client_tool(c, "read_file", "{'path':'','sandbox_id':''}"), "invalid_argument",
                   "path: expected");
}

/* Every unknown argument is compared with all names, so their number is limited. */
static void many_arguments_are_refused(void **state)
{
    struct client *c = *state;
    for (int count = 63; count <= 64; count++) {
        cJSON *args = cJSON_CreateObject();
        cJSON_AddStringToObject(args, "code", "1");
        for (int i = 0; i < count; i++) {
            CLEANUP_FREE char *name = alloc_printf("other%d", i);
            cJSON_AddNullToObject(args, name);
        }
        CLEANUP_FREE char *text = cJSON_PrintUnformatted(args);
        const cJSON *result = client_tool(c, "execute_code", text);
        if (count == 63) {
            assert_null(at(result, "isError"));
        } else {
            assert_failure(result, "invalid_argument", "other0");
        }
        cJSON_Delete(args);
    }
}

static void languages_have_many_names(void **state)
{
    static const struct {
        const char *said, *meant;
    } cases[] = {
        {"Python", "python"}, {"py", "python"}, {"python3", "python"}, {"Node.js", "javascript"},
        {"JS", "javascript"}, {"sh", "bash"},   {"Shell", "bash"},     {"TypeScript", "typescript"},
    };
    struct client *c = *state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        CLEANUP_FREE char *args = alloc_printf("{'code':'1','language':'%s'}", cases[i].said);
        client_tool(c, "execute_code", args);
        assert_string_equal(c->fleet->last.language, cases[i].meant);
    }
    assert_failure(client_tool(c, "execute_code", "{'code':'1','language':'klingon'}"),
                   "invalid_argument", "klingon");
}

static void other_servers_names_are_understood(void **state)
{
    struct client *c = *state;
    client_tool(c, "create_sandbox", "{'name':'mine'}");
    client_tool(c, "execute_code", "{'code':'1','session_id':'mine','timeout':3}");
    assert_string_equal(c->fleet->last.id, "sb1");
    assert_int_equal(c->fleet->last.op.timeout_ms, 3000);
    client_tool(c, "write_file", "{'file_path':'a.txt','text':'x'}");
    assert_string_equal(c->fleet->last.path, "a.txt");
    client_tool(c, "read_file", "{'filename':'b.txt','offset':'3'}");
    assert_string_equal(c->fleet->last.path, "b.txt");
    assert_int_equal(c->fleet->last.op.offset, 3);
    client_tool(c, "execute_code", "{'cmd':'ls'}");
    assert_string_equal(c->fleet->last.language, "bash");
    client_tool(c, "execute_code", "{'cmd':'1','language':'python'}");
    assert_string_equal(c->fleet->last.language, "python");
    /* an argument given twice, or of an unknown name, is an error */
    assert_failure(client_tool(c, "execute_code", "{'code':'1','cmd':'2'}"), "invalid_argument",
                   "cmd");
    assert_failure(client_tool(c, "execute_code", "{'code':'1','colour':'red'}"),
                   "invalid_argument", "colour");
}

static void lists_and_truth_may_be_texts(void **state)
{
    struct client *c = *state;
    client_tool(c, "execute_code", "{'code':'1','args':'one'}");
    assert_string_equal(c->fleet->last.args, "one");
    client_tool(c, "execute_code", "{'code':'1','args':'[]'}");
    assert_string_equal(c->fleet->last.args, "");
    assert_failure(client_tool(c, "execute_code", "{'code':'1','args':'one two'}"),
                   "invalid_argument", "args");
    client_tool(c, "list_files", "{'recursive':'True'}");
    assert_int_equal(c->fleet->last.op.flags, OP_FLAG_RECURSIVE);
    client_tool(c, "list_files", "{'recursive':'false'}");
    assert_int_equal(c->fleet->last.op.flags, 0);
}

static void an_environment_may_be_an_object(void **state)
{
    struct client *c = *state;
    client_tool(c, "execute_code", "{'code':'1','env':['A=1','B=x=y']}");
    assert_string_equal(c->fleet->last.env, "A=1|B=x=y");
    client_tool(c, "execute_code", "{'code':'1','env':{'A':'1','PORT':8080}}");
    assert_string_equal(c->fleet->last.env, "A=1|PORT=8080");
    assert_failure(client_tool(c, "execute_code", "{'code':'1','env':['A']}"), "invalid_argument",
                   "expected NAME=value");
    assert_failure(client_tool(c, "execute_code", "{'code':'1','env':{'A':[]}}"),
                   "invalid_argument", "env: expected an array");
}

static void a_path_may_be_the_uri_of_a_result(void **state)
{
    struct client *c = *state;
    client_tool(c, "create_sandbox", "{'name':'mine'}");
    client_tool(c, "read_file", "{'path':'sandbox://sb1/workspace/t%20t.csv'}");
    assert_string_equal(c->fleet->last.path, "/workspace/t t.csv");
    assert_string_equal(c->fleet->last.id, "sb1");
    client_tool(c, "read_file", "{'file_path':'sandbox://sb1/workspace/a'}");
    assert_string_equal(c->fleet->last.path, "/workspace/a");
    assert_failure(client_tool(c, "read_file", "{'path':'sandbox://sb9/workspace/a'}"),
                   "sandbox_not_found", "sb9");
}

static void a_path_may_begin_at_home(void **state)
{
    struct client *c = *state;
    client_tool(c, "write_file", "{'path':'~/notes/a.txt','content':'x'}");
    assert_string_equal(c->fleet->last.path, "/home/user/notes/a.txt");
    client_tool(c, "list_files", "{'path':'~'}");
    assert_string_equal(c->fleet->last.path, "/home/user");
    client_tool(c, "read_file", "{'path':'./~/a'}");
    assert_string_equal(c->fleet->last.path, "./~/a");
    client_tool(c, "read_file", "{'path':'~other/a'}");
    assert_string_equal(c->fleet->last.path, "~other/a");
}

/* ---- code ----------------------------------------------------------------------------------- */

static void check_cell(const char *language, const char *code, const char *expected)
{
    CLEANUP_BUF struct buf room;
    struct view cell = cell_code(language, view_of(code), &room);
    CLEANUP_FREE char *text = alloc_viewdup(cell);
    assert_string_equal(text, expected);
}

static void a_fence_around_all_is_taken_off(void **state)
{
    check_cell("python", "```python\nprint(1)\n```", "print(1)\n");
    check_cell("python", "\n  ```\nx\n```  \n\n", "x\n");
    check_cell("bash", "```sh\nls\n```\n", "ls\n");
    check_cell("python", "```\n```", "");
    check_cell("python", "```py\n    a\n      b\n```", "a\n  b\n");
    /* not around everything, or not a fence */
    static const char *const kept[] = {
        "```python\nprint(1)\n",
        "x\n```\ny\n```",
        "```a b\nx\n```",
        "```\na\n```\n```\nb\n```",
        "```\na\n``` x",
        "print('```')",
        "",
        "\n",
    };
    for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
        check_cell("bash", kept[i], kept[i]);
    }
}

static void prompts_are_taken_off(void **state)
{
    check_cell("python", ">>> x = 1\n>>> for i in range(2):\n...     x += i\n...\n>>> x\n2\n",
               "x = 1\nfor i in range(2):\n    x += i\n\nx\n");
    check_cell("python", "  >>> 1\n  1", "1\n");
    check_cell("python", ">>>x", ">>>x"); /* not a prompt of Python */
    check_cell("bash", ">>> x", ">>> x");
    check_cell("python", "x = 1\n>>> y", "x = 1\n>>> y");
}

static void the_indentation_of_all_is_taken_off(void **state)
{
    check_cell("python", "    a = 1\n\n    if a:\n        b\n", "a = 1\n\nif a:\n    b\n");
    check_cell("python", "\ta\n\t\tb", "a\n\tb\n");
    check_cell("python", "  a\n b\n",
               "  a\n b\n"); /* an error in any case, which the code's author shall see */
    check_cell("python", "if a:\n    b\n", "if a:\n    b\n");
    check_cell("javascript", "  a\n", "  a\n");
}

static void code_is_run_as_it_was_meant(void **state)
{
    struct client *c = *state;
    client_tool(c, "execute_code", "{'code':'```python\\nprint(1)\\n```'}");
    assert_string_equal(c->fleet->last.data, "print(1)\n");
    client_tool(c, "create_run_close", "{'code':'>>> 1\\n1'}");
    assert_string_equal(c->fleet->last.data, "1\n");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, client_setup, client_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_number_may_be_a_text),
        CASE(null_is_absent),
        CASE(what_is_empty_is_absent_where_it_means_nothing),
        CASE(many_arguments_are_refused),
        CASE(languages_have_many_names),
        CASE(other_servers_names_are_understood),
        CASE(lists_and_truth_may_be_texts),
        CASE(an_environment_may_be_an_object),
        CASE(a_path_may_be_the_uri_of_a_result),
        CASE(a_path_may_begin_at_home),
        cmocka_unit_test(a_fence_around_all_is_taken_off),
        cmocka_unit_test(prompts_are_taken_off),
        cmocka_unit_test(the_indentation_of_all_is_taken_off),
        CASE(code_is_run_as_it_was_meant),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
