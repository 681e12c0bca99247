/*
 * What code of packages may write, without containers: trees are counted, an installer that takes
 * too much is told of, and what is too much is removed.
 */
#include <assert.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/worker/backend/oci/tree.h"
#include "worker/backend/oci/packages_limit.h"
#include "worker/backend/sandbox_defaults.h"
#include "worker/backend/tree_size.h"

#define MIB ((uint64_t)1 << 20)

struct fixture {
    struct tree tree;
    uv_loop_t loop;
    struct tasks tasks;
    bool empty;
    int calls, rc;
    uint64_t bytes;
    struct err err;
    struct oci_packages_watch *watch;
};

static const char *agent; /* the program that removes trees */

static const char *at(const struct fixture *f, const char *path)
{
    return tree_path(&f->tree, path);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    tree_init(&f->tree);
    tree_dir(&f->tree, "/entry/tree/python");
    tree_dir(&f->tree, "/entry/tree/node");
    uv_loop_init(&f->loop);
    tasks_init(&f->tasks, &f->loop);
    *state = f;
    return 0;
}

static void on_empty(void *arg)
{
    ((struct fixture *)arg)->empty = true;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    tasks_close(&f->tasks, on_empty, f);
    oci_packages_watch_free(f->watch);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    assert_true(f->empty);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    tree_finish(&f->tree);
    free(f);
    return 0;
}

/* ---- counting ---- */

static void on_size(void *arg, int rc, uint64_t bytes, const struct err *err)
{
    struct fixture *f = arg;
    f->calls++;
    f->rc = rc;
    f->bytes = bytes;
    assert_true((rc < 0) == (err != NULL));
    if (err != NULL) {
        f->err = *err;
    }
}

static uint64_t count(struct fixture *f, const char *path, uint64_t max_bytes)
{
    f->calls = 0;
    tree_size_start(&f->tasks, at(f, path), max_bytes, on_size, f);
    assert_int_equal(f->calls, 0); /* never inside the call */
    uv_run(&f->loop, UV_RUN_DEFAULT);
    assert_int_equal(f->calls, 1);
    return f->bytes;
}

static void write_bytes(struct fixture *f, const char *path, size_t size)
{
    char *text = malloc(size + 1);
    memset(text, 'x', size);
    text[size] = '\0';
    tree_file(&f->tree, path, text);
    free(text);
}

static void everything_that_has_a_name_counts(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(count(f, "/entry/tree/python", MIB), 0);
    assert_int_equal(count(f, "/nothing", MIB), 0); /* it went meanwhile */
    write_bytes(f, "/entry/tree/python/a/large", 300000);
    tree_file(&f->tree, "/entry/tree/python/a/b/empty", "");
    tree_link(&f->tree, "/entry/tree/python/out", "/usr");
    uint64_t bytes = count(f, "/entry/tree/python", MIB);
    assert_int_equal(f->rc, 0);
    assert_true(bytes >= 300000 + 4 * TREE_SIZE_ENTRY && bytes < MIB); /* and not /usr */
}

static void counting_ends_where_it_is_too_much(void **state)
{
    struct fixture *f = *state;
    char path[64];
    for (int i = 0; i < 100; i++) {
        snprintf(path, sizeof(path), "/entry/tree/python/d%d/empty", i);
        tree_file(&f->tree, path, "");
    }
    assert_int_equal(count(f, "/entry/tree", 10 * TREE_SIZE_ENTRY), 11 * TREE_SIZE_ENTRY);
    assert_int_equal(f->rc, 0);
}

static void what_cannot_be_counted_is_an_error(void **state)
{
    struct fixture *f = *state;
    char here[PATH_MAX];
    if (geteuid() != 0) { /* root opens it */
        tree_dir(&f->tree, "/entry/tree/node/closed");
        assert_int_equal(chmod(at(f, "/entry/tree/node/closed"), 0), 0);
        count(f, "/entry/tree/node", MIB);
        assert_int_equal(f->rc, -ERR_IO);
        assert_int_equal(chmod(at(f, "/entry/tree/node/closed"), 0700), 0);
    }
    assert_non_null(getcwd(here, sizeof(here)));
    assert_int_equal(chdir(at(f, "/entry/tree/python")), 0);
    for (int i = 0; i < TREE_SIZE_DEPTH + 2; i++) {
        assert_int_equal(mkdir("d", 0755), 0);
        assert_int_equal(chdir("d"), 0);
    }
    assert_int_equal(chdir(here), 0);
    count(f, "/entry/tree/python", 100 * MIB);
    assert_int_equal(f->rc, -ERR_TOO_BIG);
}

