/*
 * Whether there may be one more sandbox. Names are unique, and nobody gets more than the ceilings
 * of one sandbox. Number and memory of all sandboxes have a limit, and those of each owner: his
 * own, whatever others have, or without one a share that leaves something for others, if there may
 * be others. A failed sandbox does not count, but is kept as a tombstone, so that its owner learns
 * why; tombstones have a limit, too. If there is no room, idle sandboxes that nobody asked for
 * explicitly are evicted, as many as it takes.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/room.h"
#include "common/str.h"
#include "supervisor/base/ceilings.h"
#include "supervisor/base/config.h"
#include "supervisor/base/fair.h"
#include "supervisor/fleet/internal.h"
#include "supervisor/fleet/sandbox/sandbox.h"

int fleet_admit_owner(const char *owner, struct err *err)
{
    size_t len = strlen(owner);
    if (len > LIMIT_TEXT || !utf8_valid(owner, len)) {
        return err_set(err, ERR_INVALID, "owner: at most %d bytes of UTF-8 expected", LIMIT_TEXT);
    }
    return 0;
}

static int check_name(struct fleet *f, const char *owner, const char *name, struct err *err)
{
    size_t len = strlen(name);
    if (len > LIMIT_NAME || !utf8_valid(name, len)) {
        return err_set(err, ERR_INVALID, "name: at most %d bytes of UTF-8 expected", LIMIT_NAME);
    }
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)name[i] < 0x20 || name[i] == 0x7f) {
            return err_set(err, ERR_INVALID, "name: no control characters expected");
        }
    }
    struct sandbox *holder = fleet_find_name(f, owner, name);
    if (holder != NULL && sandbox_state(holder) == SANDBOX_FAILED) {
        sandbox_close(holder, "its name is used again", NULL, NULL);
    } else if (holder != NULL) {
        return err_set(err, ERR_INVALID, "name: there is a sandbox called \"%s\" already", name);
    }
    return 0;
}

/* Whether it counts against the limits: a failed one does not, nor one that is only being cleaned
 * up, nor an evicted one. Installers have a limit of their own. */
static bool takes_room(const struct sandbox *s)
{
    return !sandbox_is_installer(s) && sandbox_state(s) != SANDBOX_FAILED && !s->evicted &&
           !(sandbox_state(s) >= SANDBOX_CLOSING && s->made.state == MADE_DESTROYED);
}

/* Those of the pool give way, so they are in nobody's way. */
static bool counts(const struct sandbox *s)
{
    return takes_room(s) && !sandbox_is_entry(s);
}

/* Whether it may be evicted. */
static bool is_spare(const struct sandbox *s)
{
    return counts(s) && sandbox_state(s) == SANDBOX_READY && s->evict_idle_ms != 0 &&
           sandbox_idle_ms(s) >= s->evict_idle_ms;
}

/* A sandbox that is wanted, and what there would be beside it. */
struct wish {
    const struct fleet_spec *spec;
    const char *owner;
    uint64_t memory_mb;
    uint64_t count, used_mb; /* of all others */
    uint64_t own_count, own_mb;
    uint64_t spare_mb; /* of the same owner's that would be evicted */
};

static bool is_own(const struct wish *w, const struct sandbox *s)
{
    return strcmp(s->owner, w->owner) == 0;
}

static uint64_t memory_of(const struct sandbox *s)
{
    return s->spec.memory_bytes >> 20;
}

static void count_in(struct wish *w, const struct sandbox *s)
{
    w->count++;
    w->used_mb += memory_of(s);
    if (is_own(w, s)) {
        w->own_count++;
        w->own_mb += memory_of(s);
    }
}

/* `evict`: as if all were evicted that may be. */
static struct wish weigh(struct fleet *f, const char *owner, const struct fleet_spec *spec,
                         bool evict)
{
    struct sandbox *s;
    struct wish w = {.spec = spec, .owner = owner};
    w.memory_mb = spec->memory_mb != 0 ? spec->memory_mb : f->host.config->memory_mb;
    TAILQ_FOREACH(s, &f->sandboxes, node)
    {
        if (evict && is_spare(s)) {
            w.spare_mb += is_own(&w, s) ? memory_of(s) : 0;
        } else if (counts(s)) {
            count_in(&w, s);
        }
    }
    return w;
}

/* The limits of all sandboxes together. */
static int check_limit(const struct config *c, const struct wish *w, struct err *err,
                       const char **ret_hint)
{
    if (w->count >= c->max_sandboxes) {
        *ret_hint = "close a sandbox that is not needed any more, or raise --max-sandboxes";
        return err_set(err, ERR_SANDBOX_LIMIT,
                       "there are %" PRIu64 " sandboxes already, the most allowed", w->count);
    }
    if (w->used_mb + w->memory_mb > c->memory_budget_mb) {
        *ret_hint = "choose a smaller memory_mb, or close a sandbox that is not needed any more; "
                    "the server's operator can raise --memory-budget-mb";
        return err_set(err, ERR_SANDBOX_LIMIT,
                       "all sandboxes may have %" PRIu64 " MiB of memory together "
                       "(--memory-budget-mb): they have %" PRIu64 " MiB, and this one would have "
                       "%" PRIu64 " MiB",
                       c->memory_budget_mb, w->used_mb, w->memory_mb);
    }
    return 0;
}

