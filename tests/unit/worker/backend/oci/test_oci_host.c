/*
 * What a host allows, read from canned files: cgroup versions, usage, ids, and which mode is
 * chosen.
 */
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

#include "common/alloc.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/fd.h"
#include "common/kernel/apparmor.h"
#include "tests/unit/worker/backend/oci/tree.h"
#include "worker/backend/oci/host/host.h"
#include "worker/backend/oci/probe.h"
#include "worker/backend/oci/remedies.h"

#define V1_MOUNTS                                                                                  \
    "22 1 0:20 / /proc rw - proc proc rw\n"                                                        \
    "30 23 0:26 / /sys/fs/cgroup ro - tmpfs tmpfs ro,mode=755\n"                                   \
    "31 30 0:27 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n"          \
    "32 30 0:28 / /sys/fs/cgroup/cpu,cpuacct rw shared:10 - cgroup cgroup rw,cpu,cpuacct\n"        \
    "33 30 0:29 / /sys/fs/cgroup/pids rw shared:11 - cgroup cgroup rw,pids\n"                      \
    "34 30 0:30 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n"
#define HYBRID_MOUNTS V1_MOUNTS "35 30 0:31 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
#define V2_MOUNTS     "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n"

static int setup(void **state)
{
    struct tree *t = malloc(sizeof(*t));
    tree_init(t);
    *state = t;
    return 0;
}

static int teardown(void **state)
{
    tree_finish(*state);
    free(*state);
    return 0;
}

static void controllers_of_version_1_are_found(void **state)
{
    struct tree *t = *state;
    struct oci_cgroup_host h;
    tree_file(t, "/proc/self/mountinfo", V1_MOUNTS);
    tree_dir(t, "/sys/fs/cgroup/memory");
    oci_cgroup_detect(t->root, 0, &h);
    assert_int_equal(h.version, OCI_CGROUP_VERSION_1);
    assert_true(h.groups.memory && h.groups.cpu && h.groups.pids && h.parent_writable);
    assert_false(h.groups.swap);
    assert_string_equal(h.parent, "");
    tree_file(t, "/sys/fs/cgroup/memory/memory.memsw.limit_in_bytes", "0\n");
    oci_cgroup_detect(t->root, 0, &h);
    assert_true(h.groups.swap);
}

static void hybrid_counts_as_version_1(void **state)
{
    struct tree *t = *state;
    struct oci_cgroup_host h;
    tree_file(t, "/proc/self/mountinfo", HYBRID_MOUNTS);
    oci_cgroup_detect(t->root, 0, &h);
    assert_int_equal(h.version, OCI_CGROUP_VERSION_1);
}

static void version_2_as_root(void **state)
{
    struct tree *t = *state;
    struct oci_cgroup_host h;
    tree_file(t, "/proc/self/mountinfo", V2_MOUNTS);
    tree_file(t, "/proc/self/cgroup", "0::/system.slice/cloister.service\n");
    tree_file(t, "/sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory hugetlb pids rdma\n");
    tree_file(t, "/sys/fs/cgroup/system.slice/cloister.service/memory.max", "max\n");
    oci_cgroup_detect(t->root, 0, &h);
    assert_int_equal(h.version, OCI_CGROUP_VERSION_2);
    assert_true(h.groups.memory && h.groups.cpu && h.groups.pids);
    assert_false(h.groups.swap);
    assert_string_equal(h.parent, "");
    tree_file(t, "/sys/fs/cgroup/system.slice/cloister.service/memory.swap.max", "max\n");
    oci_cgroup_detect(t->root, 0, &h);
    assert_true(h.groups.swap);
}

static void version_2_as_a_user_with_delegation(void **state)
{
    struct tree *t = *state;
    struct oci_cgroup_host h;
    tree_file(t, "/proc/self/mountinfo", V2_MOUNTS);
    tree_file(t, "/proc/self/cgroup", "0::/user.slice/user-5.slice/user@5.service/app.slice/x\n");
    tree_file(t, "/sys/fs/cgroup/cgroup.controllers", "cpu memory pids\n");
    tree_file(t,
              "/sys/fs/cgroup/user.slice/user-5.slice/user@5.service/app.slice/cgroup.controllers",
              "memory pids\n");
    oci_cgroup_detect(t->root, 5, &h);
    assert_string_equal(h.parent, "/user.slice/user-5.slice/user@5.service/app.slice");
    assert_true(h.groups.memory && h.groups.pids && h.parent_writable);
    assert_false(h.groups.cpu);
}

static void no_cgroups_at_all(void **state)
{
    struct tree *t = *state;
    struct oci_cgroup_host h;
    oci_cgroup_detect(t->root, 0, &h); /* there is not even /proc */
    assert_int_equal(h.version, OCI_CGROUP_VERSION_NONE);
    tree_file(t, "/proc/self/mountinfo",
              "garbage\n - \n1 2 3 - cgroup\n\xff\xfe - cgroup c rw,memory\n");
    oci_cgroup_detect(t->root, 0, &h);
    assert_int_equal(h.version, OCI_CGROUP_VERSION_NONE);
    assert_false(h.groups.memory || h.groups.cpu || h.groups.pids || h.parent_writable);
}

