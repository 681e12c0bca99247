/*
 * A share is looked at when the server starts, so that a mistake is told to the operator and not
 * to a model later. The path is resolved then: the worker shows that directory or none
 * (worker/backend/share.c). A symbolic link at its end is refused rather than followed, as the
 * directory would be another one after the next change of the link.
 *
 * Code can write into a writable share. If another share lay in it, code could put a link in the
 * place of that directory, so this is refused.
 */
#include "supervisor/base/share.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/alloc.h"
#include "common/backends.h"
#include "common/cleanup.h"
#include "common/log.h"
#include "proto/limits.h"

/* ---- the text -------------------------------------------------------------------------------- */

/* The last part of the path, or what follows a `=` that is no part of a path. */
static void take_name(struct share *s)
{
    while (s->dir.len > 1 && s->dir.data[s->dir.len - 1] == '/') {
        s->dir.len--;
    }
    size_t at = s->dir.len;
    while (at > 0 && s->dir.data[at - 1] != '/' && s->dir.data[at - 1] != '=') {
        at--;
    }
    s->name = view_bytes(s->dir.data + at, s->dir.len - at);
    if (at > 0 && s->dir.data[at - 1] == '=') {
        s->dir.len = at - 1;
    }
}

static int read_share(struct view text, struct share *s, struct err *err)
{
    *s = (struct share){.dir = text};
    bool ro = false;
    for (bool more = true; more;) {
        bool ask = view_cut_end(&s->dir, ":ask"), rw = view_cut_end(&s->dir, ":rw");
        more = view_cut_end(&s->dir, ":ro");
        ro = ro || more;
        s->on_request = s->on_request || ask;
        s->writable = s->writable || rw;
        more = more || ask || rw;
    }
    take_name(s);
    if (ro && s->writable) {
        return err_set(err, ERR_CONFIG, "\"%.*s\" is both ro and rw", VIEW_ARG(text));
    }
    bool home =
        s->dir.len > 0 && s->dir.data[0] == '~' && (s->dir.len == 1 || s->dir.data[1] == '/');
    if (s->dir.len == 0 || (s->dir.data[0] != '/' && !home)) {
        return err_set(err, ERR_CONFIG,
                       "expected DIR[=NAME][:ro|:rw][:ask] with an absolute path, got \"%.*s\"",
                       VIEW_ARG(text));
    }
    if (view_is(s->dir, "/")) {
        return err_set(err, ERR_CONFIG, "/ is all of this host: share a directory of it");
    }
    if (!backend_is_share_name(s->name)) {
        return err_set(err, ERR_CONFIG,
                       "\"%.*s\" cannot be a name in /shared: give one of letters, digits, '.', "
                       "'_' and '-' as in %.*s=NAME",
                       VIEW_ARG(s->name), VIEW_ARG(s->dir));
    }
    return 0;
}

int shares_read(const char *text, struct shares *ret, struct err *err)
{
    ret->count = 0;
    while (*text != '\0') {
        size_t len = strcspn(text, ",");
        if (len > 0) {
            if (ret->count == LIMIT_SHARES) {
                return err_set(err, ERR_CONFIG, "at most %d directories can be shared",
                               LIMIT_SHARES);
            }
            struct share *s = &ret->of[ret->count];
            int rc = read_share(view_bytes(text, len), s, err);
            if (rc < 0) {
                return rc;
            }
            if (share_find(ret, s->name) != NULL) {
                return err_set(err, ERR_CONFIG,
                               "two directories have the name %.*s: give one another name, as in "
                               "%.*s=NAME",
                               VIEW_ARG(s->name), VIEW_ARG(s->dir));
            }
            ret->count++;
        }
        text += len + (text[len] == ',' ? 1 : 0);
    }
    return 0;
}

const struct share *share_find(const struct shares *shares, struct view name)
{
    for (size_t i = 0; i < shares->count; i++) {
        if (view_same(shares->of[i].name, name)) {
            return &shares->of[i];
        }
    }
    return NULL;
}

struct shares shares_of(const char *text)
{
    struct shares shares;
    if (text == NULL || shares_read(text, &shares, NULL) < 0) {
        shares.count = 0;
    }
    return shares;
}

/* ---- the directories ------------------------------------------------------------------------- */