/* Checks the owner's own limits, which reveal nothing about others. Those that are no less than the
 * server's are left to check_limit(), which names the option. */
static int check_quota(const struct config *c, const struct wish *w, struct err *err,
                       const char **ret_hint)
{
    const struct fleet_spec *spec = w->spec;
    if (spec->owner_sandboxes != 0 && spec->owner_sandboxes < c->max_sandboxes &&
        w->own_count >= spec->owner_sandboxes) {
        *ret_hint = "close one of your sandboxes that is not needed any more with close_sandbox";
        return err_set(err, ERR_SANDBOX_LIMIT,
                       "you have %" PRIu64 " sandboxes, and may have %" PRIu64 " at a time",
                       w->own_count, spec->owner_sandboxes);
    }
    if (spec->owner_memory_mb != 0 && spec->owner_memory_mb < c->memory_budget_mb &&
        w->own_mb + w->memory_mb > spec->owner_memory_mb) {
        *ret_hint = "choose a smaller memory_mb, or close one of your sandboxes that is not needed "
                    "any more with close_sandbox";
        return err_set(err, ERR_SANDBOX_LIMIT,
                       "your sandboxes may have %" PRIu64 " MiB of memory together: they have "
                       "%" PRIu64 " MiB, and this one would have %" PRIu64 " MiB",
                       spec->owner_memory_mb, w->own_mb, w->memory_mb);
    }
    return 0;
}

/* Checks that enough stays for others, where the owner has no limits of his own. His first sandbox
 * takes any place that is free, with as much memory as one gets that asks for nothing. One that
 * takes the place of another of his own takes nothing from anybody. */
static int check_share(const struct config *c, const struct wish *w, struct err *err,
                       const char **ret_hint)
{
    bool first = w->own_count == 0;
    if (w->spec->owner_sandboxes == 0 && !first && w->spare_mb == 0 &&
        !fair_may_take(c->max_sandboxes, w->count, w->own_count, 1)) {
        *ret_hint = "close one of your sandboxes that is not needed any more with close_sandbox; "
                    "the server's operator can give you a number of your own, by "
                    "--principal-sandboxes or in the file of tokens";
        return err_set(err, ERR_SANDBOX_LIMIT,
                       "you have %" PRIu64 " sandboxes, and %" PRIu64 " of %" PRIu64
                       " places are free: these stay for others",
                       w->own_count, c->max_sandboxes - w->count, c->max_sandboxes);
    }
    if (w->spec->owner_memory_mb == 0 && !(first && w->memory_mb <= c->memory_mb) &&
        w->memory_mb > w->spare_mb &&
        !fair_may_take(c->memory_budget_mb, w->used_mb, w->own_mb, w->memory_mb)) {
        *ret_hint = "choose a smaller memory_mb, or close one of your sandboxes that is not needed "
                    "any more with close_sandbox; the server's operator can give you memory of "
                    "your own, by --principal-memory-mb or in the file of tokens";
        return err_set(err, ERR_SANDBOX_LIMIT,
                       "your sandboxes have %" PRIu64 " MiB of memory, this one would have %" PRIu64
                       " MiB, and %" PRIu64 " of %" PRIu64
                       " MiB are free: as much as you have must stay for others",
                       w->own_mb, w->memory_mb, c->memory_budget_mb - w->used_mb,
                       c->memory_budget_mb);
    }
    return 0;
}

static int check_places(const struct fleet *f, const struct wish *w, struct err *err,
                        const char **ret_hint)
{
    const struct config *c = f->host.config;
    int rc = check_quota(c, w, err, ret_hint);
    if (rc == 0) {
        rc = check_limit(c, w, err, ret_hint);
    }
    return rc == 0 && f->shared ? check_share(c, w, err, ret_hint) : rc;
}

/* A sandbox that may be evicted. */
struct spare {
    struct sandbox *sandbox;
    uint64_t idle_ms;
    bool own; /* it belongs to the owner of the one that is wanted */
};

static int compare_spares(const void *a, const void *b)
{
    const struct spare *x = a;
    const struct spare *y = b;
    if (x->own != y->own) {
        return x->own ? -1 : 1;
    }
    return x->idle_ms != y->idle_ms ? (x->idle_ms > y->idle_ms ? -1 : 1) : 0;
}

/* Returns them in the order in which they are evicted: the owner's own before those of others, and
 * of both first what has been idle for longest. The caller frees the array. */
