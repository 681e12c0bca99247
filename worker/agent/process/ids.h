/*
 * Which ids this container has.
 * Thread: any. Reads small files only.
 */
#ifndef CLOISTER_WORKER_AGENT_PROCESS_IDS_H
#define CLOISTER_WORKER_AGENT_PROCESS_IDS_H

#include <stdbool.h>
#include <stdint.h>

/* True if a map such as /proc/self/uid_map has `id`, or if it cannot be read: then there are no
 * user namespaces. */
bool ids_has(const char *map_path, uint32_t id);

/* Returns `wanted` if both maps have it, else an id that containers with few ids have. Different
 * values of `wanted` give different ids. */
uint32_t ids_fit(const char *uid_map_path, const char *gid_map_path, uint32_t wanted);

#endif
