/*
 * A command line cut into words, as a shell quotes them and without anything else of a shell: what
 * Python's shlex.split() does.
 *
 * Thread: any. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_COMPAT_SHLEX_H
#define CLOISTER_SUPERVISOR_COMPAT_SHLEX_H

#include "common/err.h"
#include "common/view.h"
#include "proto/limits.h"

struct shlex {
    char *text; /* owned: all of them, in one piece */
    struct view items[LIMIT_LIST];
    size_t count;
};

/* -ERR_INVALID: a quotation without an end, a backslash at the end, too many words. shlex_finish()
 * in any case. */
int shlex_split(const char *line, struct shlex *ret, struct err *err) WARN_UNUSED;
void shlex_finish(struct shlex *words);

#endif
