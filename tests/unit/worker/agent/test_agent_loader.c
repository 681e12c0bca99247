/*
 * How Python gets its driver: a Python of the build's version takes what the build has compiled,
 * any other compiles the source, and both work. A program that stands for python3 tells which way
 * it was: it starts the system's Python with a hook that hears of each compilation, and may give it
 * another magic number before. Where the build had another version than the system, both ways
 * compile.
 */
#include "tests/unit/worker/agent/fixture.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/cleanup.h"

/* The agent's arguments follow: -X utf8 -c PROGRAM, and the program's own. */
static const char standin[] =
    "#!/bin/sh\n"
    "PATH=/usr/local/bin:/usr/bin:/bin exec python3 -X utf8 -c '\n"
    "import _frozen_importlib_external as finder, sys\n"
    "program, sys.ways = sys.argv[4], []\n"
    "sys.argv[1:5] = []\n"
    "sys.magic = finder.MAGIC_NUMBER.hex()\n"
    "%s\n"
    "def hear(event, about):\n"
    "    if event == \"compile\" and about[1] == \"<cloister>\":\n"
    "        sys.ways.append(\"compiled\")\n"
    "    if event == \"exec\" and about[0].co_filename == \"<cloister>\":\n"
    "        sys.ways.append(\"run\")\n"
    "sys.addaudithook(hear)\n"
    "exec(program)' \"$@\"\n";

struct lab {
    char dir[64];
    void *fixture;
};

static int put_standin(const struct lab *lab, const char *before)
{
    CLEANUP_FREE char *path = alloc_printf("%s/python3", lab->dir);
    FILE *file = fopen(path, "w");
    if (file == NULL) {
        print_error("%s cannot be written\n", path);
        return -1;
    }
    fprintf(file, standin, before);
    return fclose(file) == 0 ? chmod(path, 0755) : -1;
}

static int begin(void **state, const char *before)
{
    struct lab *lab = alloc_one(struct lab);
    *state = lab;
    snprintf(lab->dir, sizeof(lab->dir), "/tmp/cloister-loader-XXXXXX");
    if (mkdtemp(lab->dir) == NULL || chmod(lab->dir, 0755) < 0 || put_standin(lab, before) < 0) {
        return -1;
    }
    return fixture_start_with(&lab->fixture, (struct agent_options){.path_env = lab->dir});
}

static int begin_same(void **state)
{
    return begin(state, "");
}

static int begin_other(void **state)
{
    return begin(state, "finder.MAGIC_NUMBER = b\"else\"");
}

static int begin_unknown(void **state)
{
    return begin(state, "del sys.modules[\"_frozen_importlib_external\"]");
}

static int end(void **state)
{
    struct lab *lab = *state;
    CLEANUP_FREE char *path = alloc_printf("%s/python3", lab->dir);
    if (lab->fixture != NULL) {
        fixture_stop(&lab->fixture);
    }
    unlink(path);
    rmdir(lab->dir);
    free(lab);
    return 0;
}

/* What a memory file holds is memory of the sandbox. */
static void assert_holds_no_driver(const struct agent_process *agent)
{
    CLEANUP_FREE char *dir = alloc_printf("/proc/%d/fd", (int)agent->pid);
    DIR *d = opendir(dir);
    assert_non_null(d);
    for (const struct dirent *entry; (entry = readdir(d)) != NULL;) {
        char target[64] = "";
        (void)!readlinkat(dirfd(d), entry->d_name, target, sizeof(target) - 1);
        assert_null(strstr(target, "memfd:driver"));
    }
    closedir(d);
}

static void assert_works(struct lab *lab, const char *ways)
{
    struct fixture *f = fixture_of(&lab->fixture);
    struct agent_result *r = run(f, "python", "import sys; sys.ways");
    assert_status(r, OP_STATUS_OK);
    assert_string_equal(r->result, ways);
    r = run(f, "python", "def f(): 1 / 0\nf()");
    assert_string_equal(r->name, "ZeroDivisionError");
    assert_contains(r->traceback, "in f\n");
    assert_null(strstr(r->traceback, "cloister")); /* frames of the driver are known by its name */
    r = run_interrupted(f, "python", "print('on', flush=True)\nwhile True: pass", 0);
    assert_int_equal(r->last.interpreter, OP_INTERPRETER_KEPT);
    r = run(f, "python", "%pwd\nf.__name__");
    assert_string_equal(r->result, "'f'");
    assert_holds_no_driver(&f->agent);
}

static void the_same_version_takes_what_the_build_compiled(void **state)
{
    struct lab *lab = *state;
    const char *magic = getenv("CLOISTER_BUILD_MAGIC");
    struct fixture *f = fixture_of(&lab->fixture);
    struct agent_result *r = run(f, "python", "import sys; print(sys.magic)");
    CLEANUP_FREE char *ours = alloc_printf("%s\n", magic != NULL ? magic : "");
    bool same = strcmp(r->out, ours) == 0;
    assert_works(lab, same ? "['run']" : "['compiled', 'run']");
}

static void another_version_compiles_the_source(void **state)
{
    assert_works(*state, "['compiled', 'run']");
}

static void a_python_that_names_no_version_compiles_the_source(void **state)
{
    assert_works(*state, "['compiled', 'run']");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_same_version_takes_what_the_build_compiled, begin_same,
                                        end),
        cmocka_unit_test_setup_teardown(another_version_compiles_the_source, begin_other, end),
        cmocka_unit_test_setup_teardown(a_python_that_names_no_version_compiles_the_source,
                                        begin_unknown, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
