/*
 * The supervisor chooses what a sandbox can reach, partly from texts of clients. It is checked
 * again here, because a backend turns it into mounts: the name of a sandbox becomes part of a path,
 * and a relative path or one with ".." would lead elsewhere.
 */
#include "worker/spec.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/backends.h"
#include "common/cleanup.h"
#include "common/str.h"
#include "proto/place.h"

static bool is_sandbox_id(struct view text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i];
        if ((c < 'a' || c > 'z') && (c < '0' || c > '9')) {
            return false;
        }
    }
    return true;
}

/* Absolute, and no part of it is "..". */
static bool is_path(struct view text)
{
    if (text.len < 2 || text.data[0] != '/' || text.len > LIMIT_PATH ||
        memchr(text.data, '\0', text.len) != NULL) {
        return false;
    }
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] == '/' && text.len - i >= 3 && memcmp(&text.data[i], "/..", 3) == 0 &&
            (text.len - i == 3 || text.data[i + 3] == '/')) {
            return false;
        }
    }
    return true;
}

/* What the row says that sandboxes cannot have is not left to the backend to overlook. */
static int check_abilities(const struct msg_open *m, struct err *err)
{
    CLEANUP_FREE char *name = alloc_viewdup(m->backend);
    const struct backend_row *row = backend_row_find(name);
    if (row != NULL && m->network == NET_FULL && !backend_row_has_network(row)) {
        return err_set(err, ERR_INVALID, "sandboxes of %s have no network", name);
    }
    if (row != NULL && m->shares.count > 0 && !backend_row_has_shares(row)) {
        return err_set(err, ERR_INVALID, "sandboxes of %s see no directory of this host", name);
    }
    if (row != NULL && m->packages.len > 0 && !backend_row_has_packages(row)) {
        return err_set(err, ERR_INVALID, "sandboxes of %s have no packages", name);
    }
    return 0;
}

_Static_assert(LIMIT_SHARES <= BACKEND_SHARES_MAX, "a spec has room for all");

static int check_shares(const struct view_list *shares, struct err *err)
{
    if (shares->count % 3 != 0 || shares->count / 3 > LIMIT_SHARES) {
        return err_set(err, ERR_INVALID, "shares: at most %d, three texts each", LIMIT_SHARES);
    }
    for (size_t i = 0; i < shares->count; i += 3) {
        const struct view *share = &shares->items[i];
        if (!is_path(share[0]) || !backend_is_share_name(share[1]) ||
            (!view_is(share[2], "ro") && !view_is(share[2], "rw"))) {
            return err_set(err, ERR_INVALID, "shares: \"%.*s\" as \"%.*s\" cannot be shown",
                           VIEW_ARG(share[0]), VIEW_ARG(share[1]));
        }
    }
    return 0;
}

static int check_reach(const struct msg_open *m, struct err *err)
{
    if (m->network > NET_DOOR) {
        return err_set(err, ERR_INVALID, "there is no network of kind %u", (unsigned)m->network);
    }
    if (m->network != NET_DOOR && (m->door.count > 0 || m->door_proxy.len > 0)) {
        return err_set(err, ERR_INVALID, "door: this sandbox has none");
    }
    if (!is_sandbox_id(m->packages)) {
        return err_set(err, ERR_INVALID, "packages: \"%.*s\" is no sandbox", VIEW_ARG(m->packages));
    }
    if (m->packages_write && m->packages.len == 0) {
        return err_set(err, ERR_INVALID, "packages: an installer needs a sandbox to install for");
    }
    if (m->mounts.count % 2 != 0 || m->mounts.count / 2 > BACKEND_MOUNTS_MAX) {
        return err_set(err, ERR_INVALID, "mounts: at most %d pairs of paths", BACKEND_MOUNTS_MAX);
    }
    for (size_t i = 0; i < m->mounts.count; i++) {
        if (!is_path(m->mounts.items[i])) {
            return err_set(err, ERR_INVALID, "mounts: \"%.*s\" is no absolute path",
                           VIEW_ARG(m->mounts.items[i]));
        }
    }
    return check_shares(&m->shares, err);
}

