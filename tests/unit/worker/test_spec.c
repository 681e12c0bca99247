/*
 * The parts of OPEN that say what a sandbox can reach: they become paths and mounts, so they are
 * checked.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/alloc.h"
#include "proto/place.h"
#include "worker/spec.h"

static int take(struct msg_open open)
{
    struct backend_spec spec = {.id = "one"};
    struct err err = ERR_INIT;
    int rc = spec_take(&spec, &open, &err);
    if (rc < 0) {
        assert_null(spec.packages); /* nothing of a refused message is kept */
        assert_int_equal(spec.mount_count, 0);
        assert_int_not_equal(err.text[0], '\0');
    }
    spec_drop(&spec);
    return rc;
}

static int take_mounts(const char *host, const char *inside)
{
    struct view items[2] = {view_of(host), view_of(inside)};
    return take((struct msg_open){.mounts = {.items = items, .count = 2}});
}

static void everything_is_copied(void **state)
{
    (void)state;
    struct view mounts[2] = {view_of("/srv/wheels"), view_of("/wheels")};
    struct view env[1] = {view_of("A=b")};
    struct msg_open open = {
        .network = NET_FULL, .packages_write = true, .grace_ms = 5, .lifetime_s = 6};
    open.packages = view_bytes("twoX", 3);
    open.mounts.items = mounts;
    open.mounts.count = 2;
    open.env.items = env;
    open.env.count = 1;
    struct backend_spec spec = {.id = "one"};
    struct err err = ERR_INIT;
    assert_int_equal(spec_take(&spec, &open, &err), 0);
    assert_true(spec.network && spec.packages_write);
    assert_string_equal(spec.packages, "two");
    assert_int_equal(spec.mount_count, 1);
    assert_string_equal(spec.mounts[0].host_path, "/srv/wheels");
    assert_string_equal(spec.mounts[0].inside_path, "/wheels");
    assert_int_equal(spec.env.count, 1);
    assert_int_equal(spec.grace_ms, 5);
    assert_int_equal(spec.lifetime_s, 6);
    spec_drop(&spec);
}

static void a_sandbox_is_named_by_its_id_only(void **state)
{
    (void)state;
    assert_int_equal(take((struct msg_open){.packages = view_of("")}), 0);
    assert_int_equal(take((struct msg_open){.packages = view_of("abc123")}), 0);
    static const char *const bad[] = {"..", "a/b", "../one", "A", "a b", "a-b", "/"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(take((struct msg_open){.packages = view_of(bad[i])}), -ERR_INVALID);
    }
    assert_int_equal(take((struct msg_open){.packages_write = true}), -ERR_INVALID);
    assert_int_equal(take((struct msg_open){.network = 3}), -ERR_INVALID);
}

static int take_share(const char *host, const char *name, const char *mode)
{
    struct view items[3] = {view_of(host), view_of(name), view_of(mode)};
    return take((struct msg_open){.shares = {.items = items, .count = 3}});
}

static void a_share_is_a_path_and_a_name(void **state)
{
    struct view items[3] = {view_of("/srv/data"), view_of("data"), view_of("rw")};
    struct msg_open open = {.shares = {.items = items, .count = 3}};
    struct backend_spec spec = {.id = "one"};
    struct err err = ERR_INIT;
    (void)state;
    assert_int_equal(spec_take(&spec, &open, &err), 0);
    assert_int_equal(spec.share_count, 1);
    assert_string_equal(spec.shares[0].host_path, "/srv/data");
    assert_string_equal(spec.shares[0].name, "data");
    assert_true(spec.shares[0].writable);
    spec_drop(&spec);
    assert_int_equal(take_share("/srv", "data", "ro"), 0);
    static const char *const bad_names[] = {"", ".", "..", ".x", "a/b", "a b", "a=b"};
    for (size_t i = 0; i < sizeof(bad_names) / sizeof(bad_names[0]); i++) {
        assert_int_equal(take_share("/srv", bad_names[i], "ro"), -ERR_INVALID);
    }
    assert_int_equal(take_share("/", "data", "ro"), -ERR_INVALID);
    assert_int_equal(take_share("srv", "data", "ro"), -ERR_INVALID);
    assert_int_equal(take_share("/srv/../etc", "data", "ro"), -ERR_INVALID);
    assert_int_equal(take_share("/srv", "data", "rwx"), -ERR_INVALID);
    open.shares.count = 2;
    assert_int_equal(take(open), -ERR_INVALID);
}

