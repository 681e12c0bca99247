/*
 * What goes to the service and what comes from it, without a network: envelopes, events, words,
 * sandboxes, and the command that starts the agent.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/cleanup.h"
#include "common/io/json.h"
#include "worker/backend/e2b/agent.h"
#include "worker/backend/e2b/box.h"
#include "worker/backend/e2b/envelope.h"
#include "worker/backend/e2b/event.h"
#include "worker/backend/json_build.h"

static char key[] = "e2b_5ecre7";
static char token[] = "70ken5";
static const struct e2b_secrets secrets = {.key = key, .token = token};

static void an_envelope_is_read_when_it_is_whole(void **state)
{
    (void)state;
    uint8_t bytes[ENVELOPE_HEAD_BYTES + 4] = {0};
    struct view message;
    struct err err = ERR_INIT;
    size_t used;
    bool last;
    envelope_head(4, bytes);
    memcpy(bytes + ENVELOPE_HEAD_BYTES, "{  }", 4);
    for (size_t len = 0; len < sizeof(bytes); len++) {
        assert_int_equal(envelope_next(view_bytes(bytes, len), &message, &used, &last, &err), 0);
    }
    struct view whole = view_bytes(bytes, sizeof(bytes));
    assert_int_equal(envelope_next(whole, &message, &used, &last, &err), 1);
    assert_true(view_is(message, "{  }") && used == sizeof(bytes) && !last);
    bytes[0] = 2;
    assert_int_equal(envelope_next(whole, &message, &used, &last, &err), 1);
    assert_true(last);
    bytes[0] = 1; /* compressed, which nobody has asked for */
    assert_int_equal(envelope_next(whole, &message, &used, &last, &err), -ERR_PROTOCOL);
    envelope_head(ENVELOPE_MESSAGE_MAX + 1, bytes); /* refused before it is waited for */
    assert_int_equal(envelope_next(whole, &message, &used, &last, &err), -ERR_TOO_BIG);
}

static int read_event(const char *text, struct buf *data, struct e2b_event *ret)
{
    struct err err = ERR_INIT;
    data->len = 0;
    int rc = e2b_event_read(view_of(text), &secrets, data, ret, &err);
    assert_true(rc == 0 || err.text[0] != '\0');
    return rc;
}

static void events_are_read_by_what_is_in_them(void **state)
{
    (void)state;
    CLEANUP_BUF struct buf data;
    struct e2b_event e;
    buf_init(&data, 64);
    assert_int_equal(read_event("{\"event\":{\"start\":{\"pid\":12}}}", &data, &e), 0);
    assert_true(e.kind == E2B_EVENT_STARTED && e.pid == 12);
    assert_int_equal(read_event("{\"event\":{\"data\":{\"stdout\":\"aGk=\"}}}", &data, &e), 0);
    assert_true(e.kind == E2B_EVENT_STDOUT && data.len == 2 && memcmp(data.data, "hi", 2) == 0);
    assert_int_equal(read_event("{\"event\":{\"data\":{\"stderr\":\"\"}}}", &data, &e), 0);
    assert_true(e.kind == E2B_EVENT_STDERR && data.len == 0);
    assert_int_equal(read_event("{\"event\":{\"keepalive\":{}}}", &data, &e), 0);
    assert_int_equal(e.kind, E2B_EVENT_OTHER);
    assert_int_equal(read_event("{\"event\":{\"end\":{\"status\":\"signal: killed\"}}}", &data, &e),
                     0);
    assert_true(e.kind == E2B_EVENT_ENDED && strcmp(e.words, "signal: killed") == 0);
    static const char *const wrong[] = {"",
                                        "[]",
                                        "{\"event\":3}",
                                        "{\"event\":{\"start\":{}}}",
                                        "{\"event\":{\"start\":{\"pid\":-1}}}",
                                        "{\"event\":{\"data\":{\"stdout\":\"aGk\"}}}"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(read_event(wrong[i], &data, &e), -ERR_PROTOCOL);
    }
}

static void the_end_of_a_stream_says_why(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    assert_int_equal(e2b_event_last(view_of("{}"), &secrets, &err), -ERR_GONE);
    assert_int_equal(
        e2b_event_last(view_of("{\"error\":{\"code\":\"not_found\",\"message\":\"no\"}}"), &secrets,
                       &err),
        -ERR_GONE);
    assert_int_equal(
        e2b_event_last(view_of("{\"error\":{\"code\":\"unavailable\",\"message\":\"a\\nb\"}}"),
                       &secrets, &err),
        -ERR_ENGINE);
    assert_string_equal(err.text, "the sandbox's daemon says: unavailable: a b");
    assert_int_equal(e2b_event_last(view_of("{"), &secrets, &err), -ERR_PROTOCOL);
}

