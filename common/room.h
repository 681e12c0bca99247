/*
 * Divides the memory of a sandbox. Its files are kept in memory and count against its limit, so the
 * file systems must leave memory for programs. Otherwise a sandbox full of files could not even run
 * the program that removes them.
 *
 * Thread: any. Nothing blocks. All in bytes.
 */
#ifndef CLOISTER_COMMON_ROOM_H
#define CLOISTER_COMMON_ROOM_H

#include <stdint.h>

/* The largest workspace that leaves memory for programs. */
uint64_t room_disk_max(uint64_t memory);

/* The default size of a workspace; whole MiB, at least one. */
uint64_t room_disk_default(uint64_t memory);

/* The smallest memory, in whole MiB, in which a workspace of this size leaves memory for
 * programs. */
uint64_t room_memory_min(uint64_t disk);

/* The size of each of the three other places for files: /tmp, the home directory, /dev/shm. */
uint64_t room_other(uint64_t memory, uint64_t disk);

#endif
