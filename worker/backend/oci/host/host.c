/*
 * The ids for a sandbox depend on the user. Root may map all ids of its own namespace. On a plain
 * host these are all numbers, and each sandbox gets 65536 from a high, rarely used region. Inside
 * another container there may be fewer; those after the first 65536 are divided into slots. An
 * ordinary user has the ids of /etc/subuid and /etc/subgid, which newuidmap checks again; the
 * user's own id becomes root inside, and the granted ones follow from 1 on. Only the code's id is
 * another one in each sandbox, because the kernel limits processes, signals and much else by it.
 */
#include "worker/backend/oci/host/host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/cleanup.h"
#include "common/fd.h"
#include "common/kernel/apparmor.h"
#include "common/syscalls.h"
#include "worker/backend/sandbox_defaults.h"

#define SMALL_FILE_MAX (256u << 10)

/* Above the ids of people, of subordinate ranges as useradd hands them out (up to 600100000 in
 * theory, rarely above 10 million) and of systemd's containers; below the reserved top. */
#define HIGH_FIRST 0x10000000u
#define HIGH_END   0xf0000000u

#define INSIDE_USER   1000u /* the code's uid */
#define INSIDE_NEEDED (INSIDE_USER + 1)

uint64_t oci_hash(uint64_t seed, const void *data, size_t len)
{
    const unsigned char *p = data;
    uint64_t hash = seed;
    for (size_t i = 0; i < len; i++) {
        hash = (hash ^ p[i]) * 0x100000001b3u;
    }
    return hash;
}

static bool read_host_file(const char *fs_root, const char *path, struct buf *out)
{
    char full[1024];
    struct err err;
    int n = snprintf(full, sizeof(full), "%s%s", fs_root, path);
    buf_init(out, SMALL_FILE_MAX);
    return n > 0 && (size_t)n < sizeof(full) && file_read(full, out, &err) == 0 &&
           buf_cstr(out) != NULL;
}

static bool read_number(const char *fs_root, const char *path, long long *ret)
{
    CLEANUP_BUF struct buf b;
    return read_host_file(fs_root, path, &b) && sscanf(buf_cstr(&b), "%lld", ret) == 1;
}

/* The longest extent of /proc/self/uid_map, as numbers of our own namespace. */
/* A run is cut where the ids end; the last number is the invalid id. */
static void take_longer(struct oci_ids *best, unsigned first, unsigned count)
{
    if (count > UINT32_MAX - first) {
        count = UINT32_MAX - first;
    }
    if (count > best->count) {
        *best = (struct oci_ids){first, count};
    }
}

static struct oci_ids own_ids(const char *fs_root, const char *path)
{
    struct oci_ids best = {0, 0};
    CLEANUP_BUF struct buf b;
    if (!read_host_file(fs_root, path, &b)) {
        return best;
    }
    for (const char *line = buf_cstr(&b); line != NULL && *line != '\0';) {
        unsigned inside, outside, count;
        if (sscanf(line, "%u %u %u", &inside, &outside, &count) == 3) {
            take_longer(&best, inside, count);
        }
        line = strchr(line, '\n');
        line = line != NULL ? line + 1 : NULL;
    }
    return best;
}

/* The name of a uid, from the local password file only, because a name service may take seconds. */
static void user_name(const char *fs_root, uid_t uid, char *out, size_t size)
{
    out[0] = '\0';
    CLEANUP_BUF struct buf b;
    if (!read_host_file(fs_root, "/etc/passwd", &b)) {
        return;
    }
    for (const char *line = buf_cstr(&b); line != NULL && *line != '\0';) {
        char name[64];
        unsigned number;
        if (sscanf(line, "%63[^:\n]:%*[^:\n]:%u:", name, &number) == 2 && number == uid) {
            snprintf(out, size, "%s", name);
            return;
        }
        line = strchr(line, '\n');
        line = line != NULL ? line + 1 : NULL;
    }
}