static void words_for_people_have_no_secrets(void **state)
{
    (void)state;
    static const struct {
        const char *said, *words;
    } rows[] = {
        {"", ""},
        {" a\tb\n\x7f", " a b"},
        {"e2b_5ecre7 of 70ken5", "(key) of (key)"},
        {"e2b_e2b_5ecre7e2b_5ecre7", "e2b_(key)(key)"},
        {"cut e2b_5ec", "cut (key)"},
        {"e2b_5econd", "e2b_5econd"},
        {"cut \xc3", "cut"},
        {"0123456789 e2b_5ecre7", "0123456789 (key)"},
    };
    char words[24];
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        e2b_words(&secrets, view_of(rows[i].said), words, sizeof(words));
        assert_string_equal(words, rows[i].words);
    }
    CLEANUP_BUF struct buf data;
    struct e2b_event e;
    struct err err = ERR_INIT;
    buf_init(&data, 64);
    assert_int_equal(read_event("{\"event\":{\"end\":{\"error\":\"no 70ken5\"}}}", &data, &e), 0);
    assert_string_equal(e.words, "no (key)");
    assert_int_equal(
        e2b_event_last(view_of("{\"error\":{\"code\":\"internal\",\"message\":\"70ken5?\"}}"),
                       &secrets, &err),
        -ERR_ENGINE);
    assert_string_equal(err.text, "the sandbox's daemon says: internal: (key)?");
}

static void versions_are_compared_as_numbers(void **state)
{
    (void)state;
    static const char *const enough[] = {"0.5.7", "0.5.10", "0.10.0", "1.0", "1", "0.5.7-rc1"};
    static const char *const less[] = {"0.5.6", "0.5", "0.4.99", "", "v1.0", "0.x"};
    for (size_t i = 0; i < sizeof(enough) / sizeof(enough[0]); i++) {
        assert_true(e2b_box_is_at_least(enough[i], 0, 5, 7));
    }
    for (size_t i = 0; i < sizeof(less) / sizeof(less[0]); i++) {
        assert_false(e2b_box_is_at_least(less[i], 0, 5, 7));
    }
}

static bool has_pair(const cJSON *words, const char *flag, const char *value)
{
    for (int i = 0; i + 1 < cJSON_GetArraySize(words); i++) {
        if (strcmp(cJSON_GetArrayItem(words, i)->valuestring, flag) == 0 &&
            strcmp(cJSON_GetArrayItem(words, i + 1)->valuestring, value) == 0) {
            return true;
        }
    }
    return false;
}

static void the_agent_gets_its_limits_and_code_its_environment(void **state)
{
    (void)state;
    char path[] = "/opt/cloister/agent-0";
    const struct e2b_agent agent = {.path = path};
    struct view pair = view_of("NAME=a b");
    const struct backend_spec spec = {
        .id = "s1",
        .dir = "/d",
        .limits = {.pids = 7, .files = 99},
        .env = {&pair, 1},
        .grace_ms = 5000,
    };
    struct err err = ERR_INIT;
    cJSON *words = NULL;
    cJSON *env = NULL;
    assert_int_equal(e2b_agent_command(&agent, &spec, &words, &env, &err), 0);
    assert_string_equal(cJSON_GetArrayItem(words, 0)->valuestring, "/bin/sh");
    assert_true(has_pair(words, "--sandbox", "s1") && has_pair(words, "--nproc", "7"));
    assert_true(has_pair(words, "--nofile", "99") && has_pair(words, "--grace-ms", "5000"));
    assert_true(has_pair(words, "--memory-bytes", "536870912"));
    assert_false(has_pair(words, "--uid", "0") || has_pair(words, "--uid", "1000"));
    bool found = false;
    const cJSON *item;
    cJSON_ArrayForEach(item, env)
    {
        found = found || strcmp(item->valuestring, "NAME=a b") == 0;
        assert_true(strncmp(item->valuestring, "PATH=", 5) != 0); /* the template's own is used */
    }
    assert_true(found);
    cJSON_Delete(words);
    cJSON_Delete(env);
}

static void the_agent_is_found_among_the_processes_of_its_sandbox(void **state)
{
    (void)state;
    static const struct {
        const char *list;
        bool there;
    } rows[] = {
        {"{\"processes\":[{\"config\":{\"args\":[\"serve\",\"--sandbox\",\"s1\"]}}]}", true},
        {"{\"processes\":[{\"pid\":1},{\"config\":{\"args\":[\"--sandbox\",\"s1\"]}}]}", true},
        {"{\"processes\":[{\"config\":{\"args\":[\"--sandbox\",\"s2\",\"s1\"]}}]}", false},
        {"{\"processes\":[{\"config\":{\"args\":[\"--sandbox\",1]}},3]}", false},
        {"{}", false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        cJSON *list = NULL;
        assert_int_equal(
            json_parse(rows[i].list, strlen(rows[i].list), 4096, 16, &list, NULL, NULL), 0);
        assert_int_equal(e2b_agent_is_listed(list, "s1"), rows[i].there);
        cJSON_Delete(list);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_envelope_is_read_when_it_is_whole),
        cmocka_unit_test(events_are_read_by_what_is_in_them),
        cmocka_unit_test(the_end_of_a_stream_says_why),
        cmocka_unit_test(words_for_people_have_no_secrets),
        cmocka_unit_test(versions_are_compared_as_numbers),
        cmocka_unit_test(the_agent_gets_its_limits_and_code_its_environment),
        cmocka_unit_test(the_agent_is_found_among_the_processes_of_its_sandbox),
    };
    return cmocka_run_group_tests_name("e2b wire", tests, NULL, NULL);
}
