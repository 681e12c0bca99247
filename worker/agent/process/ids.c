/*
 * An engine's configuration can put each container into its own user namespace without telling the
 * client that creates it. The requested uid may not exist there. Inside the container the map can
 * be read, so the agent decides.
 */
#include "worker/agent/process/ids.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/buf.h"
#include "common/cleanup.h"
#include "common/fd.h"

#define MAP_MAX (64u << 10) /* the kernel takes at most 340 lines */

/* Above the users and services of images, below "nobody". */
#define FEW_FIRST 20000u
#define FEW_COUNT 40000u

bool ids_has(const char *map_path, uint32_t id)
{
    CLEANUP_BUF struct buf b;
    buf_init(&b, MAP_MAX);
    const char *line = file_read(map_path, &b, NULL) == 0 ? buf_cstr(&b) : NULL;
    if (line == NULL) {
        return true;
    }
    while (line != NULL && *line != '\0') {
        uint64_t inside, outside, count;
        if (sscanf(line, "%" SCNu64 " %" SCNu64 " %" SCNu64, &inside, &outside, &count) == 3 &&
            id >= inside && id - inside < count) {
            return true;
        }
        line = strchr(line, '\n');
        line = line != NULL ? line + 1 : NULL;
    }
    return false;
}

uint32_t ids_fit(const char *uid_map_path, const char *gid_map_path, uint32_t wanted)
{
    bool fits = ids_has(uid_map_path, wanted) && ids_has(gid_map_path, wanted);
    return fits ? wanted : FEW_FIRST + wanted % FEW_COUNT;
}
