/*
 * All files of a container outside of it are in one directory and have fixed names. So removing a
 * sandbox needs no record of what was made: each file of the list is removed if it exists, however
 * far the creation got.
 */
#include "worker/backend/oci/box.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/ending.h"
#include "common/fd.h"
#include "common/str.h"
#include "worker/backend/agent_socket.h"
#include "worker/backend/oci/etc.h"
#include "worker/backend/oci/net.h"
#include "worker/backend/oci/shares.h"
#include "worker/backend/oci/spec.h"

#define SPACE_MIN (128u << 10) /* more than a runtime writes when it starts a container */
#define FILES_MIN 16
#define NOTES_MAX (64u << 10) /* more than all that write into one file */

void oci_box_init(struct oci_box *box, const char *dir, const char *id)
{
    *box = (struct oci_box){
        .dir = alloc_strdup(dir),
        .bundle = alloc_printf("%s/bundle", dir),
        .state = alloc_printf("%s/runtime", dir),
        .record = alloc_printf("%s/oci.record", dir),
        .pid_file = alloc_printf("%s/oci.pid", dir),
        .relay = alloc_printf("%s/relay.pid", dir),
        .container = alloc_printf("cloister-%s", id),
    };
}

void oci_box_copy(struct oci_box *box, const struct oci_box *from)
{
    oci_box_init(box, from->dir, from->container + strlen("cloister-"));
}

void oci_box_finish(struct oci_box *box)
{
    free(box->dir);
    free(box->bundle);
    free(box->state);
    free(box->record);
    free(box->pid_file);
    free(box->relay);
    free(box->container);
    memset(box, 0, sizeof(*box));
}

static int write_config(const struct oci_box *box, const struct oci_spec_input *in, struct err *err)
{
    CLEANUP_FREE char *text = NULL;
    int rc = oci_spec_build(in, &text, err);
    if (rc < 0) {
        return rc;
    }
    /* not its parent: if that is gone, a sweep has removed it and will not come again */
    rc = dir_make_one(box->bundle, 0700, err);
    rc = rc < 0 ? rc : dir_make_one(box->state, 0700, err);
    if (rc < 0) {
        return err->sys == ENOSPC ? err_set(err, ERR_NO_SPACE, "no space left in %s", box->dir)
                                  : rc;
    }
    CLEANUP_FREE char *path = alloc_printf("%s/config.json", box->bundle);
    rc = oci_put_file(AT_FDCWD, path, text, strlen(text), 0600, err);
    const char *bound = in->root->bound;
    return rc < 0 || bound == NULL ? rc : oci_box_add_note(box, view_of(bound), err);
}

/* The directory on which the runtime's device files are mounted while it runs. */
static int make_devices(const struct backend_spec *spec, const struct oci_mode *mode,
                        const struct oci_host *host, struct err *err)
{
    CLEANUP_FREE char *at = alloc_printf("%s/" OCI_DEVICES_NAME, spec->shared_dir);
    return oci_has_devices(mode, host) ? oci_put_dir(AT_FDCWD, at, 0700, err) : 0;
}

int oci_box_prepare(const struct oci_box *box, const struct backend_spec *spec,
                    const struct oci_mode *mode, const struct oci_host *host, const char *verb,
                    const char *packages, struct oci_root *ret_root, char hint[BACKEND_HINT_MAX],
                    struct err *err)
{
    bool trial = strcmp(verb, "serve") != 0; /* says nothing about shares */
    CLEANUP_FREE char *base = NULL;
    int rc = trial ? 0 : oci_shares_base(spec, host, &base, err);
    rc = rc < 0 ? rc : make_devices(spec, mode, host, err);
    if (rc < 0) {
        return rc;
    }
    struct oci_root_reach reach = {
        .packages = packages,
        .packages_write = spec->packages_write,
        .network = spec->network,
        .mounts = spec->mounts,
        .mount_count = spec->mount_count,
        .shares = spec->shares,
        .share_count = trial ? 0 : spec->share_count,
        .share_base = base,
        .views = mode->views,
    };
    rc = oci_root_compose("", spec->shared_dir, spec->image, spec->agent_path, &reach, ret_root,
                          hint, err);
    if (rc < 0) {
        return rc;
    }
    struct oci_spec_input in = {
        .spec = spec,
        .mode = mode,
        .host = host,
        .root = ret_root,
        .container = box->container,
        .verb = verb,
    };
    return write_config(box, &in, err);
}

