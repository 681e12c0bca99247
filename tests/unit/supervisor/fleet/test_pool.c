/* Sandboxes that are made in advance: when, for whom, and what becomes of them. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "supervisor/fleet/internal.h"
#include "supervisor/fleet/sandbox/sandbox.h"
#include "tests/unit/supervisor/fleet/fixture.h"

static const struct fleet_spec usual = {.name = NULL};

static int setup(void **state)
{
    unsetenv("WORKER_STUB_LIMITS");
    return fixture_setup(state);
}

static int teardown(void **state)
{
    unsetenv("WORKER_STUB_LIMITS");
    return fixture_teardown(state);
}

static void start_with(struct fixture *f, const char *pool)
{
    f->config.pool = alloc_strdup(pool);
    fixture_start(f);
}

static void on_tick(uv_timer_t *tick)
{
    (void)tick; /* it wakes the loop */
}

/* Runs the loop until so many are ready. */
static void wait_ready(struct fixture *f, uint64_t ready)
{
    uv_timer_t tick;
    uv_timer_init(&f->loop, &tick);
    uv_timer_start(&tick, on_tick, 5, 5);
    for (int i = 0; i < 10000 && fleet_pool(f->fleet).ready != ready; i++) {
        uv_run(&f->loop, UV_RUN_ONCE);
    }
    uv_close((uv_handle_t *)&tick, NULL);
    uv_run(&f->loop, UV_RUN_NOWAIT);
    assert_int_equal(fleet_pool(f->fleet).ready, ready);
}

/* The only one that is kept. */
static struct sandbox *entry_of(struct fixture *f)
{
    struct sandbox *s;
    struct sandbox *found = NULL;
    TAILQ_FOREACH(s, &f->fleet->sandboxes, node)
    {
        if (s->pooled.sm.state == POOLED_KEPT && sandbox_state(s) == SANDBOX_CREATING) {
            assert_null(found);
            found = s;
        }
    }
    assert_non_null(found);
    return found;
}

static void check_figures(struct fixture *f, uint64_t hits, uint64_t misses)
{
    const struct fleet_pool pool = fleet_pool(f->fleet);
    assert_int_equal(pool.hits, hits);
    assert_int_equal(pool.misses, misses);
}

static void count_one(void *arg, const struct fleet_info *info)
{
    (void)info;
    ++*(unsigned *)arg;
}

static unsigned count_of(struct fixture *f, const char *owner)
{
    unsigned count = 0;
    fleet_list(f->fleet, owner, count_one, &count);
    return count;
}

/* ---- filling and giving ---- */

static void nothing_is_made_before_a_sandbox_was_wanted(void **state)
{
    struct fixture *f = *state;
    char id[FLEET_ID_SIZE];
    start_with(f, "2");
    run_past(f, 20);
    assert_int_equal(count_entries(f->top), 0);
    open_fine(f, "me", &usual, id);
    wait_ready(f, 2);
    check_figures(f, 0, 1);
}

static void without_a_pool_there_is_none(void **state)
{
    struct fixture *f = *state;
    char id[FLEET_ID_SIZE];
    start_with(f, "0");
    open_fine(f, "me", &usual, id);
    run_past(f, 20);
    assert_int_equal(fleet_pool(f->fleet).size, 0);
    check_figures(f, 0, 0);
    assert_null(TAILQ_NEXT(TAILQ_FIRST(&f->fleet->sandboxes), node));
}