/* The longest run granted to a user, by name or by number. */
static struct oci_ids granted_ids(const char *fs_root, const char *path, const char *name,
                                  uid_t uid)
{
    struct oci_ids best = {0, 0};
    char number[16];
    snprintf(number, sizeof(number), "%u", (unsigned)uid);
    CLEANUP_BUF struct buf b;
    if (!read_host_file(fs_root, path, &b)) {
        return best;
    }
    for (const char *line = buf_cstr(&b); line != NULL && *line != '\0';) {
        char who[64];
        unsigned first, count;
        if (sscanf(line, "%63[^:\n]:%u:%u", who, &first, &count) == 3 &&
            ((name[0] != '\0' && strcmp(who, name) == 0) || strcmp(who, number) == 0)) {
            take_longer(&best, first, count);
        }
        line = strchr(line, '\n');
        line = line != NULL ? line + 1 : NULL;
    }
    return best;
}

static void read_userns(const char *fs_root, bool root, struct oci_host *h)
{
    long long value;
    if (read_number(fs_root, "/proc/sys/user/max_user_namespaces", &value) && value == 0) {
        snprintf(h->userns_off, sizeof(h->userns_off), "sysctl user.max_user_namespaces is 0");
    } else if (!root &&
               read_number(fs_root, "/proc/sys/kernel/unprivileged_userns_clone", &value) &&
               value == 0) {
        snprintf(h->userns_off, sizeof(h->userns_off),
                 "sysctl kernel.unprivileged_userns_clone is 0");
    } else if (!root &&
               read_number(fs_root, "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
                           &value) &&
               value != 0) {
        snprintf(h->userns_off, sizeof(h->userns_off),
                 "sysctl kernel.apparmor_restrict_unprivileged_userns is %lld", value);
    }
}

static bool host_file_exists(const char *fs_root, const char *path)
{
    char full[1024];
    int n = snprintf(full, sizeof(full), "%s%s", fs_root, path);
    return n > 0 && (size_t)n < sizeof(full) && access(full, F_OK) == 0;
}

void oci_host_read(const char *fs_root, uid_t uid, gid_t gid, struct oci_host *ret_host)
{
    struct oci_host *h = ret_host;
    memset(h, 0, sizeof(*h));
    h->root = uid == 0;
    h->uid = uid;
    h->gid = gid;
    oci_cgroup_detect(fs_root, uid, &h->cgroup);
    if (h->root) {
        h->uids = own_ids(fs_root, "/proc/self/uid_map");
        h->gids = own_ids(fs_root, "/proc/self/gid_map");
        h->systemd = host_file_exists(fs_root, "/run/systemd/system");
    } else {
        char name[64], bus[64];
        user_name(fs_root, uid, name, sizeof(name));
        h->uids = granted_ids(fs_root, "/etc/subuid", name, uid);
        h->gids = granted_ids(fs_root, "/etc/subgid", name, uid);
        /* only the unified hierarchy can be delegated to a user's manager */
        snprintf(bus, sizeof(bus), "/run/user/%u/systemd/private", (unsigned)uid);
        h->systemd = h->cgroup.version == OCI_CGROUP_VERSION_2 && host_file_exists(fs_root, bus);
    }
    h->booted = host_file_exists(fs_root, "/run/systemd/system");
    read_userns(fs_root, h->root, h);

    CLEANUP_BUF struct buf swaps;
    if (read_host_file(fs_root, "/proc/swaps", &swaps)) {
        const char *first_end = strchr(buf_cstr(&swaps), '\n');
        h->swap_active = first_end != NULL && first_end[1] != '\0';
    }
    long long value;
    h->oom_score_adj = read_number(fs_root, "/proc/self/oom_score_adj", &value) ? (int)value : 0;
    struct rlimit files;
    h->files_max = getrlimit(RLIMIT_NOFILE, &files) == 0 ? (uint64_t)files.rlim_max : 1024;
    h->inotify_instances =
        read_number(fs_root, "/proc/sys/user/max_inotify_instances", &value) && value > 0
            ? (uint64_t)value
            : 0;
    h->inotify_watches =
        read_number(fs_root, "/proc/sys/user/max_inotify_watches", &value) && value > 0
            ? (uint64_t)value
            : 0;
    struct rlimit core;
    h->core_max = !h->root && getrlimit(RLIMIT_CORE, &core) == 0 ? (uint64_t)core.rlim_max : 1;
    CLEANUP_BUF struct buf pattern;
    h->core_handler = read_host_file(fs_root, "/proc/sys/kernel/core_pattern", &pattern) &&
                      buf_cstr(&pattern)[0] == '|';
    CLEANUP_BUF struct buf release;
    h->old_kernel = read_host_file(fs_root, "/proc/sys/kernel/osrelease", &release) &&
                    release.len > 0 && !syscalls_can_be_answered(buf_cstr(&release));
    h->apparmor = apparmor_look(fs_root) == APPARMOR_LOADED;
}

