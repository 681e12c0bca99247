/*
 * Labels that name the server of a container, and the check whether that server is provably dead.
 *
 * Thread: any. Reads small files.
 */
#ifndef CLOISTER_WORKER_BACKEND_OWNER_H
#define CLOISTER_WORKER_BACKEND_OWNER_H

#include <cjson/cJSON.h>
#include <stdbool.h>

#define OWNER_HOST_SIZE 300
#define OWNER_LABEL     "io.cloister." /* in front of every label of ours */

/* Adds our labels to a JSON object. `dir` is the sandbox's private directory on this host, "" for a
 * helper that belongs to none. */
void owner_label(cJSON *labels, const char *sandbox, const char *dir);

/* True if a container with these labels has no owner any more: it was made on this host, and either
 * before the current boot, or its sandbox's directory (for a helper: its maker) is gone. */
bool owner_is_gone(const cJSON *labels);

/* The identity of this host in labels: its name and a hash of its machine id. "" if it has none. */
void owner_host(char ret[OWNER_HOST_SIZE]);

#endif
