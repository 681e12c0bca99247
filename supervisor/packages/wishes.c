/*
 * Packages that code in a sandbox asks for by itself (`pip install` in a cell or a shell). A wish
 * is an installation as any other, under the same checks and limits; only its answer goes another
 * way: as text into the sandbox, by operations OP_TELL, one at a time, which survive the worker.
 *
 * A wish comes again with every OUTPUT until its answer is there, so it is known by its number. An
 * answered one is remembered for a while, since an OUTPUT that was sent before the answer arrived
 * may be read after it. When the server dies, its successor hears of the wish again; what is
 * installed by then is left alone.
 *
 * Whoever wished may be gone by the time of the answer, which is then told to nobody. As ever, the
 * installation goes on.
 */
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/log.h"
#include "common/text.h"
#include "supervisor/packages/internal.h"

#define WISHES_PER_SANDBOX 16           /* that have no answer; code may leave its wishes behind */
#define WISHES_KEPT        64           /* answered ones */
#define WISH_TEXT_BYTES    (256u << 10) /* of an answer that the sandbox has not taken */
#define WISH_PART_BYTES    (16u << 10)  /* of it in one operation */

struct package_wish {
    TAILQ_ENTRY(package_wish) node;
    struct packages *p;
    char sandbox[FLEET_ID_SIZE];
    uint64_t id;
    struct packages_wait *wait; /* NULL: the outcome is known */
    uint64_t told;              /* bytes of the installer's output that are in `text`, or were */
    struct buf text;            /* what the sandbox must be told yet */
    bool ended;                 /* nothing is added any more */
    unsigned exit_code;
    struct fleet_call *call; /* that tells a part */
    bool last;               /* that part has the end with it */
    bool over;               /* all is told, or there is nobody to tell it to */
};

static void tell_wish(struct package_wish *w);

static void free_wish(struct package_wish *w)
{
    TAILQ_REMOVE(&w->p->wishes, w, node);
    buf_finish(&w->text);
    free(w);
}

void wishes_free(struct packages *p)
{
    struct package_wish *w;
    while ((w = TAILQ_FIRST(&p->wishes)) != NULL) {
        free_wish(w);
    }
}

static void make_wish_room(struct packages *p)
{
    struct package_wish *w = TAILQ_FIRST(&p->wishes);
    while (w != NULL && p->wishes_over > WISHES_KEPT) {
        struct package_wish *next = TAILQ_NEXT(w, node);
        if (w->over) {
            p->wishes_over--;
            free_wish(w);
        }
        w = next;
    }
}

/* ---- telling --------------------------------------------------------------------------------- */

static void end_wish(struct package_wish *w)
{
    struct packages *p = w->p;
    w->over = true;
    buf_reset(&w->text, 0);
    p->wishes_over++;
    make_wish_room(p);
}

static void on_wish_told(void *arg, int rc, const struct fleet_outcome *outcome,
                         const struct err *err, const char *hint)
{
    struct package_wish *w = arg;
    bool was_last = w->last;
    (void)hint;
    w->call = NULL;
    if (rc < 0 || outcome->end->status != OP_STATUS_OK) {
        log_debug("nobody is told of an installation: %s sandbox=%s",
                  rc < 0 ? err->text : "the sandbox has ended", w->sandbox);
        was_last = w->ended;
        buf_reset(&w->text, WISH_TEXT_BYTES);
    }
    if (was_last) {
        end_wish(w);
    } else {
        tell_wish(w);
    }
}

/* Begins to tell what is not told yet. */
static void tell_wish(struct package_wish *w)
{
    if (w->call != NULL || w->over || (w->text.len == 0 && !w->ended)) {
        return;
    }
    size_t len = w->text.len < WISH_PART_BYTES ? w->text.len : WISH_PART_BYTES;
    w->last = w->ended && len == w->text.len;
    const struct fleet_op op = {
        .kind = OP_TELL,
        .data = view_bytes(w->text.data, len),
        .offset = w->id,
        .flags = w->last ? OP_FLAG_LAST : 0,
        .mode = w->last ? w->exit_code : 0,
        .is_look = true,
    };
    w->call = fleet_run(w->p->fleet, w->sandbox, &op, on_wish_told, w);
    buf_consume(&w->text, len); /* it was copied */
}

