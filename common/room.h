/*
 * How the memory of a sandbox is divided. Its files are kept in memory and count as its memory, so
 * what they may take together has to leave some for programs, or a sandbox full of files could run
 * none any more, not even the one that removes them.
 *
 * Thread: any. Nothing blocks. All in bytes.
 */
#ifndef CLOISTER_COMMON_ROOM_H
#define CLOISTER_COMMON_ROOM_H

#include <stdint.h>

/* The largest workspace that leaves room. */
uint64_t room_disk_max(uint64_t memory);

/* The workspace of a sandbox for which nobody has said another size; whole MiB, at least one. */
uint64_t room_disk_default(uint64_t memory);

/* The smallest memory, in whole MiB, that a workspace of this size leaves room in. */
uint64_t room_memory_min(uint64_t disk);

/* The size of each of the three other places for files: /tmp, the home directory, /dev/shm. */
uint64_t room_other(uint64_t memory, uint64_t disk);

#endif
