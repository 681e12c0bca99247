/* Whether this is a container, and what is said then. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/fd.h"
#include "supervisor/base/config.h"
#include "supervisor/cli/container.h"

struct host {
    char root[32];
};

static int setup(void **state)
{
    struct host *h = alloc_one(struct host);
    snprintf(h->root, sizeof(h->root), "/tmp/container.XXXXXX");
    assert_non_null(mkdtemp(h->root));
    *state = h;
    return 0;
}

static int teardown(void **state)
{
    struct host *h = *state;
    assert_int_equal(dir_remove(h->root, NULL), 0);
    free(h);
    return 0;
}

static void put(const struct host *h, const char *dir, const char *path, const char *text)
{
    CLEANUP_FREE char *whole = alloc_printf("%s%s", h->root, path);
    for (size_t i = 1; i <= strlen(dir); i++) {
        if (dir[i] == '/' || dir[i] == '\0') {
            CLEANUP_FREE char *part = alloc_printf("%s%.*s", h->root, (int)i, dir);
            mkdir(part, 0700);
        }
    }
    FILE *file = fopen(whole, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

/* Whether there is advice with these options, and whether it has words. */
static bool advises(const struct host *h, const char *options, const char *words)
{
    struct config config;
    struct err err = ERR_INIT;
    char *list = alloc_strdup(options), *rest = NULL, *argv[8];
    int argc = 0, used;
    for (char *at = strtok_r(list, " ", &rest); at != NULL; at = strtok_r(NULL, " ", &rest)) {
        argv[argc++] = at;
    }
    assert_int_equal(config_load(&config, argc, argv, &used, &err), 0);
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    bool any = container_advise(h->root, &config, out);
    fclose(out);
    assert_int_equal(any, size > 0);
    bool found = strstr(text, words) != NULL;
    free(text);
    free(list);
    config_finish(&config);
    return any && found;
}

static void each_sign_of_a_container_is_seen(void **state)
{
    struct host *h = *state;
    assert_null(container_sign(h->root));
    put(h, "/proc/1", "/proc/1/cgroup", "0::/init.scope\n");
    assert_null(container_sign(h->root));
    put(h, "/proc/1", "/proc/1/cgroup", "5:cpu:/\n3:memory:/docker/0123\n");
    assert_string_equal(container_sign(h->root), "/proc/1/cgroup");
    put(h, "/run", "/run/.containerenv", "");
    assert_string_equal(container_sign(h->root), "/run/.containerenv");
    put(h, "", "/.dockerenv", "");
    assert_string_equal(container_sign(h->root), "/.dockerenv");
}

static void what_works_is_said_where_it_would_help(void **state)
{
    struct host *h = *state;
    assert_false(advises(h, "", ""));
    put(h, "", "/.dockerenv", "");
    assert_true(advises(h, "", "/var/run/docker.sock:/var/run/docker.sock"));
    assert_true(advises(h, "",
                        "--security-opt seccomp=unconfined --security-opt "
                        "systempaths=unconfined"));
    assert_false(advises(h, "--backend oci", "docker.sock"));
    assert_true(advises(h, "--backend oci", "systempaths=unconfined"));
    assert_true(advises(h, "--backend docker --image debian:12", "--image debian:12"));
    assert_false(advises(h, "--backend docker", "systempaths"));
}

static void an_engine_elsewhere_needs_neither(void **state)
{
    struct host *h = *state;
    put(h, "", "/.dockerenv", "");
    assert_true(advises(h, "--backend docker --engine unix:///run/engine.sock", "docker.sock"));
    assert_false(advises(h, "--backend docker --engine tcp://elsewhere:2376", ""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_sign_of_a_container_is_seen, setup, teardown),
        cmocka_unit_test_setup_teardown(what_works_is_said_where_it_would_help, setup, teardown),
        cmocka_unit_test_setup_teardown(an_engine_elsewhere_needs_neither, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
