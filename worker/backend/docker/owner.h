/*
 * Whose container is it? Labels that say so, and the judgement whether its server is provably gone.
 *
 * Thread: any. Reads small files.
 */
#ifndef CLOISTER_WORKER_BACKEND_DOCKER_OWNER_H
#define CLOISTER_WORKER_BACKEND_DOCKER_OWNER_H

#include <cjson/cJSON.h>
#include <stdbool.h>

#define DOCKER_HOST_SIZE 300
#define DOCKER_LABEL     "io.cloister." /* in front of every label of ours */

/* Adds our labels to a JSON object. `dir` is the sandbox's private directory on this host, "" for a
 * helper that belongs to none. */
void docker_owner_label(cJSON *labels, const char *sandbox, const char *dir);

/* True if a container with these labels belongs to nobody any more: it was made on this host, and
 * before its present boot, or its sandbox's directory is gone, or for a helper, its maker. */
bool docker_owner_is_gone(const cJSON *labels);

/* This host as the labels have it: its name, and a hash of what makes two of that name differ. ""
 * if it has no such identity. */
void docker_owner_host(char ret[DOCKER_HOST_SIZE]);

#endif
