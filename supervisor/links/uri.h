/*
 * The names of resources:
 *
 *   sandbox://ID/workspace/a%20file     a file by its absolute path in the sandbox, or a directory;
 *                                       a slash at its end says that a directory is meant
 *   execution://ID/stdout (or stderr)   what running code wrote
 *
 * ID is an id that the server gave, or the name of a sandbox. Each thing has one URI: a path with
 * dots, empty segments, encoded slashes or control characters is invalid.
 *
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
    bool is_directory;     /* URI_FILE: it ends with a slash */
    bool is_stderr;        /* URI_STREAM */
};

/* False if it is not one of our URIs; *ret is undefined then. */
bool uri_parse(const char *text, struct uri *ret);

/* The caller frees the text. `path` is absolute, or (if base is absolute) relative to base; dot
 * segments are removed textually. NULL if no URI can name it: the path is not UTF-8, has control
 * characters, is too long, or leaves the root by "..". */
char *uri_of_file(const char *id, const char *base, struct view path);
char *uri_of_stream(const char *id, bool is_stderr);

#endif
