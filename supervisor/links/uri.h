/*
 * The names of resources:
 *
 *   sandbox://ID/workspace/a%20file     a file by its absolute path in the sandbox, or a directory;
 *                                       a slash at its end says that a directory is meant
 *   execution://ID/stdout (or stderr)   what running code wrote
 *
 * ID is an id that the server gave, or the name of a sandbox. Each thing has one name: what has
 * dots, empty segments, or encoded slashes or control characters in its path names nothing.
 * Thread: any. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_LINKS_URI_H
#define CLOISTER_SUPERVISOR_LINKS_URI_H

#include <stdbool.h>
#include <stddef.h>

#include "common/view.h"
#include "proto/limits.h"

#define URI_SANDBOX   "sandbox://"
#define URI_EXECUTION "execution://"

enum uri_kind { URI_FILE, URI_STREAM };

struct uri {
    enum uri_kind kind;
    char id[LIMIT_NAME + 1];
    char path[LIMIT_PATH]; /* URI_FILE: absolute, valid UTF-8, "/" for the root */
    bool is_directory;     /* URI_FILE: it ends in a slash */
    bool is_stderr;        /* URI_STREAM */
};

/* False if it is none of ours; *ret is undefined then. */
bool uri_parse(const char *text, struct uri *ret);

/* Texts owned by the caller. `path` is absolute, or (with a base that is) relative to the base; it
 * may have dots, which are taken out by their letters. NULL if no URI can name it: a path that is
 * no UTF-8, has control characters or is too long, or climbs with "..". */
char *uri_of_file(const char *id, const char *base, struct view path);
char *uri_of_stream(const char *id, bool is_stderr);

#endif
