/*
 * The rows of backends: the configuration and --help know a backend by its row alone, and options
 * are only legal for the backends that list them. The test is compiled twice, the second time with
 * a row that exists nowhere else (door/common/backends.def).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/alloc.h"
#include "common/backends.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/fd.h"
#include "supervisor/base/config.h"
#include "supervisor/base/options.h"

static int load(struct config *c, struct err *err, const char *const *words)
{
    char *argv[8];
    int count = 0;
    int used;
    for (; words[count] != NULL; count++) {
        argv[count] = (char *)(uintptr_t)words[count];
    }
    return config_load(c, count, argv, &used, err);
}

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

static const struct option *find_row(const char *name)
{
    for (size_t i = 0; i < option_count; i++) {
        if (strcmp(options[i].name, name) == 0) {
            return &options[i];
        }
    }
    return NULL;
}

/* The text of --help, with runs of blanks reduced to one. To be freed. */
static char *help_text(void)
{
    char path[] = "/tmp/cloister-help-XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    fflush(stdout);
    int saved = dup(1);
    dup2(file, 1);
    options_print_help();
    fflush(stdout);
    dup2(saved, 1);
    close(saved);
    close(file);
    CLEANUP_BUF struct buf text;
    buf_init(&text, 1u << 20);
    assert_int_equal(file_read(path, &text, NULL), 0);
    unlink(path);
    char *words = alloc_array(text.len + 1, 1);
    size_t len = 0;
    for (size_t i = 0; i < text.len; i++) {
        bool blank = text.data[i] == ' ' || text.data[i] == '\n';
        if (!blank || (len > 0 && words[len - 1] != ' ')) {
            words[len++] = blank ? ' ' : (char)text.data[i];
        }
    }
    return words;
}

static void every_row_is_whole(void **state)
{
    (void)state;
    for (size_t i = 0; i < BACKEND_COUNT; i++) {
        const struct backend_row *row = &backend_rows[i];
        assert_ptr_equal(backend_row_find(row->name), row);
        assert_true(row->about[0] != '\0' && row->remedy[0] != '\0' && row->advice[0] != '\0');
        assert_non_null(row->remedy_alone);
        assert_non_null(row->runtimes[0]);
        /* A row can only list options that exist. */
        CLEANUP_FREE char *list = alloc_strdup(row->options);
        char *rest = NULL;
        for (char *word = strtok_r(list, " ", &rest); word != NULL;
             word = strtok_r(NULL, " ", &rest)) {
            if (find_row(word) == NULL) {
                fail_msg("%s takes %s, which is no option", row->name, word);
            }
            assert_true(backend_row_takes(row, word));
        }
        /* Exactly the backends with an engine take its place. */
        assert_true(row->has_engine || !backend_row_takes(row, "engine"));
        assert_true(row->has_engine || row->engine_variables[0] == NULL);
        assert_int_equal(backend_row_has_network(row), backend_row_takes(row, "allow-network"));
        assert_int_equal(backend_row_has_packages(row), backend_row_takes(row, "package-index"));
        assert_true(backend_row_takes(row, "strict")); /* it is in no row, so it is legal for all */
    }
}

static void a_row_makes_a_backend_known_to_the_configuration_and_its_help(void **state)
{
    (void)state;
    CLEANUP_FREE char *help = help_text();
    for (size_t i = 0; i < BACKEND_COUNT; i++) {
        const struct backend_row *row = &backend_rows[i];
        struct config c;
        struct err err = ERR_INIT;
        if (load(&c, &err, WORDS("--backend", row->name)) < 0) {
            fail_msg("%s", err.text);
        }
        assert_ptr_equal(config_backend(&c), row);
        assert_int_equal(config_names_references(&c), row->images == BACKEND_IMAGES_REFERENCES);
        assert_true(c.packages == backend_row_has_packages(row));
        assert_null(config_not_taken(&c, row));
        config_finish(&c);
        CLEANUP_FREE char *told = alloc_printf("%s (%s)", row->name, row->about);
        assert_int_equal(strstr(help, told) != NULL, !row->is_for_tests);
    }
}

/* A value that differs from the default. */
static const char *some_value(const struct option *o)
{
    switch (o->type) {
    case OPTION_NUMBER:
        return strcmp(o->value, "64") == 0 ? "65" : "64";
    case OPTION_FLAG:
        return "yes";
    case OPTION_CHOICE:
        return strrchr(o->choices, ' ') + 1;
    default:
        return "x";
    }
}

