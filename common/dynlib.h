/*
 * Loads libraries at their first use, if only some runs of a program need them. Each depends on so
 * many others that linking it would cost every start milliseconds and megabytes.
 *
 * Thread: the loop thread. Loading reads files and runs initialisers; it blocks for that long,
 * once.
 */
#ifndef CLOISTER_COMMON_DYNLIB_H
#define CLOISTER_COMMON_DYNLIB_H

#include <stddef.h>

#include "common/err.h"

struct dynlib_symbol {
    const char *name;
    size_t offset; /* of the function pointer in the table */
};

/* Tries `names` (ended by NULL) in order and fills all pointers of `table`. The caller passes
 * *ret_handle to dynlib_close(). On failure -ERR_ENGINE, with an error that names `what`
 * ("libcurl") and `package` ("libcurl4"); `table` is unchanged then.
 */
int dynlib_open(const char *const *names, const struct dynlib_symbol *symbols, size_t count,
                void *table, const char *what, const char *package, void **ret_handle,
                struct err *err) WARN_UNUSED;

/* NULL is fine. The code stays in the process. */
void dynlib_close(void *handle);

#endif
