/*
 * Notes the first process of a container for whoever ends the whole instance (common/ending.h).
 * Loop thread only.
 */
#ifndef CLOISTER_WORKER_BACKEND_DOCKER_FIRST_H
#define CLOISTER_WORKER_BACKEND_DOCKER_FIRST_H

#include "common/io/json.h"

/* `inspected`: what the engine says of the container; `dir`: the sandbox's directory. Writes no
 * note if that process is not provably one of this container on this host. */
void docker_first_note(const cJSON *inspected, const char *dir);

#endif
