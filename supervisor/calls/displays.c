/*
 * The agent reports names of files, which user code may change or remove at any time. So files to
 * show are read as soon as the code has ended, before the outcome is reported, by the same
 * operations that tools use: if a worker dies meanwhile, it is replaced and the read continues.
 * Files are read one after another, so an ending execution never uses more of the sandbox's
 * capacity for operations than a running one.
 *
 * An outcome must not wait for a slow sandbox. When the time is up, the read in progress is
 * abandoned, and its bytes are dropped when they come.
 *
 * Pictures are read first, since results show them. If a picture exists in two sizes, results show
 * the smaller one (drivers/python_rich.py makes it), so the other need not be read.
 */
#include "supervisor/calls/displays.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "common/alloc.h"
#include "common/log.h"
#include "proto/codec.h"
#include "proto/outcome.h"
#include "supervisor/calls/call.h"
#include "supervisor/fleet/host/host.h"
#include "supervisor/fleet/sandbox/sandbox.h"

#define WAIT_MORE 4 /* times DISPLAYS_WAIT_MS if the worker has to be replaced */

struct displays {
    struct fleet_display *items;
    size_t count;
    struct fleet_file *files;
    size_t file_count;
    bool files_more;
    size_t size;
    struct reading *reading;
};

/* Outlives the displays if it is late. */
struct reading {
    struct displays *displays; /* NULL: its result is not wanted any more */
    struct fleet_host *host;
    struct sandbox *sandbox; /* valid while an operation of ours is in it */
    struct fleet_call *call;
    size_t at;       /* index of the item that is being read */
    bool images;     /* the first of two rounds */
    unsigned count;  /* files so far */
    size_t bytes;    /* kept so far */
    unsigned waited; /* number of elapsed DISPLAYS_WAIT_MS */
    uv_timer_t timer;
    bool timer_closed;
    void (*done)(void *arg);
    void *arg;
};

/* ---- parsing --------------------------------------------------------------------------------- */

static bool add_display(struct displays *d, const struct msg_display *m)
{
    const struct fleet_display *last = d->count > 0 ? &d->items[d->count - 1] : NULL;
    if (outcome_check_display(m, NULL) < 0 || (last != NULL && m->number < last->number)) {
        return false;
    }
    d->items[d->count++] = (struct fleet_display){
        .number = m->number,
        .mime = alloc_viewdup(m->mime),
        .path = alloc_viewdup(m->path),
        .size = m->size,
    };
    d->size += m->mime.len + m->path.len;
    return true;
}

static bool add_display_file(struct displays *d, const struct msg_entry *m)
{
    if (outcome_check_entry(m, NULL) < 0) {
        return false;
    }
    if (d->file_count == LIMIT_CHANGED) {
        d->files_more = true;
        return true;
    }
    d->files[d->file_count++] =
        (struct fleet_file){view_bytes(alloc_viewdup(m->path), m->path.len), m->size};
    d->size += m->path.len;
    return true;
}

static bool take_display(struct displays *d, struct view encoded, enum msg_type type)
{
    struct msg m;
    if (msg_decode(MSG_LINK_A, encoded.data, encoded.len, &m, NULL) < 0) {
        return false;
    }
    bool good = m.type == type &&
                (type == MSG_DISPLAY ? add_display(d, &m.display) : add_display_file(d, &m.entry));
    msg_finish(&m);
    return good;
}

struct displays *displays_create(const struct msg_output *end)
{
    struct displays *d = alloc_one(struct displays);
    size_t bad = 0;
    d->items = alloc_array(end->displays.count, sizeof(*d->items));
    d->files = alloc_array(end->files.count, sizeof(*d->files));
    d->files_more = end->files_more;
    d->size =
        sizeof(*d) + end->displays.count * sizeof(*d->items) + end->files.count * sizeof(*d->files);
    for (size_t i = 0; i < end->displays.count; i++) {
        bad += !take_display(d, end->displays.items[i], MSG_DISPLAY);
    }
    for (size_t i = 0; i < end->files.count; i++) {
        bad += !take_display(d, end->files.items[i], MSG_ENTRY);
    }
    if (bad > 0) {
        log_warn("left out %zu invalid displays or files of op=%.*s", bad, VIEW_ARG(end->op));
    }
    return d;
}

void displays_destroy(struct displays *d)
{
    if (d == NULL) {
        return;
    }
    assert(d->reading == NULL);
    for (size_t i = 0; i < d->count; i++) {
        free((char *)(uintptr_t)d->items[i].mime);
        free((char *)(uintptr_t)d->items[i].path);
        free((char *)(uintptr_t)d->items[i].data.data);
    }
    for (size_t i = 0; i < d->file_count; i++) {
        free((char *)(uintptr_t)d->files[i].path.data);
    }
    free(d->items);
    free(d->files);
    free(d);
}

void displays_show(const struct displays *d, struct fleet_outcome *outcome)
{
    outcome->displays = d->items;
    outcome->display_count = d->count;
    outcome->files = d->files;
    outcome->file_count = d->file_count;
    outcome->files_more = d->files_more;
}

size_t displays_size(const struct displays *d)
{
    return d->size;
}

/* ---- reading -------------------------------------------------------------------------------- */

static bool is_image(const struct fleet_display *item)
{
    return strncmp(item->mime, "image/", 6) == 0;
}

static bool is_picture(const struct fleet_display *item)
{
    return is_image(item) && strcmp(item->mime, "image/svg+xml") != 0;
}

