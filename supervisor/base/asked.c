/*
 * An option without effect is a misunderstanding, and the dangerous one is a server that somebody
 * believes to be protected: --tokens without --http guards nothing, so it is refused. A variable
 * with a mistyped name cannot be refused, since others may use the prefix for their own things (our
 * tests do), so it is told once.
 */
#include "supervisor/base/asked.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/log.h"
#include "common/str.h"
#include "common/view.h"
#include "supervisor/base/near.h"
#include "supervisor/base/options.h"

#define PREFIX      "CLOISTER_"
#define UNKNOWN_MAX 8 /* that are named in the log */

bool asked_for_option(const struct config *c, const struct option *o)
{
    const void *field = (const char *)c + o->offset;
    uint64_t usual = 0;
    if (option_is_text(o)) {
        const char *text = *(char *const *)field; /* NULL where nothing has been loaded */
        return text != NULL && strcmp(text, o->value) != 0;
    }
    if (o->type == OPTION_NUMBER) {
        return str_to_u64(o->value, o->min, o->max, &usual, NULL) == 0 &&
               *(const uint64_t *)field != usual;
    }
    return o->type == OPTION_FLAG && *(const bool *)field && strcmp(o->value, "no") == 0;
}

int asked_check_http(const struct config *c, struct err *err)
{
    for (size_t i = 0; i < option_count && c->http[0] == '\0'; i++) {
        const struct option *o = &options[i];
        bool is_for_http = o->topic == OPTION_TOPIC_HTTP || o->topic == OPTION_TOPIC_ACCESS;
        /* numbers are limits: without HTTP nothing comes near them */
        if (is_for_http && o->type == OPTION_TEXT && asked_for_option(c, o)) {
            return err_set(
                err, ERR_CONFIG,
                "--%s is for servers over HTTP and does nothing without --http; leave it "
                "out, or serve over HTTP, e.g. --http 8080",
                o->name);
        }
    }
    return 0;
}

static bool is_option(struct view variable)
{
    for (size_t i = 0; i < option_count; i++) {
        CLEANUP_FREE char *name = option_env_name(&options[i]);
        if (view_is(variable, name)) {
            return true;
        }
    }
    return false;
}

/* The option whose variable it might be. */
static const struct option *nearest(struct view variable)
{
    struct near_word n;
    size_t prefix = strlen(PREFIX);
    near_begin(&n, view_bytes(variable.data + prefix, variable.len - prefix));
    for (size_t i = 0; i < option_count; i++) {
        near_try(&n, options[i].name);
    }
    for (size_t i = 0; i < option_count && n.best != NULL; i++) {
        if (n.best == options[i].name) {
            return &options[i];
        }
    }
    return NULL;
}

void asked_warn_variables(char *const *environment)
{
    char *list = alloc_strdup("");
    size_t count = 0;
    for (; *environment != NULL; environment++) {
        struct view name = view_bytes(*environment, strcspn(*environment, "="));
        if (strncmp(*environment, PREFIX, strlen(PREFIX)) != 0 || is_option(name)) {
            continue;
        }
        if (count++ < UNKNOWN_MAX) {
            const struct option *near = nearest(name);
            CLEANUP_FREE char *meant = near != NULL ? option_env_name(near) : NULL;
            char *longer = alloc_printf("%s%s%.*s%s%s%s", list, list[0] != '\0' ? ", " : "",
                                        name.len < 100 ? (int)name.len : 100, name.data,
                                        meant != NULL ? " (did you mean " : "",
                                        meant != NULL ? meant : "", meant != NULL ? "?)" : "");
            free(list);
            list = longer;
        }
    }
    if (count > 0) {
        log_warn("environment: no option, so it does nothing: %s%s; --help lists the options", list,
                 count > UNKNOWN_MAX ? " and more" : "");
    }
    free(list);
}