static void one_of_it_is_given_to_whoever_comes_and_works(void **state)
{
    struct fixture *f = *state;
    const struct fleet_spec named = {.name = "mine", .ttl_ms = 5000, .timeout_ms = 7000};
    char id[FLEET_ID_SIZE], kept[FLEET_ID_SIZE];
    struct answer a;
    const char *found;
    start_with(f, "1");
    open_fine(f, "me", &usual, id);
    wait_ready(f, 1);
    snprintf(kept, sizeof(kept), "%s", entry_of(f)->id);
    assert_true(fleet_find(f->fleet, "me", kept, &found, NULL) < 0);
    assert_true(fleet_find(f->fleet, "", kept, &found, NULL) < 0);
    assert_null(fleet_owner(f->fleet, kept));
    assert_int_equal(count_of(f, "me"), 1);
    assert_int_equal(count_of(f, ""), 0);
    open_fine(f, "you", &named, id);
    assert_string_equal(id, kept);
    check_figures(f, 1, 1);
    assert_string_equal(fleet_owner(f->fleet, id), "you");
    assert_int_equal(fleet_find(f->fleet, "you", "mine", &found, NULL), 0);
    assert_true(fleet_find(f->fleet, "me", id, &found, NULL) < 0);
    get_status(f, id, &a);
    assert_int_equal(a.executions, 0);
    assert_int_equal(a.restarts, 0);
    assert_true(a.expires_wall_ms - a.created_wall_ms <= 5000 + WAIT_MS);
    answer_finish(&a);
    check_run(f, id, "gen", "1");
    wait_ready(f, 1); /* it is filled again */
    assert_string_not_equal(entry_of(f)->id, id);
}

static void none_is_given_twice(void **state)
{
    struct fixture *f = *state;
    struct answer a[4];
    char id[FLEET_ID_SIZE];
    start_with(f, "2");
    open_fine(f, "me", &usual, id);
    wait_ready(f, 2);
    for (size_t i = 0; i < 4; i++) {
        open_for(f, "me", &usual, &a[i]);
    }
    for (size_t i = 0; i < 4; i++) {
        wait_times(f, &a[i], 1);
        assert_int_equal(a[i].rc, 0);
        for (size_t k = 0; k < i; k++) {
            assert_string_not_equal(a[i].id, a[k].id);
        }
    }
    check_figures(f, 2, 3);
    for (size_t i = 0; i < 4; i++) {
        close_one(f, a[i].id);
        answer_finish(&a[i]);
    }
    wait_ready(f, 2);
}

static void a_worker_that_dies_later_is_replaced_like_any_other(void **state)
{
    struct fixture *f = *state;
    const struct fleet_spec more = {.cpus = 2};
    char id[FLEET_ID_SIZE];
    struct answer a;
    start_with(f, "1");
    open_fine(f, "me", &usual, id);
    wait_ready(f, 1);
    open_fine(f, "me", &more, id);
    begin_run(f, id, "crash", &a);
    wait_times(f, &a, 1);
    assert_int_equal(a.rc, 0);
    answer_finish(&a);
    check_run(f, id, "gen", "2");
}

/* ---- limits ---- */

static void it_has_the_limits_that_are_asked_for(void **state)
{
    struct fixture *f = *state;
    /* the disk is configured in this fixture, so more memory leaves it as it is */
    const struct fleet_spec more = {.memory_mb = 1024, .cpus = 0.5};
    char id[FLEET_ID_SIZE];
    struct answer a;
    start_with(f, "1");
    open_fine(f, "me", &usual, id);
    wait_ready(f, 1);
    open_for(f, "me", &more, &a);
    wait_times(f, &a, 1);
    assert_int_equal(a.rc, 0);
    assert_int_equal(a.memory_mb, 1024);
    answer_finish(&a);
    check_figures(f, 1, 1);
}

static void what_cannot_be_changed_is_made_new(void **state)
{
    struct fixture *f = *state;
    struct view pair = view_of("A=1");
    const struct fleet_spec others[] = {
        {.pids = 20},        {.disk_mb = 50},       {.network = true}, {.app_dir = true},
        {.env = {&pair, 1}}, {.image = "/another"}, {.memory_mb = 64}, /* has other file systems */
    };
    char id[FLEET_ID_SIZE], kept[FLEET_ID_SIZE];
    start_with(f, "1");
    f->config.max_sandboxes = 20;
    open_fine(f, "me", &usual, id);
    wait_ready(f, 1);
    snprintf(kept, sizeof(kept), "%s", entry_of(f)->id);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        open_fine(f, "me", &others[i], id);
        assert_string_not_equal(id, kept);
    }
    assert_string_equal(entry_of(f)->id, kept);
    check_figures(f, 0, 1 + sizeof(others) / sizeof(others[0]));
}

