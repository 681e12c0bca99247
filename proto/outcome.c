/*
 * Strict on purpose, although a path is only ever used with the rights that user code has: whoever
 * shows or logs these fields need not think about what they may hold.
 */
#include "proto/outcome.h"

#include <string.h>

#include "proto/codec.h"

static bool is_mime(struct view v)
{
    size_t slashes = 0;
    for (size_t i = 0; i < v.len; i++) {
        char c = v.data[i];
        bool plain =
            (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '+' || c == '-';
        bool slash = c == '/' && i > 0 && i + 1 < v.len;
        if (!plain && !slash) {
            return false;
        }
        slashes += slash;
    }
    return slashes == 1;
}

int outcome_check_display(const struct msg_display *d, struct err *err)
{
    if (d->number == 0 || !is_mime(d->mime)) {
        return err_set(err, ERR_PROTOCOL, "a display without a number or a type");
    }
    if (d->path.len > LIMIT_DISPLAY_PATH || d->path.len < 2 || d->path.data[0] != '/') {
        return err_set(err, ERR_PROTOCOL, "a display whose path is not absolute or too long");
    }
    for (size_t i = 0; i < d->path.len; i++) {
        if (d->path.data[i] <= ' ' || d->path.data[i] > '~') {
            return err_set(err, ERR_PROTOCOL, "a display whose path is not plain ASCII");
        }
    }
    return 0;
}

/* No component is empty, "." or "..". */
static bool stays_below(struct view path)
{
    size_t at = 0;
    while (at <= path.len) {
        const char *start = path.data + at;
        const char *slash = memchr(start, '/', path.len - at);
        size_t len = slash != NULL ? (size_t)(slash - start) : path.len - at;
        if (len == 0 || (len == 1 && start[0] == '.') ||
            (len == 2 && start[0] == '.' && start[1] == '.')) {
            return false;
        }
        at += len + 1;
    }
    return true;
}

int outcome_check_entry(const struct msg_entry *e, struct err *err)
{
    if (e->type != FILE_TYPE_FILE) {
        return err_set(err, ERR_PROTOCOL, "something changed that is no file");
    }
    if (e->path.len == 0 || memchr(e->path.data, '\0', e->path.len) != NULL ||
        !stays_below(e->path)) {
        return err_set(err, ERR_PROTOCOL, "a changed file with an impossible path");
    }
    return 0;
}

static int decode_item(struct view item, enum msg_type type, struct msg *ret, struct err *err)
{
    int rc = msg_decode(MSG_LINK_A, item.data, item.len, ret, err);
    if (rc < 0) {
        return rc;
    }
    if (ret->type != type || ret->seq != 0) {
        rc = err_set(err, ERR_PROTOCOL, "%s where %s belongs", msg_name(ret->type), msg_name(type));
        msg_finish(ret);
    }
    return rc;
}

static int check_display(struct view item, uint64_t *number, struct err *err)
{
    struct msg m;
    int rc = decode_item(item, MSG_DISPLAY, &m, err);
    if (rc < 0) {
        return rc;
    }
    rc = outcome_check_display(&m.display, err);
    if (rc == 0 && m.display.number < *number) {
        rc = err_set(err, ERR_PROTOCOL, "displays out of order");
    }
    *number = m.display.number;
    msg_finish(&m);
    return rc;
}

int outcome_check_entry_item(struct view item, struct err *err)
{
    struct msg m;
    int rc = decode_item(item, MSG_ENTRY, &m, err);
    if (rc == 0) {
        rc = outcome_check_entry(&m.entry, err);
        msg_finish(&m);
    }
    return rc;
}

int outcome_check_displays(struct view_list list, struct err *err)
{
    int rc = 0;
    uint64_t number = 0;
    if (list.count > LIMIT_DISPLAYS) {
        return err_set(err, ERR_PROTOCOL, "%zu displays", list.count);
    }
    for (size_t i = 0; i < list.count && rc == 0; i++) {
        rc = check_display(list.items[i], &number, err);
    }
    return rc;
}

int outcome_check_install(const struct msg_install *m, struct err *err)
{
    if (m->id == 0 || (m->manager != INSTALL_PIP && m->manager != INSTALL_NPM)) {
        return err_set(err, ERR_PROTOCOL, "a wish for packages without a number or a manager");
    }
    if (m->requirements.count == 0) {
        return err_set(err, ERR_PROTOCOL, "a wish for no packages");
    }
    for (size_t i = 0; i < m->requirements.count; i++) {
        struct view word = m->requirements.items[i];
        bool plain = word.len > 0 && word.len <= LIMIT_INSTALL_WORD && word.data[0] != '-';
        for (size_t k = 0; plain && k < word.len; k++) {
            plain = word.data[k] > ' ' && word.data[k] <= '~';
        }
        if (!plain) {
            return err_set(err, ERR_PROTOCOL, "a wish for something that is no package");
        }
    }
    return 0;
}

int outcome_check_installs(struct view_list list, struct err *err)
{
    int rc = 0;
    if (list.count > LIMIT_INSTALLS) {
        return err_set(err, ERR_PROTOCOL, "%zu wishes for packages", list.count);
    }
    for (size_t i = 0; i < list.count && rc == 0; i++) {
        struct msg m;
        rc = decode_item(list.items[i], MSG_INSTALL, &m, err);
        if (rc == 0) {
            rc = outcome_check_install(&m.install, err);
            msg_finish(&m);
        }
    }
    return rc;
}

int outcome_check_files(struct view_list list, struct err *err)
{
    int rc = 0;
    if (list.count > LIMIT_CHANGED) {
        return err_set(err, ERR_PROTOCOL, "%zu changed files", list.count);
    }
    for (size_t i = 0; i < list.count && rc == 0; i++) {
        rc = outcome_check_entry_item(list.items[i], err);
    }
    return rc;
}
