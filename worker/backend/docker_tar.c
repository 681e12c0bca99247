/*
 * Once per engine and build of the agent a tar archive of two files is needed, so libarchive is
 * loaded for that moment only (see dynlib.h).
 */
#include "worker/backend/docker_tar.h"

#include <archive.h>
#include <archive_entry.h>

#include "common/alloc.h"
#include "worker/backend/dynlib.h"

#define FILE_MODE 0555

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
    X(write_close)                                                                                 \
    X(write_set_format_ustar)                                                                      \
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

struct tar {
    const struct tar_lib *lib;
    struct buf *out;
    struct err *err;
};

static la_ssize_t on_bytes(struct archive *a, void *arg, const void *data, size_t len)
{
    struct tar *t = arg;
    if (buf_add(t->out, data, len, t->err) < 0) {
        t->lib->set_error(a, -1, "%s", "no room");
        return -1;
    }
    return (la_ssize_t)len;
}

static bool add_file(const struct tar_lib *lib, struct archive *a,
                     const struct docker_tar_file *file)
{
    struct archive_entry *entry = alloc_check(lib->entry_new());
    lib->entry_set_pathname(entry, file->name);
    lib->entry_set_filetype(entry, AE_IFREG);
    lib->entry_set_perm(entry, FILE_MODE);
    lib->entry_set_size(entry, (la_int64_t)file->content.len);
    lib->entry_set_mtime(entry, 0, 0);
    bool good =
        lib->write_header(a, entry) == ARCHIVE_OK &&
        (file->content.len == 0 || lib->write_data(a, file->content.data, file->content.len) ==
                                       (la_ssize_t)file->content.len);
    lib->entry_free(entry);
    return good;
}

int docker_tar_write(const struct docker_tar_file *files, size_t count, struct buf *out,
                     struct err *err)
{
    struct tar_lib lib;
    struct err why = ERR_INIT;
    struct tar tar = {.lib = &lib, .out = out, .err = &why};
    void *handle;
    int rc = dynlib_open(names, symbols, sizeof(symbols) / sizeof(symbols[0]), &lib, "libarchive",
                         "libarchive13", &handle, err);
    if (rc < 0) {
        return rc;
    }
    struct archive *a = alloc_check(lib.write_new());
    bool good = lib.write_set_format_ustar(a) == ARCHIVE_OK &&
                lib.write_open(a, &tar, NULL, on_bytes, NULL) == ARCHIVE_OK;
    for (size_t i = 0; good && i < count; i++) {
        good = add_file(&lib, a, &files[i]);
    }
    good = good && lib.write_close(a) == ARCHIVE_OK;
    if (!good && why.code == 0) {
        const char *text = lib.error_string(a);
        err_set(&why, ERR_INTERNAL, "cannot pack an archive: %s", text != NULL ? text : "?");
    }
    lib.write_free(a);
    dynlib_close(handle);
    return good ? 0 : err_set(err, (enum err_code)why.code, "%s", why.text);
}