static void limits_that_turn_out_to_be_fixed_are_no_clients_concern(void **state)
{
    struct fixture *f = *state;
    const struct fleet_spec more = {.memory_mb = 1024, .name = "mine"};
    char id[FLEET_ID_SIZE], kept[FLEET_ID_SIZE];
    CLEANUP_BUF struct buf log;
    struct answer a;
    const char *found;
    setenv("WORKER_STUB_LIMITS", "fail", 1);
    start_with(f, "1");
    open_fine(f, "me", &usual, id);
    wait_ready(f, 1);
    snprintf(kept, sizeof(kept), "%s", entry_of(f)->id);
    fixture_log_begin(f);
    open_for(f, "me", &more, &a);
    wait_times(f, &a, 1);
    fixture_log_end(f, &log);
    check_log(&log, "a stub has the limits that it has", true);
    assert_int_equal(a.rc, 0);
    assert_int_equal(a.memory_mb, 1024);
    assert_string_not_equal(a.id, kept);
    assert_int_equal(fleet_find(f->fleet, "me", "mine", &found, NULL), 0);
    assert_string_equal(found, a.id);
    close_one(f, a.id);
    answer_finish(&a);
    wait_ready(f, 1);
    snprintf(kept, sizeof(kept), "%s", entry_of(f)->id);
    open_fine(f, "me", &more, id); /* is not even tried */
    assert_string_equal(entry_of(f)->id, kept);
    open_fine(f, "me", &usual, id);
    assert_string_equal(id, kept);
}

/* ---- what goes wrong ---- */

static void one_that_does_not_answer_is_replaced(void **state)
{
    struct fixture *f = *state;
    static const char *const how[] = {"hang", "crash"};
    char id[FLEET_ID_SIZE], kept[FLEET_ID_SIZE];
    const char *found;
    for (size_t i = 0; i < 2; i++) {
        const struct fleet_spec spec = {.name = how[i], .is_default = true, .session = how[i]};
        setenv("WORKER_STUB_LIMITS", how[i], 1);
        if (i == 0) {
            start_with(f, "1");
            open_fine(f, "me", &usual, id);
        }
        wait_ready(f, 1);
        snprintf(kept, sizeof(kept), "%s", entry_of(f)->id);
        unsetenv("WORKER_STUB_LIMITS");
        setenv("WORKER_STUB_LIMITS", how[1], 1); /* for the one that is made next */
        open_fine(f, "me", &spec, id);
        assert_string_not_equal(id, kept);
        assert_int_equal(fleet_find_default(f->fleet, "me", how[i], &found), 0);
        assert_string_equal(found, id);
        check_run(f, id, "gen", "1");
    }
    check_figures(f, 0, 3);
}

static void whoever_closes_it_meanwhile_gets_no_other(void **state)
{
    struct fixture *f = *state;
    const struct fleet_spec spec = {.name = "mine"};
    char id[FLEET_ID_SIZE];
    const char *found;
    struct answer a, closed;
    setenv("WORKER_STUB_LIMITS", "hang", 1);
    start_with(f, "1");
    open_fine(f, "me", &usual, id);
    wait_ready(f, 1);
    open_for(f, "me", &spec, &a);
    assert_int_equal(fleet_find(f->fleet, "me", "mine", &found, NULL), 0);
    answer_init(&closed);
    fleet_close(f->fleet, found, on_done, &closed);
    wait_times(f, &a, 1);
    wait_times(f, &closed, 1);
    assert_int_equal(a.rc, -ERR_GONE);
    assert_int_equal(closed.rc, 0);
    assert_true(fleet_find(f->fleet, "me", "mine", &found, NULL) < 0);
    check_figures(f, 0, 1);
    answer_finish(&a);
    answer_finish(&closed);
}

