/*
 * An engine cannot be asked for a mapping of ids of one mount. What it has is the number of the
 * user: where numbers inside are those of the host, code of a sandbox with a writable share runs as
 * the owner of its files. That user's other processes are out of its reach, in other namespaces.
 * The kernel counts processes by user, though, so such a sandbox is held by its control group
 * alone.
 *
 * Where the engine maps ids itself, no number is that of the owner, or it is the one of root
 * inside, which the agent needs. There no share is writable.
 *
 * Sandboxes whose shares are all read-only keep an id that nobody has, and read what everybody may.
 */
#include "worker/backend/docker/shares.h"

#include <stdio.h>
#include <unistd.h>

#include "common/alloc.h"
#include "worker/backend/share.h"

/* Why no share can be writable on this engine; NULL if one can. */
static const char *why_read_only(const struct docker_engine *engine)
{
    if (engine->rootless) {
        return "a rootless engine makes the owner of its files root inside, which code is not";
    }
    if (engine->userns) {
        return "the engine maps the ids of its containers to others (userns-remap)";
    }
    if (!engine->pids_limit || engine->cgroup_none) {
        return "this engine cannot limit processes by control group, and they would count with "
               "those of the owner";
    }
    return NULL;
}

/* Whom files belong to that code writes there: the user whose process this is, and for root the
 * owner of the directory. */
static struct docker_user owner_of(const struct stat *st)
{
    bool root = geteuid() == 0;
    return (struct docker_user){
        .given = true, .uid = root ? st->st_uid : geteuid(), .gid = root ? st->st_gid : getegid()};
}

static int take_owner(const struct backend_share *share, const struct stat *st,
                      struct docker_user *user, struct err *err)
{
    const struct docker_user owner = owner_of(st);
    if (owner.uid == 0) {
        return err_set(err, ERR_CONFIG,
                       "share %s: it cannot be writable, since code would be root of this host as "
                       "the owner of %.256s is",
                       share->name, share->host_path);
    }
    if (user->given && (user->uid != owner.uid || user->gid != owner.gid)) {
        return err_set(err, ERR_CONFIG,
                       "share %s: code has one user, and the owner of %.256s is another than that "
                       "of the other writable directories",
                       share->name, share->host_path);
    }
    *user = owner;
    return 0;
}

int docker_shares_settle(const struct backend_spec *spec, const struct docker_engine *engine,
                         struct docker_user *ret, char hint[BACKEND_HINT_MAX], struct err *err)
{
    const char *lack = why_read_only(engine);
    int rc = 0;
    *ret = (struct docker_user){.given = false};
    if (spec->share_count > 0 && spec->place.kind == PLACE_URL) {
        snprintf(hint, BACKEND_HINT_MAX,
                 "use an engine of this host by its socket, or start the server without --share");
        return err_set(err, ERR_CONFIG,
                       "shares: the engine at %.200s may be on another host, which does not have "
                       "the directories of this one",
                       spec->place.address);
    }
    for (size_t i = 0; rc == 0 && i < spec->share_count; i++) {
        const struct backend_share *share = &spec->shares[i];
        struct stat st;
        rc = share_check(share, &st, err);
        if (rc == 0 && share->writable && lack != NULL) {
            rc = err_set(err, ERR_CONFIG, "share %s: it cannot be writable: %s", share->name, lack);
        } else if (rc == 0 && share->writable) {
            rc = take_owner(share, &st, ret, err);
        }
    }
    if (rc < 0) {
        snprintf(hint, BACKEND_HINT_MAX, "%s; --backend oci maps ids where this host can",
                 SHARE_HINT);
    }
    return rc;
}

struct docker_user docker_shares_user(const struct backend_spec *spec)
{
    for (size_t i = 0; i < spec->share_count; i++) {
        struct stat st;
        struct err err;
        if (spec->shares[i].writable && share_check(&spec->shares[i], &st, &err) == 0) {
            return owner_of(&st);
        }
    }
    return (struct docker_user){.given = false};
}

size_t docker_shares_note(const struct backend_spec *spec, const struct docker_user *user,
                          size_t count, char *texts[BACKEND_UNAPPLIED_MAX])
{
    for (size_t i = 0; i < spec->share_count && count < BACKEND_UNAPPLIED_MAX; i++) {
        const struct backend_share *share = &spec->shares[i];
        struct stat st;
        struct err err;
        if (share_check(share, &st, &err) < 0 || share_is_open(&st) ||
            (user->given && user->uid == st.st_uid)) {
            continue;
        }
        texts[count++] = alloc_printf("share %s: code cannot read it, as its mode lets only its "
                                      "owner in (chmod o+rx)",
                                      share->name);
    }
    return count;
}
