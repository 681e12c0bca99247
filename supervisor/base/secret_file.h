/*
 * Reads small files that contain secrets. Permissions are checked on the opened file, not on its
 * name.
 *
 * Thread: any. Reading blocks as long as a small regular file takes.
 */
#ifndef CLOISTER_SUPERVISOR_BASE_SECRET_FILE_H
#define CLOISTER_SUPERVISOR_BASE_SECRET_FILE_H

#include <stdbool.h>

#include "common/buf.h"
#include "common/err.h"

#define SECRET_FILE_MAX_BYTES (1u << 20)

/* Reads a regular file that belongs to us or root and that not everybody may write; otherwise the
 * text of ERR_CONFIG says what to do. *ret_open: everybody may read it. Free `out` with
 * secret_file_wipe(). */
int secret_file_read(const char *path, struct buf *out, bool *ret_open,
                     struct err *err) WARN_UNUSED;

/* Overwrites the buffer with zeros, and frees it. */
void secret_file_wipe(struct buf *out);

#endif