static void one_whose_worker_dies_is_replaced_later(void **state)
{
    struct fixture *f = *state;
    char id[FLEET_ID_SIZE], kept[FLEET_ID_SIZE];
    CLEANUP_BUF struct buf log;
    start_with(f, "1");
    open_fine(f, "me", &usual, id);
    wait_ready(f, 1);
    struct sandbox *s = entry_of(f);
    snprintf(kept, sizeof(kept), "%s", s->id);
    fixture_log_begin(f);
    kill(worker_link_pid(s->link), SIGKILL);
    wait_ready(f, 0);
    open_fine(f, "me", &usual, id); /* does not wait for it */
    wait_ready(f, 1);
    fixture_log_end(f, &log);
    check_log(&log, "a sandbox that was made in advance has ended", true);
    assert_string_not_equal(entry_of(f)->id, kept);
}

static void a_pool_that_cannot_be_filled_says_so_once(void **state)
{
    struct fixture *f = *state;
    char id[FLEET_ID_SIZE];
    CLEANUP_BUF struct buf log;
    start_with(f, "1:open-fails");
    fixture_log_begin(f);
    open_fine(f, "me", &usual, id);
    for (int i = 0; i < 3; i++) {
        wait_note(f, "open"); /* of the client's, the first try and the second */
    }
    run_past(f, 20);
    fixture_log_end(f, &log);
    const char *first = strstr(buf_cstr(&log), "pool: no sandbox can be made in advance");
    assert_non_null(first);
    assert_non_null(strstr(first, "no image open-fails"));
    assert_null(strstr(first + 1, "pool: no sandbox"));
    open_fine(f, "me", &usual, id);
    assert_int_equal(fleet_pool(f->fleet).ready, 0);
}

/* ---- modules that are imported in advance ---- */

static void check_module(struct fixture *f, size_t module, const char *state, const char *reason)
{
    const struct fleet_pool pool = fleet_pool(f->fleet);
    assert_true(module < pool.preload_count);
    assert_string_equal(pool.preload[module].state, state);
    assert_string_equal(pool.preload[module].reason, reason);
}

static void start_preloading(struct fixture *f, const char *modules)
{
    f->config.preload = alloc_strdup(modules);
    start_with(f, "1");
}

static void modules_are_imported_before_one_is_kept(void **state)
{
    struct fixture *f = *state;
    char id[FLEET_ID_SIZE], kept[FLEET_ID_SIZE];
    struct answer a;
    start_preloading(f, "gen,both");
    check_module(f, 0, "", "");
    open_fine(f, "me", &usual, id);
    check_run(f, id, "runs", "1"); /* nothing else has run in one that was made for its owner */
    wait_ready(f, 1);
    check_module(f, 0, "imported", "");
    check_module(f, 1, "imported", "");
    snprintf(kept, sizeof(kept), "%s", entry_of(f)->id);
    open_fine(f, "me", &usual, id);
    assert_string_equal(id, kept);
    get_status(f, id, &a);
    assert_int_equal(a.executions, 0);
    answer_finish(&a);
    check_run(f, id, "runs", "3");
}

static void a_module_that_fails_costs_only_itself_and_is_left_out_in_the_end(void **state)
{
    struct fixture *f = *state;
    char id[FLEET_ID_SIZE];
    CLEANUP_BUF struct buf log;
    const char *at;
    unsigned told = 0;
    start_preloading(f, "gen,raise,both");
    fixture_log_begin(f);
    open_fine(f, "me", &usual, id);
    for (int i = 0; i < 4; i++) {
        wait_ready(f, 1);
        check_module(f, 0, "imported", "");
        check_module(f, 1, i < 2 ? "failed" : "left out", "OddError: odd\xef\xbf\xbd");
        check_module(f, 2, "imported", "");
        open_fine(f, "me", &usual, id);
        /* the first once more, in the interpreter that is used; then without the one that fails */
        check_run(f, id, "runs", i < 3 ? "5" : "3");
    }
    fixture_log_end(f, &log);
    for (at = buf_cstr(&log); (at = strstr(at, "raise cannot be imported")) != NULL; at++) {
        told++;
    }
    assert_int_equal(told, 3);
    check_figures(f, 4, 1);
}

static void without_python_there_is_nothing_to_import_into(void **state)
{
    struct fixture *f = *state;
    char id[FLEET_ID_SIZE];
    start_preloading(f, "refuse");
    open_fine(f, "me", &usual, id);
    wait_ready(f, 1);
    check_module(f, 0, "failed", "no such language");
}

