/*
 * A client shows each picture of a result to its model, so all pictures of a run are in the result,
 * in order, as far as they fit. Pictures take precedence over long output, whose middle is rarely
 * missed. A picture that is too large, or has a type that clients do not show, becomes a link.
 * Files are links as well. There may be hundreds with long names, so links have a share of their
 * own, and the rest is only counted.
 *
 * In the structured value each display is an object of type to content: a short text itself, else
 * where it is and how large. Pictures are not in it, since they would be in the result twice.
 *
 * Costs are those of the JSON that is made here.
 */
#include "supervisor/results/shown.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/base64.h"
#include "common/cleanup.h"
#include "common/text.h"
#include "supervisor/fleet/fleet.h"
#include "supervisor/links/links.h"
#include "supervisor/links/mime.h"
#include "supervisor/links/uri.h"
#include "supervisor/results/result.h"

#define LINKS_MAX       20
#define FILE_LINKS_MAX  12 /* file links if there are displays, which may need links, too */
#define LINKS_BYTES     (32u << 10)
#define FILES_BYTES     (48u << 10)
#define DISPLAYS_BYTES  (96u << 10) /* in the structured value, texts included */
#define INLINE_MAX      (16u << 10) /* longest text in it; longer ones are located */
#define TEXTS_BYTES     (48u << 10) /* texts for people, of all displays */
#define IMAGE_JSON      128         /* JSON around a picture */
#define TEXT_MAX_BYTES  (4u << 20)
#define IMAGE_MAX_BYTES (2u << 20)

/* The representations of one display. */
struct group {
    const struct fleet_display *items;
    size_t count;
};

struct building {
    struct result_shown *s;
    const struct fleet_outcome *outcome;
    const char *workspace;
    struct links *links;
    size_t max_cost;
    size_t link_count, link_max, links_bytes;
    size_t links_left_out;
    size_t texts_bytes;
};

static size_t item_cost(const cJSON *item)
{
    char *text = cJSON_PrintUnformatted(item);
    size_t cost = text != NULL ? strlen(text) + 1 : 0; /* with a comma */
    cJSON_free(text);
    return cost;
}

/* Appends the item to the list if it fits; frees it otherwise. `bytes` is the cost of the list. */
static bool add_within(struct building *b, cJSON *list, cJSON *item, size_t *bytes, size_t most)
{
    size_t cost = item_cost(item);
    if (*bytes + cost > most || b->s->cost + cost > b->max_cost) {
        cJSON_Delete(item);
        return false;
    }
    cJSON_AddItemToArray(list, item);
    *bytes += cost;
    b->s->cost += cost;
    return true;
}

/* ---- links ---------------------------------------------------------------------------------- */

/* NULL if no URI can name it. The caller frees it. */
static char *uri_of_display(const struct building *b, const struct fleet_display *d)
{
    return b->workspace != NULL ? uri_of_file(b->outcome->sandbox, "/", view_of(d->path)) : NULL;
}

static char *uri_of_changed(const struct building *b, const struct fleet_file *f)
{
    bool known = b->workspace != NULL && b->workspace[0] != '\0';
    return known ? uri_of_file(b->outcome->sandbox, b->workspace, f->path) : NULL;
}

/* Adds where it is: a URI, and a URL for browsers if there is one. */
static void put_place(const struct building *b, cJSON *object, const char *uri, struct view path)
{
    if (uri == NULL) {
        return;
    }
    CLEANUP_FREE char *name = alloc_viewdup(path);
    CLEANUP_FREE char *url = links_make(b->links, b->outcome->sandbox, name);
    result_put_text(object, "uri", uri);
    if (url != NULL) {
        result_put_text(object, "url", url);
    }
}

static cJSON *link_block(const char *uri, const char *name, const char *mime, uint64_t size)
{
    struct result one;
    result_init(&one);
    result_add_link(&one, uri, name, mime, size);
    cJSON *block = cJSON_DetachItemFromArray(one.content, 0);
    result_finish(&one);
    return block;
}

static void add_link(struct building *b, const char *uri, const char *name, const char *mime,
                     uint64_t size)
{
    if (uri == NULL) {
        return;
    }
    if (b->link_count < b->link_max && add_within(b, b->s->links, link_block(uri, name, mime, size),
                                                  &b->links_bytes, LINKS_BYTES)) {
        b->link_count++;
    } else {
        b->links_left_out++;
    }
}

/* ---- files ---------------------------------------------------------------------------------- */

static char *text_of(struct view bytes)
{
    CLEANUP_BUF struct buf text;
    buf_init(&text, TEXT_MAX_BYTES);
    text_add(&text, bytes, TEXT_MAX_BYTES / 2, false);
    return alloc_strdup(text_cstr(&text));
}

