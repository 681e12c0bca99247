/* Installations: which ones run in parallel, which calls wait for which, and what clients are
 * told. */
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
#include "supervisor/packages/internal.h"
#include "supervisor/packages/packages.h"
#include "tests/unit/supervisor/client.h"

/* Runs callbacks that the loop has deferred. */
static void turn(struct client *c)
{
    for (int i = 0; i < 4; i++) {
        uv_run(&c->loop, UV_RUN_NOWAIT);
    }
}

static size_t count_pending(const struct client *c, enum fake_kind kind)
{
    size_t count = 0;
    for (size_t i = 0; i < c->fleet->pending_count; i++) {
        count += c->fleet->pending[i]->kind == kind ? 1 : 0;
    }
    return count;
}

/* Answers the oldest pending request of a kind. */
static void answer(struct client *c, enum fake_kind kind)
{
    for (size_t i = 0; i < c->fleet->pending_count; i++) {
        if (c->fleet->pending[i]->kind == kind) {
            fake_answer(c->fleet, i);
            turn(c);
            return;
        }
    }
    fail_msg("nothing of kind %d waits", kind);
}

static void make_sandboxes(struct client *c, int count)
{
    for (int i = 0; i < count; i++) {
        client_call(c, false, "create_sandbox", "{}");
        fake_settle(c->fleet);
    }
}

static void install(struct client *c, const char *arguments)
{
    client_call(c, false, "install_package", arguments);
    turn(c);
}

static const cJSON *last_result(struct client *c)
{
    return at(client_last(c), "result.structuredContent");
}

static void two_calls_for_one_package_share_an_installer(void **state)
{
    struct client *c = *state;
    make_sandboxes(c, 1);
    install(c, "{'package_name':'alpha>=1','sandbox_id':'sb1'}");
    install(c, "{'package_name':'alpha>=1','sandbox_id':'sb1'}");
    assert_int_equal(count_pending(c, FAKE_OPEN), 1);
    assert_true(c->fleet->spec.memory_mb >= 1024);
    answer(c, FAKE_OPEN);
    assert_int_equal(c->fleet->last.op.kind, OP_RUN);
    assert_non_null(strstr(c->fleet->last.args, "python3|-I|-|{\"root\":\"/packages/python\""));
    assert_non_null(strstr(c->fleet->last.args, "\"requirements\":[\"alpha>=1\"]"));
    size_t before = c->count;
    fake_set_output(c->fleet, "+ Alpha 1.5\n", 12);
    answer(c, FAKE_RUN);
    assert_int_equal(c->count - before, 2);
    CLEANUP_FREE char *first =
        alloc_strdup(text_at(at(c->answers[before], "result.structuredContent"), "execution_id"));
    assert_string_equal(text_at(last_result(c), "execution_id"), first);
    assert_string_equal(text_at(last_result(c), "status"), "installed");
    assert_string_equal(text_at(last_result(c), "packages.0.version"), "1.5");
    answer(c, FAKE_CLOSE);
    assert_int_equal(c->fleet->pending_count, 0);
}

static void installers_are_four_at_a_time_and_one_for_a_sandbox(void **state)
{
    struct client *c = *state;
    make_sandboxes(c, 6);
    for (int i = 1; i <= 6; i++) {
        char text[100];
        snprintf(text, sizeof(text), "{'package_name':'alpha','sandbox_id':'sb%d'}", i);
        install(c, text);
    }
    assert_int_equal(count_pending(c, FAKE_OPEN), 4);
    install(c, "{'package_name':'beta','sandbox_id':'sb1'}");
    fake_set_output(c->fleet, "", 0);
    answer(c, FAKE_OPEN);
    answer(c, FAKE_RUN);
    assert_int_equal(count_pending(c, FAKE_OPEN), 3); /* its installer still exists */
    answer(c, FAKE_CLOSE);
    assert_int_equal(count_pending(c, FAKE_OPEN), 4); /* the fifth begins, and not beta */
    for (int i = 0; i < 6; i++) {
        answer(c, FAKE_OPEN);
        answer(c, FAKE_RUN);
        answer(c, FAKE_CLOSE);
    }
    assert_int_equal(c->fleet->pending_count, 0);
    assert_int_equal(c->fleet->opens, 6 + 7);
}

/* ---- owners ---- */

static void on_owned_open(void *arg, int rc, const struct fleet_info *info, const struct err *err,
                          const char *hint)
{
    assert_int_equal(rc, 0);
    snprintf(arg, FLEET_ID_SIZE, "%s", info->id);
}