int spec_take_place(struct backend_spec *spec, struct view backend, struct view_list place,
                    struct err *err)
{
    CLEANUP_FREE char *name = alloc_viewdup(backend);
    const struct backend_row *row = backend_row_find(name);
    if (place.count > 0 && row != NULL && !row->has_engine) {
        return err_set(err, ERR_INVALID, "the backend %s has no engine that could be anywhere",
                       name);
    }
    return place_decode(place, &spec->place, err);
}

static uint64_t hash_list(struct view_list list)
{
    uint64_t hash = list.count;
    for (size_t i = 0; i < list.count; i++) {
        hash = hash * UINT64_C(1099511628211) ^ hash_bytes(list.items[i].data, list.items[i].len);
    }
    return hash;
}

int spec_take(struct backend_spec *spec, const struct msg_open *m, struct err *err)
{
    int rc = check_reach(m, err);
    if (rc == 0) {
        rc = check_abilities(m, err);
    }
    if (rc == 0) {
        rc = spec_take_place(spec, m->backend, m->place, err);
    }
    if (rc < 0) {
        return rc;
    }
    struct view *env = alloc_array(m->env.count + 1, sizeof(*env));
    for (size_t i = 0; i < m->env.count; i++) {
        env[i] = view_bytes(alloc_viewdup(m->env.items[i]), m->env.items[i].len);
    }
    spec->runtime = alloc_viewdup(m->runtime);
    spec->mode = m->mode;
    spec->image = alloc_viewdup(m->image);
    spec->limits.memory_bytes = m->memory_bytes;
    spec->limits.cpu_milli = m->cpu_milli;
    spec->limits.pids = m->pids;
    spec->limits.disk_bytes = m->disk_bytes;
    spec->limits.files = m->files;
    spec->limits.io_read_bytes = m->io_read_bytes;
    spec->limits.io_write_bytes = m->io_write_bytes;
    spec->limits.io_ops = m->io_ops;
    spec->io_device = alloc_viewdup(m->io_device);
    spec->env.items = env;
    spec->env.count = m->env.count;
    spec->grace_ms = m->grace_ms > 0 ? m->grace_ms : TIME_GRACE_MS;
    spec->lifetime_s = m->lifetime_s;
    spec->told = hash_list(m->runners);
    spec->claim = m->claim;
    spec->strict = m->strict;
    spec->pull = m->pull;
    spec->network = m->network == NET_FULL;
    spec->door = m->network == NET_DOOR;
    spec->packages = alloc_viewdup(m->packages);
    spec->packages_write = m->packages_write;
    spec->packages_bytes = m->packages_bytes;
    spec->app_dir = m->app_dir;
    spec->mount_count = m->mounts.count / 2;
    for (size_t i = 0; i < spec->mount_count; i++) {
        spec->mounts[i].host_path = alloc_viewdup(m->mounts.items[2 * i]);
        spec->mounts[i].inside_path = alloc_viewdup(m->mounts.items[2 * i + 1]);
    }
    spec->share_count = m->shares.count / 3;
    for (size_t i = 0; i < spec->share_count; i++) {
        const struct view *share = &m->shares.items[3 * i];
        spec->shares[i].host_path = alloc_viewdup(share[0]);
        spec->shares[i].name = alloc_viewdup(share[1]);
        spec->shares[i].writable = view_is(share[2], "rw");
    }
    return 0;
}

static void drop_text(const char *text)
{
    free((char *)(uintptr_t)text); /* ours, see spec_take() */
}

void spec_drop(struct backend_spec *spec)
{
    for (size_t i = 0; i < spec->env.count; i++) {
        drop_text(spec->env.items[i].data);
    }
    free((void *)(uintptr_t)spec->env.items);
    place_finish(&spec->place);
    drop_text(spec->runtime);
    drop_text(spec->image);
    drop_text(spec->io_device);
    drop_text(spec->packages);
    for (size_t i = 0; i < spec->mount_count; i++) {
        drop_text(spec->mounts[i].host_path);
        drop_text(spec->mounts[i].inside_path);
    }
    for (size_t i = 0; i < spec->share_count; i++) {
        drop_text(spec->shares[i].host_path);
        drop_text(spec->shares[i].name);
    }
}
