/* --share: what an operator may write, what the words come to mean, and what is refused. */
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
#include "common/cleanup.h"
#include "common/fd.h"
#include "supervisor/base/share.h"

static void expect_view(struct view have, const char *text)
{
    CLEANUP_FREE char *copy = alloc_viewdup(have);
    assert_string_equal(copy, text);
}

static void words_are_taken_apart(void **state)
{
    static const struct {
        const char *text, *dir, *name;
        bool writable, on_request;
    } rows[] = {
        {"/srv/data", "/srv/data", "data", false, false},
        {"/srv/data//", "/srv/data", "data", false, false},
        {"/srv/data=x", "/srv/data", "x", false, false},
        {"/srv/data=x:rw", "/srv/data", "x", true, false},
        {"/srv/data:rw:ask", "/srv/data", "data", true, true},
        {"/srv/data:ask:ro", "/srv/data", "data", false, true},
        {"/a=b/c", "/a=b/c", "c", false, false},
        {"/a=b=c", "/a=b", "c", false, false},
        {"/a:x=y", "/a:x", "y", false, false},
        {"~/a", "~/a", "a", false, false},
        {"~=home", "~", "home", false, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct shares shares;
        struct err err = ERR_INIT;
        assert_int_equal(shares_read(rows[i].text, &shares, &err), 0);
        assert_int_equal(shares.count, 1);
        expect_view(shares.of[0].dir, rows[i].dir);
        expect_view(shares.of[0].name, rows[i].name);
        assert_int_equal(shares.of[0].writable, rows[i].writable);
        assert_int_equal(shares.of[0].on_request, rows[i].on_request);
    }
    struct shares shares = shares_of("/a,,/b:rw,");
    assert_int_equal(shares.count, 2);
    assert_non_null(share_find(&shares, view_of("b")));
    assert_null(share_find(&shares, view_of("c")));
    assert_int_equal(shares_of(NULL).count, 0);
}

static void what_cannot_be_is_refused(void **state)
{
    static const struct {
        const char *text, *words;
    } rows[] = {
        {"/", "all of this host"},
        {"//:rw", "all of this host"},
        {"data", "absolute path"},
        {"=x", "absolute path"},
        {":rw", "absolute path"},
        {"~user/a", "absolute path"},
        {"/a=", "cannot be a name"},
        {"/a b", "cannot be a name"},
        {"/a/..", "cannot be a name"},
        {"/a=.hidden", "cannot be a name"},
        {"/a:x", "cannot be a name"},
        {"/a:ro:rw", "both ro and rw"},
        {"/a,/b/a", "two directories have the name a"},
        {"/1,/2,/3,/4,/5,/6,/7,/8,/9,/10,/11,/12,/13,/14,/15,/16,/17", "at most 16"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct shares shares;
        struct err err = ERR_INIT;
        assert_int_equal(shares_read(rows[i].text, &shares, &err), -ERR_CONFIG);
        if (strstr(err.text, rows[i].words) == NULL) {
            fail_msg("%s: %s", rows[i].text, err.text);
        }
    }
}

static int settle(const char *text, char **ret, struct err *err)
{
    *ret = alloc_strdup(text);
    return shares_settle(ret, err);
}

static void directories_are_looked_at(void **state)
{
    char top[] = "/tmp/cloister-shares-XXXXXX";
    struct err err = ERR_INIT;
    char *text;
    (void)state;
    assert_non_null(mkdtemp(top));
    CLEANUP_FREE char *dir = alloc_printf("%s/dir", top);
    CLEANUP_FREE char *inner = alloc_printf("%s/dir/inner", top);
    CLEANUP_FREE char *link = alloc_printf("%s/link", top);
    CLEANUP_FREE char *through = alloc_printf("%s/link/inner=in:rw:ask", top);
    CLEANUP_FREE char *settled = alloc_printf("%s/dir/inner=in:rw:ask", top);
    assert_int_equal(mkdir(dir, 0700) + mkdir(inner, 0700) + symlink("dir", link), 0);

    assert_int_equal(settle(through, &text, &err), 0);
    assert_string_equal(text, settled); /* the real path, and everything said */
    assert_int_equal(shares_settle(&text, &err), 0);
    assert_string_equal(text, settled);
    free(text);

    assert_int_equal(settle(link, &text, &err), -ERR_CONFIG);
    assert_string_equal(text, link); /* the caller's, as it was */
    assert_non_null(strstr(err.text, "symbolic link"));
    free(text);

    CLEANUP_FREE char *nested = alloc_printf("%s:rw,%s", dir, inner);
    assert_int_equal(settle(nested, &text, &err), -ERR_CONFIG);
    assert_non_null(strstr(err.text, "could replace it"));
    free(text);
    CLEANUP_FREE char *harmless = alloc_printf("%s,%s:rw", dir, inner);
    assert_int_equal(settle(harmless, &text, &err), 0);
    free(text);
    assert_int_equal(dir_remove(top, &err), 0);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_are_taken_apart),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(directories_are_looked_at),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