/* Asks for a package in a new sandbox of this owner. */
static void install_for(struct client *c, struct packages *p, const char *owner)
{
    static const struct fleet_spec any;
    static const char *const names[] = {"alpha"};
    char sandbox[FLEET_ID_SIZE], id[PACKAGE_ID_SIZE];
    fleet_open(c->fleet, owner, &any, on_owned_open, sandbox);
    fake_answer(c->fleet, c->fleet->pending_count - 1);
    packages_install(p, owner, sandbox, PACKAGE_PIP, names, 1, id);
    turn(c);
}

/* For whom installers are being opened, as initials in order. */
static const char *installers_of(const struct client *c)
{
    static char initials[FAKE_PENDING + 1];
    size_t count = 0;
    for (size_t i = 0; i < c->fleet->pending_count; i++) {
        if (c->fleet->pending[i]->kind == FAKE_OPEN) {
            const struct installation *installation = c->fleet->pending[i]->arg;
            initials[count++] = installation->owner[0];
        }
    }
    initials[count] = '\0';
    return initials;
}

/* The oldest installation comes to its end. */
static void end_oldest(struct client *c)
{
    answer(c, FAKE_OPEN);
    answer(c, FAKE_RUN);
    answer(c, FAKE_CLOSE);
}

static void end_all(struct client *c, struct packages *p)
{
    packages_stop(p);
    turn(c);
    while (c->fleet->pending_count > 0) {
        fake_answer(c->fleet, 0);
        turn(c);
    }
    packages_destroy(p);
    turn(c);
}

static void owners_take_turns(void **state)
{
    struct client *c = *state;
    struct packages *p = packages_create(&c->loop, c->fleet, &c->config);
    for (int i = 0; i < 5; i++) {
        install_for(c, p, "greedy");
    }
    install_for(c, p, "late");
    fake_set_output(c->fleet, "", 0);
    assert_string_equal(installers_of(c), "gggg"); /* nobody else was there */
    end_oldest(c);
    assert_string_equal(installers_of(c), "gggl"); /* who has none comes first */
    install_for(c, p, "third");
    end_oldest(c);
    assert_string_equal(installers_of(c), "gglt");
    end_all(c, p);
}

/* Of owners who have as many, the one whose turn was longest ago. */
static void no_owner_waits_for_all_of_another(void **state)
{
    struct client *c = *state;
    struct packages *p = packages_create(&c->loop, c->fleet, &c->config);
    static const char *const names[] = {"a", "b", "c", "d", "a", "a", "e"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        install_for(c, p, names[i]);
    }
    fake_set_output(c->fleet, "", 0);
    assert_string_equal(installers_of(c), "abcd");
    end_oldest(c); /* now neither a nor e has one, and a asked before e */
    assert_string_equal(installers_of(c), "bcde");
    end_oldest(c);
    assert_string_equal(installers_of(c), "cdea");
    end_all(c, p);
}

static void one_principal_of_several_never_has_all_installers(void **state)
{
    struct client *c = *state;
    struct packages *p = packages_create(&c->loop, c->fleet, &c->config);
    fleet_set_shared(c->fleet, true);
    for (int i = 0; i < 4; i++) {
        install_for(c, p, "greedy");
    }
    assert_string_equal(installers_of(c), "gg");
    install_for(c, p, "late");
    install_for(c, p, "third");
    assert_string_equal(installers_of(c), "gglt"); /* at once: nobody has to end before */
    end_all(c, p);
}

static void one_principal_of_several_never_fills_the_queue(void **state)
{
    struct client *c = *state;
    struct packages *p = packages_create(&c->loop, c->fleet, &c->config);
    char sandbox[FLEET_ID_SIZE], other[FLEET_ID_SIZE], id[PACKAGE_ID_SIZE];
    static const struct fleet_spec any;
    fleet_set_shared(c->fleet, true);
    fleet_open(c->fleet, "greedy", &any, on_owned_open, sandbox);
    fleet_open(c->fleet, "late", &any, on_owned_open, other);
    fake_settle(c->fleet);
    for (int i = 0; i < INSTALLATIONS_OPEN; i++) {
        char name[24];
        const char *const names[] = {name};
        snprintf(name, sizeof(name), "alpha%d", i);
        packages_install(p, "greedy", sandbox, PACKAGE_PIP, names, 1, id);
    }
    assert_int_equal(p->open, INSTALLATIONS_OPEN / 2);
    const struct installation *refused = packages_find(p, "greedy", id);
    assert_int_equal(refused->rc, -ERR_BUSY);
    assert_non_null(strstr(refused->message, "64 installations of yours"));
    static const char *const beta[] = {"beta"};
    packages_install(p, "late", other, PACKAGE_PIP, beta, 1, id);
    assert_int_equal(packages_find(p, "late", id)->rc, 0);
    turn(c);
    assert_string_equal(installers_of(c), "gl");
    end_all(c, p);
}