/* Whether the same thing also exists as a smaller picture, which results show. */
static bool is_there_smaller(const struct displays *d, const struct fleet_display *item)
{
    bool found = false;
    for (size_t i = 0; i < d->count && !found; i++) {
        const struct fleet_display *other = &d->items[i];
        found = other->number == item->number && is_picture(other) && other->size > 0 &&
                other->size < item->size;
    }
    return found;
}

static bool is_wanted(const struct reading *r, const struct fleet_display *item)
{
    size_t most = is_image(item) ? DISPLAYS_IMAGE_MAX : DISPLAYS_TEXT_MAX;
    bool wanted = is_image(item) == r->images && item->size > 0 && item->size <= most &&
                  item->size <= DISPLAYS_MAX - r->bytes;
    return wanted && !(item->size > DISPLAYS_LARGE && is_picture(item) &&
                       is_there_smaller(r->displays, item));
}

/* Finds the next item to read, from r->at on; false if there is none. */
static bool find_next(struct reading *r)
{
    const struct displays *d = r->displays;
    if (r->count == DISPLAYS_READ_MAX) {
        return false;
    }
    for (;;) {
        for (; r->at < d->count; r->at++) {
            if (is_wanted(r, &d->items[r->at])) {
                return true;
            }
        }
        if (!r->images) {
            return false;
        }
        r->images = false;
        r->at = 0;
    }
}

/* Frees it, unless an operation is in progress. */
static void free_if_over(struct reading *r)
{
    if (r->call == NULL && r->timer_closed) {
        fleet_host_release(r->host);
        free(r);
    }
}

static void on_display_timer_closed(uv_handle_t *handle)
{
    struct reading *r = handle->data;
    r->timer_closed = true;
    free_if_over(r);
}

/* Reports the end; an operation in progress ends by itself. */
static void end(struct reading *r)
{
    void (*done)(void *arg) = r->done;
    void *arg = r->arg;
    r->displays->reading = NULL;
    r->displays = NULL;
    uv_close((uv_handle_t *)&r->timer, on_display_timer_closed);
    done(arg);
}

static void on_display_time(uv_timer_t *timer)
{
    struct reading *r = timer->data;
    bool replaced = r->call != NULL && sandbox_state(r->sandbox) == SANDBOX_RECOVERING;
    if (++r->waited < WAIT_MORE && replaced) {
        uv_timer_start(timer, on_display_time, DISPLAYS_WAIT_MS, 0);
        return;
    }
    log_warn("displays not read in time: sandbox=%s", r->call != NULL ? r->sandbox->id : "?");
    if (r->call != NULL) {
        call_cancel(r->call);
    }
    end(r);
}

/* True if the file was read completely. */
static bool keep_bytes(struct reading *r, const struct fleet_outcome *o)
{
    struct fleet_display *item = &r->displays->items[r->at];
    if (o->end->status != OP_STATUS_OK || o->out.len == 0 || o->out.len != o->out_bytes ||
        o->out.len != o->end->file_size) {
        return false; /* the file is gone, or has changed */
    }
    item->size = o->out.len;
    if (!is_wanted(r, item)) {
        return false;
    }
    char *copy = alloc_array(o->out.len, 1);
    memcpy(copy, o->out.data, o->out.len);
    item->data = view_bytes(copy, o->out.len);
    r->bytes += o->out.len;
    r->displays->size += o->out.len;
    return true;
}

static void read_next_display(struct reading *r);

static void on_display_read(void *arg, int rc, const struct fleet_outcome *outcome,
                            const struct err *err, const char *hint)
{
    struct reading *r = arg;
    (void)err, (void)hint;
    r->call = NULL;
    if (r->displays == NULL) {
        free_if_over(r);
        return;
    }
    bool whole = rc == 0 && keep_bytes(r, outcome);
    bool lost = rc < 0 || outcome->end->status == OP_STATUS_CANCELLED;
    if (!whole) {
        log_debug("a display could not be read: sandbox=%s", r->sandbox->id);
    }
    r->at++;
    if (lost || sandbox_is_leaving(r->sandbox) || !find_next(r)) {
        end(r);
    } else {
        read_next_display(r);
    }
}

static void read_next_display(struct reading *r)
{
    const struct fleet_display *item = &r->displays->items[r->at];
    const struct fleet_op op = {
        .kind = OP_FILE_READ,
        .path = item->path,
        .keep_bytes = (is_image(item) ? DISPLAYS_IMAGE_MAX : DISPLAYS_TEXT_MAX) + 1,
        .length = (is_image(item) ? DISPLAYS_IMAGE_MAX : DISPLAYS_TEXT_MAX) + 1,
        .timeout_ms = DISPLAYS_WAIT_MS,
        .is_look = true,
    };
    r->count++;
    r->call = call_begin(r->sandbox, &op, on_display_read, r);
}

bool displays_read(struct displays *d, struct sandbox *s, void (*done)(void *arg), void *arg)
{
    struct reading first = {.displays = d, .host = s->host, .sandbox = s, .images = true};
    if (sandbox_is_leaving(s) || s->host->stopping || !find_next(&first)) {
        return false;
    }
    struct reading *r = alloc_one(struct reading);
    *r = first;
    r->done = done;
    r->arg = arg;
    d->reading = r;
    fleet_host_hold(r->host);
    uv_timer_init(r->host->loop, &r->timer);
    r->timer.data = r;
    uv_timer_start(&r->timer, on_display_time, DISPLAYS_WAIT_MS, 0);
    read_next_display(r);
    return true;
}
