/* Limits of one sandbox, of one owner and of all, and the events for observers of the fleet. */
#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "tests/unit/supervisor/fleet/fixture.h"

static void assert_refused(struct fixture *f, const char *owner, const struct fleet_spec *spec,
                           int rc, const char *words, const char *hint)
{
    struct answer a;
    open_for(f, owner, spec, &a);
    wait_times(f, &a, 1);
    assert_int_equal(a.rc, rc);
    assert_non_null(strstr(a.err.text, words));
    assert_non_null(strstr(a.hint, hint));
    answer_finish(&a);
}

static void assert_limited(struct fixture *f, const char *owner, const struct fleet_spec *spec,
                           const char *words, const char *hint)
{
    assert_refused(f, owner, spec, -ERR_SANDBOX_LIMIT, words, hint);
}

static void an_owner_has_no_more_sandboxes_than_allowed(void **state)
{
    struct fixture *f = *state;
    struct fleet_spec spec = {.owner_sandboxes = 2};
    struct answer first;
    char id[FLEET_ID_SIZE];
    char other[FLEET_ID_SIZE];
    fixture_start(f);
    open_for(f, "me", &spec, &first); /* a sandbox that is being created counts */
    open_fine(f, "me", &spec, id);
    wait_times(f, &first, 1);
    assert_limited(f, "me", &spec, "you have 2 sandboxes, and may have 2", "close_sandbox");
    open_fine(f, "you", &spec, other); /* sandboxes of other owners do not count */
    close_one(f, id);
    open_fine(f, "me", &spec,
              id); /* a closed sandbox does not count any more when its close is answered */
    spec.owner_sandboxes = 0;
    open_fine(f, "me", &spec, id);
    answer_finish(&first);
}

static void the_sandboxes_of_an_owner_share_its_memory(void **state)
{
    struct fixture *f = *state;
    struct fleet_spec spec = {.owner_memory_mb = 1000}; /* 512 MiB each by default */
    char id[FLEET_ID_SIZE];
    fixture_start(f);
    open_fine(f, "me", &spec, id);
    assert_limited(f, "me", &spec, "1000 MiB of memory together: they have 512 MiB", "memory_mb");
    spec.memory_mb = 488;
    open_fine(f, "me", &spec, id);
    spec.memory_mb = 16;
    assert_limited(f, "me", &spec, "they have 1000 MiB, and this one would have 16 MiB",
                   "close_sandbox");
    spec.memory_mb = 1001;
    assert_limited(f, "you", &spec, "they have 0 MiB", "smaller memory_mb");
}

static bool is_there(struct fixture *f, const char *owner, const char *id)
{
    const char *found;
    return fleet_find(f->fleet, owner, id, &found, NULL) == 0;
}

static void what_nobody_asked_for_gives_way_when_places_run_out(void **state)
{
    struct fixture *f = *state;
    const struct fleet_spec own = {.owner_sandboxes = 0};
    const struct fleet_spec made = {.evict_idle_ms = 1};
    const struct fleet_spec patient = {.evict_idle_ms = 3600000};
    char first[FLEET_ID_SIZE], second[FLEET_ID_SIZE], third[FLEET_ID_SIZE], id[FLEET_ID_SIZE];
    f->config.max_sandboxes = 4;
    fixture_start(f);
    open_fine(f, "you", &made, first);
    open_fine(f, "me", &made, second);
    open_fine(f, "me", &patient, third);
    open_fine(f, "me", &own, id);
    run_past(f, 1);
    open_fine(f, "me", &own,
              id); /* evicts its owner's sandbox, though another owner's has been idle for longer */
    assert_true(is_there(f, "you", first));
    assert_false(is_there(f, "me", second));
    run_past(f, 1);
    open_fine(f, "me", &own, id);
    assert_false(is_there(f, "you", first));
    assert_true(is_there(f, "me", third));
    assert_limited(f, "me", &own, "there are 4 sandboxes already", "close a sandbox");
}

