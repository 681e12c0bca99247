/*
 * The environment variables of all backends. The table has only those that must fit the sandbox
 * (home, temporary directory, no terminal, no display); the others are up to the image or the
 * client.
 *
 * PATH is special. A root made of the host's directories needs a default. An image brings its own
 * PATH, because its interpreters may be in directories that our list does not have.
 */
#include "worker/backend/sandbox_defaults.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/str.h"
#include "worker/backend/json_build.h"

/* On a plain host, above all allocated ids: subordinate ids of useradd end at 600100000, systemd's
 * containers at 0x6fffffff, and ids of directory services (SSSD, FreeIPA) at 2000200000. Below the
 * sign bit, which some programs do not handle. */
#define UID_FIRST 0x78000000u
#define UID_END   0x80000000u

/* In a container with about 65536 ids: above its users and services, below "nobody". */
#define UID_SMALL_FIRST 20000u
#define UID_SMALL_END   60000u

/* Where TCP meets this limit it loses packets and gets slow, so it is no less than some busy
 * connections to oneself may fill. */
#define SOCKETS_PART 4 /* of the memory */
#define SOCKETS_MIN  (64u << 20)

#define INODE_BYTES 4096
#define INODES_MIN  1024
#define INODES_MAX  65536

uint64_t sandbox_inodes(uint64_t size_bytes)
{
    uint64_t inodes = size_bytes / INODE_BYTES;
    return inodes < INODES_MIN ? INODES_MIN : inodes > INODES_MAX ? INODES_MAX : inodes;
}

uint32_t sandbox_uid_apart(const char *name, uint64_t end)
{
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
    for (const char *p = name; *p != '\0'; p++) {
        hash = (hash ^ (unsigned char)*p) * 0x100000001b3u;
    }
    hash ^= hash >> 32;
    uint64_t first = end >= UID_END ? UID_FIRST : end >= UID_SMALL_END ? UID_SMALL_FIRST : end / 2;
    uint64_t stop = end >= UID_END ? UID_END : end >= UID_SMALL_END ? UID_SMALL_END : end;
    return stop > first ? (uint32_t)(first + hash % (stop - first)) : SANDBOX_UID;
}

uint64_t sandbox_packages_file_max(uint64_t bytes)
{
    /* as supervisor/packages/installers allow themselves */
    return bytes < UINT64_MAX / 8 ? 2 * bytes + ((uint64_t)64 << 20) : UINT64_MAX / 4;
}

uint64_t sandbox_sockets(uint64_t memory_bytes)
{
    uint64_t part = memory_bytes / SOCKETS_PART;
    return part < SOCKETS_MIN ? SOCKETS_MIN : part;
}

const char *const *sandbox_masked(size_t *ret_count)
{
    static const char *const paths[] = {
        /* what the host is and how it was started */
        "/proc/acpi",
        "/proc/asound",
        "/proc/cmdline",
        "/proc/config.gz",
        "/proc/consoles",
        "/proc/crypto",
        "/proc/devices",
        "/proc/dma",
        "/proc/driver",
        "/proc/dynamic_debug",
        "/proc/execdomains",
        "/proc/fb",
        "/proc/iomem",
        "/proc/ioports",
        "/proc/mdstat",
        "/proc/misc",
        "/proc/modules",
        "/proc/mtrr",
        "/proc/partitions",
        "/proc/scsi",
        "/proc/swaps",
        "/sys/dev/block",
        "/sys/devices/virtual/powercap",
        "/sys/firmware",
        /* what it is doing: others' work can be told from it */
        "/proc/buddyinfo",
        "/proc/diskstats",
        "/proc/interrupts",
        "/proc/key-users",
        "/proc/keys",
        "/proc/latency_stats",
        "/proc/pagetypeinfo",
        "/proc/pressure", /* also writable: each write is work for the kernel */
        "/proc/sched_debug",
        "/proc/schedstat",
        "/proc/slabinfo",
        "/proc/softirqs",
        "/proc/timer_list",
        "/proc/timer_stats",
        "/proc/vmallocinfo",
        "/proc/vmstat",
        "/proc/zoneinfo",
        /* the kernel's memory, addresses and messages */
        "/proc/kallsyms",
        "/proc/kcore",
        "/proc/kmsg",
        "/proc/kpagecgroup",
        "/proc/kpagecount",
        "/proc/kpageflags",
    };
    *ret_count = sizeof(paths) / sizeof(paths[0]);
    return paths;
}