/* The file stays open, and what it says is read anew each time. */
static void check_kills(const struct oci_cgroup_dirs *dirs, uint64_t wanted)
{
    int fd = oci_cgroup_open_kills(dirs);
    assert_true(fd >= 0);
    assert_int_equal(oci_cgroup_kills(fd), wanted);
    assert_int_equal(oci_cgroup_kills(fd), wanted);
    close(fd);
    assert_int_equal(oci_cgroup_kills(-1), 0);
}

static void figures_of_version_1(void **state)
{
    struct tree *t = *state;
    struct oci_cgroup_host h;
    struct oci_cgroup_dirs dirs;
    struct backend_usage usage;
    tree_file(t, "/proc/self/mountinfo", HYBRID_MOUNTS);
    tree_file(t, "/proc/77/cgroup",
              "3:pids:/cloister-a\n2:cpu,cpuacct:/cloister-a\n"
              "1:memory:/cloister-a\n0::/cloister-a\n");
    tree_file(t, "/sys/fs/cgroup/memory/cloister-a/memory.usage_in_bytes", "4096\n");
    tree_file(t, "/sys/fs/cgroup/memory/cloister-a/memory.oom_control",
              "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n");
    tree_file(t, "/sys/fs/cgroup/cpu,cpuacct/cloister-a/cpuacct.usage", "5000000\n");
    tree_file(t, "/sys/fs/cgroup/pids/cloister-a/pids.current", "7\n");
    oci_cgroup_detect(t->root, 0, &h);
    assert_true(oci_cgroup_find(t->root, &h, 77, "cloister-a", &dirs));
    oci_cgroup_usage(&dirs, &usage);
    assert_int_equal(usage.memory_bytes, 4096);
    assert_int_equal(usage.cpu_us, 5000);
    assert_int_equal(usage.pids, 7);
    assert_int_equal(usage.oom_kills, 3);
    check_kills(&dirs, 3);
}

static void figures_of_version_2(void **state)
{
    struct tree *t = *state;
    struct oci_cgroup_host h;
    struct oci_cgroup_dirs dirs;
    struct backend_usage usage;
    tree_file(t, "/proc/self/mountinfo", V2_MOUNTS);
    tree_file(t, "/proc/self/cgroup", "0::/\n");
    tree_file(t, "/proc/77/cgroup", "0::/x.slice/cloister-a.scope/container\n");
    tree_file(t, "/sys/fs/cgroup/x.slice/cloister-a.scope/container/memory.current", "8192\n");
    tree_file(t, "/sys/fs/cgroup/x.slice/cloister-a.scope/container/memory.events",
              "low 0\nhigh 0\nmax 9\noom 2\noom_kill 1\n");
    tree_file(t, "/sys/fs/cgroup/x.slice/cloister-a.scope/container/cpu.stat",
              "usage_usec 123\nuser_usec 100\n");
    oci_cgroup_detect(t->root, 0, &h);
    assert_true(oci_cgroup_find(t->root, &h, 77, "cloister-a", &dirs));
    oci_cgroup_usage(&dirs, &usage);
    assert_int_equal(usage.memory_bytes, 8192);
    assert_int_equal(usage.cpu_us, 123);
    assert_int_equal(usage.pids, 0); /* no such file */
    assert_int_equal(usage.oom_kills, 1);
    check_kills(&dirs, 1);
}

static void expect_file(const struct tree *t, const char *path, const char *expected)
{
    CLEANUP_FREE char *text = tree_read(tree_path(t, path));
    assert_string_equal(text != NULL ? text : "none", expected);
}

#define MIB ((uint64_t)1 << 20)

