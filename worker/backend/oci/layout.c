/*
 * Of the host only /usr is taken. Of an image all is taken but what a sandbox has of its own, so
 * that an image needs nothing prepared in it.
 */
#include "worker/backend/oci/layout.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/fd.h"

#define ENTRIES_MAX 64         /* at the top of an image */
#define FILE_MAX    (1u << 20) /* of a file at the top of an image that is copied */

/* Directories of every skeleton; spec.c decides what is mounted there. Some runtimes give a tmpfs
 * the mode of its mount point, so these are the modes seen inside. All are readable, because runc
 * from 1.1.14 on opens the directory of a mount point for reading as the sandbox's root, which owns
 * nothing here. None is world-writable, because users of the host may reach the skeleton. */
const struct oci_layout_dir oci_layout_dirs[] = {
    {".cloister", 0755}, {"dev", 0755},       {"home", 0755}, {"home/user", 0755}, {"media", 0755},
    {"mnt", 0755},       {"packages", 0755},  {"proc", 0555}, {"run", 0755},       {"sys", 0555},
    {"tmp", 01755},      {"workspace", 0755}, {NULL, 0},
};

void oci_layout_finish(struct oci_layout *l)
{
    free(l->top);
    free(l->entries);
}

static bool add_entry(struct oci_layout *l, const char *name)
{
    CLEANUP_FREE char *path = alloc_printf("%s/%s", l->top, name);
    struct stat st;
    if (lstat(path, &st) < 0 || strlen(name) > NAME_MAX) {
        return false;
    }
    struct oci_entry *e = &l->entries[l->count];
    memset(e, 0, sizeof(*e));
    memcpy(e->name, name, strlen(name));
    e->type = st.st_mode & S_IFMT;
    if (S_ISLNK(st.st_mode)) {
        ssize_t n = readlink(path, e->link, sizeof(e->link) - 1);
        if (n <= 0) {
            return false;
        }
    }
    if (S_ISREG(st.st_mode)) {
        e->access = st.st_mode & 0555;
        e->uncopied = st.st_size > (off_t)FILE_MAX ? "it is too large to be copied"
                      : faccessat(AT_FDCWD, path, R_OK, AT_EACCESS) < 0
                          ? "it cannot be read to be copied"
                          : NULL;
    }
    l->count++;
    return true;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct oci_entry *)a)->name, ((const struct oci_entry *)b)->name);
}

int oci_layout_host(const char *fs_root, struct oci_layout *l, struct err *err)
{
    static const char *const names[] = {"usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"};
    l->host = true;
    l->top = alloc_strdup(fs_root);
    l->entries = alloc_array(sizeof(names) / sizeof(names[0]), sizeof(*l->entries));
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (!add_entry(l, names[i]) && i == 0) {
            return err_set(err, ERR_IMAGE, "this host has no /usr to make a root of");
        }
    }
    return 0;
}

/* Entries of an image that a sandbox does not see, since it has its own or needs none. */
static bool is_ours(const char *name, bool shares)
{
    static const char *const names[] = {".", "..", "lost+found"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(name, names[i]) == 0) {
            return true;
        }
    }
    for (size_t i = 0; oci_layout_dirs[i].name != NULL; i++) {
        if (strcmp(name, oci_layout_dirs[i].name) == 0) {
            return true;
        }
    }
    return shares && strcmp(name, &BACKEND_SHARES[1]) == 0;
}

static bool has_shell(const char *image)
{
    static const char *const places[] = {"bin/sh", "usr/bin/sh", "bin/busybox"};
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        CLEANUP_FREE char *path = alloc_printf("%s/%s", image, places[i]);
        struct stat st;
        if (lstat(path, &st) == 0) {
            return true;
        }
    }
    return false;
}

int oci_layout_image(const char *image, bool shares, struct oci_layout *l,
                     char hint[BACKEND_HINT_MAX], struct err *err)
{
    snprintf(hint, BACKEND_HINT_MAX,
             "an image of this backend is a directory with an unpacked root file system, e.g. of "
             "'debootstrap' or 'docker export NAME | tar -x -C DIRECTORY'");
    if (image[0] != '/') {
        return err_set(err, ERR_IMAGE, "image \"%.128s\" is not an absolute path", image);
    }
    l->top = realpath(image, NULL);
    struct stat st, host;
    if (l->top == NULL || stat(l->top, &st) < 0) {
        return err_sys(err, ERR_IMAGE, errno, "image %.256s", image);
    }
    if (!S_ISDIR(st.st_mode)) {
        return err_set(err, ERR_IMAGE, "image %.256s is not a directory", image);
    }
    if (stat("/", &host) == 0 && host.st_dev == st.st_dev && host.st_ino == st.st_ino) {
        return err_set(err, ERR_IMAGE, "the host's own root is not an image");
    }
    if (!has_shell(l->top)) {
        return err_set(err, ERR_IMAGE, "image %.256s has no /bin/sh in it", image);
    }
    DIR *d = opendir(l->top);
    if (d == NULL) {
        return err_sys(err, ERR_IMAGE, errno, "cannot list image %.256s", image);
    }
    l->entries = alloc_array(ENTRIES_MAX, sizeof(*l->entries));
    int rc = 0;
    struct dirent *entry;
    while (rc == 0 && (entry = readdir(d)) != NULL) {
        if (is_ours(entry->d_name, shares)) {
            continue;
        }
        if (l->count == ENTRIES_MAX) {
            rc = err_set(err, ERR_IMAGE, "image %.256s has more than %d entries at its top", image,
                         ENTRIES_MAX);
        } else if (!add_entry(l, entry->d_name)) {
            rc = err_set(err, ERR_IMAGE, "cannot read %.64s in image %.256s", entry->d_name, image);
        }
    }
    closedir(d);
    qsort(l->entries, l->count, sizeof(*l->entries), by_name);
    hint[0] = rc < 0 ? hint[0] : '\0';
    return rc;
}

bool oci_layout_has(const struct oci_layout *l, const char *name)
{
    for (size_t i = 0; i < l->count; i++) {
        if (strcmp(l->entries[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

int oci_layout_read(const struct oci_layout *l, const struct oci_entry *e, struct buf *out,
                    struct err *err)
{
    CLEANUP_FREE char *path = alloc_printf("%s/%s", l->top, e->name);
    buf_init(out, FILE_MAX);
    return file_read(path, out, err);
}
