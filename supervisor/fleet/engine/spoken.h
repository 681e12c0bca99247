/*
 * Images whose sandboxes have had languages: a later sandbox of such an image without any is
 * broken. A second list has those whose sandboxes have none. Bounded: of more than SPOKEN_MAX
 * images the one noted longest ago is forgotten.
 *
 * Thread: any, one owner at a time. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_FLEET_ENGINE_SPOKEN_H
#define CLOISTER_SUPERVISOR_FLEET_ENGINE_SPOKEN_H

#include <stdbool.h>
#include <stddef.h>

#define SPOKEN_MAX 64

struct spoken {
    char *images[SPOKEN_MAX]; /* "backend image"; owned; the latest first */
    size_t count;
};

/* Notes that a sandbox of this image has languages (or in the second list: has none). `image` is
 * the name that its worker reports. */
void spoken_note(struct spoken *s, const char *backend, const char *image);

/* Whether that was noted, and not forgotten. */
bool spoken_has(const struct spoken *s, const char *backend, const char *image);

/* Frees what it owns. */
void spoken_finish(struct spoken *s);

#endif
