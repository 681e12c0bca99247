/*
 * What the other programs have to know about a backend, which is the same for each: one row of
 * backends.def. How a backend works is known to its directory below worker/backend/ alone.
 *
 * Thread: any. Nothing here changes.
 */
#ifndef CLOISTER_COMMON_BACKENDS_H
#define CLOISTER_COMMON_BACKENDS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/confine.h"
#include "common/view.h"
#include "config.h"

#define BACKEND_HOME "/home/user" /* home directory of user code, in every backend */

/* Of loopback in a sandbox that has a door instead of network: the way out, an HTTP proxy. */
#define BACKEND_DOOR_PORT 3128

/* In the words about an installer that was ended by its backend: what follows says how it has taken
 * more than packages may. */
#define BACKEND_ROOM "no room for packages: "

#define BACKEND_SHARE_NAME_MAX 64 /* bytes of the name that a share has in a sandbox */

/* The default image on engines: the official one with its full name, so that Podman does not ask
 * for the registry; slim, since the agent needs only a shell and python3 from it. */
#define IMAGE_DOCKER_DEFAULT "docker.io/library/python:3.13-slim"

#define BACKEND_RUNTIMES_MAX  2
#define BACKEND_VARIABLES_MAX 2
#define BACKEND_SECRETS_MAX   1

/* Options of the server that make no sense without an ability: a row with the ability lists them.
 */
#define BACKEND_TAKES_NETWORK "allow-network "
#define BACKEND_TAKES_PACKAGES                                                                     \
    "packages build-packages package-index package-dir npm-registry package-hosts package-proxy "  \
    "package-ca packages-mb "                                                                      \
    "install-timeout-seconds "

#define BACKEND_TAKES_SHARES "share "
#define BACKEND_TAKES_IO     "io-read-mbps io-write-mbps io-iops io-device "

enum backend_images {
    BACKEND_IMAGES_DIRECTORIES, /* of this host */
    BACKEND_IMAGES_REFERENCES,  /* references that its engine has or pulls */
};

struct backend_row {
    const char *name;
    const char *about;   /* for --help */
    const char *options; /* names of options, each with a blank behind it. An option that is in any
                            row is for the backends that list it, every other one is for all. */
    bool is_automatic;   /* --backend auto tries it */
    bool is_for_tests;   /* people are not told of it */
    bool has_engine;     /* its sandboxes are kept by something that is somewhere: a struct place */
    bool is_its_runtime; /* people know it by its runtimes: with auto, --runtime means it */
    bool trial_leaves;   /* a trial that was cut off may leave something, which is to be swept */
    bool changes_limits; /* memory and CPU of a sandbox that runs can be changed */
    enum backend_images images;
    const char *default_image;     /* of references; NULL: its engine's own */
    enum confine_role worker_role; /* what its workers give up, see confine.h */
    const char *engine_variables[BACKEND_VARIABLES_MAX]; /* environment that names its place */
    /* environment with secrets, which no worker of another backend gets */
    const char *secret_variables[BACKEND_SECRETS_MAX];
    const char *interpreter_type; /* what a similar server calls it in INTERPRETER_TYPE; or NULL */
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

/* Whether an option of that name means anything to it. */
bool backend_row_takes(const struct backend_row *row, const char *option);

/* Whether a sandbox can have network, and packages of its own, both as far as the host lets it. */
bool backend_row_has_network(const struct backend_row *row);
bool backend_row_has_packages(const struct backend_row *row);
/* Whether a sandbox can see directories of this host. */
bool backend_row_has_shares(const struct backend_row *row);

/* Whether a directory of this host can have that name in a sandbox: it becomes the last part of a
 * path, and a word of a command line. */
bool backend_is_share_name(struct view name);

/* The names of those that take an option, for people: "docker", "docker and oci"; "" if all do.
 * Those for tests only if `tests`. To be freed. */
char *backend_rows_that_take(const char *option, bool tests);

#endif
