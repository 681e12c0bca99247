/*
 * Names of packages from clients, and an installer's output. An accepted name means nothing else to
 * pip, npm or a shell. The first byte chooses the manager and which of both is read.
 */
#include <string.h>

#include "common/alloc.h"
#include "supervisor/packages/names.h"
#include "supervisor/packages/reply.h"
#include "tests/fuzz/fuzz.h"

static void check_taken(enum package_manager manager, const char *text)
{
    char normal[PACKAGE_NAME_SIZE];
    struct view name = package_requirement_name(manager, text);
    const char *allowed = manager == PACKAGE_PIP ? "._-[],~=!<>+*" : "._-@/~=^<>+*!";
    FUZZ_REQUIRE(name.len > 0 && package_is_name(manager, name));
    FUZZ_REQUIRE(package_name_normal(manager, name, normal) && normal[0] != '\0');
    FUZZ_REQUIRE(text[0] != '-' && text[0] != '.' && text[0] != '/');
    for (const char *c = text; *c != '\0'; c++) {
        bool alnum =
            (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9');
        FUZZ_REQUIRE(alnum || strchr(allowed, *c) != NULL);
        FUZZ_REQUIRE(*c != '/' || (text[0] == '@' && strchr(text, '/') == c));
    }
}

static void read_reply(enum package_manager manager, struct view text)
{
    struct package_line line;
    struct view rest = text;
    struct view found;
    struct view words;
    while (package_reply_next(manager, &rest, &line)) {
        FUZZ_REQUIRE(package_is_name(manager, line.name) && package_is_version(line.version));
        FUZZ_REQUIRE(line.name.data >= text.data &&
                     line.version.data + line.version.len <= text.data + text.len);
        FUZZ_REQUIRE(package_reply_find(manager, text, line.name, &found));
    }
    if (package_reply_failure(text, &found, &words)) {
        FUZZ_REQUIRE(found.len + words.len <= PACKAGE_REPLY_LINE_MAX);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    struct err err = ERR_INIT;
    enum package_manager manager = (data[0] & 1) != 0 ? PACKAGE_NPM : PACKAGE_PIP;
    struct view rest = view_bytes(data + 1, size - 1);
    if ((data[0] & 2) != 0) {
        read_reply(manager, rest);
        return 0;
    }
    char *text = alloc_viewdup(rest);
    if (package_requirement_check(manager, text, &err) == 0) {
        check_taken(manager, text);
    } else {
        FUZZ_REQUIRE(err.code == ERR_INVALID && err.text[0] != '\0');
    }
    free(text);
    return 0;
}
