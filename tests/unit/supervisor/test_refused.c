/* Messages that are refused before they are parsed: which id their errors have. */
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
#include "supervisor/mcp/wire/raw_id.h"
#include "tests/unit/supervisor/client.h"

#define METHOD "\"method\":\"x\","

static int setup(void **state)
{
    *state = client_create();
    return 0;
}

static int teardown(void **state)
{
    client_free(*state);
    return 0;
}

static void deep_nesting_is_refused(void **state)
{
    struct client *c = *state;
    char line[400] = "{'jsonrpc':'2.0','id':1,'method':'ping','params':{'x':";
    size_t n = strlen(line);
    memset(line + n, '[', 100);
    memset(line + n + 100, ']', 100);
    snprintf(line + n + 200, 4, "}}");
    client_send(c, "%s", line);
    assert_error(c, -32700, "nested");
    assert_int_equal(number_at(client_last(c), "id"), 1);
}

/* Whoever is refused before the message is parsed gets the error under the id of the message. */
static void the_id_of_a_refused_message_is_found(void **state)
{
    static const struct {
        const char *text, *id;
    } cases[] = {
        {"{" METHOD "\"id\":1}", "1"},
        {" {" METHOD " \"a\" : [{\"id\":2}] , \"id\" : -7 } ", "-7"},
        {"{" METHOD "\"a\":\"\\\"id\\\":3}\",\"id\":\"x,}\\\"\"}", "\"x,}\\\"\""},
        {"{" METHOD "\"id\":1,\"id\":2}", "1"},
        {"{" METHOD "\"idx\":1,\"i\":2,\"\":3}", NULL},
        {"{" METHOD "\"id\":[1]}", NULL},
        {"{" METHOD "\"id\":{}}", NULL},
        {"{" METHOD "\"id\":1.5}", NULL},
        {"{" METHOD "\"id\":null}", NULL},
        {"{" METHOD "\"id\":\n 4\t}", "4"},
        {"{" METHOD "\"id\":1\n2}", NULL},
        {"{" METHOD "\"id\":1", NULL},
        {"{" METHOD "\"id\":1}}", NULL},
        {"{" METHOD "\"id\":1} x", NULL},
        {"{" METHOD "\"id\":1]", NULL},
        {"[{" METHOD "\"id\":1}]", NULL},
        {"{" METHOD "\"id\":\"a\nb\"}", NULL},
        {"{" METHOD "\"id\":\"\\u0000\"}", NULL},
        {"{" METHOD "\"id\" 1}", NULL},
        {"{" METHOD "\"id\":\"\xff\"}", NULL},
        {"", NULL},
        {"{\"id\":1,\"method\":\"result\"}", "1"},
        {"{\"params\":{\"error\":{},\"result\":1},\"method\":0,\"id\":1}", "1"},
        {"{\"id\":1}", NULL},
        {"{\"id\":1,\"params\":{\"method\":\"x\"},\"methods\":\"method\"}", NULL},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        CLEANUP_FREE char *id = raw_id_of(cases[i].text, strlen(cases[i].text));
        struct raw_id bytewise = {.place = RAW_ID_BEFORE};
        for (const char *p = cases[i].text; *p != '\0'; p++) {
            raw_id_take(&bytewise, p, 1);
        }
        CLEANUP_FREE char *again = raw_id_end(&bytewise);
        if (cases[i].id == NULL) {
            assert_null(id);
        } else {
            assert_non_null(id);
            assert_string_equal(id, cases[i].id);
            assert_string_equal(again, cases[i].id);
        }
    }
}

/* It has the number of a question of ours, and its client may wait for the answer to a request of
 * its own that has the same number. */
static void an_answer_that_cannot_be_read_is_not_refused_under_its_id(void **state)
{
    static const char *const answers[] = {
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"x\":NaN}}",
        "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":NaN},\"id\":1}",
        "{\"result\":NaN,\"method\":\"x\",\"id\":1}",
        "{\"id\":1,\"method\":\"x\",\"error\":NaN}",
    };
    struct client *c = *state;
    client_initialize(c, "2025-11-25");
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        struct raw_id in_pieces = {.place = RAW_ID_BEFORE};
        raw_id_take(&in_pieces, answers[i], 9);
        raw_id_take(&in_pieces, answers[i] + 9, strlen(answers[i]) - 9);
        assert_null(raw_id_end(&in_pieces));
        client_send(c, "%s", answers[i]);
        assert_error(c, -32700, "Parse error");
        assert_null(at(client_last(c), "id"));
    }
    client_send(c, "{'jsonrpc':'2.0','id':1,'method':'ping','params':{'x':NaN}}");
    assert_int_equal(number_at(client_last(c), "id"), 1);
    /* nor one whose id had to be mended */
    static const char mended[] = "{\"jsonrpc\":\"2.0\",\"id\":\"\\ud83d\",\"result\":{}}";
    cJSON *message = NULL;
    assert_int_equal(json_parse(mended, strlen(mended), sizeof(mended), 2, &message, NULL, NULL),
                     0);
    assert_null(raw_id_mended(message, mended, strlen(mended)));
    cJSON_Delete(message);
}

static void millions_of_values_are_refused(void **state)
{
    struct client *c = *state;
    char *zeros = alloc_array(600001, 1);
    for (size_t i = 0; i < 600000; i += 2) {
        memcpy(zeros + i, "0,", 2);
    }
    client_send(c, "{'jsonrpc':'2.0','id':1,'method':'ping','params':{'x':[%s0]}}", zeros);
    assert_error(c, -32700, "values");
    assert_int_equal(number_at(client_last(c), "id"), 1);
    client_send(c, "{'params':{'id':3,'x':[%s0]},'method':'ping','id':'z'}", zeros);
    assert_string_equal(text_at(client_last(c), "id"), "z");
    client_send(c, "{'id':2,'method':'ping','x':[%s0]", zeros);
    assert_null(at(client_last(c), "id"));
    free(zeros);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(deep_nesting_is_refused),
        TEST(the_id_of_a_refused_message_is_found),
        TEST(an_answer_that_cannot_be_read_is_not_refused_under_its_id),
        TEST(millions_of_values_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
