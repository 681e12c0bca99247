/*
 * Finds built-in backends by name, and what all of them say in the same words. The table is
 * common/backends.def; backend.h says what each function does.
 */
#include "worker/backend/backend.h"

#include <stdio.h>
#include <string.h>

static const struct backend_ops *const builtin[] = {
#define BACKEND(name, about, ...) &backend_##name,
#include "common/backends.def"
#undef BACKEND
};

const struct backend_ops *backend_find(const char *name)
{
    for (size_t i = 0; i < sizeof(builtin) / sizeof(builtin[0]); i++) {
        if (strcmp(builtin[i]->name, name) == 0) {
            return builtin[i];
        }
    }
    return NULL;
}

void backend_unapplied_names(const char *const *unapplied, size_t count,
                             char ret[BACKEND_NAMES_MAX])
{
    size_t used = 0;
    ret[0] = '\0';
    if (count == 1 || count == 2) {
        snprintf(ret, BACKEND_NAMES_MAX, "%s%s%s", unapplied[0], count > 1 ? "; " : "",
                 count > 1 ? unapplied[1] : "");
        return;
    }
    for (size_t i = 0; i < count && used < BACKEND_NAMES_MAX; i++) {
        const char *before = i == 0 ? "" : i + 1 == count ? " and " : ", ";
        used += (size_t)snprintf(ret + used, BACKEND_NAMES_MAX - used, "%s%.*s", before,
                                 (int)strcspn(unapplied[i], ":"), unapplied[i]);
    }
}