static void a_module_is_blamed_if_all_ends_while_it_is_imported(void **state)
{
    struct fixture *f = *state;
    char id[FLEET_ID_SIZE];
    start_preloading(f, "gen,gone");
    open_fine(f, "me", &usual, id);
    for (int i = 0; i < 1000 && fleet_pool(f->fleet).preload[1].state[0] == '\0'; i++) {
        run_past(f, 1);
    }
    check_module(f, 1, "failed", "the sandbox has ended while it was imported");
    check_module(f, 0, "", "");
    open_fine(f, "me", &usual, id); /* in the old way */
    check_figures(f, 0, 2);
}

static void what_was_imported_needs_its_memory(void **state)
{
    struct fixture *f = *state;
    const struct fleet_spec little = {.memory_mb = 399}, enough = {.memory_mb = 400};
    char id[FLEET_ID_SIZE];
    f->config.disk_mb = 16;
    start_preloading(f, "heavy"); /* 200 MiB */
    open_fine(f, "me", &usual, id);
    wait_ready(f, 1);
    open_fine(f, "me", &little, id);
    check_figures(f, 0, 2);
    open_fine(f, "me", &enough, id);
    check_figures(f, 1, 2);
}

static void more_than_it_has_is_enough_for_what_was_imported(void **state)
{
    struct fixture *f = *state;
    const struct fleet_spec more = {.memory_mb = 350};
    char id[FLEET_ID_SIZE];
    f->config.disk_mb = 16;
    f->config.memory_mb = 300;
    start_preloading(f, "heavy"); /* 200 MiB, so less would have to be 400 */
    open_fine(f, "me", &usual, id);
    wait_ready(f, 1);
    open_fine(f, "me", &more, id);
    check_figures(f, 1, 1);
}

static bool is_one_importing(struct fixture *f)
{
    const struct sandbox *s;
    bool found = false;
    size_t module;
    TAILQ_FOREACH(s, &f->fleet->sandboxes, node)
    {
        found = found || sandbox_is_preloading(s, &module);
    }
    return found;
}

static void a_server_that_ends_does_not_wait_for_an_import(void **state)
{
    struct fixture *f = *state;
    char id[FLEET_ID_SIZE];
    start_preloading(f, "wait");
    open_fine(f, "me", &usual, id);
    for (int i = 0; i < 1000 && !is_one_importing(f); i++) {
        run_past(f, 1);
    }
    assert_true(is_one_importing(f));
    assert_int_equal(fleet_pool(f->fleet).ready, 0);
    /* the teardown ends it, within the time of any shutdown */
}

/* ---- limits of the server ---- */

static void it_gives_way_when_places_run_out(void **state)
{
    struct fixture *f = *state;
    const struct fleet_spec other = {.pids = 20};
    char id[FLEET_ID_SIZE];
    struct answer a;
    f->config.max_sandboxes = 3;
    start_with(f, "2");
    open_fine(f, "me", &usual, id);
    wait_ready(f, 2);
    open_fine(f, "me", &other, id);
    wait_ready(f, 1);
    open_fine(f, "me", &other, id);
    wait_ready(f, 0);
    open_for(f, "me", &usual, &a);
    wait_times(f, &a, 1);
    assert_int_equal(a.rc, -ERR_SANDBOX_LIMIT);
    assert_non_null(strstr(a.err.text, "there are 3 sandboxes already"));
    answer_finish(&a);
    close_one(f, id);
    wait_ready(f, 1);
}

static void it_gives_way_when_memory_runs_out(void **state)
{
    struct fixture *f = *state;
    const struct fleet_spec much = {.memory_mb = 1200, .pids = 20};
    char id[FLEET_ID_SIZE];
    f->config.memory_budget_mb = 2000;
    start_with(f, "2");
    open_fine(f, "me", &usual, id); /* 512 MiB each */
    wait_ready(f, 2);
    open_fine(f, "me", &much, id);
    wait_ready(f, 0);
    close_one(f, id);
    wait_ready(f, 2);
}