/* The real path, to be freed; NULL with an error. */
static char *resolve(const struct share *s, struct err *err)
{
    const char *home = s->dir.data[0] == '~' ? getenv("HOME") : "";
    size_t skip = s->dir.data[0] == '~' ? 1 : 0;
    if (home == NULL) {
        err_set(err, ERR_CONFIG, "%.*s: there is no HOME in the environment", VIEW_ARG(s->dir));
        return NULL;
    }
    CLEANUP_FREE char *path =
        alloc_printf("%s%.*s", home, (int)(s->dir.len - skip), s->dir.data + skip);
    struct stat st;
    CLEANUP_FREE char *real = lstat(path, &st) == 0 ? realpath(path, NULL) : NULL;
    if (real == NULL) {
        err_sys(err, ERR_CONFIG, errno, "%.300s", path);
    } else if (S_ISLNK(st.st_mode)) {
        err_set(err, ERR_CONFIG, "%.200s is a symbolic link: name the directory, %.200s", path,
                real);
    } else if (!S_ISDIR(st.st_mode)) {
        err_set(err, ERR_CONFIG, "%.300s is not a directory: share the one that it is in", path);
    } else if (strcmp(real, "/") == 0) {
        err_set(err, ERR_CONFIG, "%.300s is all of this host: share a directory of it", path);
    } else if (strchr(real, ',') != NULL || strlen(real) > LIMIT_PATH) {
        err_set(err, ERR_CONFIG, "%.300s: a path with a comma in it cannot be shared", real);
    } else {
        return STEAL_PTR(real);
    }
    return NULL;
}

static bool share_lies_in(struct view inner, struct view outer)
{
    return inner.len > outer.len && inner.data[outer.len] == '/' &&
           memcmp(inner.data, outer.data, outer.len) == 0;
}

static int check_apart(const struct shares *shares, struct err *err)
{
    for (size_t i = 0; i < shares->count; i++) {
        for (size_t j = 0; j < shares->count; j++) {
            const struct share *outer = &shares->of[i], *inner = &shares->of[j];
            if (outer->writable && share_lies_in(inner->dir, outer->dir)) {
                return err_set(err, ERR_CONFIG,
                               "%.*s lies in %.*s, where code may write and could replace it: "
                               "share only one of them, or the outer one with :ro",
                               VIEW_ARG(inner->dir), VIEW_ARG(outer->dir));
            }
        }
    }
    return 0;
}

int shares_settle(char **text, struct err *err)
{
    struct shares shares;
    int rc = shares_read(*text, &shares, err);
    char *settled = alloc_strdup("");
    for (size_t i = 0; rc == 0 && i < shares.count; i++) {
        const struct share *s = &shares.of[i];
        CLEANUP_FREE char *real = resolve(s, err);
        if (real == NULL) {
            free(settled);
            return -ERR_CONFIG;
        }
        char *longer =
            alloc_printf("%s%s%s=%.*s:%s%s", settled, settled[0] != '\0' ? "," : "", real,
                         VIEW_ARG(s->name), s->writable ? "rw" : "ro", s->on_request ? ":ask" : "");
        free(settled);
        settled = longer;
    }
    if (rc == 0) {
        rc = shares_read(settled, &shares, err);
        rc = rc < 0 ? rc : check_apart(&shares, err);
    }
    if (rc < 0) {
        free(settled);
        return rc;
    }
    free(*text);
    *text = settled;
    return 0;
}

/* One warning is enough, whatever else is there. */
static void warn_of_keys(struct view dir)
{
    static const char *const keys[] = {".ssh", ".gnupg", ".aws", ".kube"};
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        CLEANUP_FREE char *path = alloc_printf("%.*s/%s", VIEW_ARG(dir), keys[i]);
        struct stat st;
        if (lstat(path, &st) == 0) {
            log_warn("--share: %s is in %.*s, so code of models can read what is there; share a "
                     "directory that has only what they need",
                     keys[i], VIEW_ARG(dir));
            return;
        }
    }
}

void shares_warn(const char *text)
{
    const struct shares shares = shares_of(text);
    for (size_t i = 0; i < shares.count; i++) {
        warn_of_keys(shares.of[i].dir);
    }
}