static void nothing_gives_way_for_what_is_refused_all_the_same(void **state)
{
    struct fixture *f = *state;
    const struct fleet_spec made = {.evict_idle_ms = 1, .memory_mb = 100};
    const struct fleet_spec other = {.memory_mb = 100};
    struct fleet_spec much = {.memory_mb = 350, .owner_sandboxes = 2, .owner_memory_mb = 400};
    char idle[FLEET_ID_SIZE], id[FLEET_ID_SIZE];
    fixture_start(f);
    open_fine(f, "me", &made, idle);
    open_fine(f, "me", &other, id);
    run_past(f, 1);
    assert_limited(f, "me", &much, "you have 2 sandboxes", "close_sandbox");
    assert_true(is_there(f, "me", idle));
    much.memory_mb = 300; /* as much as there is without that sandbox */
    open_fine(f, "me", &much, id);
    assert_false(is_there(f, "me", idle));
}

static void as_many_give_way_as_are_needed(void **state)
{
    struct fixture *f = *state;
    const struct fleet_spec made = {.memory_mb = 100, .evict_idle_ms = 1};
    const struct fleet_spec more = {.memory_mb = 300};
    char others[2][FLEET_ID_SIZE], mine[2][FLEET_ID_SIZE], id[FLEET_ID_SIZE];
    f->config.memory_budget_mb = 400;
    fixture_start(f);
    for (size_t i = 0; i < 2; i++) {
        open_fine(f, "you", &made, others[i]);
        run_past(f, 1);
    }
    open_fine(f, "me", &made, mine[0]);
    open_fine(f, "me", &made, mine[1]);
    run_past(f, 1);
    open_fine(f, "me", &more, id); /* its owner's, then the one that has been idle for longest */
    assert_false(is_there(f, "me", mine[0]));
    assert_false(is_there(f, "me", mine[1]));
    assert_false(is_there(f, "you", others[0]));
    assert_true(is_there(f, "you", others[1]));
}

static void none_gives_way_if_all_would_not_be_enough(void **state)
{
    struct fixture *f = *state;
    const struct fleet_spec own = {.memory_mb = 300};
    const struct fleet_spec made = {.memory_mb = 100, .evict_idle_ms = 1};
    const struct fleet_spec too_much = {.memory_mb = 701};
    const struct fleet_spec above_share = {.memory_mb = 201};
    char mine[FLEET_ID_SIZE], other[FLEET_ID_SIZE], id[FLEET_ID_SIZE];
    f->config.memory_budget_mb = 1000;
    fixture_start(f);
    open_fine(f, "you", &own, id);
    open_fine(f, "me", &made, mine);
    open_fine(f, "me", &made, other);
    run_past(f, 1);
    assert_limited(f, "you", &too_much, "this one would have 701 MiB", "smaller memory_mb");
    fleet_set_shared(f->fleet, true);
    assert_limited(f, "you", &above_share, "must stay for others", "smaller memory_mb");
    assert_true(is_there(f, "me", mine));
    assert_true(is_there(f, "me", other));
}

static void none_gives_way_that_is_not_needed_beside_another(void **state)
{
    struct fixture *f = *state;
    const struct fleet_spec small = {.memory_mb = 100, .evict_idle_ms = 1};
    const struct fleet_spec large = {.memory_mb = 300, .evict_idle_ms = 1};
    const struct fleet_spec more = {.memory_mb = 250};
    char mine[FLEET_ID_SIZE], other[FLEET_ID_SIZE], id[FLEET_ID_SIZE];
    f->config.memory_budget_mb = 400;
    fixture_start(f);
    open_fine(f, "me", &small, mine);
    open_fine(f, "you", &large, other);
    run_past(f, 1);
    open_fine(f, "me", &more, id);
    assert_true(is_there(f, "me", mine));
    assert_false(is_there(f, "you", other));
}

static void one_that_has_failed_takes_no_room(void **state)
{
    struct fixture *f = *state;
    struct fleet_spec spec = {.owner_sandboxes = 1};
    char id[FLEET_ID_SIZE];
    struct answer a;
    fixture_start(f);
    open_fine(f, "me", &spec, id);
    begin_run(f, id, "gone", &a);
    wait_times(f, &a, 1);
    assert_int_equal(a.rc, -ERR_GONE);
    wait_state(f, id, "failed");
    open_fine(f, "me", &spec, id);
    answer_finish(&a);
}

