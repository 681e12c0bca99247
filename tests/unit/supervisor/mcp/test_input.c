/* State that is kept between the rounds of a question: for which client and how long; and which
 * questions a client supports. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/io/json.h"
#include "supervisor/mcp/input_kinds.h"
#include "supervisor/mcp/input_states.h"

static cJSON *parse(const char *text)
{
    struct err err = ERR_INIT;
    cJSON *tree = NULL;
    assert_int_equal(json_parse(text, strlen(text), 100000, 20, &tree, NULL, &err), 0);
    return tree;
}

/* ---- states ---------------------------------------------------------------------------------- */

static char *put(struct input_states *s, const char *owner, uint64_t binding, uint64_t now_ms)
{
    struct err err = ERR_INIT;
    const char *name = NULL;
    assert_int_equal(input_states_put(s, owner, binding, cJSON_CreateNumber((double)binding),
                                      now_ms, &name, &err),
                     0);
    assert_int_equal(strlen(name), INPUT_STATE_NAME_CHARS);
    return alloc_strdup(name);
}

static void a_name_is_good_for_its_owner_and_its_request_only(void **state)
{
    struct input_states s = {0};
    CLEANUP_FREE char *name = put(&s, "anna", 7, 0);
    CLEANUP_FREE char *tampered = alloc_printf("%s-TAMPERED", name);
    const cJSON *value = input_states_find(&s, "anna", 7, name, 1);
    assert_non_null(value);
    assert_true(value->valuedouble == 7);
    assert_ptr_equal(input_states_find(&s, "anna", 7, name, 1), value); /* a client may repeat */
    assert_null(input_states_find(&s, "berta", 7, name, 1));
    assert_null(input_states_find(&s, "anna", 8, name, 1));
    assert_null(input_states_find(&s, "anna", 7, tampered, 1));
    assert_null(input_states_find(&s, "anna", 7, "", 1));
    input_states_finish(&s);
    assert_int_equal(s.count, 0);
}

static void ten_minutes_and_no_longer(void **state)
{
    struct input_states s = {0};
    CLEANUP_FREE char *name = put(&s, "anna", 7, 100);
    assert_non_null(input_states_find(&s, "anna", 7, name, 100 + INPUT_STATE_TIME_MS - 1));
    assert_null(input_states_find(&s, "anna", 7, name, 100 + INPUT_STATE_TIME_MS));
    CLEANUP_FREE char *later = put(&s, "anna", 7, 200);
    input_states_expire(&s, 100 + INPUT_STATE_TIME_MS);
    assert_int_equal(s.count, 1);
    assert_non_null(input_states_find(&s, "anna", 7, later, 200));
    input_states_expire(&s, 200 + INPUT_STATE_TIME_MS);
    assert_int_equal(s.count, 0);
    CLEANUP_FREE char *again = put(&s, "anna", 7, 300); /* a table that was emptied still works */
    assert_non_null(input_states_find(&s, "anna", 7, again, 300));
    input_states_finish(&s);
}

static void whoever_has_many_loses_the_own_oldest(void **state)
{
    struct input_states s = {0};
    CLEANUP_FREE char *other = put(&s, "berta", 1, 0);
    CLEANUP_FREE char *oldest = put(&s, "anna", 1, 0);
    CLEANUP_FREE char *second = put(&s, "anna", 1, 0);
    for (int i = 2; i < INPUT_STATES_EACH; i++) {
        free(put(&s, "anna", 1, 0));
    }
    assert_non_null(input_states_find(&s, "anna", 1, oldest, 0));
    CLEANUP_FREE char *newest = put(&s, "anna", 1, 0);
    assert_null(input_states_find(&s, "anna", 1, oldest, 0));
    assert_non_null(input_states_find(&s, "anna", 1, second, 0));
    assert_non_null(input_states_find(&s, "anna", 1, newest, 0));
    assert_non_null(input_states_find(&s, "berta", 1, other, 0));
    assert_int_equal(s.count, INPUT_STATES_EACH + 1);
    for (int i = 0; i < 2 * INPUT_STATES; i++) {
        CLEANUP_FREE char *owner = alloc_printf("p%d", i % 40);
        free(put(&s, owner, 1, 0));
        assert_true(s.count <= INPUT_STATES);
    }
    assert_null(input_states_find(&s, "berta", 1, other, 0)); /* their total is limited, too */
    input_states_finish(&s);
}

