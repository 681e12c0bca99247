/*
 * Packages may be installed at any time, but an interpreter reads these variables only when it
 * starts. So the variables name the package directories from the beginning, while these are still
 * empty.
 *
 * Directories of packages come last in PATH, so that no package replaces a program of the image.
 */
#include "worker/agent/run/userenv.h"

#include <errno.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "worker/agent/process/spawn.h"

static int set_variable(const char *name, const char *value, struct err *err)
{
    return setenv(name, value, 1) < 0 ? err_sys(err, ERR_NO_MEMORY, errno, "cannot set %s", name)
                                      : 0;
}

int userenv_add(const char *name, const char *dir, const char *below, bool first,
                const char *otherwise, struct err *err)
{
    const char *old = getenv(name);
    if (old == NULL || old[0] == '\0') {
        old = otherwise;
    }
    const char *colon = old[0] != '\0' ? ":" : "";
    char *value = first ? alloc_printf("%s%s%s%s", dir, below, colon, old)
                        : alloc_printf("%s%s%s%s", old, colon, dir, below);
    int rc = set_variable(name, value, err);
    free(value);
    return rc;
}

int userenv_set(const char *home, const char *packages, struct err *err)
{
    int rc = home != NULL ? set_variable("HOME", home, err) : 0;
    if (rc == 0 && getenv("MPLBACKEND") == NULL) {
        rc = set_variable("MPLBACKEND", "agg", err); /* there is no screen; plots are files */
    }
    if (rc < 0 || packages == NULL) {
        return rc;
    }
    rc = userenv_add("PYTHONPATH", packages, "/python", true, "", err);
    if (rc == 0) {
        rc = userenv_add("NODE_PATH", packages, "/node/node_modules", false, "", err);
    }
    if (rc == 0) {
        rc = userenv_add("PATH", packages, "/python/bin", false, SPAWN_DEFAULT_PATH, err);
    }
    return rc < 0 ? rc : userenv_add("PATH", packages, "/node/node_modules/.bin", false, "", err);
}
