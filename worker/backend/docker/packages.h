/*
 * The package directory of a sandbox on an engine: one volume for each of its subdirectories, so
 * that these exist from the beginning.
 *
 * Thread: the loop thread. Nothing blocks. `done` never runs inside the call that takes it.
 */
#ifndef CLOISTER_WORKER_BACKEND_DOCKER_PACKAGES_H
#define CLOISTER_WORKER_BACKEND_DOCKER_PACKAGES_H

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"
#include "worker/backend/backend.h"
#include "worker/backend/docker/api.h"

#define DOCKER_PACKAGES_COUNT  2
#define DOCKER_PACKAGES_PREFIX "cloister-packages-" /* of the names of all volumes */

/* Where volume `i` is mounted. */
const char *docker_packages_path(size_t i);

/* The name of volume `i` of a sandbox. The caller frees. */
char *docker_packages_volume(const char *sandbox, size_t i);

/* True for a name that docker_packages_volume() gives. */
bool docker_packages_is_volume(const char *name);

/* True for an installer: it has another sandbox's volumes, neither makes nor removes them. */
bool docker_packages_are_borrowed(const struct backend_spec *spec);

struct docker_packages;

typedef void (*docker_packages_fn)(void *arg, int rc, const struct err *err);

/* Makes the volumes of a sandbox, with labels of their owner (owner.h). The object is gone at
 * `done`, here and below. */
struct docker_packages *docker_packages_make(struct docker_api *api, const char *sandbox,
                                             const char *dir, docker_packages_fn done, void *arg);

/* -ERR_GONE if one of the volumes was not made by docker_packages_make(): an engine makes missing
 * volumes of a container. Call it when a container uses them, so that they cannot be removed any
 * more. */
struct docker_packages *docker_packages_check(struct docker_api *api, const char *sandbox,
                                              docker_packages_fn done, void *arg);

/* No callback follows. NULL is fine. */
void docker_packages_cancel(struct docker_packages *p);

#endif
