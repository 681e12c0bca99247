/*
 * Command lines of pip and npm: what the installer is asked for, what is left to the image's
 * program, and what is refused by name.
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
#include "common/cleanup.h"
#include "common/fd.h"
#include "worker/agent/installs/words.h"

#define ARGS_MAX 48

struct reading {
    enum words_kind kind;
    bool quiet;
    char text[512]; /* the packages with '|' behind each, or the error */
};

/* Reads a command line whose words are separated by spaces. */
static struct reading read_line(const char *line)
{
    CLEANUP_FREE char *copy = alloc_strdup(line);
    char *argv[ARGS_MAX + 1] = {NULL};
    char *rest = NULL;
    int argc = 0;
    for (char *w = strtok_r(copy, " ", &rest); w != NULL; w = strtok_r(NULL, " ", &rest)) {
        assert_true(argc < ARGS_MAX);
        argv[argc++] = w;
    }
    struct words words;
    struct err err = ERR_INIT;
    struct reading r = {.kind = words_read(argc, argv, &words, &err)};
    r.quiet = words.quiet; /* which is written by then: initialisers have no order */
    size_t at = 0;
    for (size_t i = 0; i < words.count && r.kind == WORDS_INSTALL && at < sizeof(r.text); i++) {
        at += (size_t)snprintf(r.text + at, sizeof(r.text) - at, "%s|", words.items[i]);
    }
    if (r.kind == WORDS_REFUSED) {
        snprintf(r.text, sizeof(r.text), "%s", err.text);
    }
    words_finish(&words);
    return r;
}

static void assert_installs(const char *line, const char *packages)
{
    struct reading r = read_line(line);
    assert_int_equal(r.kind, WORDS_INSTALL);
    assert_string_equal(r.text, packages);
}

static void assert_refused(const char *line, const char *why)
{
    struct reading r = read_line(line);
    assert_int_equal(r.kind, WORDS_REFUSED);
    assert_non_null(strstr(r.text, why));
}

static void names_are_taken_from_among_options(void **state)
{
    (void)state;
    assert_installs("/run/installs/bin/pip install pandas", "pandas|");
    assert_installs("pip3 -q install -U a>=1,<2 --user b[x,y] --no-cache-dir", "a>=1,<2|b[x,y]|");
    assert_installs("pip install --timeout 5 a --progress-bar=off --retries 0 b", "a|b|");
    assert_installs("npm i left @made/right@^1 --save-dev -g --loglevel silent",
                    "left|@made/right@^1|");
    assert_installs("npm add left --omit=dev", "left|");
    assert_true(read_line("pip install -qq a").quiet);
    assert_true(read_line("npm install --silent a").quiet);
    assert_false(read_line("pip install -v a").quiet);
}

static void what_is_no_installation_is_left_alone(void **state)
{
    static const char *const lines[] = {
        "pip",
        "pip list",
        "pip --version",
        "pip install --help",
        "pip show install",
        "npm test",
        "npm run install",
        "npm --prefix x install y",
        "pip download x",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        assert_int_equal(read_line(lines[i]).kind, WORDS_OTHER);
    }
}

static void what_cannot_be_honoured_is_refused_by_name(void **state)
{
    (void)state;
    assert_refused("pip install --index-url http://x a", "--index-url cannot be honoured");
    assert_refused("pip install --index-url=http://secret@x a", "--index-url cannot be honoured");
    assert_refused("pip install -e .", "-e cannot be honoured");
    assert_refused("pip install a --target /tmp", "--target cannot be honoured");
    assert_refused("pip install --pre a", "--pre cannot be honoured");
    assert_refused("pip install .", "\".\" is no name");
    assert_refused("pip install git+https://h/r", "is no name of a package");
    assert_refused("npm install github:a/b", "is no name of a package");
    assert_refused("pip install", "no package is named");
    assert_refused("npm install", "name the packages");
    char many[256] = "pip install";
    for (int i = 0; i < LIMIT_INSTALL_WORDS + 1; i++) {
        snprintf(many + strlen(many), sizeof(many) - strlen(many), " a%d", i);
    }
    assert_refused(many, "at most 32 packages");
}

static void files_of_requirements_are_read(void **state)
{
    char path[] = "/tmp/cloister-words-XXXXXX";
    char line[128];
    int fd = mkstemp(path);
    (void)state;
    assert_true(fd >= 0);
    const char good[] = "# heading\r\n\na >= 1  # why\n\tb[x]\n c#d==2\n";
    assert_int_equal(fd_write_all(fd, good, sizeof(good) - 1, NULL), 0);
    const char *const forms[] = {"-r ", "-r", "--requirement=", "--requirement "};
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        snprintf(line, sizeof(line), "pip install z %s%s", forms[i], path);
        assert_installs(line, "z|a>=1|b[x]|c#d==2|");
    }
    const char bad[] = "--extra-index-url http://x\n";
    assert_int_equal(fd_write_all(fd, bad, sizeof(bad) - 1, NULL), 0);
    assert_refused(line, "--extra-index-url cannot be honoured");
    close(fd);
    unlink(path);
    assert_refused(line, "cloister-words-");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_taken_from_among_options),
        cmocka_unit_test(what_is_no_installation_is_left_alone),
        cmocka_unit_test(what_cannot_be_honoured_is_refused_by_name),
        cmocka_unit_test(files_of_requirements_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