static void limits_are_changed_in_version_1(void **state)
{
    struct tree *t = *state;
    struct oci_cgroup_host h;
    struct err err;
    struct oci_cgroup_change change = {.memory = true,
                                       .swap = true,
                                       .memory_from = 512 * MIB,
                                       .memory_bytes = 256 * MIB,
                                       .cpu = true,
                                       .cpu_milli = 2000};
    tree_file(t, "/proc/self/mountinfo", V1_MOUNTS);
    tree_file(t, "/proc/77/cgroup",
              "3:pids:/cloister-a\n2:cpu,cpuacct:/cloister-a\n1:memory:/cloister-a\n");
    tree_file(t, "/sys/fs/cgroup/memory/cloister-a/memory.limit_in_bytes", "536870912\n");
    tree_file(t, "/sys/fs/cgroup/memory/cloister-a/memory.memsw.limit_in_bytes", "536870912\n");
    tree_file(t, "/sys/fs/cgroup/cpu,cpuacct/cloister-a/cpu.cfs_quota_us", "100000\n");
    oci_cgroup_detect(t->root, 0, &h);
    assert_int_equal(oci_cgroup_change(t->root, &h, 77, "cloister-a", &change, &err), 0);
    expect_file(t, "/sys/fs/cgroup/memory/cloister-a/memory.limit_in_bytes", "268435456\n");
    expect_file(t, "/sys/fs/cgroup/memory/cloister-a/memory.memsw.limit_in_bytes", "268435456\n");
    expect_file(t, "/sys/fs/cgroup/cpu,cpuacct/cloister-a/cpu.cfs_quota_us", "200000\n");
    /* it has another limit than is said */
    assert_int_equal(oci_cgroup_change(t->root, &h, 77, "cloister-a", &change, &err), -ERR_CONFIG);
    /* it has no group */
    assert_int_equal(oci_cgroup_change(t->root, &h, 77, "cloister-b", &change, &err), -ERR_CONFIG);
    assert_int_equal(oci_cgroup_change(t->root, &h, 78, "cloister-a", &change, &err), -ERR_CONFIG);
    expect_file(t, "/sys/fs/cgroup/memory/cloister-a/memory.limit_in_bytes", "268435456\n");
}

static void limits_are_changed_in_version_2(void **state)
{
    struct tree *t = *state;
    struct oci_cgroup_host h;
    struct err err;
    const struct oci_cgroup_change change = {.memory = true,
                                             .swap = true,
                                             .memory_from = 256 * MIB,
                                             .memory_bytes = 512 * MIB,
                                             .cpu = true,
                                             .cpu_milli = 1};
    tree_file(t, "/proc/self/mountinfo", V2_MOUNTS);
    tree_file(t, "/proc/self/cgroup", "0::/\n");
    tree_file(t, "/proc/77/cgroup", "0::/cloister-a\n");
    tree_file(t, "/sys/fs/cgroup/cloister-a/memory.max", "268435456\n");
    tree_file(t, "/sys/fs/cgroup/cloister-a/memory.swap.max", "0\n");
    tree_file(t, "/sys/fs/cgroup/cloister-a/cpu.max", "");
    oci_cgroup_detect(t->root, 0, &h);
    assert_int_equal(oci_cgroup_change(t->root, &h, 77, "cloister-a", &change, &err), 0);
    expect_file(t, "/sys/fs/cgroup/cloister-a/memory.max", "536870912\n");
    expect_file(t, "/sys/fs/cgroup/cloister-a/memory.swap.max", "0\n");
    expect_file(t, "/sys/fs/cgroup/cloister-a/cpu.max", "1000 100000"); /* the least there is */
}

static void figures_of_others_are_not_taken(void **state)
{
    struct tree *t = *state;
    struct oci_cgroup_host h;
    struct oci_cgroup_dirs dirs;
    tree_file(t, "/proc/self/mountinfo", V1_MOUNTS);
    tree_file(t, "/proc/77/cgroup", "1:memory:/user.slice\n3:pids:/\n");
    oci_cgroup_detect(t->root, 0, &h);
    assert_false(oci_cgroup_find(t->root, &h, 77, "cloister-a", &dirs));
    assert_false(oci_cgroup_find(t->root, &h, 78, "cloister-a", &dirs));
}

static void expect_members(const struct tree *t, const char *group, const char *members)
{
    CLEANUP_FREE char *path = alloc_printf("/sys/fs/cgroup/%s/cgroup.procs", group);
    CLEANUP_FREE char *text = tree_read(tree_path(t, path));
    assert_string_equal(text != NULL ? text : "none", members);
}

static void a_helper_joins_every_limiting_group(void **state)
{
    struct tree *t = *state;
    struct oci_cgroup_host h;
    struct err err = ERR_INIT;
    tree_file(t, "/proc/self/mountinfo", HYBRID_MOUNTS);
    tree_file(t, "/proc/77/cgroup",
              "4:devices:/cloister-a\n3:pids:/cloister-a\n2:cpu,cpuacct:/cloister-a\n"
              "1:memory:/cloister-a\n0::/cloister-a\n");
    tree_file(t, "/sys/fs/cgroup/memory/cloister-a/cgroup.procs", "");
    tree_file(t, "/sys/fs/cgroup/cpu,cpuacct/cloister-a/cgroup.procs", "");
    oci_cgroup_detect(t->root, 0, &h);
    /* one is missing: that is an error, as what is used there would not be limited */
    assert_int_equal(oci_cgroup_join(t->root, &h, 77, "cloister-a", 99, &err), -ERR_ENGINE);
    assert_non_null(strstr(err.text, "/pids/cloister-a/cgroup.procs"));
    tree_file(t, "/sys/fs/cgroup/pids/cloister-a/cgroup.procs", "");
    tree_file(t, "/sys/fs/cgroup/memory/cloister-a/cgroup.procs", "");
    tree_file(t, "/sys/fs/cgroup/cpu,cpuacct/cloister-a/cgroup.procs", "");
    assert_int_equal(oci_cgroup_join(t->root, &h, 77, "cloister-a", 99, &err), 0);
    expect_members(t, "memory/cloister-a", "99");
    expect_members(t, "pids/cloister-a", "99");
    expect_members(t, "cpu,cpuacct/cloister-a", "99");
    expect_members(t, "devices/cloister-a", "none"); /* it has to open the device */
}