static void it_counts_against_no_owner(void **state)
{
    struct fixture *f = *state;
    const struct fleet_spec spec = {.owner_sandboxes = 2, .owner_memory_mb = 1024};
    char id[FLEET_ID_SIZE];
    struct answer a;
    start_with(f, "2");
    open_fine(f, "me", &spec, id);
    wait_ready(f, 2);
    open_fine(f, "me", &spec, id);
    check_figures(f, 1, 1);
    open_for(f, "me", &spec, &a); /* what is given counts */
    wait_times(f, &a, 1);
    assert_int_equal(a.rc, -ERR_SANDBOX_LIMIT);
    answer_finish(&a);
}

/* ---- the end ---- */

static void the_next_server_takes_over_what_was_given_and_nothing_else(void **state)
{
    struct fixture *f = *state;
    const struct fleet_spec more = {.memory_mb = 1024};
    char id[FLEET_ID_SIZE], path[160];
    struct answer a;
    rename_instance(f, "kept");
    start_with(f, "1");
    open_fine(f, "me", &usual, id);
    wait_ready(f, 1);
    open_fine(f, "me", &more, id);
    wait_ready(f, 1);
    char *dir = instance_dir(f);
    snprintf(path, sizeof(path), "%s/sandboxes", dir);
    free(dir);
    fixture_leave(f);
    assert_int_equal(count_entries(path), 2);
    fixture_start(f);
    fleet_adopt(f->fleet);
    assert_int_equal(count_of(f, "me"), 2);
    get_status(f, id, &a);
    assert_int_equal(a.memory_mb, 1024);
    answer_finish(&a);
    check_run(f, id, "gen", "1");
}

static void what_a_dead_server_left_in_it_is_swept(void **state)
{
    struct fixture *f = *state;
    char id[FLEET_ID_SIZE], path[160], kept[FLEET_ID_SIZE];
    struct record record;
    rename_instance(f, "kept");
    start_with(f, "1");
    open_fine(f, "me", &usual, id);
    wait_ready(f, 1);
    snprintf(kept, sizeof(kept), "%s", entry_of(f)->id);
    char *dir = instance_dir(f);
    snprintf(path, sizeof(path), "%s/sandboxes/%s", dir, kept);
    free(dir);
    assert_int_equal(record_load(path, &record, NULL), 0);
    assert_false(record.whose.record.answered); /* what the next server goes by */
    assert_int_equal(record.whose.record.owner.len, 0);
    record_finish(&record);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(nothing_is_made_before_a_sandbox_was_wanted),
        TEST(without_a_pool_there_is_none),
        TEST(one_of_it_is_given_to_whoever_comes_and_works),
        TEST(none_is_given_twice),
        TEST(a_worker_that_dies_later_is_replaced_like_any_other),
        TEST(it_has_the_limits_that_are_asked_for),
        TEST(what_cannot_be_changed_is_made_new),
        TEST(limits_that_turn_out_to_be_fixed_are_no_clients_concern),
        TEST(one_that_does_not_answer_is_replaced),
        TEST(whoever_closes_it_meanwhile_gets_no_other),
        TEST(one_whose_worker_dies_is_replaced_later),
        TEST(a_pool_that_cannot_be_filled_says_so_once),
        TEST(modules_are_imported_before_one_is_kept),
        TEST(a_module_that_fails_costs_only_itself_and_is_left_out_in_the_end),
        TEST(without_python_there_is_nothing_to_import_into),
        TEST(a_module_is_blamed_if_all_ends_while_it_is_imported),
        TEST(what_was_imported_needs_its_memory),
        TEST(more_than_it_has_is_enough_for_what_was_imported),
        TEST(a_server_that_ends_does_not_wait_for_an_import),
        TEST(it_gives_way_when_places_run_out),
        TEST(it_gives_way_when_memory_runs_out),
        TEST(it_counts_against_no_owner),
        TEST(the_next_server_takes_over_what_was_given_and_nothing_else),
        TEST(what_a_dead_server_left_in_it_is_swept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
