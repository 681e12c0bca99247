/* The key that signs links: it is made with its instance, and never replaced. */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/fd.h"
#include "tests/unit/supervisor/fleet/fixture.h"

/* Makes an instance with one sandbox; returns the path of its key. */
static char *begin(struct fixture *f, char id[FLEET_ID_SIZE])
{
    fixture_start(f);
    open_one(f, NULL, id);
    CLEANUP_FREE char *dir = instance_dir(f);
    return alloc_printf("%s/key", dir);
}

static void assert_refused(struct fixture *f, const char *path, const char *why)
{
    unsigned char key[FLEET_KEY_BYTES];
    struct err err = ERR_INIT;
    assert_true(fleet_key(f->fleet, key, &err) < 0);
    assert_non_null(strstr(err.text, path));
    assert_non_null(strstr(err.text, why));
    assert_non_null(strstr(err.text, "remove it if it is damaged"));
}

static void put(const char *path, const char *text)
{
    struct err err = ERR_INIT;
    assert_int_equal(file_replace(path, text, strlen(text), 0600, &err), 0);
}

static void one_is_made_where_there_is_none(void **state)
{
    struct fixture *f = *state;
    char id[FLEET_ID_SIZE];
    unsigned char key[FLEET_KEY_BYTES], again[FLEET_KEY_BYTES];
    struct err err = ERR_INIT;
    struct stat st;
    CLEANUP_FREE char *path = begin(f, id);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(fleet_key(f->fleet, key, &err), 0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, FLEET_KEY_BYTES);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(fleet_key(f->fleet, again, &err), 0);
    assert_memory_equal(key, again, FLEET_KEY_BYTES);
}

static void one_that_is_there_is_taken(void **state)
{
    struct fixture *f = *state;
    char id[FLEET_ID_SIZE];
    unsigned char key[FLEET_KEY_BYTES];
    struct err err = ERR_INIT;
    CLEANUP_FREE char *path = begin(f, id);
    put(path, "0123456789abcdef0123456789abcdef");
    assert_int_equal(fleet_key(f->fleet, key, &err), 0);
    assert_memory_equal(key, "0123456789abcdef0123456789abcdef", FLEET_KEY_BYTES);
}

static void one_of_another_length_is_not_overwritten(void **state)
{
    static const char *const texts[] = {"", "short", "0123456789abcdef0123456789abcdef and more"};
    struct fixture *f = *state;
    char id[FLEET_ID_SIZE];
    CLEANUP_FREE char *path = begin(f, id);
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        put(path, texts[i]);
        assert_refused(f, path, "is not 32 bytes long");
        CLEANUP_BUF struct buf text;
        struct err err = ERR_INIT;
        buf_init(&text, 256);
        assert_int_equal(file_read(path, &text, &err), 0);
        assert_string_equal(buf_cstr(&text), texts[i]);
    }
}

static void one_that_cannot_be_read_is_not_overwritten(void **state)
{
    struct fixture *f = *state;
    char id[FLEET_ID_SIZE], target[16];
    unsigned char key[FLEET_KEY_BYTES];
    struct err err = ERR_INIT;
    CLEANUP_FREE char *path = begin(f, id);
    assert_int_equal(symlink("key", path), 0); /* a link to itself, which not even root can read */
    assert_refused(f, path, "symbolic links");
    assert_int_equal(readlink(path, target, sizeof(target)), 3);
    assert_int_equal(unlink(path), 0); /* as the hint of the error says */
    assert_int_equal(fleet_key(f->fleet, key, &err), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_is_made_where_there_is_none, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(one_that_is_there_is_taken, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(one_of_another_length_is_not_overwritten, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(one_that_cannot_be_read_is_not_overwritten, fixture_setup,
                                        fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
