/* Progress notifications: which requests get them, in which form, how often, and until when. */
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
#include "supervisor/mcp/progress.h"
#include "supervisor/mcp/wire/revision.h"
#include "tests/unit/supervisor/client.h"

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

/* ---- one request ---------------------------------------------------------------------------- */

static void begin(struct progress *p, const char *params)
{
    struct err err = ERR_INIT;
    cJSON *tree = NULL;
    assert_int_equal(json_parse(params, strlen(params), 1000, 10, &tree, NULL, &err), 0);
    progress_init(p, tree, true, 0);
    cJSON_Delete(tree);
}

/* "<progress>/<total> <message>", "-" if nothing is sent. */
static char *tell(struct progress *p, uint64_t now_ms, const char *text, uint64_t done,
                  uint64_t total)
{
    CLEANUP_FREE char *json = progress_is_due(p, now_ms)
                                  ? progress_tell(p, (double)done, (double)total, text, now_ms)
                                  : NULL;
    struct err err = ERR_INIT;
    cJSON *m = NULL;
    if (json == NULL) {
        return alloc_strdup("-");
    }
    assert_int_equal(json_parse(json, strlen(json), 8000, 10, &m, NULL, &err), 0);
    assert_string_equal(text_at(m, "method"), "notifications/progress");
    assert_null(at(m, "id"));
    const cJSON *all = at(m, "params.total");
    char *line = alloc_printf("%.0f/%.0f %s", number_at(m, "params.progress"),
                              all != NULL ? all->valuedouble : 0, text_at(m, "params.message"));
    cJSON_Delete(m);
    return line;
}

static void check(struct progress *p, uint64_t now_ms, const char *text, uint64_t done,
                  uint64_t total, const char *expected)
{
    CLEANUP_FREE char *line = tell(p, now_ms, text, done, total);
    assert_string_equal(line, expected);
}

static void numbers_only_rise_and_the_pace_is_kept(void **state)
{
    struct progress p;
    begin(&p, "{\"_meta\":{\"progressToken\":\"t\"}}");
    check(&p, 0, "asking", 0, 0, "0/0 asking"); /* even at time 0 */
    check(&p, 499, "pulling", 10, 100, "-");
    check(&p, 500, "pulling", 20, 100, "20/100 pulling");
    check(&p, 1000, "pulling", 20, 100, "21/100 pulling");
    check(&p, 1500, "filling the volume", 0, 0, "22/0 filling the volume");
    check(&p, 2000, "filling the volume", 5, 10, "23/0 filling the volume");
    check(&p, 2499, "starting", 99, 99, "-");
    check(&p, 2600, "starting", 99, 99, "99/99 starting");
    progress_finish(&p);
}

static void other_processes_words_become_text(void **state)
{
    struct progress p;
    char words[4000];
    begin(&p, "{\"_meta\":{\"progressToken\":1}}");
    memset(words, 'x', sizeof(words) - 1);
    words[sizeof(words) - 1] = '\0';
    words[0] = (char)0xff;
    words[1] = '"';
    CLEANUP_FREE char *line = tell(&p, 0, words, 0, 0);
    assert_in_range(strlen(line), 900, 1100);
    progress_finish(&p);
}

static void who_gives_no_token_is_told_nothing(void **state)
{
    static const char *const params[] = {
        "{}",
        "{\"_meta\":{}}",
        "{\"_meta\":null}",
        "{\"_meta\":{\"progressToken\":null}}",
        "{\"_meta\":{\"progressToken\":1.5}}",
        "{\"_meta\":{\"progressToken\":{}}}",
    };
    for (size_t i = 0; i < sizeof(params) / sizeof(params[0]); i++) {
        struct progress p;
        begin(&p, params[i]);
        check(&p, 0, "x", 1, 2, "-");
        progress_finish(&p);
    }
    struct progress p;
    progress_init(&p, NULL, true, 0);
    check(&p, 0, "x", 1, 2, "-");
    progress_finish(&p);
}

/* ---- on a session --------------------------------------------------------------------------- */

#define CREATE                                                                                     \
    "{'jsonrpc':'2.0','id':'c','method':'tools/call','params':{'name':'create_sandbox',"           \
    "'arguments':{},'_meta':{%s'progressToken':%s}}}"
#define MODERN                                                                                     \
    "'io.modelcontextprotocol/protocolVersion':'2026-07-28',"                                      \
    "'io.modelcontextprotocol/clientCapabilities':{},"