/* ---- the watch ---- */

static void on_beyond(void *arg, const struct err *why)
{
    struct fixture *f = arg;
    f->calls++;
    f->err = *why;
}

static void an_installer_that_takes_too_much_is_told_of_once(void **state)
{
    struct fixture *f = *state;
    uint64_t bytes = 4096;
    char path[64];
    f->watch = oci_packages_watch_start(&f->tasks, at(f, "/entry/tree"), bytes, on_beyond, f);
    assert_int_equal(f->calls, 0);
    uint64_t entries = oci_packages_peak(bytes) / TREE_SIZE_ENTRY + 1;
    for (uint64_t i = 0; i < entries; i++) { /* by names alone */
        snprintf(path, sizeof(path), "/entry/tree/node/%llu", (unsigned long long)i);
        tree_file(&f->tree, path, "");
    }
    uv_run(&f->loop, UV_RUN_DEFAULT); /* ends, as nothing is watched any more */
    assert_int_equal(f->calls, 1);
    assert_int_equal(f->err.code, ERR_NO_SPACE);
    assert_non_null(strstr(f->err.text, "more than 64 MiB"));
}

static void a_watch_that_was_ended_tells_nothing(void **state)
{
    struct fixture *f = *state;
    f->watch = oci_packages_watch_start(&f->tasks, at(f, "/entry/tree"), 0, on_beyond, f);
    oci_packages_watch_end(f->watch);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    assert_int_equal(f->calls, 0);
}

/* ---- the trim ---- */

static void on_trimmed(void *arg)
{
    ((struct fixture *)arg)->calls++;
}

static bool is_there(const struct fixture *f, const char *path)
{
    struct stat st;
    return lstat(at(f, path), &st) == 0;
}

static void what_is_too_much_is_removed_and_the_rest_stays(void **state)
{
    struct fixture *f = *state;
    struct stat st;
    char path[64];
    for (int i = 0; i < 40; i++) {
        snprintf(path, sizeof(path), "/entry/tree/python/%d", i);
        write_bytes(f, path, MIB / 2);
    }
    write_bytes(f, "/entry/tree/node/module/index.js", MIB / 2);
    (void)oci_packages_trim_start(&f->tasks, at(f, "/entry/tree"), 30 * MIB, agent, on_trimmed, f);
    assert_int_equal(f->calls, 0);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    assert_int_equal(f->calls, 1);
    assert_true(is_there(f, "/entry/tree/python/39")); /* it is not too much */
    (void)oci_packages_trim_start(&f->tasks, at(f, "/entry/tree"), MIB, agent, on_trimmed, f);
    uv_run(&f->loop, UV_RUN_DEFAULT); /* till it is removed */
    assert_int_equal(f->calls, 2);
    assert_int_equal(lstat(at(f, "/entry/tree/python"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0777);
    assert_false(is_there(f, "/entry/tree/python/0"));
    assert_true(is_there(f, "/entry/tree/node/module/index.js"));
    assert_int_equal(count(f, "/entry", 100 * MIB) / MIB, 0); /* nor anywhere else */
}

static void the_limit_leaves_room_for_what_comes_before_it_is_counted(void **state)
{
    (void)state;
    assert_int_equal(sandbox_packages_file_max(MIB), 66 * MIB);
    assert_int_equal(oci_packages_peak(MIB), 68 * MIB);
    assert_true(sandbox_packages_file_max(INT64_MAX) > (uint64_t)INT64_MAX / 4);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: test_oci_packages_limit AGENT\n");
        return 2;
    }
    char path[PATH_MAX];
    agent = realpath(argv[1], path); /* it is started in another directory */
    assert(agent != NULL);
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(everything_that_has_a_name_counts),
        TEST(counting_ends_where_it_is_too_much),
        TEST(what_cannot_be_counted_is_an_error),
        TEST(an_installer_that_takes_too_much_is_told_of_once),
        TEST(a_watch_that_was_ended_tells_nothing),
        TEST(what_is_too_much_is_removed_and_the_rest_stays),
        TEST(the_limit_leaves_room_for_what_comes_before_it_is_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
