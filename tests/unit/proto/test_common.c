/* Parts of common/, and the JSON parser. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/buf.h"
#include "common/clock.h"
#include "common/fd.h"
#include "common/io/json.h"
#include "common/room.h"
#include "common/str.h"

static void files_leave_room_in_the_memory(void **state)
{
    const uint64_t mib = 1u << 20;
    (void)state;
    assert_int_equal(room_disk_default(512 * mib), 256 * mib);
    assert_int_equal(room_other(512 * mib, 256 * mib), 64 * mib);
    assert_int_equal(room_disk_default(2048 * mib), 1024 * mib);
    uint64_t before = 0;
    for (uint64_t memory = 16; memory <= 1048576; memory = memory * 5 / 4 + 1) {
        uint64_t most = room_disk_max(memory * mib), usual = room_disk_default(memory * mib);
        uint64_t least = memory < 128 ? memory / 2 : 64;
        assert_true(usual >= mib && usual <= most && most >= before);
        before = most;
        const uint64_t sizes[] = {usual, most, mib};
        for (size_t i = 0; i < 3; i++) {
            uint64_t other = room_other(memory * mib, sizes[i]);
            assert_true(other >= mib && other <= 64 * mib);
            assert_true(sizes[i] + 3 * other <= (memory - least) * mib);
        }
        uint64_t needed = room_memory_min(most / mib * mib);
        assert_true(needed <= memory * mib && room_disk_max(needed) >= most / mib * mib);
        assert_true(needed == mib || room_disk_max(needed - mib) < most / mib * mib);
    }
}

static void errors_gain_context_outwards(void **state)
{
    struct err err = ERR_INIT;
    assert_int_equal(err_set(&err, ERR_IMAGE, "no %s", "image\n"), -ERR_IMAGE);
    assert_int_equal(err_wrap(&err, "create"), -ERR_IMAGE);
    assert_string_equal(err.text, "create: no image ");
    assert_string_equal(err_wire_name(-ERR_IMAGE), "image_not_found");
    assert_true(err_known(ERR_IMAGE));
    assert_false(err_known(999));
}

static void a_buffer_never_exceeds_its_cap(void **state)
{
    struct err err = ERR_INIT;
    struct buf b;
    buf_init(&b, 10);
    assert_int_equal(buf_add(&b, "123456", 6, &err), 0);
    assert_int_equal(buf_add(&b, "78901", 5, &err), -ERR_TOO_BIG);
    assert_int_equal(b.len, 6);
    assert_int_equal(buf_printf(&b, &err, "%d", 7890), 0);
    assert_int_equal(buf_printf(&b, &err, "%d", 1), -ERR_TOO_BIG);
    assert_int_equal(buf_reserve(&b, SIZE_MAX, &err), -ERR_TOO_BIG);
    assert_string_equal(buf_cstr(&b), "1234567890");
    buf_consume(&b, 4);
    assert_string_equal(buf_cstr(&b), "567890");
    buf_finish(&b);
    buf_finish(NULL);
}

static void numbers_are_checked_whole(void **state)
{
    struct err err = ERR_INIT;
    uint64_t n = 5;
    assert_int_equal(str_to_u64("18446744073709551615", 0, UINT64_MAX, &n, &err), 0);
    assert_true(n == UINT64_MAX);
    static const char *const bad[] = {"", "-1", "1x", " 1", "0x1", "18446744073709551616", "101"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        n = 5;
        uint64_t max = i == 6 ? 100 : UINT64_MAX;
        assert_int_equal(str_to_u64(bad[i], 0, max, &n, &err), -ERR_INVALID);
        assert_true(n == 5);
    }
}

static void utf8_is_read_strictly_and_mended(void **state)
{
    static const char good[] = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80 and a longer run of ASCII";
    assert_true(utf8_valid(good, sizeof(good) - 1));
    static const char *const bad[] = {"\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82",
                                      "\x80",     "\xff",         "\xc1\xbf",         "\xf8\x88"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_false(utf8_valid(bad[i], strlen(bad[i])));
    }
    struct err err = ERR_INIT;
    struct buf b;
    buf_init(&b, 1000);
    assert_int_equal(utf8_add_lossy(&b,
                                    "a\xff"
                                    "b\0c\xe2\x82",
                                    7, &err),
                     0);
    assert_string_equal(buf_cstr(&b), "a\xef\xbf\xbd"
                                      "b\xef\xbf\xbd"
                                      "c\xef\xbf\xbd\xef\xbf\xbd");
    buf_finish(&b);
}

static void ids_are_of_their_alphabet_and_differ(void **state)
{
    char a[33];
    char b[33];
    struct err err = ERR_INIT;
    assert_int_equal(random_id(a, 32, &err), 0);
    assert_int_equal(random_id(b, 32, &err), 0);
    assert_int_equal(strspn(a, "abcdefghijklmnopqrstuvwxyz234567"), 32);
    assert_string_not_equal(a, b);
}

static void times_print_as_iso(void **state)
{
    char iso[CLOCK_ISO_SIZE];
    clock_iso(1769860800123u, iso, sizeof(iso));
    assert_string_equal(iso, "2026-01-31T12:00:00.123Z");
    clock_iso(0, iso, sizeof(iso));
    assert_string_equal(iso, "1970-01-01T00:00:00.000Z");
    /* every day till 2150, each at another time, compared with libc */
    for (time_t at = 0; at < (time_t)180 * 365 * 86400; at += 86400 + 7) {
        char wanted[64];
        struct tm t;
        gmtime_r(&at, &t);
        strftime(wanted, sizeof(wanted), "%Y-%m-%dT%H:%M:%S.007Z", &t);
        clock_iso((uint64_t)at * 1000 + 7, iso, sizeof(iso));
        assert_string_equal(iso, wanted);
    }
}

