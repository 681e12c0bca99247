#include "tests/lib/needs.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool needs_has_program(const char *name)
{
    const char *path = getenv("PATH");
    char file[PATH_MAX];
    while (path != NULL) {
        size_t len = strcspn(path, ":");
        snprintf(file, sizeof(file), "%.*s/%s", (int)len, path, name);
        if (access(file, X_OK) == 0) {
            return true;
        }
        path = path[len] == ':' ? path + len + 1 : NULL;
    }
    return false;
}

void needs_program(const char *name)
{
    if (!needs_has_program(name)) {
        printf("1..0 # SKIP there is no %s here\n", name);
        exit(0);
    }
}