/* What the installer has said since the last time. */
static void add_output(struct package_wish *w, const struct package_report *report)
{
    uint64_t fresh = report->said - w->told;
    size_t len = fresh < report->output.len ? (size_t)fresh : report->output.len;
    w->told = report->said;
    if (len > 0 && w->text.len + len <= WISH_TEXT_BYTES / 2) { /* the rest is for the end */
        const char *from = report->output.data + report->output.len - len;
        err_ignore(buf_add(&w->text, from, len, NULL)); /* a lack of memory shows less */
    }
}

/* ---- the installation ------------------------------------------------------------------------ */

static void on_wish_progress(void *arg, const struct fleet_progress *progress)
{
    struct package_wish *w = arg;
    struct package_report report = install_report(w->wait->installation);
    (void)progress; /* a line for people who wait; here all lines are shown */
    add_output(w, &report);
    tell_wish(w);
}

static void on_wish_done(void *arg, const struct package_report *report)
{
    struct package_wish *w = arg;
    bool good = report->state == PACKAGE_INSTALLED;
    w->wait = NULL;
    add_output(w, report);
    for (size_t i = 0; good && report->said == 0 && i < report->count; i++) {
        text_printf(&w->text, "Requirement already satisfied: %s %s\n", report->packages[i].name,
                    report->packages[i].version);
    }
    if (!good) {
        const char *between = report->hint[0] != '\0' ? "; " : "";
        text_printf(&w->text, "ERROR: %s%s%s\n", report->message, between, report->hint);
    }
    w->ended = true;
    w->exit_code = good ? 0 : 1;
    tell_wish(w);
}

static void refuse_wish(struct package_wish *w, const char *text)
{
    text_printf(&w->text, "ERROR: %s\n", text);
    w->ended = true;
    w->exit_code = 1;
    tell_wish(w);
}

static void begin_wish(struct package_wish *w, const char *owner, const struct msg_install *wish)
{
    enum package_manager manager = wish->manager == INSTALL_NPM ? PACKAGE_NPM : PACKAGE_PIP;
    char *words[PACKAGES_PER_CALL];
    _Static_assert(LIMIT_INSTALL_WORDS <= PACKAGES_PER_CALL, "a wish is one installation");
    size_t count = 0;
    struct err err = ERR_INIT;
    int rc = 0;
    while (rc == 0 && count < wish->requirements.count) {
        words[count] = alloc_viewdup(wish->requirements.items[count]);
        rc = packages_check(manager, words[count], &err);
        count++;
    }
    if (rc < 0) {
        refuse_wish(w, err.text);
    } else {
        char id[PACKAGE_ID_SIZE];
        packages_install(w->p, owner, w->sandbox, manager, (const char *const *)words, count, id);
        w->wait = packages_await(w->p, owner, id, UINT64_MAX, on_wish_done, w);
        packages_await_progress(w->wait, on_wish_progress);
    }
    for (size_t i = 0; i < count; i++) {
        free(words[i]);
    }
}

bool packages_wish(struct packages *p, const char *owner, const char *sandbox,
                   const struct msg_install *wish)
{
    struct package_wish *w;
    size_t open = 0;
    TAILQ_FOREACH(w, &p->wishes, node)
    {
        bool here = strcmp(w->sandbox, sandbox) == 0;
        if (here && w->id == wish->id) {
            return false;
        }
        open += here && !w->over;
    }
    w = alloc_one(struct package_wish);
    w->p = p;
    w->id = wish->id;
    snprintf(w->sandbox, sizeof(w->sandbox), "%s", sandbox);
    buf_init(&w->text, WISH_TEXT_BYTES);
    TAILQ_INSERT_TAIL(&p->wishes, w, node);
    if (open >= WISHES_PER_SANDBOX) {
        refuse_wish(w, "too many installations were begun in this sandbox: wait for them to end");
    } else {
        begin_wish(w, owner, wish);
    }
    return true;
}
