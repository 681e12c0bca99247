/*
 * The memory kills of a sandbox, read from trees of cgroup files as on different hosts.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/fd.h"
#include "worker/agent/process/oom.h"

struct tree {
    char root[64];
};

static int setup(void **state)
{
    struct tree *t = alloc_one(struct tree);
    snprintf(t->root, sizeof(t->root), "/tmp/cloister-test-XXXXXX");
    assert_non_null(mkdtemp(t->root));
    *state = t;
    return 0;
}

static int teardown(void **state)
{
    struct tree *t = *state;
    assert_int_equal(dir_remove(t->root, NULL), 0);
    free(t);
    return 0;
}

/* Writes in place, as the kernel does: readers that have the file open see the change. */
static void put(const struct tree *t, const char *name, const char *text)
{
    char *path = alloc_printf("%s/%s", t->root, name);
    *strrchr(path, '/') = '\0';
    assert_int_equal(dir_make(path, 0700, NULL), 0);
    path[strlen(path)] = '/';
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, strlen(text), f), strlen(text));
    assert_int_equal(fclose(f), 0);
    free(path);
}

static void open_tree(const struct tree *t, struct oom *o)
{
    char *self = alloc_printf("%s/self", t->root);
    oom_open(o, t->root, self);
    free(self);
}

#define V2(n) "low 0\nhigh 0\nmax 7\noom 9\noom_kill " n "\noom_group_kill 4\n"
#define V1(n) "oom_kill_disable 0\nunder_oom 1\noom_kill " n "\n"

/* Expects that kills after the start are counted in the file of that name. */
static void expect_counted(const struct tree *t, const char *name, const char *later)
{
    struct oom o;
    open_tree(t, &o);
    assert_true(o.fd >= 0);
    assert_int_equal(oom_kills(&o), 0);
    put(t, name, later);
    assert_int_equal(oom_kills(&o), 2);
    assert_int_equal(oom_kills(&o), 2);
    oom_close(&o);
    assert_int_equal(oom_kills(&o), 0);
}

static void kills_are_counted_in_a_namespace_of_its_own(void **state)
{
    struct tree *t = *state;
    put(t, "self", "0::/\n");
    put(t, "memory.events", V2("0"));
    expect_counted(t, "memory.events", V2("2"));
}

static void kills_are_counted_where_the_whole_tree_is_seen(void **state)
{
    struct tree *t = *state;
    put(t, "self", "0::/system.slice/docker-1.scope\n");
    put(t, "memory.events", V2("1000"));
    put(t, "system.slice/docker-1.scope/memory.events", V2("11"));
    expect_counted(t, "system.slice/docker-1.scope/memory.events", V2("13"));
}

static void kills_are_counted_where_only_the_root_is_seen(void **state)
{
    struct tree *t = *state;
    put(t, "self", "0::/system.slice/docker-1.scope\n"); /* a group that is not mounted here */
    put(t, "memory.events", V2("0"));
    expect_counted(t, "memory.events", V2("2"));
    put(t, "self", "0::/../../other\n"); /* a group above the root of this namespace */
    put(t, "memory.events", V2("5"));
    expect_counted(t, "memory.events", V2("7"));
}

static void kills_are_counted_with_version_1(void **state)
{
    struct tree *t = *state;
    put(t, "self", "12:cpu,cpuacct:/docker/1\n7:hugetlb,memory:/docker/1\n0::/docker/1\n");
    put(t, "memory/memory.oom_control", V1("0"));
    expect_counted(t, "memory/memory.oom_control", V1("2"));
    put(t, "memory/memory.oom_control", V1("100"));
    put(t, "memory/docker/1/memory.oom_control", V1("1"));
    expect_counted(t, "memory/docker/1/memory.oom_control", V1("3"));
}

static void expect_unknown(const struct tree *t)
{
    struct oom o;
    open_tree(t, &o);
    assert_int_equal(o.fd, -1);
    assert_int_equal(oom_kills(&o), 0);
    oom_close(&o);
}

static void without_counters_nothing_is_claimed(void **state)
{
    struct tree *t = *state;
    static const char *const odd[] = {"",     "\n\n",           "garbage", "7:memory",
                                      "0::/", "4:memory:/\n::", ":::::",   "0::relative"};
    expect_unknown(t); /* neither a group nor a list of groups */
    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
        put(t, "self", odd[i]);
        expect_unknown(t);
    }
    static const char *const no_count[] = {"", "oom 3\n", "oom_kill_disable 0\nunder_oom 0\n",
                                           "xoom_kill 3\n", "oom_group_kill 3\n"};
    put(t, "self", "0::/\n");
    for (size_t i = 0; i < sizeof(no_count) / sizeof(no_count[0]); i++) {
        put(t, "memory.events", no_count[i]);
        expect_unknown(t);
    }
}

static void odd_numbers_do_no_harm(void **state)
{
    struct tree *t = *state;
    struct oom o;
    put(t, "self", "0::/\n");
    put(t, "memory.events", "oom_kill 5");
    open_tree(t, &o);
    put(t, "memory.events",
        "oom_kill 4\n"); /* a counter that went down, which never happens, is no kill */
    assert_int_equal(oom_kills(&o), 0);
    put(t, "memory.events", "oom_kill 99999999999999999999999999\n");
    assert_true(oom_kills(&o) <= INT64_MAX); /* the limit of a message's field */
    put(t, "memory.events", "oom_kill x\n");
    assert_int_equal(oom_kills(&o), 0);
    oom_close(&o);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(kills_are_counted_in_a_namespace_of_its_own),
        CASE(kills_are_counted_where_the_whole_tree_is_seen),
        CASE(kills_are_counted_where_only_the_root_is_seen),
        CASE(kills_are_counted_with_version_1),
        CASE(without_counters_nothing_is_claimed),
        CASE(odd_numbers_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