static void add_file_link(struct building *b, const struct fleet_file *f, size_t *bytes)
{
    CLEANUP_FREE char *path = text_of(f->path);
    CLEANUP_FREE char *uri = uri_of_changed(b, f);
    const char *mime = mime_of_name(path);
    cJSON *file = cJSON_CreateObject();
    result_put_text(file, "path", path);
    result_put_uint(file, "size", f->size);
    if (mime != NULL) {
        result_put_text(file, "mime", mime);
    }
    put_place(b, file, uri, f->path);
    if (!add_within(b, b->s->files, file, bytes, FILES_BYTES)) {
        b->s->files_cut = true;
    }
    add_link(b, uri, path, mime, f->size);
}

/* ---- displays ------------------------------------------------------------------------------- */

static bool is_text_type(const char *mime)
{
    static const char *const types[] = {"application/json", "application/javascript",
                                        "application/geo+json"};
    bool is = strncmp(mime, "text/", 5) == 0;
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        is = is || strcmp(mime, types[i]) == 0;
    }
    return is;
}

/* The type of a picture that clients can show, judged by its content; else NULL. */
static const char *picture(const struct fleet_display *d)
{
    return strncmp(d->mime, "image/", 6) == 0 ? mime_of_image(d->data) : NULL;
}

/* Whether the structured value has its text. */
static bool is_inline(const struct fleet_display *d)
{
    return is_text_type(d->mime) && d->data.len > 0 && text_fit(d->data, INLINE_MAX) == d->data.len;
}

static void add_structured(struct building *b, const struct group *g, size_t *bytes)
{
    cJSON *display = cJSON_CreateObject();
    for (size_t i = 0; i < g->count; i++) {
        const struct fleet_display *d = &g->items[i];
        if (cJSON_HasObjectItem(display, d->mime)) {
            continue;
        }
        if (is_inline(d)) {
            CLEANUP_FREE char *text = text_of(d->data);
            cJSON_AddStringToObject(display, d->mime, text);
            continue;
        }
        CLEANUP_FREE char *uri = uri_of_display(b, d);
        cJSON *place = cJSON_AddObjectToObject(display, d->mime);
        put_place(b, place, uri, view_of(d->path));
        result_put_uint(place, "size", d->size);
    }
    if (!add_within(b, b->s->displays, display, bytes, DISPLAYS_BYTES)) {
        b->s->displays_cut = true;
    }
}

static const struct fleet_display *find_type(const struct group *g, const char *mime)
{
    for (size_t i = 0; i < g->count; i++) {
        if (strcmp(g->items[i].mime, mime) == 0 && g->items[i].data.len > 0) {
            return &g->items[i];
        }
    }
    return NULL;
}

static bool is_result(const struct building *b, struct view text)
{
    const struct msg_output *end = b->outcome->end;
    return end->has_result && view_same(end->result, text);
}

/* Adds the best readable text. HTML is for programs, which find it in the fields. */
static bool add_shown_text(struct building *b, const struct group *g)
{
    static const char *const types[] = {"text/markdown", "text/latex", "text/plain"};
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        const struct fleet_display *d = find_type(g, types[i]);
        if (d == NULL) {
            continue;
        }
        if (is_result(b, d->data)) {
            return true; /* a picture is shown instead */
        }
        size_t left = TEXTS_BYTES - b->texts_bytes;
        size_t room = b->max_cost - b->s->cost;
        if (text_cost(d->data) + 2 > (left < room ? left : room)) {
            return false;
        }
        struct buf *text = &b->s->text;
        if (text->len > 0 && text->data[text->len - 1] != '\n') {
            text_printf(text, "\n");
        }
        size_t cost = text_cost(d->data) + 2;
        text_add(text, d->data, TEXTS_BYTES, false);
        b->texts_bytes += cost;
        b->s->cost += cost;
        return true;
    }
    return false;
}

static bool add_image(struct building *b, const struct fleet_display *d)
{
    size_t cost = (d->data.len + 2) / 3 * 4 + IMAGE_JSON;
    if (cost > b->max_cost - b->s->cost) {
        return false;
    }
    CLEANUP_BUF struct buf base64;
    buf_init(&base64, IMAGE_MAX_BYTES);
    if (base64_encode(&base64, d->data, NULL) < 0) {
        return false;
    }
    struct result one;
    result_init(&one);
    result_add_image(&one, picture(d), text_cstr(&base64));
    cJSON_AddItemToArray(b->s->images, cJSON_DetachItemFromArray(one.content, 0));
    result_finish(&one);
    b->s->cost += cost;
    return true;
}

/* The representation to link if none can be shown: pictures come first. */
static const struct fleet_display *representative(const struct group *g)
{
    for (size_t i = 0; i < g->count; i++) {
        if (strncmp(g->items[i].mime, "image/", 6) == 0) {
            return &g->items[i];
        }
    }
    return &g->items[0];
}

