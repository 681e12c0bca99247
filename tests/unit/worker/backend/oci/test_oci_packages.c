/*
 * Package directories without containers: their paths, their owners, and their removal.
 */
#include <assert.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/worker/backend/oci/tree.h"
#include "worker/backend/oci/packages.h"

struct fixture {
    struct tree tree;
    struct oci_host host;
    struct oci_mode mode;
    struct backend_spec spec;
    char *found;
    struct err err;
    uv_loop_t loop;
    struct tasks tasks;
    bool empty;
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
    tree_dir(&f->tree, "/shared");
    tree_dir(&f->tree, "/box");
    oci_host_read("", geteuid(), getegid(), &f->host);
    f->mode = (struct oci_mode){.userns = OCI_USERNS_RANGE, .cgroups = OCI_CGROUPS_NONE};
    if (geteuid() != 0 || !oci_host_has_range(&f->host)) {
        f->mode.userns = OCI_USERNS_SINGLE;
    }
    f->spec = (struct backend_spec){.id = "one", .packages = "one"};
    f->spec.dir = strdup(at(f, "/box"));
    f->spec.shared_dir = strdup(at(f, "/shared"));
    uv_loop_init(&f->loop);
    tasks_init(&f->tasks, &f->loop);
    f->spec.agent_path = agent;
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
    uv_run(&f->loop, UV_RUN_DEFAULT);
    assert_true(f->empty);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    tree_finish(&f->tree);
    free((char *)(uintptr_t)f->spec.dir);
    free((char *)(uintptr_t)f->spec.shared_dir);
    free(f->found);
    free(f);
    return 0;
}

static int prepare(struct fixture *f)
{
    free(f->found);
    f->found = NULL;
    return oci_packages_prepare(&f->spec, &f->mode, &f->host, at(f, "/apart"), &f->found, &f->err);
}

/* Removes the packages of a sandbox, and waits for the end of the removal. */
static int forget(struct fixture *f, const char *id)
{
    struct backend_spec spec = f->spec;
    spec.id = id;
    int rc = oci_packages_retire(&f->tasks, &spec, at(f, "/apart"), &f->err);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    return rc;
}

