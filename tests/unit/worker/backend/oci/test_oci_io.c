/*
 * Which disks a sandbox uses, and what control groups are told of them, by canned files.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cmocka.h>

#include "tests/unit/worker/backend/oci/tree.h"
#include "worker/backend/oci/limits.h"

static int setup(void **state)
{
    struct tree *t = calloc(1, sizeof(*t));
    tree_init(t);
    tree_dir(t, "/group");
    *state = t;
    return 0;
}

static int teardown(void **state)
{
    tree_finish(*state);
    free(*state);
    return 0;
}

/* The name that the kernel gives to the device of a path. */
static const char *device_of(const char *path)
{
    static char name[64];
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    snprintf(name, sizeof(name), "%u:%u", major(st.st_dev), minor(st.st_dev));
    return name;
}

static void a_disk_is_found_once_by_whatever_lies_on_it(void **state)
{
    struct tree *t = *state;
    struct oci_disks disks;
    const struct backend_spec spec = {.image = "", .shared_dir = "/usr"};
    char path[128];
    oci_disks_find(t->root, &spec, &disks); /* there is no such device */
    if (disks.missed[0] == '\0') {
        skip(); /* /usr is in memory */
    }
    assert_int_equal(disks.count, 0);
    assert_string_equal(disks.missed, "/usr");
    snprintf(path, sizeof(path), "/sys/dev/block/%s", device_of("/usr"));
    tree_dir(t, path);
    oci_disks_find(t->root, &spec, &disks);
    assert_true(disks.count >= 1);
    assert_string_equal(disks.names[0], device_of("/usr"));
}

static void of_a_partition_the_whole_disk_is_limited(void **state)
{
    struct tree *t = *state;
    struct oci_disks disks;
    const struct backend_spec spec = {.image = "/usr", .shared_dir = "/usr"};
    char path[128];
    snprintf(path, sizeof(path), "/sys/dev/block/%s/partition", device_of("/usr"));
    tree_file(t, path, "1\n");
    tree_file(t, "/sys/dev/block/dev", "259:7\n");
    oci_disks_find(t->root, &spec, &disks);
    if (disks.count == 0 && disks.missed[0] == '\0') {
        skip(); /* /usr is in memory */
    }
    assert_string_equal(disks.names[0], "259:7");
    tree_file(t, "/sys/dev/block/dev", "what\n");
    oci_disks_find(t->root, &spec, &disks);
    assert_string_equal(disks.missed, "/usr");
}

static void a_device_that_is_named_has_to_be_one(void **state)
{
    struct tree *t = *state;
    struct oci_disks disks;
    const struct backend_spec spec = {
        .image = "/usr", .shared_dir = "/usr", .io_device = "/dev/null"};
    oci_disks_find(t->root, &spec, &disks);
    assert_int_equal(disks.count, 0);
    assert_string_equal(disks.missed, "/dev/null");
}

static void expect_file(const struct tree *t, const char *path, const char *want)
{
    char *text = tree_read(tree_path(t, path));
    assert_non_null(text);
    assert_string_equal(text, want);
    free(text);
}

static void each_version_gets_the_limits_in_its_words(void **state)
{
    struct tree *t = *state;
    struct err err;
    struct oci_cgroup_dirs dirs = {.unified = false};
    struct backend_limits limits = {.io_read_bytes = 1048576, .io_ops = 300};
    assert_int_equal(oci_cgroup_limit_io(&dirs, "8:0", &limits, &err), -ERR_IO);
    snprintf(dirs.io, sizeof(dirs.io), "%s", tree_path(t, "/group"));
    assert_int_equal(oci_cgroup_limit_io(&dirs, "8:0", &limits, &err), -ERR_IO); /* no such file */
    tree_file(t, "/group/blkio.throttle.read_bps_device", "");
    tree_file(t, "/group/blkio.throttle.write_bps_device", "");
    tree_file(t, "/group/blkio.throttle.read_iops_device", "");
    tree_file(t, "/group/blkio.throttle.write_iops_device", "");
    assert_int_equal(oci_cgroup_limit_io(&dirs, "8:0", &limits, &err), 0);
    expect_file(t, "/group/blkio.throttle.read_bps_device", "8:0 1048576");
    expect_file(t, "/group/blkio.throttle.write_bps_device", "");
    expect_file(t, "/group/blkio.throttle.read_iops_device", "8:0 300");
    expect_file(t, "/group/blkio.throttle.write_iops_device", "8:0 300");
    dirs.unified = true;
    limits = (struct backend_limits){.io_write_bytes = 5};
    tree_file(t, "/group/io.max", "");
    assert_int_equal(oci_cgroup_limit_io(&dirs, "8:0", &limits, &err), 0);
    expect_file(t, "/group/io.max", "8:0 wbps=5");
}