static void a_helper_joins_the_one_group_of_version_2(void **state)
{
    struct tree *t = *state;
    struct oci_cgroup_host h;
    struct err err = ERR_INIT;
    tree_file(t, "/proc/self/mountinfo", V2_MOUNTS);
    tree_file(t, "/proc/self/cgroup", "0::/\n");
    tree_file(t, "/proc/77/cgroup", "0::/x.slice/cloister-a.scope/container\n");
    tree_file(t, "/proc/78/cgroup", "0::/x.slice\n");
    tree_file(t, "/sys/fs/cgroup/x.slice/cloister-a.scope/container/cgroup.procs", "");
    tree_file(t, "/sys/fs/cgroup/x.slice/cgroup.procs", "");
    oci_cgroup_detect(t->root, 0, &h);
    assert_int_equal(oci_cgroup_join(t->root, &h, 77, "cloister-a", 99, &err), 0);
    expect_members(t, "x.slice/cloister-a.scope/container", "99");
    /* never into a group that is not the container's */
    assert_int_equal(oci_cgroup_join(t->root, &h, 78, "cloister-a", 99, &err), -ERR_ENGINE);
    assert_int_equal(oci_cgroup_join(t->root, &h, 79, "cloister-a", 99, &err), -ERR_ENGINE);
    expect_members(t, "x.slice", "");
}

static void leftover_groups_are_removed(void **state)
{
    struct tree *t = *state;
    struct oci_cgroup_host h;
    struct stat st;
    tree_file(t, "/proc/self/mountinfo", V1_MOUNTS);
    tree_dir(t, "/sys/fs/cgroup/memory/cloister-a/nested/deeper");
    tree_dir(t, "/sys/fs/cgroup/memory/cloister-ab");
    tree_dir(t, "/sys/fs/cgroup/pids/cloister-a");
    oci_cgroup_detect(t->root, 0, &h);
    assert_true(oci_cgroup_remove(t->root, &h, "cloister-a"));
    assert_true(stat(tree_path(t, "/sys/fs/cgroup/memory/cloister-a"), &st) < 0);
    assert_true(stat(tree_path(t, "/sys/fs/cgroup/pids/cloister-a"), &st) < 0);
    assert_int_equal(stat(tree_path(t, "/sys/fs/cgroup/memory/cloister-ab"), &st), 0);
    assert_true(oci_cgroup_remove(t->root, &h, "cloister-a")); /* its absence is no error */

    /* A group that cannot be removed is reported. Pids 0 and 1 in it are never killed: 0 would be
     * ourselves. */
    tree_file(t, "/sys/fs/cgroup/pids/cloister-a/cgroup.procs", "0\n1\nx\n");
    assert_false(oci_cgroup_remove(t->root, &h, "cloister-a"));
}

static struct oci_host read_host(const struct tree *t, uid_t uid)
{
    struct oci_host h;
    oci_host_read(t->root, uid, (gid_t)uid, &h);
    return h;
}

/* What a sandbox takes of these counts for the user that runs cloister. */
static void what_the_kernel_gives_a_user_is_read(void **state)
{
    struct tree *t = *state;
    struct oci_host h = read_host(t, 0);
    assert_int_equal(h.inotify_instances, 0);
    assert_false(h.core_handler);
    tree_file(t, "/proc/sys/user/max_inotify_instances", "128\n");
    tree_file(t, "/proc/sys/user/max_inotify_watches", "-1\n");
    tree_file(t, "/proc/sys/kernel/core_pattern", "|/usr/lib/systemd/systemd-coredump %P\n");
    h = read_host(t, 0);
    assert_int_equal(h.inotify_instances, 128);
    assert_int_equal(h.inotify_watches, 0);
    assert_true(h.core_handler);
    struct oci_notes notes = {.count = 0};
    oci_host_unapplied(&h, false, &notes);
    assert_int_equal(notes.count, 0);
    h.core_max = 0; /* of an ordinary user whose hard limit is 0, who cannot set 1 */
    oci_host_unapplied(&h, false, &notes);
    assert_int_equal(notes.count, 1);
    assert_non_null(strstr(notes.text[0], "core: "));
}