static void every_revision_gets_its_own_shape(void **state)
{
    for (int r = REVISION_2024_11_05; r <= REVISION_2026_07_28; r++) {
        struct client *c = client_create();
        bool modern = revision_is_modern((enum revision)r);
        if (!modern) {
            client_initialize(c, revision_name((enum revision)r));
        }
        client_send(c, CREATE, modern ? MODERN : "", modern ? "7" : "'tok'");
        size_t before = c->count;
        fake_progress(c->fleet, 0, "pulling python", 10, 40);
        assert_int_equal(c->count, before + 1);
        const cJSON *m = client_last(c);
        assert_string_equal(text_at(m, "jsonrpc"), "2.0");
        assert_string_equal(text_at(m, "method"), "notifications/progress");
        if (modern) {
            assert_int_equal(number_at(m, "params.progressToken"), 7);
        } else {
            assert_string_equal(text_at(m, "params.progressToken"), "tok");
        }
        assert_int_equal(number_at(m, "params.progress"), 10);
        assert_int_equal(number_at(m, "params.total"), 40);
        if (r == REVISION_2024_11_05) {
            assert_null(at(m, "params.message"));
        } else {
            assert_string_equal(text_at(m, "params.message"), "pulling python");
        }
        fake_progress(c->fleet, 0, "pulling python", 20, 40); /* rate limited */
        fake_settle(c->fleet);
        assert_int_equal(c->count, before + 2);
        assert_string_equal(text_at(client_last(c), "id"), "c");
        client_free(c);
    }
}

static void nothing_is_told_without_a_token_or_after_a_cancel(void **state)
{
    struct client *c = *state;
    client_initialize(c, "2025-11-25");
    client_call(c, false, "create_sandbox", "{}");
    size_t before = c->count;
    fake_progress(c->fleet, 0, "pulling", 1, 2);
    fake_settle(c->fleet);
    assert_int_equal(c->count, before + 1);

    client_send(c, CREATE, "", "1");
    client_send(c, "{'jsonrpc':'2.0','method':'notifications/cancelled','params':"
                   "{'requestId':'c'}}");
    fake_progress(c->fleet, 0, "pulling", 1, 2);
    fake_settle(c->fleet);
    assert_int_equal(c->count, before + 1);
}

static void whoever_waits_for_the_default_sandbox_is_told(void **state)
{
    struct client *c = *state;
    client_initialize(c, "2025-11-25");
    for (int i = 1; i <= 3; i++) {
        client_send(c,
                    "{'jsonrpc':'2.0','id':%d,'method':'tools/call','params':{'name':"
                    "'execute_code','arguments':{'code':'1'},'_meta':{%s}}}",
                    i,
                    i == 1   ? "'progressToken':'a'"
                    : i == 3 ? "'progressToken':'b'"
                             : "");
    }
    size_t before = c->count;
    fake_progress(c->fleet, 0, "pulling", 1, 2);
    assert_int_equal(c->count, before + 2);
    assert_string_equal(text_at(c->answers[before], "params.progressToken"), "a");
    assert_string_equal(text_at(c->answers[before + 1], "params.progressToken"), "b");
    fake_settle(c->fleet);
    assert_int_equal(c->count, before + 5);

    client_send(c, "{'jsonrpc':'2.0','id':9,'method':'tools/call','params':{'name':"
                   "'create_run_close','arguments':{'code':'1'},'_meta':{'progressToken':9}}}");
    fake_progress(c->fleet, 0, "pulling", 1, 2);
    assert_int_equal(number_at(client_last(c), "params.progressToken"), 9);
    fake_settle(c->fleet);
}

static void progress_of_a_batch_is_not_part_of_it(void **state)
{
    struct client *c = *state;
    client_initialize(c, "2025-03-26");
    client_send(c, "[" CREATE "]", "", "1");
    size_t before = c->count;
    fake_progress(c->fleet, 0, "pulling", 1, 2);
    assert_int_equal(c->count, before + 1);
    assert_true(cJSON_IsObject(client_last(c)));
    fake_settle(c->fleet);
    assert_int_equal(c->count, before + 2);
    assert_true(cJSON_IsArray(client_last(c)));
    assert_int_equal(cJSON_GetArraySize(client_last(c)), 1);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_only_rise_and_the_pace_is_kept),
        cmocka_unit_test(other_processes_words_become_text),
        cmocka_unit_test(who_gives_no_token_is_told_nothing),
        cmocka_unit_test(every_revision_gets_its_own_shape),
        T(nothing_is_told_without_a_token_or_after_a_cancel),
        T(whoever_waits_for_the_default_sandbox_is_told),
        T(progress_of_a_batch_is_not_part_of_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
