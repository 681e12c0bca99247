/*
 * Of inotify the kernel gives a user so many instances and watches, and what a sandbox takes counts
 * for the user that runs cloister as well. So each sandbox gets a sixteenth. That is enough for
 * what watches files, and one sandbox, or some, cannot take all from the host.
 *
 * System V's shared memory would stay when the processes that used it are gone, and so would keep
 * the memory of a sandbox occupied until it is closed. With shm_rmid_forced the kernel removes a
 * segment with its last user. It is at most half of the memory, and semaphores are few.
 *
 * Cgroups of version 1 count the buffers of TCP and UDP sockets beside the memory, and only if they
 * have a limit. Runtimes took one once ("kernelTCP") and ignore it since runc 1.0, so it is written
 * here. It counts for sockets that are made after it.
 *
 * A sandbox's own files are in memory. What it has of a disk are the files of its root, which are
 * read when they are in no cache, packages, which installers write, and shares. So the disks are
 * found by those, unless the operator names one: of a file system that has its own idea of disks
 * (btrfs, overlays), the kernel says none. The limits are written here, not by the runtime: a disk
 * that the kernel refuses is then a note, and not the end of the sandbox.
 */
#include "worker/backend/oci/limits.h"

#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/fd.h"
#include "worker/backend/oci/runtime.h"
#include "worker/backend/sandbox_defaults.h"

#define LIMITS_MS     10000 /* 2 ms are usual */
#define SHARE_OF      16
#define INSTANCES_MIN 8
#define WATCHES_MIN   128
#define NUMBER_MAX    64 /* of a file that has the number of a device */

/* The strings that the arguments borrow. */
struct limit_words {
    char *items[OCI_ARGS_MAX];
    size_t count;
};

static void add_limit(struct oci_args *args, struct limit_words *words, char *word)
{
    words->items[words->count++] = word;
    oci_args_add(args, word);
}

/* `all` is what the kernel gives a user; 0: it does not say, so there is nothing to share out. */
static void add_inotify(struct oci_args *args, struct limit_words *words, const char *name,
                        uint64_t all, uint64_t least)
{
    uint64_t share = all / SHARE_OF;
    if (all > 0) {
        add_limit(args, words,
                  alloc_printf("inotify:user/%s=%llu", name,
                               (unsigned long long)(share < least ? least : share)));
    }
}

struct oci_exec *oci_limits_start(struct tasks *tasks, const struct backend_spec *spec,
                                  const struct oci_mode *mode, const struct oci_host *host,
                                  pid_t pid, uint64_t most_ms, oci_exec_fn fn, void *arg)
{
    struct oci_args args = {.count = 0};
    struct limit_words words = {.count = 0};
    oci_args_add(&args, spec->agent_path);
    oci_args_add(&args, "limit");
    oci_args_add(&args, "--pid");
    add_limit(&args, &words, alloc_printf("%d", (int)pid));
    if (mode->userns != OCI_USERNS_NONE) { /* else code has a uid that nobody else has */
        oci_args_add(&args, "--user");
        add_inotify(&args, &words, "max_inotify_instances", host->inotify_instances, INSTANCES_MIN);
        add_inotify(&args, &words, "max_inotify_watches", host->inotify_watches, WATCHES_MIN);
    }
    for (size_t i = 0; i < SANDBOX_SYSCTLS; i++) {
        char value[SANDBOX_SYSCTL_MAX];
        const char *name = sandbox_sysctl(i, spec->limits.memory_bytes, value);
        add_limit(&args, &words, alloc_printf("shm:kernel/%s=%s", name, value));
    }
    struct oci_exec_options options = {
        .argv = args.items, .deadline_ms = LIMITS_MS, .most_ms = most_ms};
    struct oci_exec *exec = oci_exec_start(tasks, &options, fn, arg);
    for (size_t i = 0; i < words.count; i++) {
        free(words.items[i]);
    }
    return exec;
}