static void a_failure_says_why_in_the_words_of_the_installer(void **state)
{
    struct client *c = *state;
    make_sandboxes(c, 1);
    install(c, "{'package_name':'alpha','sandbox_id':'sb1'}");
    answer(c, FAKE_OPEN);
    const char said[] = "! not_found No matching distribution found for alpha\n";
    fake_set_output(c->fleet, said, sizeof(said) - 1);
    c->fleet->end.status = OP_STATUS_ERROR;
    answer(c, FAKE_RUN);
    const cJSON *result = at(client_last(c), "result");
    assert_failure(result, "package_failed",
                   "no such package or version: No matching distribution found for alpha");
    assert_string_equal(text_at(last_result(c), "status"), "failed");
    assert_string_equal(text_at(last_result(c), "packages.0.status"), "failed");
    answer(c, FAKE_CLOSE);
}

/* A package whose build script lacks a module: installing that module into the sandbox would not
 * help. */
static void a_failed_installation_is_not_code_that_misses_a_module(void **state)
{
    struct client *c = *state;
    make_sandboxes(c, 1);
    install(c, "{'package_name':'alpha','sandbox_id':'sb1'}");
    answer(c, FAKE_OPEN);
    const char said[] = "! build_failed No module named 'setuptools'\n";
    fake_set_output(c->fleet, said, sizeof(said) - 1);
    c->fleet->end.status = OP_STATUS_ERROR;
    answer(c, FAKE_RUN);
    CLEANUP_FREE char *query = alloc_printf("{'execution_id':'%s','wait_seconds':0}",
                                            text_at(last_result(c), "execution_id"));
    client_call(c, false, "get_execution", query);
    turn(c);
    assert_non_null(strstr(text_at(last_result(c), "error.message"), "No module named"));
    assert_null(at(last_result(c), "error.hint"));
    answer(c, FAKE_CLOSE);
}

static void an_installer_that_cannot_be_made_fails_the_installation(void **state)
{
    struct client *c = *state;
    make_sandboxes(c, 1);
    install(c, "{'package_name':'alpha','sandbox_id':'sb1'}");
    c->fleet->fail_code = ERR_ENGINE;
    c->fleet->fail_text = "no room";
    c->fleet->fail_hint = "make some";
    answer(c, FAKE_OPEN);
    assert_failure(at(client_last(c), "result"), "engine_unavailable",
                   "no installer could be started: no room");
    c->fleet->fail_code = 0;
    install(c, "{'package_name':'alpha','sandbox_id':'sb1'}");
    assert_int_equal(count_pending(c, FAKE_OPEN), 1); /* the next one begins */
    answer(c, FAKE_OPEN);
    answer(c, FAKE_RUN);
    answer(c, FAKE_CLOSE);
}

static void a_call_that_is_cancelled_leaves_the_installation_to_go_on(void **state)
{
    struct client *c = *state;
    make_sandboxes(c, 1);
    install(c, "{'package_name':'alpha','sandbox_id':'sb1'}");
    answer(c, FAKE_OPEN);
    size_t before = c->count;
    client_send(c,
                "{'jsonrpc':'2.0','method':'notifications/cancelled','params':{'requestId':"
                "'call-%zu'}}",
                c->calls - 1);
    turn(c);
    assert_int_equal(count_pending(c, FAKE_RUN), 1);
    assert_false(c->fleet->pending[0]->cancelled);
    assert_int_equal(c->count, before); /* no client waits for the answer */
    client_call(c, false, "check_package_status", "{'package_name':'ALPHA','sandbox_id':'sb1'}");
    turn(c);
    assert_string_equal(text_at(last_result(c), "status"), "installing");
    answer(c, FAKE_RUN);
    answer(c, FAKE_CLOSE);
}

