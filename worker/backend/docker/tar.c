/*
 * libarchive is loaded only when it is needed (see dynlib.h): for the agent's archive, once per
 * engine and build of the agent, and for files that installers see.
 *
 * The format is ustar with extensions for long names, which wheels sometimes have.
 *
 * Nothing follows the two blocks that end an archive. Podman's reader stops there, and on a busy
 * machine its writer then fails with "broken pipe", because there is more.
 */
#include "worker/backend/docker/tar.h"

#include <archive.h>
#include <archive_entry.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "common/dynlib.h"

#define FILE_MODE 0555
#define DIR_MODE  0755

/* Each is archive_<name>. */
#define TAR_LIST(X)                                                                                \
    X(entry_new)                                                                                   \
    X(entry_free)                                                                                  \
    X(entry_set_pathname)                                                                          \
    X(entry_set_filetype)                                                                          \
    X(entry_set_perm)                                                                              \
    X(entry_set_size)                                                                              \
    X(entry_set_mtime)                                                                             \
    X(error_string)                                                                                \
    X(set_error)                                                                                   \
    X(write_new)                                                                                   \
    X(write_free)                                                                                  \
    X(write_open)                                                                                  \
    X(write_set_bytes_in_last_block)                                                               \
    X(write_close)                                                                                 \
    X(write_set_format_pax_restricted)                                                             \
    X(write_header)                                                                                \
    X(write_data)

struct tar_lib {
#define X(name) __typeof__(archive_##name) *name;
    TAR_LIST(X)
#undef X
};

static const struct dynlib_symbol symbols[] = {
#define X(name) {"archive_" #name, offsetof(struct tar_lib, name)},
    TAR_LIST(X)
#undef X
};

static const char *const names[] = {
#ifdef __APPLE__
    "libarchive.13.dylib", "libarchive.dylib",
#else
    "libarchive.so.13",
#endif
    NULL};

struct docker_tar {
    struct tar_lib lib;
    void *handle;
    struct archive *archive;
    struct buf *out;
    struct err err; /* why `out` took no more */
};

static la_ssize_t on_bytes(struct archive *a, void *arg, const void *data, size_t len)
{
    struct docker_tar *t = arg;
    if (t->out == NULL) {
        return (la_ssize_t)len; /* after a failure libarchive still writes the end: discard it */
    }
    if (buf_add(t->out, data, len, &t->err) < 0) {
        t->lib.set_error(a, -1, "%s", "no room");
        return -1;
    }
    return (la_ssize_t)len;
}

/* Warnings are about names in an unknown encoding, which are kept unchanged. */
static int check(struct docker_tar *t, int status, struct err *err)
{
    if (status >= ARCHIVE_WARN && t->err.code == 0) {
        return 0;
    }
    if (t->err.code != 0) {
        return err_set(err, (enum err_code)t->err.code, "%s", t->err.text);
    }
    const char *text = t->lib.error_string(t->archive);
    return err_set(err, ERR_INTERNAL, "cannot pack an archive: %s", text != NULL ? text : "?");
}

int docker_tar_open(struct buf *out, struct docker_tar **ret, struct err *err)
{
    struct docker_tar *t = alloc_one(struct docker_tar);
    int rc = dynlib_open(names, symbols, sizeof(symbols) / sizeof(symbols[0]), &t->lib,
                         "libarchive", "libarchive13", &t->handle, err);
    if (rc < 0) {
        free(t);
        return rc;
    }
    t->out = out;
    t->archive = alloc_check(t->lib.write_new());
    rc = check(t, t->lib.write_set_format_pax_restricted(t->archive), err);
    if (rc == 0) {
        rc = check(t, t->lib.write_set_bytes_in_last_block(t->archive, 1), err);
    }
    if (rc == 0) {
        rc = check(t, t->lib.write_open(t->archive, t, NULL, on_bytes, NULL), err);
    }
    if (rc < 0) {
        docker_tar_close(t);
        return rc;
    }
    *ret = t;
    return 0;
}

void docker_tar_close(struct docker_tar *t)
{
    if (t != NULL) {
        t->out = NULL;
        t->lib.write_free(t->archive);
        dynlib_close(t->handle);
        free(t);
    }
}

int docker_tar_entry(struct docker_tar *t, const char *name, bool is_dir, uint64_t size,
                     struct err *err)
{
    struct archive_entry *entry = alloc_check(t->lib.entry_new());
    t->lib.entry_set_pathname(entry, name);
    t->lib.entry_set_filetype(entry, is_dir ? AE_IFDIR : AE_IFREG);
    t->lib.entry_set_perm(entry, is_dir ? DIR_MODE : FILE_MODE);
    t->lib.entry_set_size(entry, (la_int64_t)size);
    t->lib.entry_set_mtime(entry, 0, 0);
    int rc = check(t, t->lib.write_header(t->archive, entry), err);
    t->lib.entry_free(entry);
    return rc;
}

int docker_tar_content(struct docker_tar *t, struct view piece, struct err *err)
{
    if (piece.len == 0) {
        return 0;
    }
    la_ssize_t n = t->lib.write_data(t->archive, piece.data, piece.len);
    return check(t, n == (la_ssize_t)piece.len ? ARCHIVE_OK : ARCHIVE_FATAL, err);
}

int docker_tar_finish(struct docker_tar *t, struct err *err)
{
    return check(t, t->lib.write_close(t->archive), err);
}

int docker_tar_write(const struct docker_tar_file *files, size_t count, struct buf *out,
                     struct err *err)
{
    struct docker_tar *t;
    int rc = docker_tar_open(out, &t, err);
    if (rc < 0) {
        return rc;
    }
    for (size_t i = 0; rc == 0 && i < count; i++) {
        rc = docker_tar_entry(t, files[i].name, false, files[i].content.len, err);
        rc = rc == 0 ? docker_tar_content(t, files[i].content, err) : rc;
    }
    rc = rc == 0 ? docker_tar_finish(t, err) : rc;
    docker_tar_close(t);
    return rc;
}
