/*
 * "auto", "N" or "N:IMAGE". There are never more than there may be sandboxes: the rest would only
 * be made to be closed.
 *
 * What is to be imported are names of Python modules with commas between them. They become words of
 * a request to a sandbox and never code, but what is no name could only fail there, in each sandbox
 * anew, so it is refused here. That a module exists is known only there.
 */
#include "supervisor/base/pool_option.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/str.h"
#include "supervisor/base/config.h"
#include "supervisor/base/image.h"

#define POOL_AUTO    "auto"
#define COUNT_AUTO   1
#define COUNT_SHARED 4 /* with HTTP */

static uint64_t auto_count(const struct config *c)
{
    uint64_t count = c->http[0] != '\0' ? COUNT_SHARED : COUNT_AUTO;
    return count < c->max_sandboxes ? count : c->max_sandboxes;
}

static int read_count(const char *text, uint64_t *ret, struct err *err)
{
    CLEANUP_FREE char *digits = alloc_viewdup((struct view){text, strcspn(text, ":")});
    return str_to_u64(digits, 0, UINT32_MAX, ret, err);
}

/* NULL if none is named. */
static const char *image_of(const char *text)
{
    const char *colon = strchr(text, ':');
    return colon != NULL ? colon + 1 : NULL;
}

int pool_option_check(const struct config *c, struct err *err)
{
    uint64_t count;
    if (strcmp(c->pool, POOL_AUTO) == 0) {
        return 0;
    }
    if (read_count(c->pool, &count, NULL) < 0) {
        return err_set(err, ERR_CONFIG,
                       "expected a number, with :IMAGE behind it for another image, or auto; got "
                       "\"%.200s\"",
                       c->pool);
    }
    if (count > c->max_sandboxes) {
        return err_set(err, ERR_CONFIG,
                       "%" PRIu64 " are more than the %" PRIu64 " sandboxes that can exist at a "
                       "time (--max-sandboxes): give at most that, or raise --max-sandboxes",
                       count, c->max_sandboxes);
    }
    const char *image = image_of(c->pool);
    if (image == NULL) {
        return 0;
    }
    if (image[0] == '\0') {
        return err_set(err, ERR_CONFIG, "no image behind the colon of \"%.200s\"", c->pool);
    }
    if (image_is_path(image) && config_names_references(c) && config_backend(c) != NULL) {
        return err_set(err, ERR_CONFIG, "expected a reference of an image, got the path %.200s",
                       image);
    }
    if (config_names_references(c) && !image_is_path(image) &&
        image_check_reference(image, err) < 0) {
        err->code = ERR_CONFIG;
        return -ERR_CONFIG;
    }
    if (!config_names_references(c) && !image_is_path(image)) {
        return err_set(err, ERR_CONFIG,
                       "expected the path of a directory (/dir or ./dir), got %.200s", image);
    }
    return 0;
}

struct pool_option pool_option_of(const struct config *c)
{
    struct pool_option o = {.count = 0, .image = c->image};
    if (c->pool == NULL) {
        return o;
    }
    if (strcmp(c->pool, POOL_AUTO) == 0) {
        o.count = auto_count(c);
    } else if (read_count(c->pool, &o.count, NULL) < 0) {
        o.count = 0;
    }
    const char *image = image_of(c->pool);
    o.image = image != NULL ? image : c->image;
    return o;
}

/* ---- modules ---- */

/* The next name, without the blanks around it; false at the end. */
static bool next_module(const char **at, struct view *ret)
{
    if (*at == NULL || **at == '\0') {
        return false;
    }
    size_t len = strcspn(*at, ",");
    *ret = view_trimmed(view_bytes(*at, len));
    *at += (*at)[len] == ',' ? len + 1 : len;
    return true;
}

static bool begins_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/* Words of ASCII with dots between them: no other module has ever been worth its while. */
static bool is_module_name(struct view name)
{
    const char *text = (const char *)name.data;
    bool begins = true;
    for (size_t i = 0; i < name.len; i++) {
        bool digit = text[i] >= '0' && text[i] <= '9';
        if (text[i] == '.' ? begins : !begins_name(text[i]) && (begins || !digit)) {
            return false;
        }
        begins = text[i] == '.';
    }
    return !begins;
}

static bool names_already(const struct pool_modules *m, struct view name)
{
    for (size_t i = 0; i < m->count; i++) {
        if (view_same(m->names[i], name)) {
            return true;
        }
    }
    return false;
}

static int add_module(struct pool_modules *m, struct view name, struct err *err)
{
    if (name.len > LIMIT_MODULE_NAME) {
        return err_set(err, ERR_CONFIG, "a name of %zu bytes, which is more than %d", name.len,
                       LIMIT_MODULE_NAME);
    }
    if (!is_module_name(name)) {
        return err_set(err, ERR_CONFIG,
                       "expected names of Python modules with commas between them (numpy,"
                       "matplotlib.pyplot), got \"%.*s\"",
                       VIEW_ARG(name));
    }
    if (names_already(m, name)) {
        return err_set(err, ERR_CONFIG, "%.*s is named twice", VIEW_ARG(name));
    }
    if (m->count == LIMIT_PRELOADS) {
        return err_set(err, ERR_CONFIG, "more than %d modules", LIMIT_PRELOADS);
    }
    m->names[m->count++] = name;
    return 0;
}

int pool_option_check_modules(const struct config *c, struct err *err)
{
    struct pool_modules o = {.count = 0};
    const char *at = c->preload;
    struct view name;
    int rc = 0;
    while (rc == 0 && next_module(&at, &name)) {
        rc = add_module(&o, name, err);
    }
    if (rc == 0 && o.count > 0 && pool_option_of(c).count == 0) {
        rc = err_set(err, ERR_CONFIG,
                     "only sandboxes that are made in advance import modules in advance, and "
                     "--pool 0 says that there are none: leave one of the two out");
    }
    return rc;
}

struct pool_modules pool_option_modules(const struct config *c)
{
    struct pool_modules o = {.count = 0};
    const char *at = c->preload;
    struct view name;
    while (o.count < LIMIT_PRELOADS && next_module(&at, &name)) {
        o.names[o.count++] = name;
    }
    return o;
}
