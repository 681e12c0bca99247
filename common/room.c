/*
 * The default of 512 MiB gives 64 for programs, 256 for the workspace, and 64 for each other place.
 * Small sandboxes keep these proportions as far as possible. Large ones have a workspace of half
 * their memory and at most 64 MiB in each other place, which is for small files.
 */
#include "common/room.h"

#define MIB       ((uint64_t)1 << 20)
#define PROGRAMS  (64 * MIB) /* for an interpreter, the agent and the kernel's memory for them */
#define OTHER_MAX (64 * MIB)
#define OTHER_MIN (8 * MIB)
#define OTHERS    3

static uint64_t min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The most that all files together may take. */
static uint64_t files(uint64_t memory)
{
    return memory - min(PROGRAMS, memory / 2);
}

uint64_t room_disk_max(uint64_t memory)
{
    return files(memory) - OTHERS * min(OTHER_MIN, files(memory) / 7);
}

uint64_t room_disk_default(uint64_t memory)
{
    uint64_t disk = min(memory / 2, files(memory) / 7 * 4) / MIB * MIB;
    return disk > MIB ? disk : MIB;
}

uint64_t room_memory_min(uint64_t disk)
{
    uint64_t low = 0; /* too small */
    uint64_t high = disk / MIB * 4 + 16;
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if (room_disk_max(middle * MIB) >= disk) {
            high = middle;
        } else {
            low = middle;
        }
    }
    return high * MIB;
}

uint64_t room_other(uint64_t memory, uint64_t disk)
{
    uint64_t left = files(memory) > disk ? (files(memory) - disk) / OTHERS : 0;
    uint64_t least = min(OTHER_MIN, files(memory) / 7);
    return left > OTHER_MAX ? OTHER_MAX : left < least ? least : left;
}
