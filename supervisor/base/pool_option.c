/*
 * "auto", "N" or "N:IMAGE". There are never more than there may be sandboxes: the rest would only
 * be made to be closed.
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
