/*
 * The root directory of a sandbox, composed from small stand-ins for a host and an image.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/capability.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/worker/backend/oci/lab.h"
#include "tests/unit/worker/backend/oci/tree.h"
#include "worker/backend/oci/root.h"

struct fixture {
    struct tree host; /* stands for "/" */
    struct tree work; /* shared directory, images */
    struct oci_root root;
    struct oci_root_reach reach;
    char hint[BACKEND_HINT_MAX];
    struct err err;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    tree_init(&f->host);
    tree_init(&f->work);
    tree_file(&f->work, "/agent", "binary");
    tree_dir(&f->work, "/shared");
    tree_file(&f->host, "/usr/bin/python3", "x");
    tree_link(&f->host, "/bin", "usr/bin");
    tree_link(&f->host, "/lib64", "usr/lib64");
    tree_dir(&f->host, "/lib"); /* /usr is not merged */
    tree_file(&f->host, "/home/ann/secret", "x");
    tree_file(&f->host, "/etc/passwd", "ann:x:1001:1001::/home/ann:/bin/sh\n");
    tree_file(&f->host, "/etc/shadow", "ann:hash\n");
    tree_file(&f->host, "/etc/ld.so.cache", "cache");
    tree_file(&f->host, "/etc/ld.so.conf.d/a.conf", "/usr/lib/a\n");
    tree_link(&f->host, "/etc/alternatives/awk", "/usr/bin/mawk");
    tree_file(&f->host, "/etc/alternatives/README", "not a link");
    tree_file(&f->host, "/proc/self/mountinfo", "1 0 8:1 / / rw - ext4 /dev/sda rw\n");
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    oci_root_finish(&f->root);
    tree_finish(&f->host);
    tree_finish(&f->work);
    free(f);
    return 0;
}

static int compose(struct fixture *f, const char *image)
{
    oci_root_finish(&f->root);
    return oci_root_compose(f->host.root, tree_path(&f->work, "/shared"), image,
                            tree_agent(&f->work), &f->reach, &f->root, f->hint, &f->err);
}

static char *content(const struct fixture *f, const char *path)
{
    char full[PATH_MAX];
    snprintf(full, sizeof(full), "%s%s", f->root.path, path);
    return tree_read(full);
}

static bool has(const struct fixture *f, const char *path)
{
    char full[PATH_MAX];
    struct stat st;
    snprintf(full, sizeof(full), "%s%s", f->root.path, path);
    return lstat(full, &st) == 0;
}

/* The bind at a path inside; all fields are NULL if there is none. */
static struct oci_bind bind_at(const struct fixture *f, const char *target)
{
    for (size_t i = 0; i < f->root.bind_count; i++) {
        if (strcmp(f->root.binds[i].target, target) == 0) {
            return f->root.binds[i];
        }
    }
    return (struct oci_bind){0};
}

static bool is_bound(const struct fixture *f, const char *target)
{
    return bind_at(f, target).source != NULL;
}

/* The n-th directory of an overlay's option is this one, or an empty one, seen from where runtimes
 * mount, and the option names nothing of the host. */
static void shows(const struct fixture *f, const char *lower, int n, const char *path)
{
    char name[PATH_MAX], full[2 * PATH_MAX], real[PATH_MAX], wanted[PATH_MAX];
    assert_non_null(lower);
    assert_true(lower[0] != '/' && strstr(lower, ":/") == NULL && strstr(lower, "..") == NULL);
    const char *from = n == 0 ? lower : strchr(lower, ':') + 1;
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(from, ":"), from);
    snprintf(full, sizeof(full), "%s/%s", f->root.dir, name);
    assert_non_null(realpath(full, real));
    if (path != NULL) {
        assert_non_null(realpath(path, wanted));
        assert_string_equal(real, wanted);
    } else {
        assert_int_equal(rmdir(real), 0);
        assert_int_equal(mkdir(real, 0755), 0);
    }
}

static void expect(const struct fixture *f, const char *path, const char *text)
{
    char *found = content(f, path);
    assert_non_null(found);
    assert_string_equal(found, text);
    free(found);
}