static void netlink_is_told_where_the_agent_cannot_count_its_sockets(void **state)
{
    struct tree *t = *state;
    static const char *const new[] = {"5.9.0", "6.1.0-13-amd64\n", "10.0", ""};
    static const char *const old[] = {"5.8.18-generic\n", "4.19.0-27-amd64", "5.4"};
    for (size_t i = 0; i < sizeof(new) / sizeof(new[0]); i++) {
        tree_file(t, "/proc/sys/kernel/osrelease", new[i]);
        assert_false(read_host(t, 0).old_kernel);
    }
    for (size_t i = 0; i < sizeof(old) / sizeof(old[0]); i++) {
        struct oci_notes notes = {.count = 0};
        tree_file(t, "/proc/sys/kernel/osrelease", old[i]);
        struct oci_host h = read_host(t, 0);
        oci_host_unapplied(&h, true, &notes);
        assert_int_equal(notes.count, 0);
        oci_host_unapplied(&h, false, &notes);
        assert_int_equal(notes.count, 1);
        assert_non_null(strstr(notes.text[0], "netlink: "));
    }
}

static void a_profile_is_used_if_the_kernel_has_it(void **state)
{
    struct tree *t = *state;
    assert_int_equal(apparmor_look(t->root), APPARMOR_NONE);
    tree_file(t, "/sys/module/apparmor/parameters/enabled", "N\n");
    assert_int_equal(apparmor_look(t->root), APPARMOR_NONE);
    tree_file(t, "/sys/module/apparmor/parameters/enabled", "Y\n");
    assert_int_equal(apparmor_look(t->root), APPARMOR_HIDDEN);
    tree_file(
        t, "/sys/kernel/security/apparmor/profiles",
        "docker-default (enforce)\nnot-cloister-sandbox (enforce)\ncloister-sandbox-2 (enforce)\n");
    assert_int_equal(apparmor_look(t->root), APPARMOR_UNLOADED);
    assert_false(read_host(t, 0).apparmor);
    tree_file(t, "/sys/kernel/security/apparmor/profiles",
              "docker-default (enforce)\ncloister-sandbox (enforce)\n");
    assert_int_equal(apparmor_look(t->root), APPARMOR_LOADED);
    assert_true(read_host(t, 0).apparmor);
}

/* Version 1 counts the buffers of sockets apart, and only where they have a limit. */
static void buffers_of_sockets_are_limited_or_told(void **state)
{
    struct tree *t = *state;
    struct oci_notes notes = {.count = 0};
    struct oci_cgroup_dirs dirs = {.memory = ""};
    struct err err = ERR_INIT;
    tree_file(t, "/proc/self/mountinfo", HYBRID_MOUNTS);
    struct oci_host h = read_host(t, 0);
    assert_false(h.cgroup.sockets);
    oci_host_unapplied(&h, false, &notes);
    assert_int_equal(notes.count, 1);
    assert_non_null(strstr(notes.text[0], "sockets: "));

    tree_file(t, "/sys/fs/cgroup/memory/memory.kmem.tcp.limit_in_bytes", "9223372036854771712\n");
    h = read_host(t, 0);
    assert_true(h.cgroup.sockets);
    notes.count = 0;
    oci_host_unapplied(&h, false, &notes);
    assert_int_equal(notes.count, 0);

    snprintf(dirs.memory, sizeof(dirs.memory), "%s", tree_path(t, "/sys/fs/cgroup/memory"));
    assert_int_equal(oci_cgroup_limit_sockets(&dirs, 64u << 20, &err), 0);
    CLEANUP_BUF struct buf text;
    buf_init(&text, 64);
    assert_int_equal(file_read(tree_path(t, "/sys/fs/cgroup/memory/memory.kmem.tcp.limit_in_bytes"),
                               &text, &err),
                     0);
    assert_int_equal(strncmp(buf_cstr(&text), "67108864", 8), 0);
    snprintf(dirs.memory, sizeof(dirs.memory), "%s", tree_path(t, "/nowhere"));
    assert_int_equal(oci_cgroup_limit_sockets(&dirs, 64u << 20, &err), -ERR_IO);
}

static void root_spreads_sandboxes_over_high_ids(void **state)
{
    struct tree *t = *state;
    struct oci_extent a[OCI_EXTENTS_MAX], b[OCI_EXTENTS_MAX];
    tree_file(t, "/proc/self/uid_map", "         0          0 4294967295\n");
    tree_file(t, "/proc/self/gid_map", "         0          0 4294967295\n");
    struct oci_host h = read_host(t, 0);
    assert_true(oci_host_has_range(&h));
    assert_int_equal(oci_host_extents(&h, &h.uids, 0, "one", a), 1);
    assert_int_equal(oci_host_extents(&h, &h.uids, 0, "two", b), 1);
    assert_true(a[0].outside >= 0x10000000u && a[0].outside % 65536 == 0);
    assert_true((uint64_t)a[0].outside + a[0].count <= 0xf0000000u);
    assert_int_equal(a[0].count, 65536);
    assert_int_not_equal(a[0].outside, b[0].outside);
    oci_host_extents(&h, &h.uids, 0, "one", b);
    assert_int_equal(a[0].outside, b[0].outside); /* it keeps the same ids for its whole life */
}

