/* What a container can reach: network, the packages of a sandbox, files that are copied into it. */
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

#include "common/cleanup.h"
#include "common/io/json.h"
#include "tests/unit/worker/backend/docker/spec_lab.h"
#include "worker/backend/docker/packages.h"
#include "worker/backend/docker/shares.h"

/* The mount at a path; NULL if there is none. */
static const cJSON *mount_at(const struct fixture *f, const char *target)
{
    const cJSON *mount;
    cJSON_ArrayForEach(mount, spec_at(f, "HostConfig.Mounts"))
    {
        if (strcmp(json_get_str(mount, "Target"), target) == 0) {
            return mount;
        }
    }
    return NULL;
}

static void expect_volume(const struct fixture *f, const char *target, const char *name,
                          bool read_only)
{
    const cJSON *mount = mount_at(f, target);
    assert_non_null(mount);
    assert_string_equal(json_get_str(mount, "Type"), "volume");
    if (name != NULL) {
        assert_string_equal(json_get_str(mount, "Source"), name);
    } else {
        assert_null(json_get(mount, "Source"));
    }
    assert_int_equal(cJSON_IsTrue(json_get(mount, "ReadOnly")), read_only);
    assert_true(cJSON_IsTrue(json_get(json_get(mount, "VolumeOptions"), "NoCopy")));
}

static void network_is_the_engines_own_or_none(void **state)
{
    struct fixture f = make();
    (void)state;
    f.spec.network = true;
    for (int podman = 0; podman < 2; podman++) {
        f.engine.podman = podman != 0;
        build(&f);
        expect_text(&f, "HostConfig.NetworkMode", "default");
        assert_null(spec_at(&f, "HostConfig.PortBindings"));
        assert_null(spec_at(&f, "HostConfig.PublishAllPorts"));
    }
    cJSON_Delete(f.body);
}

static void with_a_door_there_is_no_network_but_a_port_of_the_agents(void **state)
{
    struct fixture f = make();
    (void)state;
    build(&f);
    assert_false(lists(spec_at(&f, "Cmd"), "--door"));
    f.spec.door = true;
    build(&f);
    expect_text(&f, "HostConfig.NetworkMode", "none");
    assert_true(lists(spec_at(&f, "Cmd"), "--door"));
    assert_true(lists(spec_at(&f, "Cmd"), "3128"));
    cJSON_Delete(f.body);
}

static void a_sandbox_reads_its_packages(void **state)
{
    struct fixture f = make();
    (void)state;
    build(&f);
    assert_int_equal(cJSON_GetArraySize(spec_at(&f, "HostConfig.Mounts")), 2);
    assert_non_null(mount_at(&f, DOCKER_AGENT_DIR));
    assert_non_null(mount_at(&f, "/dev/pts"));
    f.spec.packages = "abc";
    build(&f);
    expect_volume(&f, "/packages/python", "cloister-packages-abc-python", true);
    expect_volume(&f, "/packages/node", "cloister-packages-abc-node", true);
    assert_false(lists(spec_at(&f, "Cmd"), "--packages"));
    cJSON_Delete(f.body);
}

static void a_volume_that_the_engine_makes_says_whose_it_is(void **state)
{
    struct fixture f = make();
    (void)state;
    f.spec.packages = "abc";
    for (int installer = 0; installer < 2; installer++) {
        f.spec.packages_write = installer != 0;
        build(&f);
        const cJSON *options = json_get(mount_at(&f, "/packages/node"), "VolumeOptions");
        const cJSON *labels = json_get(options, "Labels");
        assert_true(cJSON_Compare(labels, spec_at(&f, "Labels"), true));
        assert_int_equal(cJSON_GetArraySize(labels), 2);
    }
    cJSON_Delete(f.body);
}

static void a_volume_of_packages_is_known_by_its_name(void **state)
{
    static const char *const others[] = {
        "",
        "cloister-packages-",
        "cloister-packages--node",
        "cloister-packages-abc",
        "cloister-packages-abc-ruby",
        "cloister-packages-abc-node-2",
        "cloister-packages-a_c-node",
        "my-cloister-packages-abc-node",
    };
    (void)state;
    for (size_t i = 0; i < DOCKER_PACKAGES_COUNT; i++) {
        CLEANUP_FREE char *name = docker_packages_volume("abc234", i);
        assert_true(docker_packages_is_volume(name));
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        assert_false(docker_packages_is_volume(others[i]));
    }
}

/* The value after an option of the agent. */
static const char *option(const struct fixture *f, const char *name)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, spec_at(f, "Cmd"))
    {
        if (strcmp(item->valuestring, name) == 0) {
            return item->next->valuestring;
        }
    }
    fail_msg("no %s", name);
    return "";
}

static void an_installer_writes_those_of_another(void **state)
{
    static char where[] = "/wheels";
    static char *const copies[] = {where};
    struct fixture f = make();
    char uid[16];
    (void)state;
    f.spec.id = "installer1";
    f.spec.packages = "abc";
    f.spec.packages_write = true;
    f.copies = copies;
    f.copy_count = 1;
    build(&f);
    expect_volume(&f, "/packages/python", "cloister-packages-abc-python", false);
    expect_volume(&f, "/packages/node", "cloister-packages-abc-node", false);
    expect_volume(&f, "/wheels", NULL, false);
    expect_volume(&f, DOCKER_AGENT_DIR, "cloister-agent-1", true);
    assert_string_equal(option(&f, "--packages"), "/packages");

    /* The next installer has the same uid, so it can replace the files; the sandbox's own user is
     * another one. */
    snprintf(uid, sizeof(uid), "%s", option(&f, "--uid"));
    f.spec.id = "installer2";
    build(&f);
    assert_string_equal(option(&f, "--uid"), uid);
    assert_true(strtoul(uid, NULL, 10) != docker_spec_uid(&f.engine, "abc"));
    f.spec.packages = "other";
    build(&f);
    assert_string_not_equal(option(&f, "--uid"), uid);
    cJSON_Delete(f.body);
}