static void the_host_gives_usr_and_little_else(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(compose(f, ""), 0);
    assert_string_equal(f->root.label, "host:/usr");

    assert_string_equal(bind_at(f, "/usr").source, tree_path(&f->host, "/usr"));
    assert_true(is_bound(f, "/lib"));  /* a real directory is bound */
    assert_false(is_bound(f, "/bin")); /* a link is copied as a link */
    char full[PATH_MAX], target[64] = "";
    snprintf(full, sizeof(full), "%s/bin", f->root.path);
    assert_true(readlink(full, target, sizeof(target) - 1) > 0);
    assert_string_equal(target, "usr/bin");
    assert_string_equal(bind_at(f, OCI_ROOT_AGENT).source, tree_agent(&f->work));
    assert_int_equal(f->root.bind_count, 3);

    assert_false(has(f, "/home/ann"));
    assert_false(has(f, "/etc/shadow"));
    char *passwd = content(f, "/etc/passwd");
    assert_null(strstr(passwd, "ann"));
    assert_non_null(strstr(passwd, "user:x:1000:1000:"));
    free(passwd);
    expect(f, "/etc/ld.so.cache", "cache");
    expect(f, "/etc/ld.so.conf.d/a.conf", "/usr/lib/a\n");
    snprintf(full, sizeof(full), "%s/etc/alternatives/awk", f->root.path);
    memset(target, 0, sizeof(target));
    assert_true(readlink(full, target, sizeof(target) - 1) > 0);
    assert_string_equal(target, "/usr/bin/mawk");
    assert_false(has(f, "/etc/alternatives/README"));
}

static void nothing_of_it_is_writable_for_everybody(void **state)
{
    struct fixture *f = *state;
    mode_t before = umask(0077); /* it must have no effect */
    assert_int_equal(compose(f, ""), 0);
    umask(before);
    static const struct {
        const char *path;
        mode_t mode;
    } rows[] = {{"", 0755},      {"/tmp", 01755},       {"/workspace", 0755}, {"/.cloister", 0755},
                {"/root", 0700}, {"/etc/passwd", 0644}, {"/etc", 0755},       {"/home/user", 0755}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char full[PATH_MAX];
        struct stat st;
        snprintf(full, sizeof(full), "%s%s", f->root.path, rows[i].path);
        assert_int_equal(stat(full, &st), 0);
        assert_int_equal(st.st_mode & 07777, rows[i].mode);
    }
}

static void the_same_skeleton_is_used_again(void **state)
{
    struct fixture *f = *state;
    char first[PATH_MAX];
    assert_int_equal(compose(f, ""), 0);
    snprintf(first, sizeof(first), "%s", f->root.path);
    assert_int_equal(compose(f, ""), 0);
    assert_string_equal(f->root.path, first);
    assert_int_equal(lab_count_entries(tree_path(&f->work, "/shared")), 1); /* and no other file */

    unlink(tree_path(&f->host, "/lib64")); /* a changed host gets a new one */
    assert_int_equal(compose(f, ""), 0);
    assert_string_not_equal(f->root.path, first);
}

static void what_is_copied_of_the_host_is_copied_anew_when_it_changes(void **state)
{
    static const char *const files[] = {
        "/etc/php/8.2/cli/conf.d/20-json.ini",
        "/etc/fonts/conf.d/10-hinting.conf",
        "/etc/java-17-openjdk/security/java.security",
        "/etc/R/Renviron",
        "/etc/ld.so.conf",
        "/etc/pki/tls/certs/ca-bundle.crt",
    };
    struct fixture *f = *state;
    char before[PATH_MAX];
    assert_int_equal(compose(f, ""), 0);
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        static const char *const texts[] = {"one\n",
                                            "another\n"}; /* a file is added, then changed */
        for (size_t k = 0; k < 2; k++) {
            snprintf(before, sizeof(before), "%s", f->root.path);
            tree_file(&f->host, files[i], texts[k]);
            assert_int_equal(compose(f, ""), 0);
            assert_string_not_equal(f->root.path, before);
            expect(f, files[i], texts[k]);
        }
        snprintf(before, sizeof(before), "%s", f->root.path);
        unlink(tree_path(&f->host, files[i])); /* and then removed */
        assert_int_equal(compose(f, ""), 0);
        assert_string_not_equal(f->root.path, before);
        assert_false(has(f, files[i]));
    }
}

