/*
 * A list in the order of use, searched from its front: nearly all sandboxes of a server have one of
 * a few images, and a search costs nothing beside a creation.
 */
#include "supervisor/fleet/engine/spoken.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"

/* s->count if absent. */
static size_t find_spoken(const struct spoken *s, const char *key)
{
    size_t i = 0;
    while (i < s->count && strcmp(s->images[i], key) != 0) {
        i++;
    }
    return i;
}

void spoken_note(struct spoken *s, const char *backend, const char *image)
{
    char *key = alloc_printf("%s %s", backend, image);
    size_t at = find_spoken(s, key);
    if (at == s->count && s->count < SPOKEN_MAX) {
        s->count++;
    } else {
        at = at == s->count ? at - 1 : at;
        free(s->images[at]);
    }
    memmove(&s->images[1], &s->images[0], at * sizeof(s->images[0]));
    s->images[0] = key;
}

bool spoken_has(const struct spoken *s, const char *backend, const char *image)
{
    CLEANUP_FREE char *key = alloc_printf("%s %s", backend, image);
    return find_spoken(s, key) < s->count;
}

void spoken_finish(struct spoken *s)
{
    while (s->count > 0) {
        free(s->images[--s->count]);
    }
}