static void what_takes_too_long_goes_on_and_is_told_by_its_id(void **state)
{
    struct client *c = *state;
    make_sandboxes(c, 1);
    c->config.sync_budget_s = 0;
    install(c, "{'package_name':'alpha','sandbox_id':'sb1'}");
    assert_string_equal(text_at(last_result(c), "status"), "installing");
    CLEANUP_FREE char *id = alloc_strdup(text_at(last_result(c), "execution_id"));
    CLEANUP_FREE char *query = alloc_printf("{'execution_id':'%s','wait_seconds':0}", id);
    client_call(c, false, "get_execution", query);
    turn(c);
    assert_string_equal(text_at(last_result(c), "status"), "running");
    assert_string_equal(text_at(last_result(c), "language"), "pip");
    answer(c, FAKE_OPEN);
    fake_set_output(c->fleet, "+ alpha 2\n", 10);
    answer(c, FAKE_RUN);
    client_call(c, false, "get_execution", query);
    turn(c);
    assert_string_equal(text_at(last_result(c), "status"), "ok");
    answer(c, FAKE_CLOSE);
}

static void status_is_looked_up_in_the_sandbox(void **state)
{
    struct client *c = *state;
    make_sandboxes(c, 1);
    client_call(c, false, "check_package_status", "{'package_name':'Alpha','sandbox_id':'sb1'}");
    assert_non_null(strstr(c->fleet->last.args, "python3|-I|-|/packages/python|Alpha"));
    assert_true(c->fleet->last.op.is_look);
    fake_set_output(c->fleet, "+ alpha 3.1\n", 12);
    answer(c, FAKE_RUN);
    assert_string_equal(text_at(last_result(c), "status"), "installed");
    assert_string_equal(text_at(last_result(c), "version"), "3.1");
    client_call(c, false, "check_package_status", "{'package_name':'beta','sandbox_id':'sb1'}");
    answer(c, FAKE_RUN);
    assert_string_equal(text_at(last_result(c), "status"), "not_installed");
}

static void a_sandbox_is_told_when_its_packages_are_there(void **state)
{
    struct client *c = *state;
    client_call(c, false, "create_sandbox", "{'packages':['alpha','beta==2']}");
    answer(c, FAKE_OPEN);
    answer(c, FAKE_OPEN);
    fake_set_output(c->fleet, "+ alpha 1\n+ beta 2\n", 19);
    answer(c, FAKE_RUN);
    assert_string_equal(text_at(last_result(c), "sandbox_id"), "sb1");
    assert_string_equal(text_at(last_result(c), "packages.1.version"), "2");
    answer(c, FAKE_CLOSE);
    client_call(c, false, "create_sandbox", "{'packages':['gamma']}");
    answer(c, FAKE_OPEN);
    answer(c, FAKE_OPEN);
    c->fleet->end.status = OP_STATUS_ERROR;
    size_t before = c->count;
    answer(c, FAKE_RUN);
    assert_int_equal(c->count, before); /* the sandbox is closed first */
    answer(c, FAKE_CLOSE);
    answer(c, FAKE_CLOSE);
    assert_failure(at(client_last(c), "result"), "package_failed", "could not be installed");
}

/* ---- what code asks for ---- */

static bool wish_for(struct client *c, uint64_t id, const char *name)
{
    struct view item = view_of(name);
    const struct msg_install wish = {.id = id, .manager = INSTALL_PIP, .requirements = {&item, 1}};
    bool is_new =
        c->fleet->install(c->fleet->install_arg, c->fleet->sandboxes[0].owner, "sb1", &wish);
    turn(c);
    return is_new;
}

static void assert_told(const struct client *c, uint64_t id, unsigned exit_code, const char *text)
{
    const struct fleet_call *last = &c->fleet->last;
    assert_int_equal(last->op.kind, OP_TELL);
    assert_int_equal(last->op.offset, id);
    assert_int_equal(last->op.flags, OP_FLAG_LAST);
    assert_int_equal(last->op.mode, exit_code);
    assert_true(last->op.is_look);
    assert_non_null(strstr(last->data, text));
}

static void what_code_asks_for_is_installed_once_and_told_to_it(void **state)
{
    struct client *c = *state;
    make_sandboxes(c, 1);
    assert_true(wish_for(c, 1, "alpha>=1"));
    assert_false(wish_for(c, 1, "alpha>=1")); /* it comes with each output */
    install(c, "{'package_name':'alpha>=1','sandbox_id':'sb1'}");
    assert_int_equal(count_pending(c, FAKE_OPEN), 1); /* shared with who calls the tool */
    answer(c, FAKE_OPEN);
    fake_set_output(c->fleet, "+ Alpha 1.5\n", 12);
    answer(c, FAKE_RUN);
    assert_told(c, 1, 0, "Requirement already satisfied: alpha 1.5\n");
    assert_string_equal(text_at(last_result(c), "status"), "installed");
    answer(c, FAKE_RUN);
    assert_false(wish_for(c, 1, "alpha>=1")); /* an output that came late */
    answer(c, FAKE_CLOSE);
    assert_int_equal(c->fleet->pending_count, 0);
}