static void builders_at_once_agree(void **state)
{
    struct fixture *f = *state;
    pid_t pids[6];
    for (size_t i = 0; i < 6; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            _exit(compose(f, "") == 0 ? 0 : 1);
        }
    }
    for (size_t i = 0; i < 6; i++) {
        int status = -1;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_int_equal(status, 0);
    }
    assert_int_equal(lab_count_entries(tree_path(&f->work, "/shared")), 1);
    assert_int_equal(compose(f, ""), 0);
    expect(f, "/etc/ld.so.cache", "cache");
}

static void mounts_below_are_bound_read_only_too(void **state)
{
    struct fixture *f = *state;
    char text[4 * PATH_MAX];
    snprintf(text, sizeof(text),
             "1 0 8:1 / / rw - ext4 /dev/sda rw\n"
             "2 1 8:2 / %s/usr/local rw - ext4 /dev/sdb rw\n"
             "3 2 8:3 / %s/usr/local/a\\040b rw - ext4 /dev/sdc rw\n"
             "4 1 8:4 / %s/usrx rw - ext4 /dev/sdd rw\n",
             f->host.root, f->host.root, f->host.root);
    tree_file(&f->host, "/proc/self/mountinfo", text);
    assert_int_equal(compose(f, ""), 0);
    assert_true(bind_at(f, "/usr").deep);
    assert_true(bind_at(f, "/usr/local").deep);
    assert_true(is_bound(f, "/usr/local/a b"));
    assert_false(is_bound(f, "/usrx"));
    assert_false(bind_at(f, "/lib").deep);
}

static void make_image(struct fixture *f)
{
    tree_file(&f->work, "/image/bin/sh", "x");
    tree_dir(&f->work, "/image/usr/bin");
    tree_dir(&f->work, "/image/opt");
    tree_dir(&f->work, "/image/proc");
    tree_dir(&f->work, "/image/workspace");
    tree_dir(&f->work, "/image/home/node");
    tree_link(&f->work, "/image/lib", "usr/lib");
    tree_file(&f->work, "/image/entry.sh", "x");
    tree_file(&f->work, "/image/etc/passwd", "root:x:0:0::/root:/bin/sh\nnode:x:1000:1000::/:/x\n");
    tree_file(&f->work, "/image/etc/group", "root:x:0:\n");
}

static void an_image_is_bound_entry_by_entry(void **state)
{
    struct fixture *f = *state;
    make_image(f);
    assert_int_equal(compose(f, tree_path(&f->work, "/image")), 0);
    assert_string_equal(f->root.label, tree_path(&f->work, "/image"));
    assert_true(is_bound(f, "/usr"));
    assert_true(is_bound(f, "/opt"));
    assert_true(is_bound(f, "/etc"));
    assert_true(is_bound(f, "/entry.sh"));
    assert_false(is_bound(f, "/proc"));
    assert_false(is_bound(f, "/workspace"));
    assert_false(is_bound(f, "/home"));
    assert_false(is_bound(f, "/lib"));
    assert_true(has(f, "/lib") && has(f, "/entry.sh") && has(f, "/opt"));

    /* Our entries come first, so uid 1000 is "user"; the image's entries stay. */
    char *passwd = tree_read(bind_at(f, "/etc/passwd").source);
    assert_int_equal(strncmp(passwd, "user:x:1000:", 12), 0);
    assert_non_null(strstr(passwd, "node:x:1000:"));
    free(passwd);
    assert_true(is_bound(f, "/etc/group"));
    assert_false(is_bound(f, "/etc/hosts")); /* the image has no file to bind over */

    /* The image itself is unchanged. */
    char *theirs = tree_read(tree_path(&f->work, "/image/etc/passwd"));
    assert_null(strstr(theirs, "user:"));
    free(theirs);
}

