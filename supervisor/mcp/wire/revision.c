/*
 * Names of the revisions. They are dates, so their order is the order of the enum.
 */
#include "supervisor/mcp/wire/revision.h"

#include <stddef.h>
#include <string.h>

static const char *const names[REVISION_COUNT] = {
    [REVISION_2024_11_05] = "2024-11-05", [REVISION_2025_03_26] = "2025-03-26",
    [REVISION_2025_06_18] = "2025-06-18", [REVISION_2025_11_25] = "2025-11-25",
    [REVISION_2026_07_28] = "2026-07-28",
};

const char *revision_name(enum revision r)
{
    return names[r];
}

bool revision_parse(const char *name, enum revision *ret)
{
    for (size_t i = 0; i < REVISION_COUNT; i++) {
        if (strcmp(name, names[i]) == 0) {
            *ret = (enum revision)i;
            return true;
        }
    }
    return false;
}
