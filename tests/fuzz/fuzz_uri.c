/*
 * URIs from clients: an accepted one names a path without dot segments, and the path is written as
 * a URI of the same meaning.
 */
#include <string.h>

#include "common/alloc.h"
#include "common/str.h"
#include "supervisor/links/uri.h"
#include "tests/fuzz/fuzz.h"

static void check_path(const char *path)
{
    FUZZ_REQUIRE(path[0] == '/' && strlen(path) < LIMIT_PATH);
    FUZZ_REQUIRE(utf8_valid(path, strlen(path)));
    FUZZ_REQUIRE(strstr(path, "//") == NULL);
    for (const char *p = path; *p != '\0';) {
        size_t n = strcspn(p + 1, "/");
        FUZZ_REQUIRE(!(n == 1 && p[1] == '.') && !(n == 2 && memcmp(p + 1, "..", 2) == 0));
        p += n + 1;
    }
    for (const char *p = path; *p != '\0'; p++) {
        FUZZ_REQUIRE((unsigned char)*p >= 0x20 && *p != 0x7f);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = alloc_viewdup(view_bytes((const char *)data, size));
    struct uri u;
    struct uri again;
    if (uri_parse(text, &u) && u.kind == URI_FILE) {
        check_path(u.path);
        char *spelled = uri_of_file(u.id, "", view_of(u.path));
        FUZZ_REQUIRE(spelled != NULL && uri_parse(spelled, &again));
        FUZZ_REQUIRE(strcmp(u.id, again.id) == 0 && strcmp(u.path, again.path) == 0);
        free(spelled);
    } else if (uri_parse(text, &u)) {
        char *spelled = uri_of_stream(u.id, u.is_stderr);
        FUZZ_REQUIRE(strcmp(spelled, text) == 0);
        free(spelled);
    }
    /* and the other direction, from any path */
    char *made = uri_of_file("abc", "/workspace", view_bytes((const char *)data, size));
    if (made != NULL) {
        FUZZ_REQUIRE(uri_parse(made, &again) && strcmp(again.id, "abc") == 0);
        check_path(again.path);
    }
    free(made);
    free(text);
    return 0;
}
