/*
 * What is asked for, as the worker is told and as the sandbox keeps it: a caller's choices, and the
 * configuration where he has none. What that means on a backend is settled when one is chosen
 * (sandbox.c).
 */
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/clock.h"
#include "supervisor/base/config.h"
#include "supervisor/base/share.h"
#include "supervisor/fleet/sandbox/sandbox.h"

#define LEASES_OF_GRACE 4

static bool asks_for_share(const struct fleet_spec *spec, struct view name)
{
    for (size_t i = 0; i < spec->shares.count; i++) {
        if (view_same(spec->shares.items[i], name)) {
            return true;
        }
    }
    return false;
}

/* The operator's directories that every sandbox sees, and those that this one asks for. An
 * installer runs code of packages, and sees none. */
static struct view_list shares_for(const struct config *c, const struct fleet_spec *spec)
{
    struct shares shares = shares_of(c->share);
    struct view texts[3 * LIMIT_SHARES];
    size_t count = 0;
    for (size_t i = 0; spec->installs_for == NULL && i < shares.count; i++) {
        const struct share *share = &shares.of[i];
        if (!share->on_request || asks_for_share(spec, share->name)) {
            texts[count++] = share->dir;
            texts[count++] = share->name;
            texts[count++] = view_of(share->writable ? "rw" : "ro");
        }
    }
    return alloc_listdup((struct view_list){texts, count});
}

static struct view copy_or_none(const char *text)
{
    return view_of(alloc_strdup(text != NULL ? text : ""));
}

/* What it can reach: network, packages, files of this host. An installer writes another sandbox's
 * packages; every other sandbox has a directory for its own, since packages may be wanted later. */
static void copy_reach(struct sandbox *s, const struct fleet_spec *spec)
{
    bool installer = spec->installs_for != NULL;
    struct msg_open *o = &s->spec;
    o->network = installer ? NET_DOOR : spec->network ? NET_FULL : NET_NONE;
    o->door = alloc_listdup(spec->door);
    o->door_proxy = copy_or_none(spec->door_proxy);
    o->door_proxy_auth = copy_or_none(spec->door_proxy_auth);
    o->packages_write = installer;
    o->app_dir = spec->app_dir;
    o->io_device = copy_or_none(s->host->config->io_device);
    const char *packages = s->host->config->packages ? s->id : "";
    o->packages = view_of(alloc_strdup(installer ? spec->installs_for : packages));
    o->packages_bytes = config_packages_bytes(s->host->config);
    s->asked.mounts = alloc_array(spec->mounts.count + 1, sizeof(s->asked.mounts[0]));
    for (size_t i = 0; i < spec->mounts.count; i++) {
        s->asked.mounts[i] =
            view_bytes(alloc_viewdup(spec->mounts.items[i]), spec->mounts.items[i].len);
    }
    o->mounts.items = s->asked.mounts;
    o->mounts.count = spec->mounts.count;
    o->shares = shares_for(s->host->config, spec);
}

void sandbox_take_limits(const struct config *c, const struct fleet_spec *spec,
                         struct msg_open *ret)
{
    struct msg_open *o = ret;
    o->memory_bytes = (spec->memory_mb != 0 ? spec->memory_mb : c->memory_mb) << 20;
    o->cpu_milli = spec->cpus > 0 ? (uint64_t)(spec->cpus * 1000.0 + 0.5) : c->cpu_milli;
    o->pids = spec->pids != 0 ? spec->pids : c->pids;
    o->disk_bytes =
        spec->disk_mb != 0 ? spec->disk_mb << 20 : config_disk_mb(c, o->memory_bytes >> 20) << 20;
    o->files = c->files;
    o->io_read_bytes = c->io_read_mbps << 20;
    o->io_write_bytes = c->io_write_mbps << 20;
    o->io_ops = c->io_iops;
}

void sandbox_take_choices(struct sandbox *s, const struct fleet_spec *spec)
{
    const struct config *c = s->host->config;
    free(s->name);
    s->name = alloc_strdup(spec->name != NULL ? spec->name : "");
    free(s->session);
    s->session = alloc_strdup(spec->session != NULL ? spec->session : "");
    s->is_default = spec->is_default;
    s->evict_idle_ms = spec->evict_idle_ms;
    s->timeout_ms = spec->timeout_ms != 0 ? spec->timeout_ms : c->timeout_s * 1000;
    s->clock.ttl_ms = spec->ttl_ms != 0 ? spec->ttl_ms : c->ttl_s * 1000;
    s->clock.lifetime_ms = c->max_lifetime_s * 1000;
    s->clock.created_ms = clock_ms();
    s->clock.created_wall_ms = clock_wall_ms();
}

void sandbox_take_spec(struct sandbox *s, const struct fleet_spec *spec)
{
    const struct config *c = s->host->config;
    const char *image = spec->image != NULL ? spec->image : c->image;
    struct msg_open *o = &s->spec;
    s->asked.image_is_reference = spec->image_is_reference;
    o->image = view_of(alloc_strdup(image != NULL ? image : ""));
    sandbox_take_limits(c, spec, o);
    /* another server needs one lease to see that this one is gone, and some time for itself */
    uint64_t grace_s = c->front_lease_s * LEASES_OF_GRACE;
    o->grace_ms = (grace_s > c->grace_s ? grace_s : c->grace_s) * 1000;
    o->lifetime_s = c->max_lifetime_s;
    o->strict = c->strict;
    o->pull = strcmp(c->pull, "missing") == 0;
    s->asked.env = alloc_array(spec->env.count + 1, sizeof(s->asked.env[0]));
    for (size_t i = 0; i < spec->env.count; i++) {
        s->asked.env[i] = view_bytes(alloc_viewdup(spec->env.items[i]), spec->env.items[i].len);
    }
    o->env.items = s->asked.env;
    o->env.count = spec->env.count;
    o->runners = s->host->runners;
    copy_reach(s, spec);
}
