/*
 * A place that was tried is told to people, so what cannot be sent of it is left out. The place
 * that was found is to be used: one that cannot be sent is as good as none, and that is said.
 */
#include "worker/probed.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "proto/codec.h"
#include "proto/place.h"
#include "worker/life.h"

_Static_assert(BACKEND_TRIED_MAX <= LIMIT_PLACES, "all that was tried can be told");

static void add_tried(struct probed *p, const struct backend_tried *tried)
{
    CLEANUP_BUF struct buf bytes;
    struct view_list place = {NULL, 0};
    struct msg m = {.type = MSG_ENGINE_TRIED};
    buf_init(&bytes, LIMIT_ITEM);
    err_ignore(place_encode(&tried->place, &place, NULL));
    m.engine_tried.origin = worker_text(tried->origin, LIMIT_TEXT);
    m.engine_tried.place = place;
    m.engine_tried.answer = worker_text(tried->answer, LIMIT_TEXT);
    if (msg_encode(&bytes, &m, NULL) == 0) {
        struct view item = view_bytes(bytes.data, bytes.len);
        p->tried[p->m.probed.tried.count++] = view_bytes(alloc_viewdup(item), item.len);
    }
    alloc_listfree(&place);
}

void probed_init(struct probed *p, const struct backend_probe *probe)
{
    struct err err = ERR_INIT;
    struct msg_probed *m = &p->m.probed;
    memset(p, 0, sizeof(*p));
    p->m.type = MSG_PROBED;
    m->usable = probe->usable;
    m->lasts = probe->usable && probe->lasts;
    m->reason = worker_text(probe->reason, LIMIT_TEXT);
    m->hint = worker_text(probe->hint, LIMIT_TEXT);
    m->doubt = worker_text(probe->doubt, LIMIT_TEXT);
    if (place_encode(&probe->place, &p->place, &err) < 0) {
        m->usable = false;
        m->reason = view_of("its place has a name that cannot be kept: paths have to be UTF-8");
    }
    m->place = p->place;
    m->runtime = worker_text(probe->runtime, LIMIT_PATH);
    m->version = worker_text(probe->version, LIMIT_TEXT);
    m->flaws = worker_text(probe->flaws, LIMIT_TEXT);
    m->mode = probe->mode;
    m->network = worker_text(probe->network, LIMIT_TEXT);
    for (size_t i = 0; i < probe->unapplied_count; i++) {
        p->unapplied[i] = view_of(probe->unapplied[i]);
        p->remedies[i] = view_of(probe->remedies[i] != NULL ? probe->remedies[i] : "");
    }
    m->unapplied = (struct view_list){p->unapplied, probe->unapplied_count};
    m->remedies = (struct view_list){p->remedies, probe->unapplied_count};
    m->tried.items = p->tried;
    for (size_t i = 0; i < probe->tried_count; i++) {
        add_tried(p, &probe->tried[i]);
    }
}

void probed_finish(struct probed *p)
{
    for (size_t i = 0; i < p->m.probed.tried.count; i++) {
        free((char *)(uintptr_t)p->tried[i].data); /* ours, see add_tried() */
    }
    alloc_listfree(&p->place);
}