static void on_alive(uv_timer_t *timer)
{
    (void)timer;
}

/* Progress is told twice a second. The loop has to be alive until then, as a server's is. */
static void wait_for_tell(struct client *c)
{
    uv_timer_t alive;
    uv_timer_init(&c->loop, &alive);
    uv_timer_start(&alive, on_alive, 10, 10);
    while (c->fleet->last.op.kind != OP_TELL) {
        uv_run(&c->loop, UV_RUN_ONCE);
    }
    uv_close((uv_handle_t *)&alive, NULL);
    turn(c);
}

static void an_installation_that_ends_while_its_output_is_told_is_told_to_have_ended(void **state)
{
    struct client *c = *state;
    make_sandboxes(c, 1);
    assert_true(wish_for(c, 1, "alpha"));
    fake_progress(c->fleet, 0, "Pulling", 0, 0);
    wait_for_tell(c);
    assert_int_equal(c->fleet->last.op.flags, 0);
    answer(c, FAKE_OPEN);
    fake_set_output(c->fleet, "+ alpha 1\n", 10);
    fake_answer(c->fleet, 1); /* the installation, while the text above is still being told */
    turn(c);
    answer(c, FAKE_RUN);
    assert_told(c, 1, 0, "");
    answer(c, FAKE_RUN);
    answer(c, FAKE_CLOSE);
    assert_int_equal(c->fleet->pending_count, 0);
}

static void what_cannot_be_a_name_is_refused_by_the_rules_of_the_tool(void **state)
{
    static const char *const names[] = {"--index-url=http://x", "http://x/y", "a;b", "./a.whl"};
    struct client *c = *state;
    make_sandboxes(c, 1);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        assert_true(wish_for(c, i + 1, names[i]));
        assert_told(c, i + 1, 1, "is no package name");
        answer(c, FAKE_RUN);
    }
    assert_int_equal(count_pending(c, FAKE_OPEN), 0);
}

/* Code may end its wait and leave the installation, but not as often as it likes. */
static void wishes_that_were_left_are_counted(void **state)
{
    struct client *c = *state;
    char name[16];
    make_sandboxes(c, 1);
    for (unsigned i = 1; i <= 16; i++) {
        snprintf(name, sizeof(name), "alpha%u", i);
        assert_true(wish_for(c, i, name));
    }
    assert_true(wish_for(c, 17, "alpha17"));
    assert_told(c, 17, 1, "too many installations");
    assert_int_equal(count_pending(c, FAKE_OPEN), 1);
}

/* The sandbox is gone when it is to be told: nothing is tried again. */
static void an_answer_that_nobody_can_take_is_dropped(void **state)
{
    struct client *c = *state;
    make_sandboxes(c, 1);
    assert_true(wish_for(c, 1, "http://x/y"));
    c->fleet->fail_code = ERR_GONE;
    c->fleet->fail_text = "the sandbox has ended";
    answer(c, FAKE_RUN);
    c->fleet->fail_code = 0;
    assert_int_equal(c->fleet->pending_count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(f) cmocka_unit_test_setup_teardown(f, client_setup, client_teardown)
        TEST(two_calls_for_one_package_share_an_installer),
        TEST(installers_are_four_at_a_time_and_one_for_a_sandbox),
        TEST(owners_take_turns),
        TEST(no_owner_waits_for_all_of_another),
        TEST(one_principal_of_several_never_has_all_installers),
        TEST(one_principal_of_several_never_fills_the_queue),
        TEST(a_failure_says_why_in_the_words_of_the_installer),
        TEST(a_failed_installation_is_not_code_that_misses_a_module),
        TEST(an_installer_that_cannot_be_made_fails_the_installation),
        TEST(a_call_that_is_cancelled_leaves_the_installation_to_go_on),
        TEST(what_takes_too_long_goes_on_and_is_told_by_its_id),
        TEST(status_is_looked_up_in_the_sandbox),
        TEST(a_sandbox_is_told_when_its_packages_are_there),
        TEST(what_code_asks_for_is_installed_once_and_told_to_it),
        TEST(what_cannot_be_a_name_is_refused_by_the_rules_of_the_tool),
        TEST(an_installation_that_ends_while_its_output_is_told_is_told_to_have_ended),
        TEST(wishes_that_were_left_are_counted),
        TEST(an_answer_that_nobody_can_take_is_dropped),
#undef TEST
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
