/*
 * Small files that hold secrets. Who else may read or change such a file is looked at on the file
 * that is read, not on its name.
 *
 * Thread: any. Reading blocks for as long as a small regular file takes.
 */
#ifndef CLOISTER_SUPERVISOR_BASE_SECRET_FILE_H
#define CLOISTER_SUPERVISOR_BASE_SECRET_FILE_H

#include <stdbool.h>

#include "common/buf.h"
#include "common/err.h"

#define SECRET_FILE_MAX_BYTES (1u << 20)

/* Reads a regular file of ours or root's that not everybody may write; anything else is an
 * ERR_CONFIG that says what to do. *ret_open: everybody may read it. `out` is ended with
 * secret_file_wipe(). */
int secret_file_read(const char *path, struct buf *out, bool *ret_open,
                     struct err *err) WARN_UNUSED;

void secret_file_wipe(struct buf *out);

#endif