static void a_state_has_a_size_limit(void **state)
{
    struct input_states s = {0};
    struct err err = ERR_INIT;
    const char *name = NULL;
    char *big = malloc(INPUT_STATE_BYTES + 1);
    assert_non_null(big);
    memset(big, 'x', INPUT_STATE_BYTES);
    big[INPUT_STATE_BYTES] = '\0';
    assert_int_equal(input_states_put(&s, "a", 1, cJSON_CreateString(big), 0, &name, &err),
                     -ERR_TOO_BIG);
    assert_non_null(strstr(err.text, "65536"));
    assert_int_equal(s.count, 0);
    free(big);
}

static uint64_t binding(const char *method, const char *params)
{
    cJSON *tree = parse(params);
    uint64_t hash = input_binding(method, tree);
    cJSON_Delete(tree);
    return hash;
}

static void the_same_request_is_known_again_and_no_other(void **state)
{
    const char *call = "{\"name\":\"t\",\"arguments\":{\"a\":1,\"b\":[1,2],\"c\":{\"d\":null}}}";
    uint64_t hash = binding("tools/call", call);
    static const char *const same[] = {
        "{\"arguments\":{\"c\":{\"d\":null},\"b\":[1,2],\"a\":1},\"name\":\"t\"}",
        "{\"name\":\"t\",\"arguments\":{\"a\":1.0,\"b\":[1,2],\"c\":{\"d\":null}},"
        "\"inputResponses\":{\"x\":{}},\"requestState\":\"s\",\"_meta\":{\"progressToken\":4}}",
    };
    static const char *const other[] = {
        "{\"name\":\"u\",\"arguments\":{\"a\":1,\"b\":[1,2],\"c\":{\"d\":null}}}",
        "{\"name\":\"t\",\"arguments\":{\"a\":2,\"b\":[1,2],\"c\":{\"d\":null}}}",
        "{\"name\":\"t\",\"arguments\":{\"a\":\"1\",\"b\":[1,2],\"c\":{\"d\":null}}}",
        "{\"name\":\"t\",\"arguments\":{\"a\":1,\"b\":[2,1],\"c\":{\"d\":null}}}",
        "{\"name\":\"t\",\"arguments\":{\"a\":1,\"b\":[1,2],\"c\":{\"d\":false}}}",
        "{\"name\":\"t\",\"arguments\":{\"a\":1,\"b\":[1,2],\"c\":{}}}",
        "{\"name\":\"t\"}",
    };
    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
        assert_true(binding("tools/call", same[i]) == hash);
    }
    for (size_t i = 0; i < sizeof(other) / sizeof(other[0]); i++) {
        assert_true(binding("tools/call", other[i]) != hash);
    }
    assert_true(binding("prompts/get", call) != hash);
}

/* ---- kinds ----------------------------------------------------------------------------------- */

static void check_lack(enum revision revision, const char *capabilities, const char *question,
                       const char *expected)
{
    cJSON *caps = parse(capabilities);
    cJSON *q = parse(question);
    const struct mcp_client_capabilities can = mcp_client_capabilities_read(caps, revision);
    const char *lacks = input_kind_lacks(&can, q);
    if (expected == NULL) {
        assert_null(lacks);
    } else {
        assert_non_null(lacks);
        assert_string_equal(lacks, expected);
    }
    cJSON_Delete(q);
    cJSON_Delete(caps);
}

