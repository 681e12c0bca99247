/*
 * What the supervisor has to know about a backend, which is the same for each: one row of
 * backends.def. How a backend works is known to its directory below worker/backend/ alone.
 *
 * Thread: any. Nothing here changes.
 */
#ifndef CLOISTER_COMMON_BACKENDS_H
#define CLOISTER_COMMON_BACKENDS_H

#include <stdbool.h>
#include <stddef.h>

#include "config.h"

#define BACKEND_HOME "/home/user" /* of user code, whatever keeps the sandbox */

#define BACKEND_RUNTIMES_MAX  2
#define BACKEND_VARIABLES_MAX 2

enum backend_images {
    BACKEND_IMAGES_DIRECTORIES, /* of this host */
    BACKEND_IMAGES_REFERENCES,  /* names that its engine knows or fetches */
};

struct backend_row {
    const char *name;
    const char *about;   /* for --help */
    bool is_automatic;   /* --backend auto tries it */
    bool has_engine;     /* it takes --engine */
    bool is_its_runtime; /* people know it by its runtimes: with auto, --runtime means it */
    bool trial_leaves;   /* a trial that was cut off may leave something, which is to be swept */
    enum backend_images images;
    const char *engine_variables[BACKEND_VARIABLES_MAX]; /* environment that says where it is */
    const char
        *runtimes[BACKEND_RUNTIMES_MAX]; /* tried unless one is named; "" is its own choice */
    const char *remedy;                  /* what to do if it cannot be used, in the error */
    const char *remedy_alone;            /* behind that, if no other backend comes into question */
    const char *advice;                  /* the same at length, for the doctor */
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
