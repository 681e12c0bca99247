#include "common/backends.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"

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

static bool lists(const struct backend_row *row, const char *option)
{
    size_t len = strlen(option);
    for (const char *at = row->options; *at != '\0'; at += strspn(at, " ")) {
        if (strcspn(at, " ") == len && strncmp(at, option, len) == 0) {
            return true;
        }
        at += strcspn(at, " ");
    }
    return false;
}

bool backend_row_takes(const struct backend_row *row, const char *option)
{
    bool special = false;
    for (size_t i = 0; i < BACKEND_COUNT; i++) {
        special = special || lists(&backend_rows[i], option);
    }
    return !special || lists(row, option);
}

bool backend_row_has_network(const struct backend_row *row)
{
    return lists(row, "allow-network");
}

bool backend_row_has_packages(const struct backend_row *row)
{
    return lists(row, "packages");
}

bool backend_row_has_shares(const struct backend_row *row)
{
    return lists(row, "share");
}

bool backend_is_share_name(struct view name)
{
    for (size_t i = 0; i < name.len; i++) {
        char c = name.data[i];
        if ((c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '.' &&
            c != '_' && c != '-') {
            return false;
        }
    }
    return name.len > 0 && name.len <= BACKEND_SHARE_NAME_MAX && name.data[0] != '.';
}

char *backend_rows_that_take(const char *option, bool tests)
{
    const char *names[BACKEND_COUNT];
    size_t count = 0;
    bool all = true;
    for (size_t i = 0; i < BACKEND_COUNT; i++) {
        const struct backend_row *row = &backend_rows[i];
        if (row->is_for_tests && !tests) {
            continue;
        }
        if (backend_row_takes(row, option)) {
            names[count++] = row->name;
        } else {
            all = false;
        }
    }
    char *text = alloc_strdup("");
    for (size_t i = 0; i < count && !all; i++) {
        const char *between = i == 0 ? "" : i + 1 == count ? " and " : ", ";
        char *longer = alloc_printf("%s%s%s", text, between, names[i]);
        free(text);
        text = longer;
    }
    return text;
}