int oci_limits_sockets(const struct oci_box *box, const struct backend_spec *spec,
                       const struct oci_mode *mode, const struct oci_host *host, pid_t pid,
                       struct err *err)
{
    struct oci_cgroup_dirs dirs;
    struct err why = ERR_INIT;
    if (!mode->memory || !host->cgroup.sockets) {
        return 0;
    }
    if (!oci_cgroup_find("", &host->cgroup, pid, box->container, &dirs) || dirs.memory[0] == '\0') {
        err_ignore(err_set(&why, ERR_IO,
                           "the runtime has put the sandbox into no control group of its own that "
                           "limits memory"));
    } else if (oci_cgroup_limit_sockets(&dirs, sandbox_sockets(spec->limits.memory_bytes), &why) ==
               0) {
        return 0;
    }
    CLEANUP_FREE char *text =
        alloc_printf("sockets: their buffers are not limited: %s\n", why.text);
    return oci_box_add_note(box, view_of(text), err);
}

int oci_limits_keep(const struct oci_box *box, const struct oci_exec_result *result,
                    struct err *err)
{
    if (result->exit_code == 0) {
        return result->out.len == 0 ? 0 : oci_box_add_note(box, result->out, err);
    }
    char words[OCI_WORDS_MAX];
    oci_runtime_words(result->err, words);
    CLEANUP_FREE char *text =
        alloc_printf("namespaces: their limits could not be set: %s\n",
                     result->timed_out          ? "it took too long"
                     : words[0] != '\0'         ? words
                     : result->spawn_error != 0 ? strerror(result->spawn_error)
                                                : "the program does not say why");
    return oci_box_add_note(box, view_of(text), err);
}

/* ---- reads and writes of disks -------------------------------------------------------------- */

static void add_disk(struct oci_disks *d, const char *name)
{
    for (size_t i = 0; i < d->count; i++) {
        if (strcmp(d->names[i], name) == 0) {
            return;
        }
    }
    if (d->count == OCI_DISKS_MAX) {
        d->more = true;
        return;
    }
    snprintf(d->names[d->count++], OCI_DISK_NAME, "%s", name);
}

/* Finds the whole disk of a device: a partition is a directory in that of its disk. */
static bool add_device(const char *fs_root, struct oci_disks *d, dev_t device)
{
    char name[OCI_DISK_NAME];
    snprintf(name, sizeof(name), "%u:%u", major(device), minor(device));
    CLEANUP_FREE char *place = alloc_printf("%s/sys/dev/block/%s", fs_root, name);
    CLEANUP_FREE char *partition = alloc_printf("%s/partition", place);
    if (access(place, F_OK) < 0) {
        return false;
    }
    if (access(partition, F_OK) == 0) {
        CLEANUP_FREE char *disk = alloc_printf("%s/../dev", place);
        CLEANUP_BUF struct buf text;
        struct err err;
        unsigned high, low;
        buf_init(&text, NUMBER_MAX);
        if (file_read(disk, &text, &err) < 0 || buf_cstr(&text) == NULL ||
            sscanf(buf_cstr(&text), "%u:%u", &high, &low) != 2) {
            return false;
        }
        snprintf(name, sizeof(name), "%u:%u", high, low);
    }
    add_disk(d, name);
    return true;
}

static void miss(struct oci_disks *d, const char *path)
{
    if (d->missed[0] == '\0') {
        snprintf(d->missed, sizeof(d->missed), "%s", path);
    }
}

static void add_disk_of(const char *fs_root, struct oci_disks *d, const char *path)
{
    struct stat st;
    struct statfs fs;
    if (stat(path, &st) < 0 || statfs(path, &fs) < 0 || fs.f_type == TMPFS_MAGIC ||
        fs.f_type == RAMFS_MAGIC) {
        return;
    }
    if (!add_device(fs_root, d, st.st_dev)) {
        miss(d, path);
    }
}

