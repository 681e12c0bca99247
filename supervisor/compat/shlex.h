/*
 * Splits a command line into words with the quoting of a shell and nothing else of one, like
 * Python's shlex.split().
 *
 * Thread: any. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_COMPAT_SHLEX_H
#define CLOISTER_SUPERVISOR_COMPAT_SHLEX_H

#include "common/err.h"
#include "common/view.h"
#include "proto/limits.h"

struct shlex {
    char *text; /* owned: one buffer for all words */
    struct view items[LIMIT_LIST];
    size_t count;
};

/* -ERR_INVALID: an open quotation, a backslash at the end, too many words. Call shlex_finish() in
 * any case. */
int shlex_split(const char *line, struct shlex *ret, struct err *err) WARN_UNUSED;
void shlex_finish(struct shlex *words);

#endif
