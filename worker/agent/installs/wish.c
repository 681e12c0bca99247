/*
 * Bytes are only counted and split here. Whether the words can be packages is checked as the worker
 * will check it, so an honest worker refuses nothing that the agent sends.
 */
#include "worker/agent/installs/wish.h"

#include <string.h>

#include "proto/codec.h"
#include "proto/outcome.h"

void wish_init(struct wish *w)
{
    *w = (struct wish){.from = 0};
    buf_init(&w->text, WISH_BYTES);
}

void wish_finish(struct wish *w)
{
    buf_finish(&w->text);
    wish_init(w);
}

/* The word that begins at *at. */
static struct view next_wish_word(const struct wish *w, size_t *at)
{
    const char *word = (const char *)w->text.data + *at;
    struct view v = view_bytes(word, strlen(word));
    *at += v.len + 1;
    return v;
}

static int end_wish_word(struct wish *w, struct err *err)
{
    size_t len = w->text.len - 1 - w->from;
    if (len > LIMIT_INSTALL_WORD) {
        return err_set(err, ERR_INVALID, "a package is named with at most %d bytes",
                       LIMIT_INSTALL_WORD);
    }
    if (len > 0 && w->words > LIMIT_INSTALL_WORDS) {
        return err_set(err, ERR_INVALID, "at most %d packages at a time", LIMIT_INSTALL_WORDS);
    }
    w->from = w->text.len;
    w->words += len > 0;
    w->whole = len == 0;
    return 0;
}

int wish_feed(struct wish *w, const void *data, size_t len, struct err *err)
{
    const char *p = data;
    const char *end = p + len;
    while (p < end) {
        if (w->whole) {
            return err_set(err, ERR_INVALID, "nothing may follow");
        }
        const char *nul = memchr(p, '\0', (size_t)(end - p));
        size_t part = (size_t)((nul != NULL ? nul + 1 : end) - p);
        int rc = buf_add(&w->text, p, part, err);
        if (rc == -ERR_TOO_BIG) {
            return err_set(err, ERR_INVALID, "that is too long");
        }
        rc = rc < 0 || nul == NULL ? rc : end_wish_word(w, err);
        if (rc < 0) {
            return rc;
        }
        p += part;
    }
    return w->whole ? 1 : 0;
}

int wish_encode(const struct wish *w, uint32_t id, struct buf *out, struct err *err)
{
    struct view items[LIMIT_INSTALL_WORDS];
    struct msg m = {.type = MSG_INSTALL};
    size_t at = 0;
    if (!w->whole || w->words < 2) {
        return err_set(err, ERR_INVALID, "no package is named");
    }
    struct view manager = next_wish_word(w, &at);
    m.install.id = id;
    m.install.manager = view_is(manager, "pip")   ? INSTALL_PIP
                        : view_is(manager, "npm") ? INSTALL_NPM
                                                  : 0;
    size_t count = w->words - 1;
    for (size_t i = 0; i < count; i++) {
        items[i] = next_wish_word(w, &at);
    }
    m.install.requirements = (struct view_list){items, count};
    if (outcome_check_install(&m.install, NULL) < 0) {
        return err_set(err, ERR_INVALID,
                       "packages are named in plain letters, digits and signs, without spaces");
    }
    return msg_encode(out, &m, err);
}
