/*
 * Which backend the configuration means, and whether what it says means anything to that one. An
 * option without effect has been given by mistake, or with another backend in mind, and somebody
 * who relies on it is better told at the start. All of it is read from the rows of backends; no
 * name of one is here.
 */
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/backends.h"
#include "common/cleanup.h"
#include "supervisor/base/asked.h"
#include "supervisor/base/config.h"
#include "supervisor/base/image.h"
#include "supervisor/base/options.h"

/* ---- which one ---- */

static const struct backend_row *automatic_with(enum backend_images images)
{
    for (size_t i = 0; i < BACKEND_COUNT; i++) {
        if (backend_rows[i].is_automatic && backend_rows[i].images == images) {
            return &backend_rows[i];
        }
    }
    return NULL;
}

static const struct backend_row *automatic_with_runtimes(void)
{
    for (size_t i = 0; i < BACKEND_COUNT; i++) {
        if (backend_rows[i].is_automatic && backend_rows[i].is_its_runtime) {
            return &backend_rows[i];
        }
    }
    return NULL;
}

const struct backend_row *config_backend(const struct config *c)
{
    if (strcmp(c->backend, BACKEND_AUTO) != 0) {
        return backend_row_find(c->backend);
    }
    if (c->runtime[0] != '\0') {
        return automatic_with_runtimes();
    }
    if (c->image_dir[0] != '\0' || image_is_path(c->image)) {
        return automatic_with(BACKEND_IMAGES_DIRECTORIES);
    }
    return c->image[0] != '\0' ? automatic_with(BACKEND_IMAGES_REFERENCES) : NULL;
}

bool config_names_references(const struct config *c)
{
    const struct backend_row *row = config_backend(c);
    return row == NULL || row->images == BACKEND_IMAGES_REFERENCES;
}

/* ---- what it takes ---- */

static bool is_taken_by_automatic(const struct option *o)
{
    for (size_t i = 0; i < BACKEND_COUNT; i++) {
        if (backend_rows[i].is_automatic && backend_row_takes(&backend_rows[i], o->name)) {
            return true;
        }
    }
    return false;
}

int config_check_taken(const struct config *c, struct err *err)
{
    const struct backend_row *row = config_backend(c);
    for (size_t i = 0; i < option_count; i++) {
        const struct option *o = &options[i];
        if (!asked_for_option(c, o) ||
            (row != NULL ? backend_row_takes(row, o->name) : is_taken_by_automatic(o))) {
            continue;
        }
        CLEANUP_FREE char *takers = backend_rows_that_take(o->name, true);
        return err_set(err, ERR_CONFIG,
                       "--%s means nothing to %s%s: it is for %s; leave it out, or choose another "
                       "--backend",
                       o->name,
                       row != NULL ? "the backend " : "the backends that " BACKEND_AUTO " tries",
                       row != NULL ? row->name : "", takers);
    }
    return 0;
}

char *config_not_taken(const struct config *c, const struct backend_row *row)
{
    char *text = NULL;
    for (size_t i = 0; i < option_count; i++) {
        if (!backend_row_takes(row, options[i].name) && asked_for_option(c, &options[i])) {
            char *longer = alloc_printf("%s%s--%s", text != NULL ? text : "",
                                        text != NULL ? ", " : "", options[i].name);
            free(text);
            text = longer;
        }
    }
    return text;
}
