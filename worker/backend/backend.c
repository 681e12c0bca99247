/*
 * Finds built-in backends by name. The table is common/backends.def; backend.h says what each
 * function does.
 */
#include "worker/backend/backend.h"

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
