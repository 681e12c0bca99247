/*
 * A process can only be put under a profile that the kernel has, and a runtime fails for one that
 * it has not. So the kernel is asked, and not whether there is a file in /etc.
 */
#include "common/kernel/apparmor.h"

#include <string.h>

#include "common/alloc.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/fd.h"

#define PROFILES_MAX (1u << 20) /* a line each */

static bool read_below(const char *fs_root, const char *path, struct buf *ret)
{
    CLEANUP_FREE char *full = alloc_printf("%s%s", fs_root, path);
    struct err err;
    buf_init(ret, PROFILES_MAX);
    return file_read(full, ret, &err) == 0 && buf_cstr(ret) != NULL;
}

/* "NAME (enforce)" each; in complain mode nothing is kept out, which is for whoever has chosen it.
 */
static bool lists_ours(const char *profiles)
{
    const size_t len = strlen(APPARMOR_PROFILE " (");
    for (const char *line = profiles; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n' ? 1 : 0;
        if (strncmp(line, APPARMOR_PROFILE " (", len) == 0) {
            return true;
        }
    }
    return false;
}

enum apparmor apparmor_look(const char *fs_root)
{
    CLEANUP_BUF struct buf enabled;
    if (!read_below(fs_root, "/sys/module/apparmor/parameters/enabled", &enabled) ||
        buf_cstr(&enabled)[0] != 'Y') {
        return APPARMOR_NONE;
    }
    CLEANUP_BUF struct buf profiles;
    if (!read_below(fs_root, "/sys/kernel/security/apparmor/profiles", &profiles)) {
        return APPARMOR_HIDDEN;
    }
    return lists_ours(buf_cstr(&profiles)) ? APPARMOR_LOADED : APPARMOR_UNLOADED;
}
