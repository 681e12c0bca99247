/* One task and many: every event in every state, both forms on the wire, how many are kept, how
 * large, and until when. */
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
#include "supervisor/mcp/task.h"
#include "supervisor/mcp/task_registry.h"

static cJSON *parse(const char *text)
{
    struct err err = ERR_INIT;
    cJSON *tree = NULL;
    assert_int_equal(json_parse(text, strlen(text), 100000, 20, &tree, NULL, &err), 0);
    return tree;
}

static cJSON *questions(void)
{
    return parse("{\"name\":{\"method\":\"elicitation/create\",\"params\":{}},"
                 "\"roots\":{\"method\":\"roots/list\"}}");
}

/* ---- state x event --------------------------------------------------------------------------- */

enum event {
    EVENT_RESULT,
    EVENT_TOOL_FAILED,
    EVENT_ERROR,
    EVENT_ASK,
    EVENT_ANSWER_PART,
    EVENT_ANSWER_ALL,
    EVENT_CANCEL,
    EVENT_MESSAGE,
    EVENT_COUNT,
};

static void bring_to(struct mcp_task *t, bool modern, enum task_state state)
{
    task_init(t, modern, 1000, 0);
    switch (state) {
    case TASK_WORKING:
        break;
    case TASK_INPUT:
        assert_true(task_ask(t, questions(), 0));
        break;
    case TASK_COMPLETED:
        assert_true(task_end_with_result(t, alloc_strdup("{\"kept\":1}"), false, 5));
        break;
    case TASK_FAILED:
        assert_true(task_end_with_error(t, parse("{\"code\":-32603,\"message\":\"kept\"}"), 5));
        break;
    case TASK_CANCELLED:
        assert_true(task_cancel(t, 5));
        break;
    case TASK_STATE_COUNT:
        break;
    }
    assert_int_equal(t->sm.state, state);
}

static void apply(struct mcp_task *t, enum event event)
{
    switch (event) {
    case EVENT_RESULT:
        (void)task_end_with_result(t, alloc_strdup("{\"late\":1}"), false, 9);
        break;
    case EVENT_TOOL_FAILED:
        (void)task_end_with_result(t, alloc_strdup("{\"isError\":true}"), true, 9);
        break;
    case EVENT_ERROR:
        (void)task_end_with_error(t, parse("{\"code\":-1,\"message\":\"late\"}"), 9);
        break;
    case EVENT_ASK:
        (void)task_ask(t, questions(), 9);
        break;
    case EVENT_ANSWER_PART:
        (void)input_round_answer(&t->round, "1.name", parse("{\"action\":\"accept\"}"));
        break;
    case EVENT_ANSWER_ALL:
        (void)input_round_answer(&t->round, "1.name", parse("{\"action\":\"accept\"}"));
        (void)input_round_answer(&t->round, "2.roots", parse("{\"roots\":[]}"));
        if (t->sm.state == TASK_INPUT && input_round_is_whole(&t->round)) {
            cJSON_Delete(task_resume(t));
        }
        break;
    case EVENT_CANCEL:
        (void)task_cancel(t, 9);
        break;
    case EVENT_MESSAGE:
        task_set_message(t, "half of it");
        break;
    case EVENT_COUNT:
        break;
    }
}

/* The state after each event; a failure of the tool differs between the two revisions. */
static const enum task_state after[][EVENT_COUNT] = {
    [TASK_WORKING] = {TASK_COMPLETED, TASK_STATE_COUNT, TASK_FAILED, TASK_INPUT, TASK_WORKING,
                      TASK_WORKING, TASK_CANCELLED, TASK_WORKING},
    [TASK_INPUT] = {TASK_INPUT, TASK_STATE_COUNT, TASK_FAILED, TASK_INPUT, TASK_INPUT, TASK_WORKING,
                    TASK_CANCELLED, TASK_INPUT},
    [TASK_COMPLETED] = {TASK_COMPLETED, TASK_COMPLETED, TASK_COMPLETED, TASK_COMPLETED,
                        TASK_COMPLETED, TASK_COMPLETED, TASK_COMPLETED, TASK_COMPLETED},
    [TASK_FAILED] = {TASK_FAILED, TASK_FAILED, TASK_FAILED, TASK_FAILED, TASK_FAILED, TASK_FAILED,
                     TASK_FAILED, TASK_FAILED},
    [TASK_CANCELLED] = {TASK_CANCELLED, TASK_CANCELLED, TASK_CANCELLED, TASK_CANCELLED,
                        TASK_CANCELLED, TASK_CANCELLED, TASK_CANCELLED, TASK_CANCELLED},
};

