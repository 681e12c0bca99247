/*
 * A look-up occupies one of libuv's few threads for as long as name servers are silent. So there is
 * one at a time for each name, and names are those of rules: however often a program asks, it
 * occupies no more.
 */
#include "worker/door/lookup.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/alloc.h"

struct door_lookup {
    struct door_lookup *next;
    struct door_lookups *all; /* NULL: nobody wants it any more */
    struct authority name;
    struct door_asker *askers;
    uv_getaddrinfo_t request;
};

void door_lookups_init(struct door_lookups *all, uv_loop_t *loop, door_resolve_fn resolve)
{
    *all = (struct door_lookups){.loop = loop, .resolve = resolve};
}

static void unlink_lookup(struct door_lookup *l)
{
    struct door_lookup **at = &l->all->first;
    while (*at != l) {
        at = &(*at)->next;
    }
    *at = l->next;
}

static void on_looked_up(uv_getaddrinfo_t *request, int status, struct addrinfo *found)
{
    struct door_lookup *l = request->data;
    if (l->all != NULL) {
        unlink_lookup(l);
    }
    while (l->askers != NULL) { /* one may make another one leave */
        struct door_asker *asker = l->askers;
        l->askers = asker->next;
        asker->lookup = NULL;
        asker->done(asker->arg, status, found);
    }
    uv_freeaddrinfo(found);
    free(l);
}

int door_lookups_ask(struct door_lookups *all, const struct authority *name,
                     struct door_asker *asker, door_found_fn done, void *arg)
{
    struct door_lookup *l = all->first;
    while (l != NULL && !authority_same(&l->name, name)) {
        l = l->next;
    }
    if (l == NULL) {
        struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
        char port[8];
        hints.ai_flags = name->is_address ? AI_NUMERICHOST : 0;
        snprintf(port, sizeof(port), "%u", (unsigned)name->port);
        l = alloc_one(struct door_lookup);
        l->name = *name;
        l->request.data = l;
        int rc = all->resolve(all->loop, &l->request, on_looked_up, name->host, port, &hints);
        if (rc < 0) {
            free(l);
            return rc;
        }
        l->all = all;
        l->next = all->first;
        all->first = l;
    }
    *asker = (struct door_asker){.next = l->askers, .lookup = l, .done = done, .arg = arg};
    l->askers = asker;
    return 0;
}

void door_asker_leave(struct door_asker *asker)
{
    if (asker->lookup == NULL) {
        return;
    }
    struct door_asker **at = &asker->lookup->askers;
    while (*at != asker) {
        at = &(*at)->next;
    }
    *at = asker->next;
    asker->lookup = NULL;
}

void door_lookups_finish(struct door_lookups *all)
{
    while (all->first != NULL) {
        struct door_lookup *l = all->first;
        assert(l->askers == NULL && "whoever waits leaves first");
        all->first = l->next;
        l->all = NULL;
        (void)uv_cancel((uv_req_t *)&l->request); /* if its turn has not come yet */
    }
}