static void link_display(struct building *b, const struct group *g)
{
    const struct fleet_display *d = representative(g);
    CLEANUP_FREE char *uri = uri_of_display(b, d);
    CLEANUP_FREE char *name = alloc_printf("display %llu", (unsigned long long)d->number);
    if (uri != NULL) {
        add_link(b, uri, name, d->mime, d->size);
    } else if (b->s->notes.len < 1000) {
        text_printf(&b->s->notes, "[%s of type %s, %llu bytes, is not kept]\n", name, d->mime,
                    (unsigned long long)d->size);
    }
}

/* The smallest of several pictures: larger ones are there for details. */
static const struct fleet_display *find_picture(const struct group *g)
{
    const struct fleet_display *best = NULL;
    for (size_t i = 0; i < g->count; i++) {
        const struct fleet_display *d = &g->items[i];
        if (picture(d) != NULL && (best == NULL || d->data.len < best->data.len)) {
            best = d;
        }
    }
    return best;
}

/* Shows a picture if there is one, else a text, else a link. A picture that does not fit becomes a
 * link, even if there is a text. Short HTML that is another form of a value (mostly a table) is in
 * the fields, and needs no link. */
static void show_group(struct building *b, const struct group *g)
{
    bool has_picture = false;
    bool told = false;
    const struct fleet_display *best = find_picture(g);
    if (best != NULL && add_image(b, best)) {
        return;
    }
    for (size_t i = 0; i < g->count; i++) {
        const struct fleet_display *d = &g->items[i];
        has_picture = has_picture || strncmp(d->mime, "image/", 6) == 0;
        told = told || (is_inline(d) && !b->s->displays_cut);
    }
    told = add_shown_text(b, g) || told;
    if (!told || has_picture) {
        link_display(b, g);
    }
}

static size_t group_at(const struct fleet_outcome *o, size_t at, struct group *ret)
{
    size_t n = 1;
    while (at + n < o->display_count && o->displays[at + n].number == o->displays[at].number) {
        n++;
    }
    *ret = (struct group){o->displays + at, n};
    return at + n;
}

/* ---- interface ------------------------------------------------------------------------------- */

void result_shown_init(struct result_shown *s, const struct fleet_outcome *o, const char *workspace,
                       struct links *links, size_t max_cost)
{
    struct building b = {
        .s = s, .outcome = o, .workspace = workspace, .links = links, .max_cost = max_cost};
    size_t displays_bytes = 0;
    size_t files_bytes = 0;
    struct group g;
    *s = (struct result_shown){
        .displays = cJSON_CreateArray(),
        .files = cJSON_CreateArray(),
        .images = cJSON_CreateArray(),
        .links = cJSON_CreateArray(),
        .files_cut = o->files_more,
    };
    buf_init(&s->text, TEXT_MAX_BYTES);
    buf_init(&s->notes, TEXT_MAX_BYTES);
    for (size_t at = 0; at < o->display_count;) {
        at = group_at(o, at, &g);
        add_structured(&b, &g, &displays_bytes);
    }
    b.link_max = o->display_count > 0 ? FILE_LINKS_MAX : LINKS_MAX;
    for (size_t i = 0; i < o->file_count; i++) {
        add_file_link(&b, &o->files[i], &files_bytes);
    }
    b.link_max = LINKS_MAX;
    for (size_t at = 0; at < o->display_count;) {
        at = group_at(o, at, &g);
        show_group(&b, &g);
    }
    if (b.links_left_out > 0) {
        text_printf(&s->notes,
                    "[%zu more files or displays are not linked here; list_files shows files]\n",
                    b.links_left_out);
    }
}

static void move_blocks(cJSON *from, cJSON *to)
{
    cJSON *block;
    while ((block = cJSON_DetachItemFromArray(from, 0)) != NULL) {
        cJSON_AddItemToArray(to, block);
    }
}

void result_shown_put(struct result_shown *s, struct result *r)
{
    move_blocks(s->images, r->content);
    move_blocks(s->links, r->content);
    result_put(r->structured, "displays", STEAL_PTR(s->displays));
    result_put(r->structured, "files", STEAL_PTR(s->files));
    if (s->displays_cut) {
        result_put_bool(r->structured, "displays_truncated", true);
    }
    result_put_bool(r->structured, "files_truncated", s->files_cut);
}

void result_shown_finish(struct result_shown *s)
{
    cJSON_Delete(s->displays);
    cJSON_Delete(s->files);
    cJSON_Delete(s->images);
    cJSON_Delete(s->links);
    buf_finish(&s->text);
    buf_finish(&s->notes);
}
