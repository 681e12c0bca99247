/*
 * One entry for each principal with calls, made with the first call and freed after the last. An
 * entry whose sandbox is being opened stays until the fleet has called back. Calls that come before
 * that share it, so a principal's first calls never open two sandboxes.
 */
#include "supervisor/front/owners.h"

#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "common/alloc.h"
#include "supervisor/base/principal.h"
#include "supervisor/tools/tool.h"

struct owner {
    struct tool_session tools; /* first, since the fleet's callbacks lead to it */
    LIST_ENTRY(owner) node;
    struct principal *principal;
    size_t holds;
};

struct owners {
    LIST_HEAD(, owner) list;
    struct fleet *fleet;
    const struct config *config;
    const struct tool_services *services;
};

struct owners *owners_create(struct fleet *fleet, const struct config *config,
                             const struct tool_services *services)
{
    struct owners *o = alloc_one(struct owners);
    LIST_INIT(&o->list);
    o->fleet = fleet;
    o->config = config;
    o->services = services;
    return o;
}

static void owner_free(struct tool_session *tools)
{
    struct owner *owner = (struct owner *)tools;
    LIST_REMOVE(owner, node);
    principal_release(owner->principal);
    free(owner);
}

void owners_destroy(struct owners *o)
{
    while (o != NULL && !LIST_EMPTY(&o->list)) {
        owner_free(&LIST_FIRST(&o->list)->tools);
    }
    free(o);
}

struct tool_session *owners_hold(struct owners *o, struct principal *principal)
{
    struct owner *owner;
    LIST_FOREACH(owner, &o->list, node)
    {
        if (strcmp(owner->principal->name, principal->name) == 0) {
            tool_session_revive(&owner->tools);
            owner->holds++;
            return &owner->tools;
        }
    }
    owner = alloc_one(struct owner);
    owner->principal = principal_hold(principal);
    owner->holds = 1;
    tool_session_init(&owner->tools, o->fleet, o->config, o->services, principal,
                      TOOL_DEFAULT_OWNER);
    LIST_INSERT_HEAD(&o->list, owner, node);
    return &owner->tools;
}

void owners_let_go(struct tool_session *shared)
{
    struct owner *owner = (struct owner *)shared;
    if (--owner->holds == 0) {
        tool_session_end(shared, owner_free);
    }
}