static void root_in_a_container_uses_what_it_has(void **state)
{
    struct tree *t = *state;
    struct oci_extent e[OCI_EXTENTS_MAX];
    tree_file(t, "/proc/self/uid_map", "0 100000 1000000\n");
    tree_file(t, "/proc/self/gid_map", "0 100000 2000\n");
    struct oci_host h = read_host(t, 0);
    assert_int_equal(oci_host_extents(&h, &h.uids, 0, "one", e), 1);
    assert_true(e[0].outside >= 65536 && (uint64_t)e[0].outside + e[0].count <= 1000000);
    assert_int_equal(oci_host_extents(&h, &h.gids, 0, "one", e), 1);
    assert_int_equal(e[0].outside, 0);
    assert_int_equal(e[0].count, 2000);
    tree_file(t, "/proc/self/gid_map", "0 100000 1000\n");
    h = read_host(t, 0);
    assert_false(oci_host_has_range(&h));
}

static void users_have_what_was_granted(void **state)
{
    struct tree *t = *state;
    struct oci_extent e[OCI_EXTENTS_MAX];
    tree_file(t, "/etc/passwd",
              "root:x:0:0::/:/bin/sh\nann:x:1001:1001:,,,:/home/ann:/bin/sh\n"
              "noshell\n:::\nbob::1002:1002:::\n");
    tree_file(t, "/etc/subuid", "#comment\nbob:1:2\nann:100000:65536\n1001:5:10\nann:7\n");
    tree_file(t, "/etc/subgid", "1001:200000:70000\n");
    struct oci_host h = read_host(t, 1001);
    assert_true(oci_host_has_range(&h));
    assert_int_equal(oci_host_extents(&h, &h.uids, 1001, "x", e), 3);
    assert_int_equal(e[0].inside, 0);
    assert_int_equal(e[0].outside, 1001);
    assert_int_equal(e[1].inside, 1);
    assert_int_equal(e[1].outside, 100000);
    assert_int_equal(e[1].count, 999);
    assert_int_equal(e[2].inside, 1000);
    assert_in_range(e[2].outside, 100999, 165535);
    assert_int_equal(e[2].count, 1);
    struct oci_extent other[OCI_EXTENTS_MAX];
    oci_host_extents(&h, &h.uids, 1001, "y", other); /* limits of a uid are not shared */
    assert_int_not_equal(e[2].outside, other[2].outside);
    h.uids.count = 1000; /* just enough for one */
    assert_int_equal(oci_host_extents(&h, &h.uids, 1001, "x", e), 3);
    assert_int_equal(e[2].outside, 100999);
    h = read_host(t, 1002); /* a range of two ids is too small */
    assert_false(oci_host_has_range(&h));
}

static size_t ladder(const struct tree *t, uid_t uid, struct oci_mode modes[OCI_LADDER_MAX])
{
    struct oci_host h = read_host(t, uid);
    return oci_ladder(&h, modes);
}

static void the_strongest_mode_comes_first(void **state)
{
    struct tree *t = *state;
    struct oci_mode m[OCI_LADDER_MAX];
    tree_file(t, "/proc/self/uid_map", "0 0 4294967295\n");
    tree_file(t, "/proc/self/gid_map", "0 0 4294967295\n");
    tree_file(t, "/proc/self/mountinfo", V1_MOUNTS);
    tree_dir(t, "/sys/fs/cgroup/memory");
    size_t n = ladder(t, 0, m);
    assert_true(n >= 4);
    assert_int_equal(m[0].userns, OCI_USERNS_RANGE);
    assert_int_equal(m[0].cgroups, OCI_CGROUPS_FS);
    assert_true(m[0].hide && m[0].memory && m[0].cpu && m[0].pids && m[0].views);
    /* first without files of its own, then with weaker limits */
    assert_true(m[1].cgroups == m[0].cgroups && m[1].userns == m[0].userns && !m[1].views);
    assert_true(m[2].cgroups != m[0].cgroups && m[2].views);
    assert_int_equal(m[n - 1].userns, OCI_USERNS_NONE);
    assert_int_equal(m[n - 1].cgroups, OCI_CGROUPS_NONE);
    assert_false(m[n - 1].hide || m[n - 1].memory || m[n - 1].views);

    /* A normal user has no delegated groups in version 1, and needs a user namespace. */
    tree_file(t, "/etc/passwd", "ann:x:1001:1001::/:/bin/sh\n");
    n = ladder(t, 1001, m);
    assert_int_equal(n, 4);
    assert_int_equal(m[0].userns, OCI_USERNS_SINGLE);
    assert_int_equal(m[0].cgroups, OCI_CGROUPS_NONE);

    tree_dir(t, "/run/user/1001/systemd/private");
    tree_file(t, "/proc/self/mountinfo", V2_MOUNTS);
    tree_file(t, "/etc/subuid", "ann:100000:65536\n");
    tree_file(t, "/etc/subgid", "ann:100000:65536\n");
    ladder(t, 1001, m);
    assert_int_equal(m[0].userns, OCI_USERNS_RANGE);
}

