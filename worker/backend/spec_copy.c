/*
 * A spec is borrowed during a call, but most operations go on after the call. The copy is also
 * normalised, so that no later code has to handle NULL strings or limits of zero.
 */
#include "worker/backend/spec_copy.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"

#define ID_MAX 48

struct backend_limits spec_copy_limits(const struct backend_limits *asked)
{
    struct backend_limits out = *asked;
    out.memory_bytes = out.memory_bytes != 0 ? out.memory_bytes : (uint64_t)512 << 20;
    out.cpu_milli = out.cpu_milli != 0 ? out.cpu_milli : 1000;
    out.pids = out.pids != 0 ? out.pids : 256;
    out.disk_bytes = out.disk_bytes != 0 ? out.disk_bytes : (uint64_t)256 << 20;
    out.files = out.files != 0 ? out.files : 1024;
    return out;
}

static bool is_id(const char *id)
{
    size_t len = id != NULL ? strlen(id) : 0;
    return len > 0 && len <= ID_MAX && strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789-") == len &&
           id[0] != '-';
}

static const char *dup_or_empty(const char *text)
{
    return alloc_strdup(text != NULL ? text : "");
}

int spec_copy_init(struct spec_copy *r, const struct backend_spec *spec, struct err *err)
{
    memset(r, 0, sizeof(*r));
    if (!is_id(spec->id)) {
        return err_set(err, ERR_INVALID, "sandbox id \"%.64s\" is not [a-z0-9]+",
                       spec->id != NULL ? spec->id : "");
    }
    if (spec->dir == NULL || spec->dir[0] != '/') {
        return err_set(err, ERR_INVALID, "the sandbox's directory must be an absolute path");
    }
    r->spec = *spec;
    r->spec.id = dup_or_empty(spec->id);
    r->spec.dir = dup_or_empty(spec->dir);
    r->spec.shared_dir = dup_or_empty(spec->shared_dir);
    r->spec.agent_path = dup_or_empty(spec->agent_path);
    r->spec.place = place_copy(&spec->place);
    r->spec.runtime = dup_or_empty(spec->runtime);
    r->spec.image = dup_or_empty(spec->image);
    r->spec.io_device = dup_or_empty(spec->io_device);
    r->spec.limits = spec_copy_limits(&spec->limits);
    r->env = alloc_array(spec->env.count, sizeof(*r->env));
    for (size_t i = 0; i < spec->env.count; i++) {
        r->env[i] = view_bytes(alloc_viewdup(spec->env.items[i]), spec->env.items[i].len);
    }
    r->spec.env = (struct view_list){r->env, spec->env.count};
    r->spec.packages = dup_or_empty(spec->packages);
    for (size_t i = 0; i < spec->mount_count; i++) {
        r->spec.mounts[i].host_path = alloc_strdup(spec->mounts[i].host_path);
        r->spec.mounts[i].inside_path = alloc_strdup(spec->mounts[i].inside_path);
    }
    for (size_t i = 0; i < spec->share_count; i++) {
        r->spec.shares[i].host_path = alloc_strdup(spec->shares[i].host_path);
        r->spec.shares[i].name = alloc_strdup(spec->shares[i].name);
    }
    return 0;
}

void spec_copy_finish(struct spec_copy *r)
{
    const char *const strings[] = {r->spec.id,         r->spec.dir,      r->spec.shared_dir,
                                   r->spec.agent_path, r->spec.runtime,  r->spec.image,
                                   r->spec.packages,   r->spec.io_device};
    for (size_t i = 0; i < sizeof(strings) / sizeof(strings[0]); i++) {
        free((char *)(uintptr_t)strings[i]); /* ours, see spec_copy_init() */
    }
    place_finish(&r->spec.place);
    for (size_t i = 0; i < r->spec.env.count; i++) {
        free((char *)(uintptr_t)r->env[i].data);
    }
    for (size_t i = 0; i < r->spec.mount_count; i++) {
        free((char *)(uintptr_t)r->spec.mounts[i].host_path);
        free((char *)(uintptr_t)r->spec.mounts[i].inside_path);
    }
    for (size_t i = 0; i < r->spec.share_count; i++) {
        free((char *)(uintptr_t)r->spec.shares[i].host_path);
        free((char *)(uintptr_t)r->spec.shares[i].name);
    }
    free(r->env);
    memset(r, 0, sizeof(*r));
}