static void every_event_in_every_state(void **state)
{
    for (int modern = 0; modern < 2; modern++) {
        for (enum task_state s = TASK_WORKING; s < TASK_STATE_COUNT; s++) {
            for (enum event e = EVENT_RESULT; e < EVENT_COUNT; e++) {
                struct mcp_task t;
                bring_to(&t, modern, s);
                apply(&t, e);
                enum task_state expected = after[s][e];
                if (expected == TASK_STATE_COUNT) {
                    expected = !modern ? TASK_FAILED : s == TASK_INPUT ? s : TASK_COMPLETED;
                }
                assert_int_equal(t.sm.state, expected);
                if (task_is_over(&t) && s == t.sm.state) { /* a final state does not change */
                    assert_int_equal(t.over_ms, 5);
                    assert_true(t.result == NULL || strstr(t.result, "kept") != NULL);
                    assert_true(t.error == NULL ||
                                strcmp(json_get_str(t.error, "message"), "kept") == 0);
                }
                assert_true(t.sm.state == TASK_INPUT || t.round.open == NULL);
                task_finish(&t);
            }
        }
    }
}

/* ---- shapes ---------------------------------------------------------------------------------- */

/* Names of the members, each followed by a blank. */
static char *members(const cJSON *object)
{
    char *all = alloc_strdup("");
    for (const cJSON *m = object->child; m != NULL; m = m->next) {
        char *more = alloc_printf("%s%s ", all, m->string);
        free(all);
        all = more;
    }
    return all;
}

static void check_shape(const struct mcp_task *t, bool detailed, const char *expected)
{
    cJSON *json = task_json(t, detailed);
    CLEANUP_FREE char *names = members(json);
    assert_string_equal(names, expected);
    const char *created = json_get_str(json, "createdAt");
    assert_int_equal(strlen(created), strlen("2026-01-31T12:00:00.000Z"));
    assert_int_equal(created[10], 'T');
    assert_int_equal(created[23], 'Z');
    assert_true(strcmp(created, json_get_str(json, "lastUpdatedAt")) <= 0);
    cJSON_Delete(json);
}

#define LEGACY "taskId status createdAt lastUpdatedAt ttl pollInterval "
#define MODERN "taskId status createdAt lastUpdatedAt ttlMs pollIntervalMs "

static void both_ways_of_writing_it_down(void **state)
{
    static const char *const more[TASK_STATE_COUNT] = {"", "inputRequests ", "result ", "error ",
                                                       ""};
    for (enum task_state s = TASK_WORKING; s < TASK_STATE_COUNT; s++) {
        struct mcp_task t;
        bring_to(&t, false, s);
        check_shape(&t, false, LEGACY);
        check_shape(&t, true, LEGACY);
        task_finish(&t);
        bring_to(&t, true, s);
        CLEANUP_FREE char *detailed = alloc_printf("%s%s", MODERN, more[s]);
        check_shape(&t, false, MODERN);
        check_shape(&t, true, detailed);
        task_set_message(&t, "so far so good");
        check_shape(&t, false,
                    "taskId status statusMessage createdAt lastUpdatedAt ttlMs pollIntervalMs ");
        task_finish(&t);
    }
}

