/*
 * Finds the image of a sandbox on the engine, checks its architecture, and pulls it if that is
 * allowed.
 *
 * Thread: the loop thread. Nothing blocks. `done` never runs inside the call that takes it.
 */
#ifndef CLOISTER_WORKER_BACKEND_DOCKER_IMAGE_H
#define CLOISTER_WORKER_BACKEND_DOCKER_IMAGE_H

#include "common/err.h"
#include "worker/backend/backend.h"
#include "worker/backend/docker/api.h"

struct docker_image;

/* id is the engine's id of the image, borrowed during the callback. */
typedef void (*docker_image_fn)(void *arg, int rc, const char *id, const struct err *err,
                                const char *hint);

/* Uses image, pull, progress and agent_path of `spec`; the image must have the agent's
 * architecture. `spec` must stay valid until `done`, after which the object is gone. */
struct docker_image *docker_image_get(struct docker_api *api, const struct backend_spec *spec,
                                      docker_image_fn done, void *arg);

/* No callback follows. NULL is fine. */
void docker_image_cancel(struct docker_image *image);

/* "amd64" and so on, as engines call it, read from the agent's ELF header. -ERR_CONFIG. */
int docker_image_agent_arch(const char *agent_path, const char **ret, struct err *err) WARN_UNUSED;

/* Splits "repo[:tag][@digest]" in name and tag; both owned by the caller. The tag is "latest" if
 * there is none. */
void docker_image_split(const char *reference, char **ret_name, char **ret_tag);

#endif
