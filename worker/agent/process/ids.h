/*
 * Which ids this container has.
 * Thread: any. Reads small files only.
 */
#ifndef CLOISTER_WORKER_AGENT_PROCESS_IDS_H
#define CLOISTER_WORKER_AGENT_PROCESS_IDS_H

#include <stdbool.h>
#include <stdint.h>

/* Whether `id` can be taken, by a map such as /proc/self/uid_map. True as well if the map cannot be
 * read: there is no user namespace then. */
bool ids_has(const char *map_path, uint32_t id);

/* `wanted` where both maps have it, else an id that containers with few ids have, and that stays
 * apart for different `wanted`. */
uint32_t ids_fit(const char *uid_map_path, const char *gid_map_path, uint32_t wanted);

#endif