void oci_disks_find(const char *fs_root, const struct backend_spec *spec, struct oci_disks *ret)
{
    *ret = (struct oci_disks){.count = 0};
    if (spec->io_device != NULL && spec->io_device[0] != '\0') {
        struct stat st;
        if (stat(spec->io_device, &st) < 0 || !S_ISBLK(st.st_mode) ||
            !add_device(fs_root, ret, st.st_rdev)) {
            miss(ret, spec->io_device);
        }
        return;
    }
    bool image = spec->image != NULL && spec->image[0] == '/';
    add_disk_of(fs_root, ret, image ? spec->image : "/usr");
    add_disk_of(fs_root, ret, spec->shared_dir); /* packages are there, or in /var/tmp */
    add_disk_of(fs_root, ret, "/var/tmp");
    for (size_t i = 0; i < spec->share_count; i++) {
        add_disk_of(fs_root, ret, spec->shares[i].host_path);
    }
    for (size_t i = 0; i < spec->mount_count; i++) {
        add_disk_of(fs_root, ret, spec->mounts[i].host_path);
    }
}

void oci_io_unapplied(const struct backend_spec *spec, const struct oci_mode *mode,
                      const struct oci_host *host, struct oci_notes *notes)
{
    const struct oci_cgroup_host *c = &host->cgroup;
    if (!backend_limits_io(&spec->limits)) {
        return;
    }
    if (!oci_controllers_of(c, mode->cgroups).io) {
        oci_notes_add(notes,
                      "io: no control group that sandboxes get here limits reads and writes");
        return;
    }
    struct oci_disks disks;
    oci_disks_find("", spec, &disks);
    if (disks.missed[0] != '\0') {
        oci_notes_add(notes, "io: which disk has %s is not known", disks.missed);
    }
    if (disks.more) {
        oci_notes_add(notes, "io: its files are on more than %d disks; the others are not limited",
                      OCI_DISKS_MAX);
    }
    if (c->version == OCI_CGROUP_VERSION_1 && backend_limits_writes(&spec->limits)) {
        oci_notes_add(notes, SANDBOX_NOTE_IO_WRITES);
    }
}

void oci_io_limit_disks(const struct oci_disks *disks, const struct backend_limits *limits,
                        const struct oci_cgroup_dirs *dirs, struct oci_notes *notes)
{
    if (dirs->io[0] == '\0') {
        oci_notes_add(notes, "io: the runtime has put the sandbox into no control group of its own "
                             "that limits reads and writes");
        return;
    }
    for (size_t i = 0; i < disks->count; i++) {
        struct err why = ERR_INIT;
        if (oci_cgroup_limit_io(dirs, disks->names[i], limits, &why) < 0) {
            oci_notes_add(notes, "io: the kernel does not take the limits of disk %s: %s",
                          disks->names[i], why.text);
        }
    }
}

int oci_io_limit(const struct oci_box *box, const struct backend_spec *spec,
                 const struct oci_mode *mode, const struct oci_host *host, pid_t pid,
                 struct err *err)
{
    struct oci_notes *notes = alloc_one(struct oci_notes);
    oci_io_unapplied(spec, mode, host, notes);
    if (backend_limits_io(&spec->limits) && oci_controllers_of(&host->cgroup, mode->cgroups).io) {
        struct oci_disks disks;
        struct oci_cgroup_dirs dirs;
        oci_disks_find("", spec, &disks);
        (void)oci_cgroup_find("", &host->cgroup, pid, box->container, &dirs); /* else they are "" */
        oci_io_limit_disks(&disks, &spec->limits, &dirs, notes);
    }
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < notes->count; i++) {
        CLEANUP_FREE char *line = alloc_printf("%s\n", notes->text[i]);
        rc = oci_box_add_note(box, view_of(line), err);
    }
    free(notes);
    return rc;
}