void oci_host_unapplied(const struct oci_host *host, bool own_kernel, struct oci_notes *notes)
{
    const struct oci_cgroup_host *c = &host->cgroup;
    if (!host->root) {
        oci_notes_add(notes, "private devices: only root can make files of devices; locks on "
                             "/dev/null and its like reach other sandboxes and this host");
    }
    if (c->version == OCI_CGROUP_VERSION_1 && c->groups.memory && !c->sockets) {
        oci_notes_add(notes, "sockets: this kernel does not count their buffers in cgroups of "
                             "version 1; they are beside the memory limit");
    }
    if (host->old_kernel && !own_kernel) {
        oci_notes_add(notes, "netlink: " SANDBOX_WHY_NETLINK);
    }
    if (host->core_handler && host->core_max < 1) {
        oci_notes_add(notes, "core: the hard limit of core files is 0 here, and only with 1 does "
                             "the kernel run no handler of crashes");
    }
}

size_t oci_host_extents(const struct oci_host *host, const struct oci_ids *ids, uint32_t own,
                        const char *id, struct oci_extent ret_extents[OCI_EXTENTS_MAX])
{
    uint64_t hash = oci_hash(OCI_HASH_INIT, id, strlen(id));
    if (!host->root) {
        if (ids->count < INSIDE_NEEDED - 1) {
            return 0;
        }
        uint32_t spare = ids->count - (INSIDE_USER - 1);
        uint32_t user = ids->first + INSIDE_USER - 1 + (uint32_t)(hash % spare);
        ret_extents[0] = (struct oci_extent){0, own, 1};
        ret_extents[1] = (struct oci_extent){1, ids->first, INSIDE_USER - 1};
        ret_extents[2] = (struct oci_extent){INSIDE_USER, user, 1};
        return 3;
    }
    if (ids->count < INSIDE_NEEDED) {
        return 0;
    }
    uint64_t first = ids->first, end = first + ids->count;
    if (first <= HIGH_FIRST && end >= HIGH_END) {
        first = HIGH_FIRST;
        end = HIGH_END;
    } else if (end - first >= 2 * (uint64_t)OCI_RANGE_SIZE) {
        first += OCI_RANGE_SIZE; /* where the ids of ordinary users are */
    }
    uint64_t slots = (end - first) / OCI_RANGE_SIZE;
    uint64_t base = slots > 0 ? first + (hash % slots) * OCI_RANGE_SIZE : first;
    uint64_t count = slots > 0 ? OCI_RANGE_SIZE : end - first;
    ret_extents[0] = (struct oci_extent){0, (uint32_t)base, (uint32_t)count};
    return 1;
}

bool oci_host_has_range(const struct oci_host *host)
{
    struct oci_extent extents[OCI_EXTENTS_MAX];
    return oci_host_extents(host, &host->uids, host->uid, "", extents) > 0 &&
           oci_host_extents(host, &host->gids, host->gid, "", extents) > 0;
}