static void an_image_without_etc_gets_one(void **state)
{
    struct fixture *f = *state;
    tree_file(&f->work, "/image/bin/busybox", "x");
    assert_int_equal(compose(f, tree_path(&f->work, "/image")), 0);
    char *passwd = content(f, "/etc/passwd");
    assert_non_null(strstr(passwd, "user:x:1000:"));
    free(passwd);
}

static void links_in_an_image_are_not_followed(void **state)
{
    struct fixture *f = *state;
    make_image(f);
    unlink(tree_path(&f->work, "/image/etc/passwd"));
    tree_link(&f->work, "/image/etc/passwd", tree_path(&f->host, "/etc/shadow"));
    assert_int_equal(compose(f, tree_path(&f->work, "/image")), 0);
    assert_false(is_bound(f, "/etc/passwd"));
    char *made = content(f, "/.cloister/etc/passwd");
    assert_null(strstr(made, "hash"));
    free(made);
}

static void what_is_no_image_is_refused_with_a_hint(void **state)
{
    struct fixture *f = *state;
    tree_file(&f->work, "/file", "x");
    tree_dir(&f->work, "/empty");
    const char *const bad[] = {"relative",
                               "/",
                               "/proc/self/root",
                               tree_path(&f->work, "/file"),
                               tree_path(&f->work, "/empty"),
                               tree_path(&f->work, "/absent")};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(compose(f, bad[i]), -ERR_IMAGE);
        assert_non_null(strstr(f->hint, "unpacked root file system"));
    }
    assert_int_equal(lab_count_entries(tree_path(&f->work, "/shared")), 0);

    for (int i = 0; i < 70; i++) {
        char path[64];
        snprintf(path, sizeof(path), "/many/d%d", i);
        tree_dir(&f->work, path);
    }
    tree_file(&f->work, "/many/bin/sh", "x");
    assert_int_equal(compose(f, tree_path(&f->work, "/many")), -ERR_IMAGE);
}

