/*
 * A principal lives as long as anything refers to it: when its token is removed from the file, its
 * sessions, which are being ended, still need its name.
 */
#include "supervisor/base/principal.h"

#include <stdlib.h>

#include "common/alloc.h"
#include "common/str.h"

/* Names are the operator's or an issuer's, so nobody chooses them to collide. */
static uint64_t number_of(const char *name)
{
    uint64_t number = hash_text(name);
    return number != 0 ? number : 1;
}

struct principal *principal_create(const char *name, const struct principal_limits *limits)
{
    struct principal *p = alloc_one(struct principal);
    p->name = alloc_strdup(name);
    p->number = number_of(name);
    p->limits = *limits;
    p->refs = 1;
    return p;
}

struct principal *principal_hold(struct principal *p)
{
    p->refs++;
    return p;
}

void principal_release(struct principal *p)
{
    if (p != NULL && --p->refs == 0) {
        free(p->name);
        free(p);
    }
}
