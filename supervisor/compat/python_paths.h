/*
 * Paths as the servers behind the python profiles have them: code runs in /app/results, which is
 * our workspace by another name.
 */
#ifndef CLOISTER_SUPERVISOR_COMPAT_PYTHON_PATHS_H
#define CLOISTER_SUPERVISOR_COMPAT_PYTHON_PATHS_H

#include <string.h>

#define PYTHON_RESULTS "/app/results"

/* The path by which we know a file that they name: borrowed, relative to the workspace if it is of
 * their directory. */
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
