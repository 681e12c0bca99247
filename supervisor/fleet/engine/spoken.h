/*
 * Which images have had languages: a sandbox of such an image that comes up without any is broken.
 * Bounded: of more than SPOKEN_MAX images the one that was noted longest ago is forgotten.
 * Thread: whoever owns it. Nothing blocks.
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

/* A sandbox of this image, named as its worker names what it really is, has languages. */
void spoken_note(struct spoken *s, const char *backend, const char *image);

/* That has been noted, and not forgotten. */
bool spoken_has(const struct spoken *s, const char *backend, const char *image);

/* Frees what it owns. */
void spoken_finish(struct spoken *s);

#endif