static void nobody_gets_a_sandbox_above_the_ceilings(void **state)
{
    struct fixture *f = *state;
    const struct fleet_spec most = {.memory_mb = 4096, .cpus = 4, .pids = 1024, .disk_mb = 2048};
    const struct fleet_spec memory = {.memory_mb = 4097};
    const struct fleet_spec cpus = {.cpus = 4.5};
    const struct fleet_spec pids = {.pids = 1025};
    const struct fleet_spec disk = {.memory_mb = 4096, .disk_mb = 2049};
    char id[FLEET_ID_SIZE];
    fixture_start(f);
    open_fine(f, "me", &most, id);
    assert_refused(f, "me", &memory, -ERR_INVALID, "memory_mb 4097", "the default");
    assert_refused(f, "me", &cpus, -ERR_INVALID, "at most 4 (--max-cpus)", "the default");
    assert_refused(f, "me", &pids, -ERR_INVALID, "--max-pids", "the default");
    assert_refused(f, "me", &disk, -ERR_INVALID, "--max-disk-mb", "the default");
}

static void all_sandboxes_share_one_budget_of_memory(void **state)
{
    struct fixture *f = *state;
    const struct fleet_spec usual = {.memory_mb = 0}; /* 512 */
    const struct fleet_spec rest = {.memory_mb = 488};
    const struct fleet_spec made = {.memory_mb = 488, .evict_idle_ms = 1};
    char first[FLEET_ID_SIZE], idle[FLEET_ID_SIZE], id[FLEET_ID_SIZE];
    f->config.memory_budget_mb = 1000;
    fixture_start(f);
    open_fine(f, "me", &usual, first);
    assert_limited(f, "you", &usual,
                   "all sandboxes may have 1000 MiB of memory together (--memory-budget-mb): they "
                   "have 512 MiB, and this one would have 512 MiB",
                   "smaller memory_mb");
    open_fine(f, "you", &made, idle);
    run_past(f, 1);
    open_fine(f, "you", &rest, id); /* takes the memory of the one that nobody asked for */
    assert_false(is_there(f, "you", idle));
    assert_limited(f, "you", &rest, "they have 1000 MiB", "close a sandbox");
    close_one(f, first);
    open_fine(f, "you", &usual, first);
}

static void no_owner_takes_all_places_of_a_shared_server(void **state)
{
    struct fixture *f = *state;
    const struct fleet_spec any = {.memory_mb = 16};
    const struct fleet_spec granted = {.memory_mb = 16, .owner_sandboxes = 4};
    char id[FLEET_ID_SIZE], second[FLEET_ID_SIZE];
    f->config.max_sandboxes = 4;
    fixture_start(f);
    fleet_set_shared(f->fleet, true);
    open_fine(f, "greedy", &any, id);
    open_fine(f, "greedy", &any, second);
    assert_limited(f, "greedy", &any, "you have 2 sandboxes, and 2 of 4 places are free",
                   "--principal-sandboxes");
    open_fine(f, "late", &any, id); /* the first one of everybody needs no more than a place */
    assert_limited(f, "late", &any, "you have 1 sandboxes, and 1 of 4", "close_sandbox");
    open_fine(f, "later", &any, id);
    assert_limited(f, "latest", &any, "there are 4 sandboxes already", "close a sandbox");
    close_one(f, second);
    open_fine(f, "greedy", &granted, id); /* the operator's word counts more than the share */
}

static void an_owner_alone_takes_all_places(void **state)
{
    struct fixture *f = *state;
    const struct fleet_spec any = {.memory_mb = 512};
    char id[FLEET_ID_SIZE];
    f->config.max_sandboxes = 2;
    f->config.memory_budget_mb = 1024;
    fixture_start(f);
    open_fine(f, "me", &any, id);
    open_fine(f, "me", &any, id);
    assert_limited(f, "me", &any, "there are 2 sandboxes already", "close a sandbox");
}