int oci_box_read_pid(const struct oci_box *box, int *ret_pid, struct err *err)
{
    CLEANUP_BUF struct buf b;
    buf_init(&b, 64);
    int rc = file_read(box->pid_file, &b, err);
    uint64_t pid;
    if (rc == 0) {
        while (b.len > 0 && b.data[b.len - 1] <= ' ') {
            b.len--;
        }
        rc = buf_cstr(&b) != NULL ? str_to_u64(buf_cstr(&b), 2, INT32_MAX, &pid, err)
                                  : err_set(err, ERR_NO_MEMORY, "no memory");
    }
    if (rc < 0) {
        return err_set(err, ERR_ENGINE, "the runtime did not tell the container's process id");
    }
    *ret_pid = (int)pid;
    return 0;
}

int oci_box_add_note(const struct oci_box *box, struct view lines, struct err *err)
{
    CLEANUP_FREE char *path = alloc_printf("%s/" OCI_NOTES_NAME, box->bundle);
    CLEANUP_FD int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    int rc = fd < 0 ? err_sys(err, ERR_IO, errno, "cannot write %s", path)
                    : fd_write_all(fd, lines.data, lines.len, err);
    return rc < 0 && err->sys == ENOSPC
               ? err_set(err, ERR_NO_SPACE, "no space left in %s", box->dir)
               : rc;
}

static bool has_note(const struct oci_notes *notes, const char *text, size_t len)
{
    len = len < OCI_NOTE_MAX ? len : OCI_NOTE_MAX - 1; /* notes are cut there */
    for (size_t i = 0; i < notes->count; i++) {
        if (strlen(notes->text[i]) == len && memcmp(notes->text[i], text, len) == 0) {
            return true;
        }
    }
    return false;
}

void oci_box_notes(const struct oci_box *box, struct oci_notes *notes)
{
    CLEANUP_FREE char *path = alloc_printf("%s/" OCI_NOTES_NAME, box->bundle);
    CLEANUP_BUF struct buf text;
    struct err err;
    buf_init(&text, NOTES_MAX);
    if (file_read(path, &text, &err) < 0 || buf_cstr(&text) == NULL) {
        return;
    }
    for (const char *line = buf_cstr(&text); *line != '\0'; line += line[0] == '\n') {
        size_t len = strcspn(line, "\n");
        if (!has_note(notes, line, len)) {
            oci_notes_add(notes, "%.*s", (int)len, line);
        }
        line += len;
    }
}

bool oci_box_has_state(const struct oci_box *box)
{
    CLEANUP_FREE char *path = alloc_printf("%s/%s", box->state, box->container);
    struct stat st;
    return lstat(path, &st) == 0;
}

bool oci_box_is_disk_full(const struct oci_box *box)
{
    struct statvfs fs;
    if (statvfs(box->dir, &fs) < 0) {
        return false;
    }
    /* file systems without a limit of files report 0 */
    return fs.f_bavail * fs.f_frsize < SPACE_MIN || (fs.f_files > 0 && fs.f_favail < FILES_MIN);
}

/* At each start runc briefly bind-mounts its own program at "runc.XXXXXX" beside its state, so that
 * a container cannot modify the original. If runc is killed then, the mount stays. */
void oci_box_unmount(const struct oci_box *box)
{
    CLEANUP_FREE char *path = alloc_printf("%s/%s", box->state, box->container);
    DIR *dir = opendir(path);
    struct dirent *entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        if (strncmp(entry->d_name, "runc.", strlen("runc.")) == 0) {
            CLEANUP_FREE char *point = alloc_printf("%s/%s", path, entry->d_name);
            (void)umount2(point, MNT_DETACH | UMOUNT_NOFOLLOW);
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
}

int oci_box_clear(const struct oci_box *box, struct err *err)
{
    CLEANUP_FREE char *socket = alloc_printf("%s/%s", box->dir, AGENT_SOCKET_NAME);
    CLEANUP_FREE char *tmp = alloc_printf("%s.tmp", box->record);
    CLEANUP_FREE char *net = alloc_printf("%s/" OCI_NET_RECORD, box->dir);
    CLEANUP_FREE char *net_tmp = alloc_printf("%s.tmp", net);
    CLEANUP_FREE char *first = alloc_printf("%s/" ENDING_FIRST, box->dir);
    CLEANUP_FREE char *first_next = alloc_printf("%s/" ENDING_FIRST ".next", box->dir);
    const char *const paths[] = {box->bundle, box->state, box->pid_file, box->relay,
                                 socket,      net,        net_tmp,       first,
                                 first_next,  tmp,        box->record};
    int rc = 0;
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        /* all are tried; the first failure is reported */
        struct err one;
        if (dir_remove(paths[i], &one) < 0 && rc == 0) {
            *err = one;
            rc = -one.code;
        }
    }
    return rc;
}