static bool there(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

static mode_t mode_of(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 ? st.st_mode & 07777 : 0;
}

static void only_root_inside_gets_through(void **state)
{
    struct fixture *f = *state;
    umask(077);
    assert_int_equal(prepare(f), 0);
    umask(022);
    assert_string_equal(f->found, at(f, "/shared/packages-one/tree"));
    assert_int_equal(mode_of(at(f, "/shared/packages-one")), 0700);
    assert_int_equal(mode_of(f->found), 0755);
    assert_int_equal(mode_of(at(f, "/shared/packages-one/tree/python")), 0777);
    assert_int_equal(mode_of(at(f, "/shared/packages-one/tree/node")), 0777);
    struct stat st;
    assert_int_equal(lstat(at(f, "/shared/packages-one"), &st), 0);
    if (f->mode.userns == OCI_USERNS_RANGE) {
        struct oci_extent extents[OCI_EXTENTS_MAX];
        assert_int_not_equal(oci_host_extents(&f->host, &f->host.uids, f->host.uid, "one", extents),
                             0);
        assert_int_equal(st.st_uid, extents[0].outside);
    } else {
        assert_int_equal(st.st_uid, geteuid());
    }
    assert_int_equal(prepare(f), 0); /* a worker may have died in between */
    assert_int_equal(forget(f, "one"), 0);
    assert_false(there(at(f, "/shared/packages-one")));
    assert_int_equal(forget(f, "one"), 0);
}

static void an_installer_finds_its_sandbox(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(prepare(f), 0);
    f->spec.id = "two";
    f->spec.packages_write = true;
    assert_int_equal(prepare(f), 0);
    assert_string_equal(f->found, at(f, "/shared/packages-one/tree"));
    assert_string_equal(oci_packages_ids_of(&f->spec), "one");
    assert_int_equal(forget(f, "two"), 0); /* its own end does not remove the other's packages */
    assert_true(there(at(f, "/shared/packages-one/tree")));
    assert_int_equal(forget(f, "one"), 0);
    assert_int_equal(prepare(f), -ERR_GONE);
}

static void packages_are_left_to_whoever_removes_the_sandboxs_directory(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(prepare(f), 0);
    assert_int_equal(forget(f, "one"), 0);
    assert_false(there(at(f, "/shared/packages-one")));
    assert_false(there(at(f, "/box/packages"))); /* there were none */
    assert_int_equal(prepare(f), 0);
    tree_file(&f->tree, "/shared/packages-one/tree/python/x", "x");
    assert_int_equal(forget(f, "one"), 0);
    assert_false(there(at(f, "/shared/packages-one")));
    assert_true(there(at(f, "/box/packages/tree/python/x")));
}

static void an_ordinary_user_can_remove_what_was_installed(void **state)
{
    struct fixture *f = *state;
    struct oci_host user = {.root = false};
    struct oci_mode range = {.userns = OCI_USERNS_RANGE};
    assert_int_equal(oci_packages_mode(&f->spec, &range, &user).userns, OCI_USERNS_RANGE);
    f->spec.packages_write = true;
    assert_int_equal(oci_packages_mode(&f->spec, &range, &user).userns, OCI_USERNS_SINGLE);
    user.root = true;
    assert_int_equal(oci_packages_mode(&f->spec, &range, &user).userns, OCI_USERNS_RANGE);
}

/* The name that an entry of the second place gets. */
static const char *apart_entry(const char *boot, const char *id)
{
    static char path[PATH_MAX];
    char own[64] = "";
    if (boot == NULL) {
        char *text = tree_read("/proc/sys/kernel/random/boot_id");
        assert_non_null(text);
        snprintf(own, sizeof(own), "%.8s", text);
        free(text);
    }
    snprintf(path, sizeof(path), "/apart/%s-%s", boot == NULL ? own : boot, id);
    return path;
}

static void whatever_is_in_it_is_removed(void **state)
{
    struct fixture *f = *state;
    char entry[PATH_MAX], path[PATH_MAX + 64], here[PATH_MAX];
    snprintf(entry, sizeof(entry), "%s", apart_entry(NULL, "one"));
    snprintf(path, sizeof(path), "%s/tree/python/closed/x", entry);
    tree_file(&f->tree, path, "x");
    snprintf(path, sizeof(path), "%s/tree/python/closed", entry);
    assert_int_equal(chmod(at(f, path), 0), 0);
    snprintf(path, sizeof(path), "%s/tree/python/fixed/deep/x", entry);
    tree_file(&f->tree, path, "x");
    snprintf(path, sizeof(path), "%s/tree/python/fixed", entry);
    assert_int_equal(chmod(at(f, path), 0555), 0);
    snprintf(path, sizeof(path), "%s/tree/node/out", entry);
    tree_link(&f->tree, path, f->spec.dir);
    assert_non_null(getcwd(here, sizeof(here)));
    snprintf(path, sizeof(path), "%s/tree/node", entry);
    assert_int_equal(chdir(at(f, path)), 0);
    for (int i = 0; i < 300; i++) { /* deeper than the longest path */
        assert_int_equal(mkdir("a_directory_with_a_name", 0755), 0);
        assert_int_equal(mkdir("deep-0", 0755), 0);
        assert_int_equal(chdir("a_directory_with_a_name"), 0);
    }
    assert_int_equal(chdir(here), 0);
    assert_int_equal(forget(f, "one"), 0);
    assert_false(there(at(f, entry)));
    assert_false(there(at(f, "/apart/gone-one")));
    assert_true(there(f->spec.dir)); /* links are not followed */
}

static void entry_of(struct fixture *f, const char *entry, const char *of, const char *in)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/tree/python", entry);
    tree_dir(&f->tree, path);
    snprintf(path, sizeof(path), "%s/of", entry);
    tree_link(&f->tree, path, of);
    snprintf(path, sizeof(path), "%s/in", entry);
    tree_link(&f->tree, path, in);
}

