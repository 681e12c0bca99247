/*
 * The revisions of MCP that this server speaks, oldest first, and their differences as far as they
 * concern us. All but the last open a session with `initialize` (legacy); the last carries
 * everything in each request (modern).
 */
#ifndef CLOISTER_SUPERVISOR_MCP_WIRE_REVISION_H
#define CLOISTER_SUPERVISOR_MCP_WIRE_REVISION_H

#include <stdbool.h>

enum revision {
    REVISION_2024_11_05,
    REVISION_2025_03_26,
    REVISION_2025_06_18,
    REVISION_2025_11_25,
    REVISION_2026_07_28,
};
#define REVISION_COUNT         5
#define REVISION_LATEST_LEGACY REVISION_2025_11_25

/* "2025-06-18", ... */
const char *revision_name(enum revision r);

/* False if `name` is no revision that we speak. */
bool revision_parse(const char *name, enum revision *ret);

static inline bool revision_is_modern(enum revision r)
{
    return r == REVISION_2026_07_28;
}

static inline bool revision_has_batches(enum revision r)
{
    return r == REVISION_2025_03_26;
}

static inline bool revision_has_annotations(enum revision r)
{
    return r >= REVISION_2025_03_26;
}

/* notifications/progress may have a message. */
static inline bool revision_has_progress_message(enum revision r)
{
    return r >= REVISION_2025_03_26;
}

/* title, outputSchema, structuredContent */
static inline bool revision_has_structure(enum revision r)
{
    return r >= REVISION_2025_06_18;
}

/* More about a server or client: icons, a description, an address. */
static inline bool revision_has_icons(enum revision r)
{
    return r >= REVISION_2025_11_25;
}

/* Wrong tool arguments are a result that the model sees, rather than a protocol error. */
static inline bool revision_argument_errors_are_results(enum revision r)
{
    return r >= REVISION_2025_11_25;
}

/* An error whose request id is unknown has no `id`; in older revisions it is null. */
static inline bool revision_omits_unknown_id(enum revision r)
{
    return r >= REVISION_2025_11_25;
}

#endif
