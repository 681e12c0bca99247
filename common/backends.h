/*
 * What the supervisor knows about a backend: one row of backends.def. How a backend works is known
 * only in its directory below worker/backend/.
 *
 * Thread: any. Nothing here changes.
 */
#ifndef CLOISTER_COMMON_BACKENDS_H
#define CLOISTER_COMMON_BACKENDS_H

#include <stdbool.h>
#include <stddef.h>

#include "config.h"

#define BACKEND_HOME "/home/user" /* home directory of user code, in every backend */

#define BACKEND_RUNTIMES_MAX  2
#define BACKEND_VARIABLES_MAX 2

enum backend_images {
    BACKEND_IMAGES_DIRECTORIES, /* of this host */
    BACKEND_IMAGES_REFERENCES,  /* references that its engine has or pulls */
};

struct backend_row {
    const char *name;
    const char *about;   /* for --help */
    bool is_automatic;   /* --backend auto tries it */
    bool has_engine;     /* it takes --engine */
    bool is_its_runtime; /* with `auto`, --runtime selects this backend */
    bool trial_leaves;   /* a trial that was cut off may leave something to sweep */
    enum backend_images images;
    const char *engine_variables[BACKEND_VARIABLES_MAX]; /* environment that names its place */
    const char *runtimes[BACKEND_RUNTIMES_MAX]; /* tried if none is named; "" is its default */
    const char *remedy;                         /* for the error if it cannot be used: what to do */
    const char *remedy_alone; /* added to that if there is no other backend to try */
    const char *advice;       /* the same in more words, for `doctor` */
};

enum {
#define BACKEND(name, about, ...) BACKEND_ROW_##name,
#include "common/backends.def"
#undef BACKEND
    BACKEND_COUNT
};

extern const struct backend_row backend_rows[BACKEND_COUNT];

/* NULL if there is none of that name. */
const struct backend_row *backend_row_find(const char *name);

#endif
