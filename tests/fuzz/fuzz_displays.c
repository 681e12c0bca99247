/*
 * The supervisor's copy of an agent's displays and changed files: whatever the items of the two
 * lists are, those that are kept can be shown without further checks.
 *
 * An input is a sequence of items, each with a byte of kind (odd: a file) and two of length.
 */
#include <string.h>

#include "common/log.h"
#include "common/str.h"
#include "supervisor/calls/displays.h"
#include "tests/fuzz/fuzz.h"

#define ITEMS_MAX 300

static void check(const struct fleet_outcome *o)
{
    FUZZ_REQUIRE(o->file_count <= LIMIT_CHANGED);
    for (size_t i = 0; i < o->display_count; i++) {
        const struct fleet_display *d = &o->displays[i];
        FUZZ_REQUIRE(strchr(d->mime, '/') != NULL && strpbrk(d->mime, " \"\\\n") == NULL);
        FUZZ_REQUIRE(d->path[0] == '/' && utf8_valid(d->path, strlen(d->path)));
        FUZZ_REQUIRE(i == 0 || d->number >= o->displays[i - 1].number);
        FUZZ_REQUIRE(d->data.len == 0);
    }
    for (size_t i = 0; i < o->file_count; i++) {
        FUZZ_REQUIRE(o->files[i].path.len > 0 && o->files[i].path.data[0] != '/');
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct view displays[ITEMS_MAX];
    static struct view files[ITEMS_MAX];
    size_t display_count = 0;
    size_t file_count = 0;
    log_set_level(LOG_ERROR);
    for (size_t at = 0; at + 3 <= size;) {
        size_t len = (size_t)data[at + 1] << 8 | data[at + 2];
        len = len < size - at - 3 ? len : size - at - 3;
        struct view item = view_bytes(data + at + 3, len);
        if (data[at] % 2 == 1 && file_count < ITEMS_MAX) {
            files[file_count++] = item;
        } else if (data[at] % 2 == 0 && display_count < ITEMS_MAX) {
            displays[display_count++] = item;
        }
        at += 3 + len;
    }
    struct msg_output end = {.op = view_of("op")};
    end.displays = (struct view_list){displays, display_count};
    end.files = (struct view_list){files, file_count};
    struct displays *d = displays_create(&end);
    struct fleet_outcome o = {.op = "op"};
    displays_show(d, &o);
    FUZZ_REQUIRE(o.display_count <= display_count);
    check(&o);
    displays_destroy(d);
    return 0;
}