static void no_owner_takes_all_memory_of_a_shared_server(void **state)
{
    struct fixture *f = *state;
    const struct fleet_spec much = {.memory_mb = 1001};
    const struct fleet_spec half = {.memory_mb = 1000};
    const struct fleet_spec little = {.memory_mb = 16};
    const struct fleet_spec usual = {.memory_mb = 0}; /* 512 */
    const struct fleet_spec granted = {.memory_mb = 400, .owner_memory_mb = 2000};
    char id[FLEET_ID_SIZE];
    f->config.memory_budget_mb = 2000;
    fixture_start(f);
    fleet_set_shared(f->fleet, true);
    assert_limited(f, "greedy", &much, "this one would have 1001 MiB", "--principal-memory-mb");
    open_fine(f, "greedy", &half, id);
    assert_limited(f, "greedy", &little, "as much as you have must stay for others",
                   "smaller memory_mb");
    open_fine(f, "late", &usual, id); /* with as much as one gets that asks for nothing */
    open_fine(f, "greedy", &granted, id);
    assert_limited(f, "latest", &usual, "they have 1912 MiB", "--memory-budget-mb");
}

static void whoever_is_granted_everything_has_no_share(void **state)
{
    struct fixture *f = *state;
    const struct fleet_spec granted = {
        .memory_mb = 512, .owner_sandboxes = 2, .owner_memory_mb = 1024};
    const struct fleet_spec large = {
        .memory_mb = 1024, .owner_sandboxes = 2, .owner_memory_mb = 1024};
    char first[FLEET_ID_SIZE], second[FLEET_ID_SIZE];
    f->config.max_sandboxes = 2;
    f->config.memory_budget_mb = 1024;
    fixture_start(f);
    fleet_set_shared(f->fleet, true);
    open_fine(f, "me", &granted, first);
    open_fine(f, "me", &granted, second);
    assert_limited(f, "me", &granted, "there are 2 sandboxes already", "--max-sandboxes");
    close_one(f, first);
    assert_limited(f, "me", &large, "they have 512 MiB", "--memory-budget-mb");
    close_one(f, second);
    open_fine(f, "me", &large, first);
}

static void one_of_his_own_gives_way_whatever_stays_for_others(void **state)
{
    struct fixture *f = *state;
    const struct fleet_spec made = {.memory_mb = 512, .evict_idle_ms = 1};
    const struct fleet_spec any = {.memory_mb = 512};
    char idle[FLEET_ID_SIZE], id[FLEET_ID_SIZE];
    f->config.max_sandboxes = 2;
    f->config.memory_budget_mb = 1024;
    fixture_start(f);
    fleet_set_shared(f->fleet, true);
    open_fine(f, "me", &made, idle);
    open_fine(f, "you", &any, id);
    run_past(f, 1);
    open_fine(f, "me", &any, id);
    assert_false(is_there(f, "me", idle));
}

/* ---- changes ---- */

struct watch {
    unsigned sandboxes, files, executions;
    char owner[16], sandbox[FLEET_ID_SIZE], execution[FLEET_ID_SIZE];
};

static void on_sandboxes(void *arg, const char *owner)
{
    struct watch *watch = arg;
    watch->sandboxes++;
    snprintf(watch->owner, sizeof(watch->owner), "%s", owner);
}

static void on_files(void *arg, const char *owner, const char *sandbox, const char *name)
{
    struct watch *watch = arg;
    watch->files++;
    snprintf(watch->owner, sizeof(watch->owner), "%s", owner);
    snprintf(watch->sandbox, sizeof(watch->sandbox), "%s", sandbox);
    assert_string_equal(name, "");
}

static void on_execution(void *arg, const char *owner, const char *execution)
{
    struct watch *watch = arg;
    watch->executions++;
    snprintf(watch->owner, sizeof(watch->owner), "%s", owner);
    snprintf(watch->execution, sizeof(watch->execution), "%s", execution);
}

static const struct fleet_events events = {on_sandboxes, on_files, on_execution};