static void messages_may_be_any_bytes_and_are_cut_between_characters(void **state)
{
    struct mcp_task t;
    task_init(&t, true, 1, 0);
    task_set_message(&t, "a\xff"
                         "b");
    assert_string_equal(t.message, "a\xef\xbf\xbd"
                                   "b");
    char text[TASK_MESSAGE_BYTES + 8];
    memset(text, 'x', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    memcpy(text + TASK_MESSAGE_BYTES - 1, "\xc3\xa4",
           2); /* a character that would be cut at the limit */
    task_set_message(&t, text);
    assert_int_equal(strlen(t.message), TASK_MESSAGE_BYTES - 1);
    task_set_message(&t, NULL);
    assert_null(t.message);
    task_finish(&t);
}

/* ---- questions ------------------------------------------------------------------------------- */

static void keys_are_used_once_and_answers_come_back_by_the_handlers_names(void **state)
{
    struct mcp_task t;
    task_init(&t, true, 1, 0);
    assert_true(task_ask(&t, questions(), 0));
    assert_non_null(json_get(t.round.open, "1.name"));
    assert_int_equal(input_round_answer(&t.round, "name", parse("{}")), INPUT_UNKNOWN);
    assert_int_equal(input_round_answer(&t.round, "1.name", parse("{\"a\":1}")), INPUT_TAKEN);
    assert_int_equal(input_round_answer(&t.round, "1.name", parse("{\"a\":2}")), INPUT_UNKNOWN);
    cJSON *shown = task_json(&t, true);
    const cJSON *open = json_get(shown, "inputRequests");
    assert_int_equal(cJSON_GetArraySize(open), 1);
    assert_string_equal(json_get_str(json_get(open, "2.roots"), "method"), "roots/list");
    cJSON_Delete(shown);
    assert_false(input_round_is_whole(&t.round));
    assert_int_equal(input_round_answer(&t.round, "2.roots", parse("{\"b\":1}")), INPUT_TAKEN);
    assert_true(input_round_is_whole(&t.round));
    cJSON *answers = task_resume(&t);
    CLEANUP_FREE char *text = cJSON_PrintUnformatted(answers);
    assert_string_equal(text, "{\"name\":{\"a\":1},\"roots\":{\"b\":1}}");
    cJSON_Delete(answers);

    assert_true(task_ask(&t, questions(), 0));
    assert_int_equal(input_round_answer(&t.round, "1.name", parse("{}")), INPUT_UNKNOWN);
    assert_non_null(json_get(t.round.open, "3.name"));
    task_finish(&t);
}

static void rounds_and_their_bytes_are_limited(void **state)
{
    struct mcp_task t;
    task_init(&t, true, 1, 0);
    for (int i = 0; i < INPUT_ROUNDS; i++) {
        assert_true(task_ask(&t, cJSON_CreateObject(), 0));
        assert_true(input_round_is_whole(&t.round));
        cJSON_Delete(task_resume(&t));
    }
    assert_false(task_ask(&t, questions(), 0));
    assert_int_equal(t.sm.state, TASK_WORKING);
    task_finish(&t);

    struct input_round r = {0};
    assert_true(input_round_begin(&r, questions(), 0));
    char *big = malloc(INPUT_KEPT_BYTES + 1);
    assert_non_null(big);
    memset(big, 'x', INPUT_KEPT_BYTES);
    big[INPUT_KEPT_BYTES] = '\0';
    assert_int_equal(input_round_answer(&r, "1.name", cJSON_CreateString(big)), INPUT_TOO_MUCH);
    big[INPUT_KEPT_BYTES / 2] = '\0';
    assert_int_equal(input_round_answer(&r, "1.name", cJSON_CreateString(big)), INPUT_TAKEN);
    assert_int_equal(input_round_answer(&r, "2.roots", cJSON_CreateString(big)), INPUT_TOO_MUCH);
    assert_int_equal(input_round_answer(&r, "2.roots", cJSON_CreateString("")), INPUT_TAKEN);
    free(big);
    input_round_finish(&r);
}

/* ---- among others ---------------------------------------------------------------------------- */

static struct mcp_task *add(struct task_registry *reg, const char *owner, uint64_t now_ms)
{
    return task_registry_add(reg, owner, true, 1000, now_ms);
}

static void finish(struct task_registry *reg, struct mcp_task *t, uint64_t now_ms)
{
    assert_true(task_end_with_result(t, alloc_strdup("{}"), false, now_ms));
    task_registry_keep(reg, t);
}

static bool has(const struct task_registry *reg, const char *owner, const char *id)
{
    return task_registry_find(reg, owner, true, id) != NULL;
}

static void a_task_is_there_only_for_its_owner_and_flavour(void **state)
{
    struct task_registry reg;
    task_registry_init(&reg);
    struct mcp_task *t = add(&reg, "anna", 0);
    assert_int_equal(strlen(t->id), TASK_ID_CHARS);
    assert_ptr_equal(task_registry_find(&reg, "anna", true, t->id), t);
    assert_null(task_registry_find(&reg, "anna", false, t->id));
    assert_null(task_registry_find(&reg, "berta", true, t->id));
    assert_null(task_registry_find(&reg, "anna", true, ""));
    struct mcp_task *other = add(&reg, "anna", 0);
    assert_string_not_equal(t->id, other->id);
    task_registry_finish(&reg);
    assert_int_equal(reg.count, 0);
}

static void what_is_over_makes_room_and_what_runs_does_not(void **state)
{
    struct task_registry reg;
    task_registry_init(&reg);
    struct mcp_task *tasks[TASKS_KEPT];
    for (int i = 0; i < TASKS_KEPT; i++) {
        tasks[i] = add(&reg, "anna", 0);
        assert_non_null(tasks[i]);
    }
    assert_null(add(&reg, "anna", 0));
    assert_non_null(add(&reg, "berta", 0)); /* other owners have room */
    char later[TASK_ID_CHARS + 1];
    char first[TASK_ID_CHARS + 1];
    memcpy(later, tasks[3]->id, sizeof(later));
    memcpy(first, tasks[9]->id, sizeof(first));
    finish(&reg, tasks[9], 10);
    finish(&reg, tasks[3], 20);
    assert_non_null(add(&reg, "anna", 30));
    assert_false(has(&reg, "anna", first));
    assert_true(has(&reg, "anna", later));
    assert_non_null(add(&reg, "anna", 30));
    assert_false(has(&reg, "anna", later));
    assert_null(add(&reg, "anna", 30));
    task_registry_finish(&reg);
}

static void all_principals_together_are_limited_too(void **state)
{
    struct task_registry reg;
    task_registry_init(&reg);
    char idle[TASK_ID_CHARS + 1];
    for (int i = 0; i < TASKS_TOTAL; i++) {
        CLEANUP_FREE char *owner = alloc_printf("p%d", i % 100);
        struct mcp_task *t = add(&reg, owner, 0);
        assert_non_null(t);
        memcpy(idle, t->id, sizeof(idle));
    }
    assert_null(add(&reg, "one more", 0));
    struct mcp_task *t = task_registry_find(&reg, "p95", true, idle);
    assert_non_null(t);
    finish(&reg, t, 1);
    assert_non_null(add(&reg, "one more", 2));
    assert_false(has(&reg, "p95", idle));
    assert_int_equal(reg.count, TASKS_TOTAL);
    task_registry_finish(&reg);
}

static char *text_of(size_t len)
{
    char *text = malloc(len + 1);
    assert_non_null(text);
    memset(text, 'x', len);
    text[len] = '\0';
    return text;
}

static void who_keeps_most_gives_up_its_oldest_results(void **state)
{
    struct task_registry reg;
    task_registry_init(&reg);
    struct mcp_task *small = add(&reg, "small", 0);
    assert_true(task_end_with_result(small, text_of(1000), false, 1)); /* the oldest of all */
    task_registry_keep(&reg, small);
    char oldest[TASK_ID_CHARS + 1] = "";
    char second[TASK_ID_CHARS + 1] = "";
    for (uint64_t i = 0; i < 9; i++) {
        struct mcp_task *t = add(&reg, "big", 2);
        memcpy(i == 0   ? oldest
               : i == 1 ? second
                        : (char[sizeof(oldest)]){0},
               t->id, sizeof(oldest));
        assert_true(task_end_with_result(t, text_of(TASKS_BYTES / 8), false, 2 + i));
        task_registry_keep(&reg, t);
        assert_true(reg.bytes <= TASKS_BYTES);
    }
    assert_false(has(&reg, "big", oldest));
    assert_false(has(&reg, "big", second)); /* eight and the small one are too much */
    assert_true(has(&reg, "small", small->id));
    task_registry_finish(&reg);
    assert_int_equal(reg.bytes, 0);
}

static void kept_for_the_ttl_and_a_little_after_its_end(void **state)
{
    struct task_registry reg;
    task_registry_init(&reg);
    struct mcp_task *quick = task_registry_add(&reg, "a", true, 100000, 1000);
    struct mcp_task *slow = task_registry_add(&reg, "a", true, 0, 1000);
    struct mcp_task *running = task_registry_add(&reg, "b", true, 0, 1000);
    char id_quick[TASK_ID_CHARS + 1];
    char id_slow[TASK_ID_CHARS + 1];
    memcpy(id_quick, quick->id, sizeof(id_quick));
    memcpy(id_slow, slow->id, sizeof(id_slow));
    finish(&reg, quick, 2000);
    finish(&reg, slow, 500000);

    task_registry_expire(&reg, 100999);
    assert_true(has(&reg, "a", id_quick));
    task_registry_expire(&reg, 101000);
    assert_false(has(&reg, "a", id_quick));
    task_registry_expire(&reg, 500000 + TASK_OVERTIME_MS - 1);
    assert_true(has(&reg, "a", id_slow));
    task_registry_expire(&reg, 500000 + TASK_OVERTIME_MS);
    assert_false(has(&reg, "a", id_slow));
    assert_true(has(&reg, "b", running->id)); /* long expired, but still running */
    assert_int_equal(reg.count, 1);
    task_registry_finish(&reg);
}

static void questions_are_late_after_their_time(void **state)
{
    struct task_registry reg;
    task_registry_init(&reg);
    struct mcp_task *t = add(&reg, "a", 0);
    assert_true(task_ask(t, questions(), 5));
    assert_null(task_registry_late(&reg, 5 + INPUT_TIME_MS - 1));
    assert_ptr_equal(task_registry_late(&reg, 5 + INPUT_TIME_MS), t);
    cJSON_Delete(task_resume(t));
    assert_null(task_registry_late(&reg, 5 + INPUT_TIME_MS));
    task_registry_finish(&reg);
}

static void pages_follow_each_other_whatever_goes_meanwhile(void **state)
{
    struct task_registry reg;
    task_registry_init(&reg);
    struct mcp_task *tasks[TASKS_PAGE + 10];
    for (size_t i = 0; i < TASKS_PAGE + 10; i++) {
        tasks[i] = task_registry_add(&reg, "a", false, 0, 0);
    }
    assert_non_null(add(&reg, "a", 0)); /* of the other revision: not listed */
    cJSON *items = NULL;
    char *next = NULL;
    assert_true(task_registry_list(&reg, "a", false, NULL, &items, &next));
    assert_int_equal(cJSON_GetArraySize(items), TASKS_PAGE);
    assert_string_equal(json_get_str(items->child, "taskId"), tasks[0]->id);
    assert_non_null(next);
    cJSON_Delete(items);
    finish(&reg, tasks[TASKS_PAGE - 1], 0); /* the task that the cursor names */
    task_registry_expire(&reg, TASK_OVERTIME_MS);
    char *end = NULL;
    assert_true(task_registry_list(&reg, "a", false, next, &items, &end));
    assert_int_equal(cJSON_GetArraySize(items), 10);
    assert_string_equal(json_get_str(items->child, "taskId"), tasks[TASKS_PAGE]->id);
    assert_null(end);
    cJSON_Delete(items);
    free(next);
    static const char *const wrong[] = {"", "x", "-1", "0", "1x", "99999999999999999999999"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_false(task_registry_list(&reg, "a", false, wrong[i], &items, &end));
    }
    assert_true(task_registry_list(&reg, "nobody", false, NULL, &items, &end));
    assert_int_equal(cJSON_GetArraySize(items), 0);
    cJSON_Delete(items);
    task_registry_finish(&reg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_event_in_every_state),
        cmocka_unit_test(both_ways_of_writing_it_down),
        cmocka_unit_test(messages_may_be_any_bytes_and_are_cut_between_characters),
        cmocka_unit_test(keys_are_used_once_and_answers_come_back_by_the_handlers_names),
        cmocka_unit_test(rounds_and_their_bytes_are_limited),
        cmocka_unit_test(a_task_is_there_only_for_its_owner_and_flavour),
        cmocka_unit_test(what_is_over_makes_room_and_what_runs_does_not),
        cmocka_unit_test(all_principals_together_are_limited_too),
        cmocka_unit_test(who_keeps_most_gives_up_its_oldest_results),
        cmocka_unit_test(kept_for_the_ttl_and_a_little_after_its_end),
        cmocka_unit_test(questions_are_late_after_their_time),
        cmocka_unit_test(pages_follow_each_other_whatever_goes_meanwhile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