const char *sandbox_sysctl(size_t i, uint64_t memory_bytes, char ret_value[SANDBOX_SYSCTL_MAX])
{
    static const struct {
        const char *name, *value;
    } rows[SANDBOX_SYSCTLS] = {
        {"shm_rmid_forced", "1"}, /* a segment goes with the last process that uses it */
        {"shmall", NULL},         /* pages in all: half of the memory */
        {"shmmni", "128"},        /* segments */
        {"sem", "250 8000 32 128"},
    };
    unsigned long long pages = memory_bytes / 2 / (uint64_t)sysconf(_SC_PAGESIZE);
    if (rows[i].value != NULL) {
        snprintf(ret_value, SANDBOX_SYSCTL_MAX, "%s", rows[i].value);
    } else {
        snprintf(ret_value, SANDBOX_SYSCTL_MAX, "%llu", pages);
    }
    return rows[i].name;
}

static const char *const defaults[] = {
    "PATH=/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin", /* first: may be left out
                                                                          */
    ("HOME=" SANDBOX_HOME),
    "USER=user",
    "LOGNAME=user",
    "SHELL=/bin/sh",
    "LANG=C.UTF-8",
    "TERM=dumb",
    "TMPDIR=/tmp",
    "MPLBACKEND=Agg", /* there is no display to draw on */
};

/* For tools that would retry for a minute without network. */
static const char *const without_network[] = {
    "PIP_RETRIES=0",
    "npm_config_fetch_retries=0",
    "npm_config_update_notifier=false",
};

static bool names_key(struct view entry, const char *pair)
{
    size_t key = (size_t)(strchr(pair, '=') - pair) + 1;
    return entry.len >= key && memcmp(entry.data, pair, key) == 0;
}

/* Adds the pairs that are not named already, since readers differ in which duplicate they use. */
static void add_unnamed(cJSON *array, const char *const *pairs, size_t count,
                        const struct view_list *extra)
{
    for (size_t i = 0; i < count; i++) {
        bool given = false;
        for (size_t j = 0; j < extra->count && !given; j++) {
            given = names_key(extra->items[j], pairs[i]);
        }
        if (!given) {
            json_build_append_string(array, pairs[i]);
        }
    }
}

int sandbox_env_add(cJSON *array, const struct sandbox_env *env, struct err *err)
{
    const struct view_list *extra = env->extra;
    size_t from = env->path ? 0 : 1;
    add_unnamed(array, defaults + from, sizeof(defaults) / sizeof(defaults[0]) - from, extra);
    if (!env->network) {
        add_unnamed(array, without_network, sizeof(without_network) / sizeof(without_network[0]),
                    extra);
    }
    for (size_t i = 0; i < extra->count; i++) {
        struct view v = extra->items[i];
        /* JSON readers would replace invalid bytes or refuse the text. The error does not quote it,
         * since it would be invalid as well. */
        if (!utf8_valid(v.data, v.len)) {
            return err_set(err, ERR_INVALID, "environment entry %zu is not UTF-8", i + 1);
        }
        const char *equals = v.len > 0 ? memchr(v.data, '=', v.len) : NULL;
        if (equals == NULL || equals == v.data || memchr(v.data, '\0', v.len) != NULL) {
            size_t shown = utf8_valid_prefix(v.data, v.len < 64 ? v.len : 64);
            return err_set(err, ERR_INVALID, "environment entry \"%.*s\" is not NAME=VALUE",
                           (int)shown, v.len > 0 ? v.data : "");
        }
        CLEANUP_FREE char *text = alloc_viewdup(v);
        json_build_append_string(array, text);
    }
    return 0;
}