static void changes_are_told_to_who_watches(void **state)
{
    struct fixture *f = *state;
    static struct watch watch; /* static, because the fleet reports the end after the test */
    char id[FLEET_ID_SIZE];
    char execution[FLEET_ID_SIZE];
    struct answer a;
    fixture_start(f);
    fleet_observe(f->fleet, &events, &watch);
    open_one(f, NULL, id);
    wait_count(f, &watch.sandboxes, 1);
    assert_string_equal(watch.owner, "me");
    check_run(f, id, "echo x", "x");
    wait_count(f, &watch.files, 1);
    assert_string_equal(watch.sandbox, id);
    assert_int_equal(watch.executions, 0); /* no caller could have asked for it by id */

    const struct fleet_op op = {
        .kind = OP_EVAL, .language = "python", .data = view_of("echo x"), .keep_bytes = 100};
    answer_init(&a);
    fleet_execute(f->fleet, "me", id, &op, execution);
    fleet_await(f->fleet, "me", execution, FLEET_WAIT_FOR_EVER, on_outcome, &a);
    wait_times(f, &a, 1);
    wait_count(f, &watch.files, 2);
    wait_count(f, &watch.executions, 1);
    assert_string_equal(watch.execution, execution);

    close_one(f, id);
    wait_count(f, &watch.sandboxes, 2);
    answer_finish(&a);
}

static void a_failure_is_a_change(void **state)
{
    struct fixture *f = *state;
    static struct watch watch; /* static, because the fleet reports the end after the test */
    char id[FLEET_ID_SIZE];
    struct answer a;
    fixture_start(f);
    fleet_observe(f->fleet, &events, &watch);
    open_one(f, NULL, id);
    wait_count(f, &watch.sandboxes, 1);
    begin_run(f, id, "gone", &a);
    wait_times(f, &a, 1);
    wait_state(f, id, "failed");
    wait_count(f, &watch.sandboxes, 2);
    answer_finish(&a);
}

/* Runs a short operation; false if there is no such sandbox any more. */
static bool run_short(struct fixture *f, const char *id, bool is_look)
{
    const struct fleet_op op = {.kind = OP_EVAL,
                                .language = "python",
                                .data = view_of("echo x"),
                                .keep_bytes = 10,
                                .is_look = is_look};
    struct answer a;
    answer_init(&a);
    fleet_run(f->fleet, id, &op, on_outcome, &a);
    wait_times(f, &a, 1);
    bool there = a.rc == 0 && a.status == OP_STATUS_OK;
    answer_finish(&a);
    return there;
}

/* One sandbox is used all the time, and the other one is only looked at. */
static void looking_does_not_put_off_the_end(void **state)
{
    struct fixture *f = *state;
    const struct fleet_spec spec = {.ttl_ms = 1000};
    char used[FLEET_ID_SIZE], looked_at[FLEET_ID_SIZE];
    fixture_start(f);
    uint64_t begin_ms = clock_ms();
    open_fine(f, "me", &spec, used);
    open_fine(f, "me", &spec, looked_at);
    do {
        assert_true(run_short(f, used, false));
        assert_true(clock_ms() - begin_ms < 3 * WAIT_MS); /* else it would be there for ever */
    } while (run_short(f, looked_at, true));
    assert_true(clock_ms() - begin_ms >= spec.ttl_ms);
    assert_true(run_short(f, used, false));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(an_owner_has_no_more_sandboxes_than_allowed),
        TEST(the_sandboxes_of_an_owner_share_its_memory),
        TEST(what_nobody_asked_for_gives_way_when_places_run_out),
        TEST(nothing_gives_way_for_what_is_refused_all_the_same),
        TEST(as_many_give_way_as_are_needed),
        TEST(none_gives_way_if_all_would_not_be_enough),
        TEST(none_gives_way_that_is_not_needed_beside_another),
        TEST(one_that_has_failed_takes_no_room),
        TEST(nobody_gets_a_sandbox_above_the_ceilings),
        TEST(all_sandboxes_share_one_budget_of_memory),
        TEST(no_owner_takes_all_places_of_a_shared_server),
        TEST(an_owner_alone_takes_all_places),
        TEST(no_owner_takes_all_memory_of_a_shared_server),
        TEST(whoever_is_granted_everything_has_no_share),
        TEST(one_of_his_own_gives_way_whatever_stays_for_others),
        TEST(changes_are_told_to_who_watches),
        TEST(a_failure_is_a_change),
        TEST(looking_does_not_put_off_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
