/*
 * A backend takes one question of a kind at a time, and its answer describes the moment it was
 * asked at. So whoever asks while a question is under way does not share its answer, which may be
 * older than the event he asks about, but that of the next one, which serves all who wait by then.
 */
#include "worker/figures.h"

#include <stdlib.h>

#include "common/alloc.h"

struct asker {
    struct asker *next;
    bool look;
    figures_fn done;
    void *arg;
};

struct figures {
    struct backend *backend;
    struct asker *waiting; /* for the next question */
    struct asker *asking;  /* for the answer under way */
    uint64_t kills_known;
};

static void on_usage(void *arg, int rc, const struct backend_usage *usage, const struct err *err);

static void tell(struct asker *list, const struct backend_usage *usage, bool killed)
{
    while (list != NULL) {
        struct asker *next = list->next;
        list->done(list->arg, usage, killed && list->look);
        free(list);
        list = next;
    }
}

static void ask(struct figures *f)
{
    if (f->asking == NULL && f->waiting != NULL) {
        f->asking = f->waiting;
        f->waiting = NULL;
        f->backend->ops->usage(f->backend, on_usage, f);
    }
}

static void on_usage(void *arg, int rc, const struct backend_usage *usage, const struct err *err)
{
    struct figures *f = arg;
    struct asker *list = f->asking;
    bool known = rc == 0;
    bool killed = known && usage->oom_kills > f->kills_known;
    f->asking = NULL;
    for (const struct asker *a = list; a != NULL; a = a->next) {
        if (known && a->look) {
            f->kills_known = usage->oom_kills;
        }
    }
    ask(f);
    tell(list, known ? usage : NULL, killed);
}

struct figures *figures_create(struct backend *backend)
{
    struct figures *f = alloc_one(struct figures);
    f->backend = backend;
    return f;
}

void figures_ask(struct figures *f, bool look, figures_fn done, void *arg)
{
    struct asker *a = alloc_one(struct asker);
    a->look = look;
    a->done = done;
    a->arg = arg;
    struct asker **end = &f->waiting;
    while (*end != NULL) {
        end = &(*end)->next;
    }
    *end = a;
    ask(f);
}

void figures_destroy(struct figures *f)
{
    if (f != NULL) {
        struct asker *asking = f->asking;
        struct asker *waiting = f->waiting;
        free(f);
        tell(asking, NULL, false);
        tell(waiting, NULL, false);
    }
}