static void trees_are_made_replaced_and_removed(void **state)
{
    struct err err = ERR_INIT;
    char top[] = "/tmp/cloister-test-XXXXXX";
    assert_non_null(mkdtemp(top));
    char path[256];
    snprintf(path, sizeof(path), "%s/a/b", top);
    assert_int_equal(dir_make_one(path, 0700, &err), -ERR_IO);
    assert_int_equal(dir_make(path, 0700, &err), 0);
    assert_int_equal(dir_make(path, 0700, &err), 0);
    assert_int_equal(dir_make_one(path, 0700, &err), 0);
    char file[300];
    snprintf(file, sizeof(file), "%s/f", path);
    assert_int_equal(file_replace(file, "old", 3, 0600, &err), 0);
    assert_int_equal(file_replace(file, "newer", 5, 0600, &err), 0);
    struct buf b;
    buf_init(&b, 100);
    assert_int_equal(file_read(file, &b, &err), 0);
    assert_string_equal(buf_cstr(&b), "newer");
    buf_finish(&b);
    buf_init(&b, 2);
    assert_int_equal(file_read(file, &b, &err), -ERR_TOO_BIG);
    buf_finish(&b);
    /* A link is removed, not followed. */
    char link[300];
    snprintf(link, sizeof(link), "%s/out", path);
    assert_int_equal(symlink("/etc", link), 0);
    assert_int_equal(dir_remove(top, &err), 0);
    assert_int_equal(dir_remove(top, &err), 0);
    struct stat st;
    assert_int_equal(stat("/etc", &st), 0);
    assert_int_not_equal(stat(top, &st), 0);
}

