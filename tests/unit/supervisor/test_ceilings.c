/* The most that a client may ask for one sandbox, the memory of all, and the share of one
 * principal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "supervisor/base/ceilings.h"
#include "supervisor/base/config.h"
#include "supervisor/base/fair.h"

static const struct ceilings_machine machine = {.memory_mb = 8000, .cpu_milli = 2000};

static struct config defaults(void)
{
    return (struct config){.memory_mb = 512, .cpu_milli = 1000, .pids = 256};
}

static void what_nobody_has_chosen_follows_from_the_machine(void **state)
{
    struct config c = defaults();
    assert_int_equal(ceilings_settle(&c, &machine, NULL), 0);
    assert_int_equal(c.memory_budget_mb, 7000); /* an eighth is for all else */
    assert_int_equal(c.max_memory_mb, 7000);
    assert_int_equal(c.max_cpu_milli, 2000);
    assert_int_equal(c.max_pids, 1024);
    assert_int_equal(c.max_disk_mb, 7000 - 64 - 3 * 8); /* room for programs and other files */
}

static void a_machine_that_says_nothing_has_the_bounds_of_the_options(void **state)
{
    static const struct ceilings_machine unknown;
    struct config c = defaults();
    assert_int_equal(ceilings_settle(&c, &unknown, NULL), 0);
    assert_int_equal(c.max_memory_mb, 1048576);
    assert_int_equal(c.max_cpu_milli, 1024000);
}

static void this_machine_says_something(void **state)
{
    struct ceilings_machine m = ceilings_machine();
    assert_true(m.memory_mb >= 64);
    assert_true(m.cpu_milli >= 1000);
}

static void a_ceiling_that_nobody_has_chosen_is_never_below_a_default(void **state)
{
    static const struct ceilings_machine small = {.memory_mb = 256, .cpu_milli = 1000};
    struct config c = {.memory_mb = 512, .cpu_milli = 4000, .pids = 2000, .disk_mb = 300};
    assert_int_equal(ceilings_settle(&c, &small, NULL), 0);
    assert_int_equal(c.memory_budget_mb, 512);
    assert_int_equal(c.max_memory_mb, 512);
    assert_int_equal(c.max_cpu_milli, 4000);
    assert_int_equal(c.max_pids, 2000);
    assert_true(c.max_disk_mb >= 300);
}

static void budget_and_ceiling_of_memory_follow_each_other(void **state)
{
    struct config c = defaults();
    c.max_memory_mb = 16000;
    assert_int_equal(ceilings_settle(&c, &machine, NULL), 0);
    assert_int_equal(c.memory_budget_mb, 16000);
    c = defaults();
    c.memory_budget_mb = 2000;
    assert_int_equal(ceilings_settle(&c, &machine, NULL), 0);
    assert_int_equal(c.max_memory_mb, 2000);
}

static void what_does_not_go_together_is_refused_with_both_names(void **state)
{
    const struct {
        struct config c; /* beside the defaults */
        const char *words;
    } cases[] = {
        {{.max_memory_mb = 511}, "--max-memory-mb (511) is less than --memory-mb (512)"},
        {{.memory_budget_mb = 500}, "--memory-budget-mb (500) is less than --memory-mb (512)"},
        {{.max_memory_mb = 900, .memory_budget_mb = 800},
         "--max-memory-mb (900) is more than --memory-budget-mb (800)"},
        {{.max_cpu_milli = 500}, "--max-cpus (0.5) is less than --cpus (1)"},
        {{.max_pids = 255}, "--max-pids (255) is less than --pids (256)"},
        {{.max_disk_mb = 100, .disk_mb = 101}, "--max-disk-mb (100) is less than --disk-mb (101)"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct config c = cases[i].c;
        struct err err = ERR_INIT;
        c.memory_mb = 512;
        c.cpu_milli = 1000;
        c.pids = 256;
        assert_int_equal(ceilings_settle(&c, &machine, &err), -ERR_CONFIG);
        assert_non_null(strstr(err.text, cases[i].words));
    }
}

static void a_workspace_of_the_default_size_stays_below_its_ceiling(void **state)
{
    struct config c = defaults();
    c.max_disk_mb = 100;
    assert_int_equal(ceilings_settle(&c, &machine, NULL), 0);
    assert_int_equal(config_disk_mb(&c, 512), 100);
    assert_int_equal(config_disk_mb(&c, 64), 18);
}

static void more_than_a_ceiling_is_refused_by_name_and_option(void **state)
{
    const struct {
        struct ceilings_asked asked;
        const char *words;
    } cases[] = {
        {{.memory_mb = 7001},
         "memory_mb 7001 is more than this server gives one sandbox: at most "
         "7000 (--max-memory-mb)"},
        {{.cpus = 2.5},
         "cpus 2.5 is more than this server gives one sandbox: at most 2 (--max-cpus)"},
        {{.pids = 100000},
         "pids 100000 is more than this server gives one sandbox: at most 1024 "
         "(--max-pids)"},
        {{.disk_mb = 1e300}, "--max-disk-mb"},
    };
    struct config c = defaults();
    const struct ceilings_asked most = {
        .memory_mb = 7000, .cpus = 2, .pids = 1024, .disk_mb = 6000};
    const struct ceilings_asked nothing = {0};
    assert_int_equal(ceilings_settle(&c, &machine, NULL), 0);
    assert_int_equal(ceilings_check(&c, &most, NULL), 0);
    assert_int_equal(ceilings_check(&c, &nothing, NULL), 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct err err = ERR_INIT;
        assert_int_equal(ceilings_check(&c, &cases[i].asked, &err), -ERR_INVALID);
        assert_non_null(strstr(err.text, cases[i].words));
    }
}

/* How many of 32 places principals get that take all they can, one after the other. */
static void whoever_takes_all_he_can_leaves_as_much(void **state)
{
    static const uint64_t shares[] = {16, 8, 4, 2, 1};
    uint64_t used = 0;
    for (size_t i = 0; i < sizeof(shares) / sizeof(shares[0]); i++) {
        uint64_t mine = 0;
        while (fair_may_take(32, used, mine, 1)) {
            mine++;
            used++;
        }
        assert_int_equal(mine, shares[i]);
    }
    assert_int_equal(used, 31);
}

static void a_share_is_never_more_than_there_is(void **state)
{
    assert_true(fair_may_take(100, 0, 0, 50));
    assert_false(fair_may_take(100, 0, 0, 51));
    assert_false(fair_may_take(100, 0, 0, 101));
    assert_false(fair_may_take(100, 120, 0, 1)); /* taken before the budget was lowered */
    assert_true(fair_may_take(100, 60, 10, 15));
    assert_false(fair_may_take(100, 60, 10, 16));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_nobody_has_chosen_follows_from_the_machine),
        cmocka_unit_test(a_machine_that_says_nothing_has_the_bounds_of_the_options),
        cmocka_unit_test(this_machine_says_something),
        cmocka_unit_test(a_ceiling_that_nobody_has_chosen_is_never_below_a_default),
        cmocka_unit_test(budget_and_ceiling_of_memory_follow_each_other),
        cmocka_unit_test(what_does_not_go_together_is_refused_with_both_names),
        cmocka_unit_test(a_workspace_of_the_default_size_stays_below_its_ceiling),
        cmocka_unit_test(more_than_a_ceiling_is_refused_by_name_and_option),
        cmocka_unit_test(whoever_takes_all_he_can_leaves_as_much),
        cmocka_unit_test(a_share_is_never_more_than_there_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