static void what_belongs_to_nobody_is_tidied(void **state)
{
    struct fixture *f = *state;
    char here[64] = "";
    assert_true(readlink("/proc/self/ns/mnt", here, sizeof(here) - 1) > 0);
    entry_of(f, apart_entry("00000000", "old"), f->spec.dir,
             here); /* an entry of an earlier boot */
    entry_of(f, apart_entry(NULL, "live"), f->spec.dir, here);
    entry_of(f, apart_entry(NULL, "dead"), at(f, "/absent"), here);
    entry_of(f, apart_entry(NULL, "foreign"), at(f, "/absent"), "mnt:[1]");
    tree_dir(&f->tree, apart_entry(NULL, "fresh"));
    tree_dir(&f->tree, "/apart/gone-half/tree"); /* whose removal was interrupted */
    oci_packages_tidy(&f->tasks, at(f, "/apart"), agent);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    assert_false(there(at(f, "/apart/gone-half")));
    assert_false(there(at(f, apart_entry("00000000", "old"))));
    assert_true(there(at(f, apart_entry(NULL, "live"))));
    assert_false(there(at(f, apart_entry(NULL, "dead"))));
    assert_true(there(at(f, apart_entry(NULL, "foreign")))); /* its path is only valid elsewhere */
    assert_true(there(at(f, apart_entry(NULL, "fresh"))));
}

/* Mounts a tmpfs, as /run is on most hosts, which needs root. */
static void memory_is_no_place_for_packages(void **state)
{
    struct fixture *f = *state;
    if (geteuid() != 0 || mount("tmpfs", at(f, "/shared"), "tmpfs", MS_NOEXEC, "size=1m") < 0) {
        print_message("# not checked: nothing can be mounted here\n");
        return;
    }
    int rc = prepare(f);
    bool apart = rc == 0 && strncmp(f->found, at(f, "/apart/"), strlen(at(f, "/apart/"))) == 0;
    if (apart) {
        char path[PATH_MAX];
        snprintf(path, sizeof(path), "%s/python/x", f->found + strlen(f->tree.root));
        tree_file(&f->tree, path, "x");
    }
    int removed = forget(f, "one");
    bool left = rc == 0 && there(f->found);
    /* A directory of that name is not used if it belongs to another user, or if others may write to
     * it. */
    rmdir(at(f, "/apart"));
    mkdir(at(f, "/apart"), 0777);
    chmod(at(f, "/apart"), 0777);
    int second = prepare(f);
    bool told = strstr(f->err.text, "others can write there") != NULL;
    chmod(at(f, "/apart"), 0700);
    bool given = chown(at(f, "/apart"), 1234, 0) == 0;
    int third = prepare(f);
    bool named = strstr(f->err.text, "a directory of uid 1234") != NULL;
    rmdir(at(f, "/apart"));
    bool linked = symlink("/tmp", at(f, "/apart")) == 0;
    int fourth = prepare(f);
    umount2(at(f, "/shared"), MNT_DETACH);
    assert_int_equal(rc, 0);
    assert_true(apart);
    assert_int_equal(removed, 0);
    assert_false(left);
    assert_int_equal(second, -ERR_CONFIG);
    assert_true(told);
    assert_true(given && linked);
    assert_int_equal(third, -ERR_CONFIG);
    assert_true(named);
    assert_int_equal(fourth, -ERR_CONFIG);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: test_oci_packages AGENT\n");
        return 2;
    }
    char path[PATH_MAX];
    agent = realpath(argv[1], path); /* it is started in another directory */
    assert(agent != NULL);
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(only_root_inside_gets_through),
        TEST(an_installer_finds_its_sandbox),
        TEST(packages_are_left_to_whoever_removes_the_sandboxs_directory),
        TEST(an_ordinary_user_can_remove_what_was_installed),
        TEST(whatever_is_in_it_is_removed),
        TEST(what_belongs_to_nobody_is_tidied),
        TEST(memory_is_no_place_for_packages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