static void a_file_is_replaced_with_owner_and_mode_as_they_were(void **state)
{
    struct err err = ERR_INIT;
    char top[] = "/tmp/cloister-test-XXXXXX";
    char file[64], link[64];
    struct stat before, st;
    (void)state;
    assert_non_null(mkdtemp(top));
    snprintf(file, sizeof(file), "%s/f", top);
    snprintf(link, sizeof(link), "%s/link", top);
    assert_int_equal(symlink("f", link), 0);
    assert_int_equal(file_replace_like(link, "x", 1, 0600, &err), -ERR_IO); /* to nothing */
    assert_int_equal(file_replace_like(file, "old", 3, 0600, &err), 0);
    assert_int_equal(stat(file, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(chmod(file, 0664), 0); /* more than the umask lets through */
    if (geteuid() == 0) {
        assert_int_equal(chown(file, 7, 8), 0);
    }
    assert_int_equal(stat(file, &before), 0);
    assert_int_equal(file_replace_like(link, "newer", 5, 0600, &err), 0);
    assert_int_equal(lstat(link, &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_int_equal(stat(file, &st), 0);
    assert_int_equal(st.st_size, 5);
    assert_int_equal(st.st_mode, before.st_mode);
    assert_int_equal(st.st_uid, before.st_uid);
    assert_int_equal(st.st_gid, before.st_gid);
    assert_int_equal(dir_remove(top, &err), 0);
}

static int parse(const char *text, size_t len, cJSON **ret, bool *nul, struct err *err)
{
    char *copy = malloc(len > 0 ? len : 1); /* exact size, so that reads past the end are found */
    memcpy(copy, text, len);
    int rc = json_parse(copy, len, 1000, 8, ret, nul, err);
    free(copy);
    return rc;
}

static void json_is_refused_before_it_can_hurt(void **state)
{
    static const struct {
        const char *text;
        size_t len;
    } bad[] = {
        {"", 0},
        {"{", 1},
        {"{\"a\":1} x", 9},
        {"[[[[[[[[[1]]]]]]]]]", 19},
        {"{\"a\":\"\xff\"}", 9},
        {"{\"a\":\"b\0c\"}", 11},
        {"\"\\u000", 6},
        {"\"\\", 2},
        {"nul", 3},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct err err = ERR_INIT;
        cJSON *json = NULL;
        assert_int_equal(parse(bad[i].text, bad[i].len, &json, NULL, &err), -ERR_INVALID);
        assert_null(json);
    }
    struct err err = ERR_INIT;
    cJSON *json = NULL;
    assert_int_equal(json_parse("[]", 2, 1, 8, &json, NULL, &err), -ERR_TOO_BIG);
}

static void an_escaped_nul_is_told_apart(void **state)
{
    struct err err = ERR_INIT;
    cJSON *json = NULL;
    bool nul = false;
    const char *text = "{\"id\":3,\"s\":\"a\\u0000b\"}";
    assert_int_equal(parse(text, strlen(text), &json, &nul, &err), 0);
    assert_true(nul);
    assert_true(json_is_int(json_get(json, "id")));
    cJSON_Delete(json);
    json = NULL;
    assert_int_equal(parse(text, strlen(text), &json, NULL, &err), -ERR_INVALID);
    text = "{\"s\":\"a\\\\u0000b\"} \r\n"; /* an escaped backslash, then plain text */
    assert_int_equal(parse(text, strlen(text), &json, &nul, &err), 0);
    assert_false(nul);
    assert_string_equal(json_get_str(json, "s"), "a\\u0000b");
    cJSON_Delete(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_gain_context_outwards),
        cmocka_unit_test(files_leave_room_in_the_memory),
        cmocka_unit_test(a_buffer_never_exceeds_its_cap),
        cmocka_unit_test(numbers_are_checked_whole),
        cmocka_unit_test(utf8_is_read_strictly_and_mended),
        cmocka_unit_test(ids_are_of_their_alphabet_and_differ),
        cmocka_unit_test(times_print_as_iso),
        cmocka_unit_test(trees_are_made_replaced_and_removed),
        cmocka_unit_test(a_file_is_replaced_with_owner_and_mode_as_they_were),
        cmocka_unit_test(json_is_refused_before_it_can_hurt),
        cmocka_unit_test(an_escaped_nul_is_told_apart),
    };
    return cmocka_run_group_tests_name("common", tests, NULL, NULL);
}
