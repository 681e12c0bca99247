/*
 * Notes the first process of a container for the end of the instance (common/ending.h). Loop thread
 * only.
 */
#ifndef CLOISTER_WORKER_BACKEND_DOCKER_FIRST_H
#define CLOISTER_WORKER_BACKEND_DOCKER_FIRST_H

#include "common/io/json.h"

/* `inspected` is the engine's description of the container, `dir` the sandbox's directory. Writes
 * no note unless the process provably belongs to this container on this host. */
void docker_first_note(const cJSON *inspected, const char *dir);

#endif