static void options_that_mean_nothing_to_the_backend_are_refused(void **state)
{
    (void)state;
    size_t refused = 0;
    for (size_t i = 0; i < BACKEND_COUNT; i++) {
        for (size_t k = 0; k < option_count; k++) {
            const struct backend_row *row = &backend_rows[i];
            const struct option *o = &options[k];
            struct config c;
            struct err err = ERR_INIT;
            CLEANUP_FREE char *takers = backend_rows_that_take(o->name, true);
            if (takers[0] == '\0' || strcmp(o->value, "yes") == 0) {
                continue; /* it is legal for all, or on by default */
            }
            CLEANUP_FREE char *word = alloc_printf("--%s=%s", o->name, some_value(o));
            CLEANUP_FREE char *text = alloc_printf(
                "--%s means nothing to the backend %s: it is for %s;", o->name, row->name, takers);
            int rc = load(&c, &err, WORDS("--backend", row->name, word));
            if (backend_row_takes(row, o->name)) {
                assert_null(strstr(err.text, "means nothing"));
                assert_true(strstr(takers, row->name) != NULL);
            } else {
                assert_int_equal(rc, -ERR_CONFIG);
                if (strncmp(err.text, text, strlen(text)) != 0) {
                    fail_msg("%s", err.text);
                }
                refused++;
            }
            if (rc == 0) {
                config_finish(&c);
            }
        }
    }
    assert_true(refused > 0);
}

static void with_auto_an_option_is_for_one_of_those_that_are_tried(void **state)
{
    (void)state;
    struct config c;
    struct err err = ERR_INIT;
    assert_int_equal(load(&c, &err, WORDS("--pull=never", "--engine=tcp://there:1")), 0);
    assert_null(config_backend(&c));
    CLEANUP_FREE char *some = config_not_taken(&c, backend_row_find("oci"));
    assert_string_equal(some, "--engine, --pull");
    assert_null(config_not_taken(&c, backend_row_find("docker")));
    config_finish(&c);
    /* An option that decides for one backend conflicts with options of the other. */
    assert_int_equal(load(&c, &err, WORDS("--runtime=crun", "--pull=never")), -ERR_CONFIG);
    assert_non_null(strstr(err.text, "--pull means nothing to the backend oci: it is for docker"));
    setenv("CLOISTER_IMAGE_DIR", "/srv", 1);
    assert_int_equal(load(&c, &err, WORDS("--backend=docker")), -ERR_CONFIG);
    unsetenv("CLOISTER_IMAGE_DIR");
    assert_non_null(strstr(err.text, "--image-dir means nothing to the backend docker: it is for"));
    /* An invalid place is refused before it is passed on. */
    CLEANUP_FREE char *longest = alloc_array(5000, 1);
    memset(longest, 'x', 4999);
    assert_int_equal(load(&c, &err, WORDS("--engine", longest)), -ERR_CONFIG);
    assert_non_null(strstr(err.text, "--engine: place: the address is"));
}

static void help_says_whom_an_option_is_for(void **state)
{
    (void)state;
    CLEANUP_FREE char *dir = option_help(find_row("image-dir"));
    assert_ptr_equal(strstr(dir, "oci: directory"), dir);
    CLEANUP_FREE char *pull = option_help(find_row("pull"));
    assert_ptr_equal(strstr(pull, "docker and kubernetes: whether"), pull);
    CLEANUP_FREE char *files = option_help(find_row("files"));
    assert_string_equal(files, find_row("files")->help);
}

#ifdef BEHIND_THE_DOOR
#define WHERE "docker, kubernetes, e2b and moon: where"

static void a_row_that_nobody_knows_is_enough(void **state)
{
    (void)state;
    struct config c;
    struct err err = ERR_INIT;
    assert_int_equal(load(&c, &err, WORDS("--backend=moon", "--engine=tcp://sea:1")), 0);
    assert_string_equal(config_backend(&c)->name, "moon");
    assert_string_equal(config_backend(&c)->advice, "Wait for the moon to rise.\n");
    assert_true(config_names_references(&c));
    assert_false(c.packages);
    config_finish(&c);
    assert_int_equal(load(&c, &err, WORDS("--backend=moon", "--allow-network")), -ERR_CONFIG);
    assert_int_equal(load(&c, &err, WORDS("--memory-mb=64")), -ERR_CONFIG);
    assert_non_null(strstr(err.text,
                           "--memory-mb means nothing to the backends that auto tries: it "
                           "is for moon; leave it out, or choose another --backend"));
    CLEANUP_FREE char *help = option_help(find_row("engine"));
    assert_int_equal(strncmp(help, WHERE, strlen(WHERE)), 0);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_is_whole),
        cmocka_unit_test(a_row_makes_a_backend_known_to_the_configuration_and_its_help),
        cmocka_unit_test(options_that_mean_nothing_to_the_backend_are_refused),
        cmocka_unit_test(with_auto_an_option_is_for_one_of_those_that_are_tried),
        cmocka_unit_test(help_says_whom_an_option_is_for),
#ifdef BEHIND_THE_DOOR
        cmocka_unit_test(a_row_that_nobody_knows_is_enough),
#endif
    };
    return cmocka_run_group_tests_name("backends", tests, NULL, NULL);
}