static void expect_note(const struct backend_spec *spec, enum oci_cgroups maker,
                        const struct oci_host *host, const char *begin)
{
    struct oci_notes notes = {.count = 0};
    const struct oci_mode mode = {.cgroups = maker};
    oci_io_unapplied(spec, &mode, host, &notes);
    if (begin == NULL) {
        assert_int_equal(notes.count, 0);
        return;
    }
    assert_true(notes.count > 0);
    assert_int_equal(strncmp(notes.text[notes.count - 1], begin, strlen(begin)), 0);
}

static void what_does_not_hold_is_told_only_if_it_was_asked_for(void **state)
{
    (void)state;
    struct backend_spec spec = {.image = "", .shared_dir = "/proc"};
    struct oci_host host = {.cgroup = {.version = OCI_CGROUP_VERSION_1}};
    expect_note(&spec, OCI_CGROUPS_FS, &host, NULL);
    spec.limits.io_write_bytes = 1;
    expect_note(&spec, OCI_CGROUPS_FS, &host, "io: no control group");
    host.cgroup.groups.io = true;
    expect_note(&spec, OCI_CGROUPS_FS, &host, "io writes: ");
    spec.limits = (struct backend_limits){.io_read_bytes = 1};
    spec.io_device = "/dev/null";
    expect_note(&spec, OCI_CGROUPS_FS, &host, "io: which disk has /dev/null");
}

static void the_groups_that_a_sandbox_gets_are_asked_not_others(void **state)
{
    (void)state;
    struct backend_spec spec = {.image = "", .shared_dir = "/proc", .limits = {.io_ops = 1}};
    struct oci_host host = {.cgroup = {.version = OCI_CGROUP_VERSION_2, .groups = {.io = true}}};
    spec.io_device = "/dev/null";
    expect_note(&spec, OCI_CGROUPS_FS, &host, "io: which disk");
    expect_note(&spec, OCI_CGROUPS_SYSTEMD, &host, "io: no control group");
    expect_note(&spec, OCI_CGROUPS_NONE, &host, "io: no control group");
    host.cgroup.groups.io = false;
    host.cgroup.scopes.io = true;
    expect_note(&spec, OCI_CGROUPS_FS, &host, "io: no control group");
    expect_note(&spec, OCI_CGROUPS_SYSTEMD, &host, "io: which disk");
}

/* The kernel refuses a disk by an error of write(); here the file of its group is missing. */
static void each_disk_is_tried_and_a_missing_group_is_told(void **state)
{
    struct tree *t = *state;
    const struct backend_limits limits = {.io_read_bytes = 9};
    const struct oci_disks disks = {.names = {"8:0", "8:16"}, .count = 2};
    struct oci_cgroup_dirs dirs = {.unified = true};
    struct oci_notes notes = {.count = 0};
    oci_io_limit_disks(&disks, &limits, &dirs, &notes);
    assert_int_equal(notes.count, 1);
    assert_non_null(strstr(notes.text[0], "io: the runtime has put the sandbox into no control"));
    snprintf(dirs.io, sizeof(dirs.io), "%s", tree_path(t, "/group"));
    oci_io_limit_disks(&disks, &limits, &dirs, &notes);
    assert_int_equal(notes.count, 3);
    assert_non_null(strstr(notes.text[1], "disk 8:0: "));
    assert_non_null(strstr(notes.text[2], "disk 8:16: "));
    assert_non_null(strstr(notes.text[2], "io.max"));
    tree_file(t, "/group/io.max", "");
    notes.count = 0;
    oci_io_limit_disks(&disks, &limits, &dirs, &notes);
    assert_int_equal(notes.count, 0);
    expect_file(t, "/group/io.max", "8:16 rbps=9"); /* a file keeps what was written last */
}

static void notes_are_told_once(void **state)
{
    struct tree *t = *state;
    struct err err;
    struct oci_box box;
    struct oci_notes notes = {.count = 0};
    char line[OCI_NOTE_MAX + 64], text[3 * sizeof(line)];
    memset(line, 'x', sizeof(line) - 1); /* longer than a note may be */
    line[sizeof(line) - 1] = '\0';
    snprintf(text, sizeof(text), "io: a\nio: b\n%s\nio: b\n%s\n", line, line);
    oci_box_init(&box, t->root, "abc");
    tree_dir(t, "/bundle");
    assert_int_equal(oci_box_add_note(&box, view_of(text), &err), 0);
    oci_notes_add(&notes, "io: a"); /* a probe has found that already */
    oci_box_notes(&box, &notes);
    assert_int_equal(notes.count, 3);
    assert_string_equal(notes.text[1], "io: b");
    oci_box_notes(&box, &notes);
    assert_int_equal(notes.count, 3);
    oci_box_finish(&box);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_disk_is_found_once_by_whatever_lies_on_it),
        TEST(of_a_partition_the_whole_disk_is_limited),
        TEST(a_device_that_is_named_has_to_be_one),
        TEST(each_version_gets_the_limits_in_its_words),
        TEST(what_does_not_hold_is_told_only_if_it_was_asked_for),
        TEST(the_groups_that_a_sandbox_gets_are_asked_not_others),
        TEST(each_disk_is_tried_and_a_missing_group_is_told),
        TEST(notes_are_told_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