/* In version 2 systemd is the only one who gives and takes controllers. */
static void the_service_manager_makes_groups_of_version_2(void **state)
{
    struct tree *t = *state;
    struct oci_mode m[OCI_LADDER_MAX];
    tree_file(t, "/proc/self/uid_map", "0 0 4294967295\n");
    tree_file(t, "/proc/self/gid_map", "0 0 4294967295\n");
    tree_file(t, "/proc/self/mountinfo", V2_MOUNTS);
    tree_file(t, "/sys/fs/cgroup/cgroup.controllers", "cpu memory pids\n");
    ladder(t, 0, m);
    assert_int_equal(m[0].cgroups, OCI_CGROUPS_FS); /* nobody else is there */
    tree_dir(t, "/run/systemd/system");
    ladder(t, 0, m);
    assert_true(m[0].cgroups == OCI_CGROUPS_SYSTEMD && m[0].cpu && m[0].views);
    assert_true(m[1].cgroups == OCI_CGROUPS_SYSTEMD && !m[1].views);
    assert_true(m[2].cgroups == OCI_CGROUPS_FS && m[2].cpu && m[2].views);
    tree_file(t, "/proc/self/mountinfo", V1_MOUNTS);
    tree_dir(t, "/sys/fs/cgroup/memory");
    ladder(t, 0, m);
    assert_int_equal(m[0].cgroups, OCI_CGROUPS_FS);
}

/* A login session is beside the group of the user's service manager, which makes the scopes. */
static void the_service_manager_may_have_fewer_controllers(void **state)
{
    struct tree *t = *state;
    struct oci_mode m[OCI_LADDER_MAX];
    tree_file(t, "/proc/self/mountinfo", V2_MOUNTS);
    tree_file(t, "/proc/self/cgroup", "0::/user.slice/user-5.slice/session-2.scope\n");
    tree_file(t, "/sys/fs/cgroup/user.slice/user-5.slice/cgroup.controllers", "cpu memory pids\n");
    tree_dir(t, "/run/user/5/systemd/private");
    tree_file(t, "/sys/fs/cgroup/user.slice/user-5.slice/user@5.service/cgroup.controllers",
              "memory pids\n");
    struct oci_host h = read_host(t, 5);
    assert_true(h.cgroup.groups.cpu && h.cgroup.groups.memory && h.cgroup.groups.swap);
    assert_false(h.cgroup.scopes.cpu);
    assert_true(h.cgroup.scopes.memory && h.cgroup.scopes.swap && h.cgroup.scopes.pids);
    size_t scopes = 0;
    for (size_t i = 0, n = oci_ladder(&h, m); i < n; i++) {
        assert_false(m[i].cgroups == OCI_CGROUPS_NONE && m[i].memory);
        if (m[i].cgroups == OCI_CGROUPS_SYSTEMD) {
            assert_true(m[i].memory && m[i].swap && m[i].pids && !m[i].cpu);
            scopes++;
        }
    }
    assert_true(scopes > 0);

    /* with the usual controllers, and where the group of the manager is somewhere else */
    tree_file(t, "/sys/fs/cgroup/user.slice/user-5.slice/user@5.service/cgroup.controllers",
              "cpu memory pids\n");
    assert_true(read_host(t, 5).cgroup.scopes.cpu);
    tree_file(t, "/sys/fs/cgroup/user.slice/user-6.slice/cgroup.controllers", "cpu\n");
    tree_file(t, "/proc/self/cgroup", "0::/user.slice/user-6.slice/session-2.scope\n");
    h = read_host(t, 6);
    assert_true(h.cgroup.scopes.cpu && !h.cgroup.scopes.memory);
}

static void reasons_and_swap_are_found(void **state)
{
    struct tree *t = *state;
    struct oci_host h = read_host(t, 1001);
    assert_string_equal(h.userns_off, "");
    assert_false(h.swap_active);
    tree_file(t, "/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1\n");
    tree_file(t, "/proc/swaps", "Filename\tType\tSize\n/dev/sda2 partition 100 0 -2\n");
    h = read_host(t, 1001);
    assert_non_null(strstr(h.userns_off, "apparmor_restrict_unprivileged_userns"));
    assert_true(h.swap_active);
    h = read_host(t, 0);
    assert_string_equal(h.userns_off, "");
    tree_file(t, "/proc/sys/user/max_user_namespaces", "0\n");
    tree_file(t, "/proc/swaps", "Filename\tType\tSize\n");
    h = read_host(t, 0);
    assert_non_null(strstr(h.userns_off, "max_user_namespaces"));
    assert_false(h.swap_active);
}

