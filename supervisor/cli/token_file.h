/*
 * The token file as text that is changed: lines added, listed, removed.
 */
#ifndef CLOISTER_SUPERVISOR_CLI_TOKEN_FILE_H
#define CLOISTER_SUPERVISOR_CLI_TOKEN_FILE_H

#include <stddef.h>

#include "common/err.h"

/* Adds a line. The file is made if there is none. */
int token_file_add(const char *path, const char *line, struct err *err) WARN_UNUSED;

/* Removes all lines of a name; *ret_count is how many there were. */
int token_file_remove(const char *path, const char *name, size_t *ret_count,
                      struct err *err) WARN_UNUSED;

/* Calls `each` for each line with a token: its name, and the words behind the token. */
int token_file_list(const char *path, void (*each)(const char *name, const char *words),
                    struct err *err) WARN_UNUSED;

#endif