static struct spare *find_spares(struct fleet *f, const struct wish *w, size_t *ret_count)
{
    struct sandbox *s;
    size_t count = 0;
    TAILQ_FOREACH(s, &f->sandboxes, node)
    {
        count += is_spare(s) ? 1 : 0;
    }
    struct spare *spares = alloc_array(count, sizeof(*spares));
    count = 0;
    TAILQ_FOREACH(s, &f->sandboxes, node)
    {
        if (is_spare(s)) {
            spares[count++] = (struct spare){s, sandbox_idle_ms(s), is_own(w, s)};
        }
    }
    qsort(spares, count, sizeof(*spares), compare_spares);
    *ret_count = count;
    return spares;
}

/* Evicts as few as it takes, or none and returns false if all would not be enough. Beginning with
 * the last in the order, whichever is not needed beside those before it stays. */
static bool evict_for(struct fleet *f, const char *owner, const struct fleet_spec *spec)
{
    const char *hint;
    struct wish w = weigh(f, owner, spec, true);
    if (check_places(f, &w, NULL, &hint) < 0) {
        return false;
    }
    size_t count;
    struct spare *spares = find_spares(f, &w, &count);
    for (size_t i = count; i-- > 0;) {
        struct sandbox *s = spares[i].sandbox;
        struct wish with = w;
        count_in(&with, s);
        with.spare_mb -= spares[i].own ? memory_of(s) : 0;
        if (check_places(f, &with, NULL, &hint) == 0) {
            w = with;
        } else {
            s->evicted = true;
            sandbox_close(s, "it was idle, and another one needed its place", NULL, NULL);
        }
    }
    free(spares);
    return true;
}

/* Checks the limits. If they are exceeded, evicts sandboxes, provided that this is enough. */
static int take_place(struct fleet *f, const char *owner, const struct fleet_spec *spec,
                      struct err *err, const char **ret_hint)
{
    const struct wish w = weigh(f, owner, spec, false);
    int rc = check_places(f, &w, err, ret_hint);
    if (rc < 0 && evict_for(f, owner, spec)) {
        *ret_hint = "";
        rc = 0;
    }
    return rc;
}

/* Checks the size of the workspace: its files are in the sandbox's memory. */
static int check_room(const struct config *c, const struct fleet_spec *spec, struct err *err,
                      const char **ret_hint)
{
    uint64_t memory_mb = spec->memory_mb != 0 ? spec->memory_mb : c->memory_mb;
    uint64_t most_mb = room_disk_max(memory_mb << 20) >> 20;
    if (spec->disk_mb <= most_mb) {
        return 0;
    }
    *ret_hint = "choose a smaller disk_mb or a larger memory_mb; without disk_mb there is as much "
                "space as fits";
    return err_set(err, ERR_INVALID,
                   "disk_mb %" PRIu64 " leaves no room for programs in memory_mb %" PRIu64
                   ", as files are kept in memory: at most %" PRIu64 " fits there, or it takes "
                   "memory_mb %" PRIu64,
                   spec->disk_mb, memory_mb, most_mb, room_memory_min(spec->disk_mb << 20) >> 20);
}

static int check_ceilings(const struct config *c, const struct fleet_spec *spec, struct err *err,
                          const char **ret_hint)
{
    const struct ceilings_asked asked = {
        .memory_mb = (double)spec->memory_mb,
        .cpus = spec->cpus,
        .pids = (double)spec->pids,
        .disk_mb = (double)spec->disk_mb,
    };
    *ret_hint = "ask for no more than that, or leave it out for the default";
    return ceilings_check(c, &asked, err);
}

int fleet_admit(struct fleet *f, const char *owner, const struct fleet_spec *spec, struct err *err,
                const char **ret_hint)
{
    int rc = spec->name != NULL ? check_name(f, owner, spec->name, err) : 0;
    if (rc < 0) {
        *ret_hint = "use the sandbox of that name, or choose another name";
        return rc;
    }
    if (spec->installs_for != NULL) {
        return 0;
    }
    rc = check_ceilings(f->host.config, spec, err, ret_hint);
    if (rc == 0) {
        *ret_hint = "";
        rc = check_room(f->host.config, spec, err, ret_hint);
    }
    return rc < 0 ? rc : take_place(f, owner, spec, err, ret_hint);
}

bool fleet_has_room(const struct fleet *f, uint64_t more_mb)
{
    const struct config *c = f->host.config;
    const struct sandbox *s;
    uint64_t count = more_mb > 0 ? 1 : 0;
    uint64_t used_mb = more_mb;
    TAILQ_FOREACH(s, &f->sandboxes, node)
    {
        count += takes_room(s) ? 1 : 0;
        used_mb += takes_room(s) ? memory_of(s) : 0;
    }
    return count <= c->max_sandboxes && used_mb <= c->memory_budget_mb;
}

void fleet_bound_tombstones(struct fleet *f)
{
    struct sandbox *s;
    struct sandbox *oldest = NULL;
    uint64_t count = 0;
    TAILQ_FOREACH(s, &f->sandboxes, node)
    {
        if (sandbox_state(s) == SANDBOX_FAILED) {
            oldest = oldest != NULL ? oldest : s;
            count++;
        }
    }
    if (oldest != NULL && count >= f->host.config->max_sandboxes) {
        sandbox_close(oldest, "failed long ago", NULL, NULL);
    }
}