static void expect_remedy(const struct oci_host *h, const char *note, const char *words)
{
    const char *remedy = oci_remedy(note, h);
    assert_non_null(remedy);
    if (strstr(remedy, words) == NULL) {
        fail_msg("%s: %s", note, remedy);
    }
}

static void a_remedy_is_for_this_host_and_user(void **state)
{
    struct oci_host h = {.root = false};
    (void)state;
    expect_remedy(&h, "memory: no cgroup", "mount -t cgroup2");
    h.cgroup.version = OCI_CGROUP_VERSION_1;
    expect_remedy(&h, "pids: no cgroup", "systemd.unified_cgroup_hierarchy=1");
    h.cgroup.version = OCI_CGROUP_VERSION_2;
    expect_remedy(&h, "cpus: no cgroup", "start cloister as root");
    h.booted = true;
    expect_remedy(&h, "cpus: no cgroup", "loginctl enable-linger");
    h.systemd = true;
    expect_remedy(&h, "cpus: no cgroup", "Delegate=");
    expect_remedy(&h, "uid: none", "usermod --add-subuids");
    snprintf(h.userns_off, sizeof(h.userns_off), "sysctl");
    expect_remedy(&h, "uid: none", "apparmor_restrict_unprivileged_userns=0");
    h.root = true;
    expect_remedy(&h, "memory: no cgroup", "--privileged");
    expect_remedy(&h, "user namespace: none", "max_user_namespaces");
    assert_null(oci_remedy("something: else", &h));
    assert_null(oci_remedy("", &h));
}

/* Whoever reads "not enforced" is told what to do about each entry that a probe can make. */
static void every_limit_of_a_host_has_a_remedy(void **state)
{
    struct oci_mode weakest = {.userns = OCI_USERNS_SINGLE, .cgroups = OCI_CGROUPS_NONE};
    struct oci_mode flawed = {.userns = OCI_USERNS_NONE, .memory = true, .flawed = true};
    struct oci_host h = {.core_handler = true};
    struct oci_notes notes;
    (void)state;
    h.cgroup.version = OCI_CGROUP_VERSION_1;
    h.cgroup.groups.memory = true;
    for (int i = 0; i < 2; i++) {
        oci_mode_unapplied(i == 0 ? &weakest : &flawed, true, "", &notes);
        oci_host_unapplied(&h, false, &notes);
        assert_true(notes.count > 5);
        for (size_t k = 0; k < notes.count; k++) {
            expect_remedy(&h, notes.text[k], "");
        }
    }
}

static void long_words_of_a_runtime_are_told_once_and_whole(void **state)
{
    struct oci_mode none = {.userns = OCI_USERNS_RANGE, .cgroups = OCI_CGROUPS_NONE};
    struct oci_notes notes;
    char words[256];
    (void)state;
    memset(words, 'w', sizeof(words) - 1);
    words[sizeof(words) - 1] = '\0';
    oci_mode_unapplied(&none, false, words, &notes);
    assert_non_null(strstr(notes.text[0], words));
    assert_non_null(strstr(notes.text[0], "RLIMIT_DATA"));
    assert_string_equal(notes.text[1], "cpus: for the same reason as memory");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(controllers_of_version_1_are_found),
        TEST(hybrid_counts_as_version_1),
        TEST(version_2_as_root),
        TEST(version_2_as_a_user_with_delegation),
        TEST(the_service_manager_may_have_fewer_controllers),
        TEST(the_service_manager_makes_groups_of_version_2),
        TEST(no_cgroups_at_all),
        TEST(figures_of_version_1),
        TEST(figures_of_version_2),
        TEST(limits_are_changed_in_version_1),
        TEST(limits_are_changed_in_version_2),
        TEST(figures_of_others_are_not_taken),
        TEST(a_helper_joins_every_limiting_group),
        TEST(a_helper_joins_the_one_group_of_version_2),
        TEST(leftover_groups_are_removed),
        TEST(root_spreads_sandboxes_over_high_ids),
        TEST(what_the_kernel_gives_a_user_is_read),
        TEST(netlink_is_told_where_the_agent_cannot_count_its_sockets),
        TEST(a_profile_is_used_if_the_kernel_has_it),
        TEST(buffers_of_sockets_are_limited_or_told),
        TEST(root_in_a_container_uses_what_it_has),
        TEST(users_have_what_was_granted),
        TEST(the_strongest_mode_comes_first),
        TEST(reasons_and_swap_are_found),
        TEST(a_remedy_is_for_this_host_and_user),
        TEST(every_limit_of_a_host_has_a_remedy),
        TEST(long_words_of_a_runtime_are_told_once_and_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
