#include "common/backends.h"

#include <string.h>

const struct backend_row backend_rows[BACKEND_COUNT] = {
#define BACKEND(id, text, ...) {.name = #id, .about = text, __VA_ARGS__},
#include "common/backends.def"
#undef BACKEND
};

const struct backend_row *backend_row_find(const char *name)
{
    for (size_t i = 0; i < BACKEND_COUNT; i++) {
        if (strcmp(backend_rows[i].name, name) == 0) {
            return &backend_rows[i];
        }
    }
    return NULL;
}
