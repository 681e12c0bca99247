/*
 * The volume that provides the agent to containers of an engine.
 *
 * Thread: the loop thread. Nothing blocks for longer than reading the agent's file takes.
 */
#ifndef CLOISTER_WORKER_BACKEND_DOCKER_VOLUME_H
#define CLOISTER_WORKER_BACKEND_DOCKER_VOLUME_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/err.h"
#include "worker/backend/backend.h"
#include "worker/backend/docker/api.h"
#include "worker/backend/owner.h"
#include "worker/backend/task.h"

#define DOCKER_AGENT_MARK "complete" /* file in the volume that marks it as complete */

#define DOCKER_VOLUME_LABEL OWNER_LABEL "agent" /* its name */

struct docker_volume;

/* Name for the agent in this file: another agent has another name. The caller frees. */
int docker_volume_name(const char *agent_path, char **ret, struct err *err) WARN_UNUSED;

/* Adds to a JSON object the labels that say which file of this host the volume is for. */
void docker_volume_label(cJSON *labels, const char *name, const char *agent_path);

/* The body for /volumes/create: JSON text, owned by the caller. An existing volume is not
 * changed. */
char *docker_volume_body(const char *name, const char *agent_path);

/* The outcome of a request for a volume: 0 also if another creation has made it in the same moment,
 * which Podman calls an error, where Docker answers with the volume. */
int docker_volume_made(int rc, const struct err *err);

/* True if a volume with these labels is not needed any more: the file of this host that it was
 * filled from is gone or is another agent now. Reads that file. */
bool docker_volume_is_old(const cJSON *labels);

/* `by_others`: other workers have filled it, and we have not. */
typedef void (*docker_volume_fn)(void *arg, int rc, bool by_others, const struct err *err);

/* How often the workers of the instance have filled the volume: to be asked before a container is
 * made that needs it. */
uint64_t docker_volume_fills(const struct backend_spec *spec);

/* Makes the volume and fills it with spec->agent_path, through a helper container of `image` (any
 * that the engine has), unless others have done so since docker_volume_fills() said `fills`. The
 * object is gone at `done`. */
struct docker_volume *docker_volume_fill(struct tasks *tasks, struct docker_api *api,
                                         const struct backend_spec *spec, uint64_t fills,
                                         const char *name, const char *image, docker_volume_fn done,
                                         void *arg);

/* Fills nothing any more if it still waits for its turn; `done` follows, with -ERR_SHUTTING_DOWN
 * then. */
void docker_volume_stop(struct docker_volume *v);

/* No callback follows; a helper container that was made is removed by a later probe. NULL is fine.
 */
void docker_volume_cancel(struct docker_volume *v);

#endif