static void mounts_are_pairs_of_absolute_paths(void **state)
{
    (void)state;
    assert_int_equal(take_mounts("/a", "/b"), 0);
    assert_int_equal(take_mounts("/a..b/..c", "/b.."), 0);
    static const char *const bad[] = {"", "/", "a", "./a", "/a/../b", "/..", "/a/.."};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(take_mounts(bad[i], "/b"), -ERR_INVALID);
        assert_int_equal(take_mounts("/a", bad[i]), -ERR_INVALID);
    }
    struct view items[2 * BACKEND_MOUNTS_MAX + 2];
    for (size_t i = 0; i < sizeof(items) / sizeof(items[0]); i++) {
        items[i] = view_of("/a");
    }
    items[1] = view_bytes("/a\0b", 4);
    assert_int_equal(take((struct msg_open){.mounts = {.items = items, .count = 2}}), -ERR_INVALID);
    items[1] = items[0];
    assert_int_equal(take((struct msg_open){.mounts = {.items = items, .count = 3}}), -ERR_INVALID);
    struct msg_open many = {.mounts = {.items = items, .count = 2 * BACKEND_MOUNTS_MAX}};
    assert_int_equal(take(many), 0);
    many.mounts.count += 2;
    assert_int_equal(take(many), -ERR_INVALID);
}

/* A supervisor cannot ask for what the row of the backend excludes. */
static void nothing_is_asked_of_a_backend_that_its_row_denies(void **state)
{
    (void)state;
    struct view_list place = place_configured("docker", "tcp://there:2375");
    struct view twice[] = {place.items[0], place.items[0]};
    assert_int_equal(take((struct msg_open){.backend = view_of("docker"), .place = place}), 0);
    assert_int_equal(take((struct msg_open){.backend = view_of("docker"), .place = {twice, 2}}),
                     -ERR_PROTOCOL);
    assert_int_equal(take((struct msg_open){.backend = view_of("oci"), .place = place}),
                     -ERR_INVALID);
    struct msg_open open = {.backend = view_of("oci"), .network = NET_FULL};
    assert_int_equal(take(open), 0);
    open.backend = view_of("fake");
    assert_int_equal(take(open), -ERR_INVALID);
    open = (struct msg_open){.backend = view_of("oci"), .packages = view_of("abc")};
    assert_int_equal(take(open), 0);
    open.backend = view_of("fake");
    assert_int_equal(take(open), -ERR_INVALID);
    alloc_listfree(&place);
}

static void a_door_is_for_a_sandbox_that_has_one(void **state)
{
    struct view items[2] = {view_of("pypi.org:443"), view_of("public")};
    struct msg_open open = {.network = NET_DOOR, .door = {items, 2}};
    struct backend_spec spec = {.id = "one"};
    struct err err = ERR_INIT;
    (void)state;
    assert_int_equal(spec_take(&spec, &open, &err), 0);
    assert_true(spec.door && !spec.network);
    spec_drop(&spec);
    open.network = NET_NONE;
    assert_int_equal(take(open), -ERR_INVALID);
    open.network = NET_FULL;
    assert_int_equal(take(open), -ERR_INVALID);
    assert_int_equal(take((struct msg_open){.door_proxy = view_of("a:1")}), -ERR_INVALID);
    assert_int_equal(take((struct msg_open){.network = NET_DOOR}), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_is_copied),
        cmocka_unit_test(a_sandbox_is_named_by_its_id_only),
        cmocka_unit_test(nothing_is_asked_of_a_backend_that_its_row_denies),
        cmocka_unit_test(a_door_is_for_a_sandbox_that_has_one),
        cmocka_unit_test(a_share_is_a_path_and_a_name),
        cmocka_unit_test(mounts_are_pairs_of_absolute_paths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