static void a_share_is_bound_alone(void **state)
{
    struct fixture f = make();
    (void)state;
    f.spec.shares[0] = (struct backend_share){"/srv/in", "in", false};
    f.spec.shares[1] = (struct backend_share){"/srv/out", "out", true};
    f.spec.share_count = 2;
    f.user = (struct docker_user){.given = true, .uid = 1234, .gid = 100};
    build(&f);
    const cJSON *in = mount_at(&f, "/shared/in"), *out = mount_at(&f, "/shared/out");
    assert_string_equal(json_get_str(in, "Type"), "bind");
    assert_string_equal(json_get_str(in, "Source"), "/srv/in");
    assert_true(cJSON_IsTrue(json_get(in, "ReadOnly")));
    assert_false(cJSON_IsTrue(json_get(out, "ReadOnly")));
    assert_true(cJSON_IsTrue(json_get(json_get(out, "BindOptions"), "NonRecursive")));
    assert_string_equal(json_get_str(json_get(out, "BindOptions"), "Propagation"), "private");
    assert_string_equal(option(&f, "--uid"), "1234");
    assert_string_equal(option(&f, "--gid"), "100");
    assert_string_equal(option(&f, "--nproc"), "0"); /* the owner has other processes */
    assert_non_null(
        strstr(json_get_str(spec_at(&f, "HostConfig.Tmpfs"), "/workspace"), "uid=1234,gid=100"));
    cJSON_Delete(f.body);
}

/* Settles one writable share of a directory whose owner is root, or whoever runs the test. */
static int settle_own(struct fixture *f, const char *path, struct docker_user *user,
                      struct err *err)
{
    char hint[BACKEND_HINT_MAX] = "";
    f->spec.shares[0] = (struct backend_share){path, "own", true};
    f->spec.share_count = 1;
    int rc = docker_shares_settle(&f->spec, &f->engine, user, hint, err);
    assert_true(rc == 0 || hint[0] != '\0');
    return rc;
}

static void whom_code_writes_as_is_decided_or_refused(void **state)
{
    struct fixture f = make();
    struct docker_user user;
    struct err err = ERR_INIT;
    char own[] = "/tmp/cloister-share-XXXXXX";
    (void)state;
    assert_non_null(mkdtemp(own));
    if (geteuid() == 0) {
        assert_int_equal(settle_own(&f, own, &user, &err), -ERR_CONFIG);
        assert_non_null(strstr(err.text, "root of this host"));
        assert_int_equal(chown(own, 1234, 100), 0);
    }
    assert_int_equal(settle_own(&f, own, &user, &err), 0);
    assert_true(user.given && user.uid != 0);

    const struct docker_engine able = f.engine;
    f.engine.userns = true;
    assert_int_equal(settle_own(&f, own, &user, &err), -ERR_CONFIG);
    assert_non_null(strstr(err.text, "userns-remap"));
    f.engine = able;
    f.engine.rootless = true;
    assert_int_equal(settle_own(&f, own, &user, &err), -ERR_CONFIG);
    f.engine = able;
    f.engine.pids_limit = false;
    assert_int_equal(settle_own(&f, own, &user, &err), -ERR_CONFIG);
    f.engine = able;
    f.spec.place = (struct place){.kind = PLACE_URL, .address = "https://there:2376"};
    assert_int_equal(settle_own(&f, own, &user, &err), -ERR_CONFIG);
    assert_non_null(strstr(err.text, "another host"));
    f.spec.place = (struct place){.kind = PLACE_NONE};
    assert_int_equal(rmdir(own), 0);
    assert_int_equal(settle_own(&f, own, &user, &err), -ERR_CONFIG); /* gone */
}

/* A worker that takes a sandbox over looks at its directories later. */
static void a_share_that_has_gone_hides_no_user(void **state)
{
    struct fixture f = make();
    char *notes[BACKEND_UNAPPLIED_MAX];
    char own[] = "/tmp/cloister-share-XXXXXX";
    (void)state;
    assert_non_null(mkdtemp(own));
    f.spec.shares[0] = (struct backend_share){"/nowhere/gone", "gone", false};
    f.spec.shares[1] = (struct backend_share){own, "own", true};
    f.spec.share_count = 2;
    const struct docker_user user = docker_shares_user(&f.spec);
    assert_true(user.given && user.uid == geteuid());
    assert_int_equal(docker_shares_note(&f.spec, &user, 0, notes), 0);
    assert_int_equal(rmdir(own), 0);
    assert_false(docker_shares_user(&f.spec).given);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(network_is_the_engines_own_or_none),
        cmocka_unit_test(with_a_door_there_is_no_network_but_a_port_of_the_agents),
        cmocka_unit_test(a_sandbox_reads_its_packages),
        cmocka_unit_test(a_volume_that_the_engine_makes_says_whose_it_is),
        cmocka_unit_test(a_volume_of_packages_is_known_by_its_name),
        cmocka_unit_test(an_installer_writes_those_of_another),
        cmocka_unit_test(a_share_is_bound_alone),
        cmocka_unit_test(whom_code_writes_as_is_decided_or_refused),
        cmocka_unit_test(a_share_that_has_gone_hides_no_user),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
