/*
 * Paths of the servers behind the python profiles: code runs in /app/results there, and the
 * workspace of these sandboxes has that name.
 */
#ifndef CLOISTER_SUPERVISOR_COMPAT_PYTHON_PATHS_H
#define CLOISTER_SUPERVISOR_COMPAT_PYTHON_PATHS_H

#include <string.h>

#define PYTHON_RESULTS "/app/results"

/* Returns our path of a file that they name: borrowed, and relative to the workspace if it is below
 * /app/results. */
static inline const char *python_path_inside(const char *path)
{
    size_t len = strlen(PYTHON_RESULTS);
    if (strncmp(path, PYTHON_RESULTS, len) != 0 || (path[len] != '/' && path[len] != '\0')) {
        return path;
    }
    path += len;
    path += strspn(path, "/");
    return path[0] != '\0' ? path : ".";
}

#endif