#define FORM  "{\"method\":\"elicitation/create\",\"params\":{\"message\":\"m\"}}"
#define PAGE  "{\"method\":\"elicitation/create\",\"params\":{\"mode\":\"url\",\"url\":\"u\"}}"
#define MODEL "{\"method\":\"sampling/createMessage\",\"params\":{\"messages\":[]}}"
#define TOOLS "{\"method\":\"sampling/createMessage\",\"params\":{\"tools\":[]}}"
#define ROOTS "{\"method\":\"roots/list\"}"

static void only_what_the_client_declared_is_asked(void **state)
{
    const enum revision latest = REVISION_2026_07_28;
    check_lack(latest, "{}", FORM, "elicitation");
    check_lack(latest, "{\"elicitation\":{}}", FORM, NULL);
    check_lack(latest, "{\"elicitation\":{}}", PAGE, "elicitation");
    check_lack(latest, "{\"elicitation\":{\"url\":{}}}", PAGE, NULL);
    check_lack(latest, "{\"elicitation\":{\"url\":{}}}", FORM, "elicitation");
    check_lack(latest, "{\"elicitation\":{\"url\":{},\"form\":{}}}", FORM, NULL);
    check_lack(latest, "{\"elicitation\":true}", FORM, "elicitation");
    check_lack(latest, "{\"sampling\":{}}", MODEL, NULL);
    check_lack(latest, "{\"sampling\":{}}", TOOLS, "sampling");
    check_lack(latest, "{\"sampling\":{\"tools\":{}}}", TOOLS, NULL);
    check_lack(latest, "{\"roots\":{}}", ROOTS, NULL);
    check_lack(latest, "{\"sampling\":{}}", ROOTS, "roots");
    check_lack(latest, "{\"sampling\":{}}", "{\"method\":\"ping\"}", "experimental");

    check_lack(REVISION_2025_03_26, "{\"elicitation\":{}}", FORM, "elicitation");
    check_lack(REVISION_2025_06_18, "{\"elicitation\":{}}", FORM, NULL);
    check_lack(REVISION_2025_06_18, "{\"elicitation\":{\"url\":{}}}", PAGE, "elicitation");
    check_lack(REVISION_2025_06_18, "{\"sampling\":{\"tools\":{}}}", TOOLS, "sampling");
    check_lack(REVISION_2024_11_05, "{\"roots\":{},\"sampling\":{}}", ROOTS, NULL);
    check_lack(REVISION_2024_11_05, "{\"roots\":{},\"sampling\":{}}", MODEL, NULL);
}

static void questions_are_written_as_each_revision_has_them(void **state)
{
    cJSON *q = parse("{\"method\":\"elicitation/create\",\"params\":{\"mode\":\"form\"}}");
    input_kind_adapt(q, REVISION_2025_11_25);
    assert_string_equal(json_get_str(json_get(q, "params"), "mode"), "form");
    input_kind_adapt(q, REVISION_2025_06_18);
    assert_null(json_get(json_get(q, "params"), "mode"));
    cJSON_Delete(q);

    q = parse(PAGE);
    input_kind_adapt(q, REVISION_2026_07_28);
    assert_null(json_get(json_get(q, "params"), "elicitationId"));
    input_kind_adapt(q, REVISION_2025_11_25);
    assert_int_equal(strlen(json_get_str(json_get(q, "params"), "elicitationId")), 26);
    input_kind_adapt(q, REVISION_2026_07_28);
    assert_null(json_get(json_get(q, "params"), "elicitationId"));
    cJSON_Delete(q);

    q = parse(ROOTS);
    input_kind_adapt(q, REVISION_2025_06_18);
    assert_null(json_get(q, "params"));
    cJSON_Delete(q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_is_good_for_its_owner_and_its_request_only),
        cmocka_unit_test(ten_minutes_and_no_longer),
        cmocka_unit_test(whoever_has_many_loses_the_own_oldest),
        cmocka_unit_test(a_state_has_a_size_limit),
        cmocka_unit_test(the_same_request_is_known_again_and_no_other),
        cmocka_unit_test(only_what_the_client_declared_is_asked),
        cmocka_unit_test(questions_are_written_as_each_revision_has_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
