/*
 * A requirement and a version that any client and any package may write: whatever they are, the
 * comparison ends, and a version fits itself. The input is REQUIREMENT\nVERSION.
 */
#include <stdio.h>
#include <string.h>

#include "supervisor/packages/names.h"
#include "supervisor/packages/specifiers.h"
#include "tests/fuzz/fuzz.h"

#define TEXT_MAX 512

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[TEXT_MAX];
    char exact[TEXT_MAX + 16];
    size_t len = size < sizeof(text) - 1 ? size : sizeof(text) - 1;
    memcpy(text, data, len);
    text[len] = '\0';
    char *end = strchr(text, '\n');
    struct view version = view_of(end != NULL ? end + 1 : "1.0");
    if (end != NULL) {
        *end = '\0';
    }
    (void)package_version_fits(text, version);
    if (package_is_version(version)) {
        snprintf(exact, sizeof(exact), "x==%.*s", VIEW_ARG(version));
        FUZZ_REQUIRE(package_version_fits(exact, version));
    }
    return 0;
}