static void failures_leave_nothing(void **state)
{
    struct fixture *f = *state;
    struct oci_root root;
    assert_int_equal(oci_root_compose(f->host.root, tree_path(&f->work, "/absent"), "",
                                      tree_agent(&f->work), NULL, &root, f->hint, &f->err),
                     -ERR_IO);
    oci_root_finish(&root);
    assert_int_equal(oci_root_compose(f->host.root, tree_path(&f->work, "/shared"), "",
                                      tree_path(&f->work, "/no-agent"), NULL, &root, f->hint,
                                      &f->err),
                     -ERR_CONFIG);
    oci_root_finish(&root);
    assert_int_equal(lab_count_entries(tree_path(&f->work, "/shared")), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static void what_is_reached_besides_has_its_place(void **state)
{
    struct fixture *f = *state;
    tree_file(&f->work, "/ca.pem", "pem");
    struct backend_mount mounts[2] = {{tree_path(&f->work, "/ca.pem"), "/etc/ssl/ca.pem"},
                                      {tree_path(&f->work, "/shared"), "/offered/wheels"}};
    assert_int_equal(compose(f, ""), 0);
    char *plain = strdup(f->root.path);
    assert_false(is_bound(f, "/packages"));
    assert_false(is_bound(f, "/etc/resolv.conf"));
    expect(f, "/etc/resolv.conf", "");

    f->reach = (struct oci_root_reach){.packages = tree_path(&f->work, "/shared"),
                                       .packages_write = true,
                                       .network = true,
                                       .mounts = mounts,
                                       .mount_count = 2};
    mode_t before = umask(077); /* the umask of workers */
    assert_int_equal(compose(f, ""), 0);
    umask(before);
    struct stat st;
    char on_the_way[PATH_MAX];
    snprintf(on_the_way, sizeof(on_the_way), "%.2000s/offered", f->root.path);
    assert_int_equal(stat(on_the_way, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0755);
    assert_string_not_equal(f->root.path,
                            plain); /* sandboxes without mounts have no such directories */
    free(plain);
    assert_true(bind_at(f, "/packages").writable);
    assert_false(bind_at(f, "/etc/ssl/ca.pem").writable);
    assert_true(is_bound(f, "/offered/wheels") && is_bound(f, "/etc/resolv.conf"));
    assert_true(has(f, "/offered/wheels") && has(f, "/etc/ssl/ca.pem"));
    expect(f, "/.cloister/resolv.conf", "nameserver 10.0.2.3\n");

    mounts[0].inside_path = "/var/run/x"; /* a link that leads out of the skeleton */
    assert_int_equal(compose(f, ""), -ERR_INVALID);
    mounts[0].inside_path = "/usr/share/ca.pem"; /* no directory can be made in the host's */
    assert_int_equal(compose(f, ""), -ERR_INVALID);
    mounts[0].inside_path = "/usr/bin/python3";
    assert_int_equal(compose(f, ""), 0);
    mounts[0].host_path = "/absent";
    assert_int_equal(compose(f, ""), -ERR_CONFIG);
}

static void shares_are_bound_and_mounts_below_them_covered(void **state)
{
    struct fixture *f = *state;
    tree_dir(&f->work, "/data/below/deep");
    tree_file(&f->work, "/data/file", "x");
    char data[PATH_MAX], mounts[5 * PATH_MAX];
    snprintf(data, sizeof(data), "%s", tree_path(&f->work, "/data"));
    const struct backend_share shares[] = {{data, "in", false}, {data, "out", true}};
    f->reach = (struct oci_root_reach){.shares = shares, .share_count = 2};
    assert_int_equal(compose(f, ""), 0);
    assert_string_equal(bind_at(f, "/shared/in").source, data);
    assert_false(bind_at(f, "/shared/in").writable || bind_at(f, "/shared/in").deep);
    assert_true(bind_at(f, "/shared/out").writable && bind_at(f, "/shared/out").alone);
    assert_true(has(f, "/shared/in") && has(f, "/shared/out"));

    snprintf(mounts, sizeof(mounts),
             "1 0 8:1 / / rw - ext4 x rw\n2 1 8:1 / %s/below/deep rw - ext4 x rw\n"
             "3 1 8:1 / %s/below rw - ext4 x rw\n4 1 8:1 / %s/file rw - ext4 x rw\n"
             "5 1 8:1 / %s-not rw - ext4 x rw\n",
             data, data, data, data);
    tree_file(&f->host, "/proc/self/mountinfo", mounts);
    assert_int_equal(compose(f, ""), 0);
    assert_true(bind_at(f, "/shared/in").deep);
    assert_true(bind_at(f, "/shared/in/below").cover);
    assert_false(bind_at(f, "/shared/in/file").cover);
    assert_non_null(strstr(bind_at(f, "/shared/in/file").source, "/empty"));
    assert_false(is_bound(f, "/shared/in/below/deep")); /* covered with the one above it */

    f->reach.share_base = "/run/shares"; /* something else mounts them there, by their names */
    assert_int_equal(compose(f, ""), 0);
    assert_string_equal(bind_at(f, "/shared/out").source, "/run/shares/out");
    assert_false(is_bound(f, "/shared/in/below"));
}

static void shares_take_the_place_of_what_an_image_has_there(void **state)
{
    struct fixture *f = *state;
    tree_dir(&f->work, "/data");
    tree_file(&f->work, "/image/bin/sh", "x");
    tree_dir(&f->work, "/image/shared/own");
    char data[PATH_MAX], image[PATH_MAX];
    snprintf(data, sizeof(data), "%s", tree_path(&f->work, "/data"));
    snprintf(image, sizeof(image), "%s", tree_path(&f->work, "/image"));
    assert_int_equal(compose(f, image), 0);
    assert_true(is_bound(f, "/shared")); /* without shares it is a directory like others */
    const struct backend_share shares[] = {{data, "in", false}};
    f->reach = (struct oci_root_reach){.shares = shares, .share_count = 1};
    assert_int_equal(compose(f, image), 0);
    assert_true(has(f, "/shared/in") && is_bound(f, "/shared/in"));
    assert_false(is_bound(f, "/shared"));
}

static void an_image_needs_a_place_for_name_servers(void **state)
{
    struct fixture *f = *state;
    tree_file(&f->work, "/image/bin/sh", "x");
    tree_dir(&f->work, "/image/etc");
    char image[PATH_MAX];
    snprintf(image, sizeof(image), "%s", tree_path(&f->work, "/image"));
    assert_int_equal(compose(f, image), 0);
    f->reach.network = true;
    assert_int_equal(compose(f, image), -ERR_IMAGE);
    assert_non_null(strstr(f->hint, "resolv.conf"));
    tree_link(&f->work, "/image/etc/resolv.conf", "../run/systemd/resolve/stub-resolv.conf");
    assert_int_equal(compose(f, image), 0);
    assert_true(is_bound(f, "/run/systemd/resolve/stub-resolv.conf"));
    unlink(tree_path(&f->work, "/image/etc/resolv.conf"));
    tree_link(&f->work, "/image/etc/resolv.conf", "/etc/../../outside");
    assert_int_equal(compose(f, image), -ERR_IMAGE);
    unlink(tree_path(&f->work, "/image/etc/resolv.conf"));
    tree_file(&f->work, "/image/etc/resolv.conf", "");
    assert_int_equal(compose(f, image), 0);
    assert_true(is_bound(f, "/etc/resolv.conf"));
}

static void with_views_a_root_has_nothing_in_common_with_others(void **state)
{
    struct fixture *f = *state;
    f->reach.views = true;
    assert_int_equal(compose(f, ""), 0);
    shows(f, f->root.lower, 0, f->root.path);
    shows(f, f->root.lower, 1, NULL);
    shows(f, bind_at(f, "/usr").lower, 0, tree_path(&f->host, "/usr"));
    shows(f, bind_at(f, "/usr").lower, 1, NULL);
    for (size_t i = 0; i < f->root.bind_count; i++) {
        assert_non_null(f->root.binds[i].lower);
    }
    assert_null(f->root.bound);
    expect(f, "/.cloister/agent", "binary"); /* a file cannot be shown by an overlay */
    char *before = strdup(f->root.path);
    tree_file(&f->work, "/agent", "another");
    assert_int_equal(compose(f, ""), 0);
    assert_string_not_equal(f->root.path, before);
    free(before);
    expect(f, "/.cloister/agent", "another");
    f->reach.network = true;
    assert_int_equal(compose(f, ""), 0);
    assert_false(is_bound(f, "/etc/resolv.conf"));
    char *resolvers = content(f, "/etc/resolv.conf");
    assert_non_null(strstr(resolvers, "nameserver"));
    free(resolvers);
}

static void with_views_an_image_is_covered_where_it_was_bound_over(void **state)
{
    struct fixture *f = *state;
    char image[PATH_MAX];
    tree_file(&f->work, "/image/bin/sh", "x");
    tree_file(&f->work, "/image/etc/passwd", "mary:x:1:1::/:/bin/sh\n");
    tree_file(&f->work, "/image/.dockerenv", "made by");
    snprintf(image, sizeof(image), "%s", tree_path(&f->work, "/image"));
    f->reach = (struct oci_root_reach){.views = true, .network = true};
    assert_int_equal(compose(f, image), 0); /* without a place for name servers */
    char ours[PATH_MAX + 32];
    snprintf(ours, sizeof(ours), "%s/.cloister/etc", f->root.path);
    shows(f, bind_at(f, "/etc").lower, 0, ours);
    shows(f, bind_at(f, "/etc").lower, 1, tree_path(&f->work, "/image/etc"));
    assert_false(is_bound(f, "/etc/passwd") || is_bound(f, "/.dockerenv"));
    expect(f, "/.dockerenv", "made by");
    assert_null(f->root.bound);
}

static void what_no_overlay_can_show_is_bound_and_named(void **state)
{
    struct fixture *f = *state;
    char image[PATH_MAX], mounts[3 * PATH_MAX];
    f->reach.views = true;
    tree_file(&f->work, "/image/bin/sh", "x");
    tree_dir(&f->work, "/image/a:b"); /* as no option of an overlay could name it */
    tree_dir(&f->work, "/image/opt/own");
    snprintf(image, sizeof(image), "%s", tree_path(&f->work, "/image"));
    snprintf(mounts, sizeof(mounts),
             "1 0 8:1 / / rw - ext4 x rw\n2 1 8:1 / %s/opt/own rw - ext4 x rw\n", image);
    tree_file(&f->host, "/proc/self/mountinfo", mounts);
    assert_int_equal(compose(f, image), 0);
    assert_non_null(bind_at(f, "/bin").lower);
    assert_true(bind_at(f, "/opt").lower == NULL && bind_at(f, "/opt").deep);
    assert_true(is_bound(f, "/opt/own"));
    shows(f, bind_at(f, "/a:b").lower, 0, tree_path(&f->work, "/image/a:b"));
    assert_non_null(
        strstr(f->root.bound, "/opt reach other sandboxes and this host: there are mounts"));
}

/* Modes count for root, too, while it may not read what it likes. */
static void let_root_read_all(bool may)
{
    const uint32_t bits = 1u << CAP_DAC_OVERRIDE | 1u << CAP_DAC_READ_SEARCH;
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3];
    assert_int_equal(syscall(SYS_capget, &head, sets), 0);
    sets[0].effective = may ? sets[0].permitted : sets[0].effective & ~bits;
    assert_int_equal(syscall(SYS_capset, &head, sets), 0);
}

/* What comes of it is known without reading, and is part of the skeleton's name. */
static void a_file_at_the_top_that_is_not_copied_is_named_with_the_reason(void **state)
{
    struct fixture *f = *state;
    char image[PATH_MAX], large[PATH_MAX], closed[PATH_MAX];
    f->reach.views = true;
    tree_file(&f->work, "/image/bin/sh", "x");
    tree_file(&f->work, "/image/large", "x");
    tree_file(&f->work, "/image/closed", "words");
    snprintf(image, sizeof(image), "%s", tree_path(&f->work, "/image"));
    snprintf(large, sizeof(large), "%s", tree_path(&f->work, "/image/large"));
    snprintf(closed, sizeof(closed), "%s", tree_path(&f->work, "/image/closed"));
    assert_int_equal(truncate(large, (1 << 20) + 1), 0);
    assert_int_equal(compose(f, image), 0);
    assert_true(is_bound(f, "/large"));
    expect(f, "/large", "");
    assert_non_null(strstr(f->root.bound, "/large reach other sandboxes"));
    assert_non_null(strstr(f->root.bound, "it is too large"));
    assert_false(is_bound(f, "/closed"));
    expect(f, "/closed", "words");

    assert_int_equal(truncate(large, 1), 0);
    assert_int_equal(compose(f, image), 0);
    char *before = strdup(f->root.path);
    assert_int_equal(chmod(closed, 0), 0);
    let_root_read_all(false);
    int rc = compose(f, image);
    let_root_read_all(true);
    assert_int_equal(rc, 0);
    assert_string_not_equal(f->root.path, before);
    free(before);
    assert_false(is_bound(f, "/large"));
    assert_true(is_bound(f, "/closed"));
    assert_null(strstr(f->root.bound, "too large"));
    assert_non_null(strstr(f->root.bound, "/closed reach other sandboxes"));
    assert_non_null(strstr(f->root.bound, "it cannot be read"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_host_gives_usr_and_little_else),
        TEST(nothing_of_it_is_writable_for_everybody),
        TEST(the_same_skeleton_is_used_again),
        TEST(what_is_copied_of_the_host_is_copied_anew_when_it_changes),
        TEST(builders_at_once_agree),
        TEST(mounts_below_are_bound_read_only_too),
        TEST(an_image_is_bound_entry_by_entry),
        TEST(an_image_without_etc_gets_one),
        TEST(links_in_an_image_are_not_followed),
        TEST(what_is_no_image_is_refused_with_a_hint),
        TEST(failures_leave_nothing),
        TEST(what_is_reached_besides_has_its_place),
        TEST(shares_are_bound_and_mounts_below_them_covered),
        TEST(shares_take_the_place_of_what_an_image_has_there),
        TEST(an_image_needs_a_place_for_name_servers),
        TEST(with_views_a_root_has_nothing_in_common_with_others),
        TEST(with_views_an_image_is_covered_where_it_was_bound_over),
        TEST(what_no_overlay_can_show_is_bound_and_named),
        TEST(a_file_at_the_top_that_is_not_copied_is_named_with_the_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
