/*
 * The files of a run, and links to them. Over HTTP a link is a URL that a browser can follow, else
 * the URI of a resource. The first generation lists what is in /app/results, each with its name and
 * a link below /static/; later ones list the paths of what the run has changed.
 *
 * A list that does not fit into an answer is cut, and says so. The agent's list of what a run has
 * changed begins with the newest. That of a directory begins with the first names, LIMIT_ENTRIES of
 * them at most, and is sorted here: the newest of these are in the answer.
 */
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/io/json.h"
#include "common/text.h"
#include "supervisor/base/entries.h"
#include "supervisor/compat/python_paths.h"
#include "supervisor/compat/python_profile.h"
#include "supervisor/links/links.h"
#include "supervisor/links/uri.h"

#define TEXT_MAX_BYTES (2u << 20)
#define FILES_MAX      100
#define FILES_COST     (300u << 10) /* beside both streams */
#define COST_EACH      7            /* escaped twice, a byte costs at most this */

struct files {
    struct tool_call *call;
    const struct python_shape *shape;
    cJSON *files, *links;
    size_t left;
    bool full; /* some do not fit */
};

static char *link_of(const struct files *f, const char *shown)
{
    const struct tool_call *call = f->call;
    const struct tool_session *s = call->session;
    char *url =
        f->shape->first
            ? links_make_static(s->services->links, f->shape->key, call->sandbox_id, shown)
            : links_make_foreign(s->services->links, f->shape->key, call->sandbox_id, shown);
    return url != NULL ? url
                       : uri_of_file(call->sandbox_id, fleet_workspace(s->fleet, call->sandbox_id),
                                     view_of(python_path_inside(shown)));
}

static void add_result_link(struct files *f, const char *shown, const char *link)
{
    if (link == NULL) {
        return;
    }
    if (f->shape->first) {
        cJSON *item = cJSON_CreateObject();
        result_put_text(item, "name", shown);
        result_put_text(item, "url", link);
        cJSON_AddItemToArray(f->links, item);
    } else {
        cJSON_AddItemToArray(f->links, cJSON_CreateString(link));
    }
}

/* False: there is no room for it, nor for more. */
static bool add_file(struct files *f, struct view path)
{
    CLEANUP_BUF struct buf text;
    buf_init(&text, TEXT_MAX_BYTES);
    if (!f->shape->first) {
        text_printf(&text, "%s/", PYTHON_RESULTS);
    }
    text_add(&text, path, LIMIT_PATH, false);
    const char *shown = text_cstr(&text);
    CLEANUP_FREE char *link = link_of(f, shown);
    size_t shown_times = f->shape->first ? 2 : 1;
    size_t cost = COST_EACH * shown_times * strlen(shown) + (link != NULL ? strlen(link) : 0);
    if (cost > f->left || cJSON_GetArraySize(f->files) >= FILES_MAX) {
        f->full = true;
        return false;
    }
    f->left -= cost;
    cJSON_AddItemToArray(f->files, cJSON_CreateString(shown));
    add_result_link(f, shown, link);
    return true;
}

static struct files begin_files(struct tool_call *call, const struct python_shape *shape,
                                cJSON *answer)
{
    return (struct files){
        .call = call,
        .shape = shape,
        .files = result_put_array(answer, "files"),
        .links = result_put_array(answer, "file_links"),
        .left = FILES_COST,
    };
}

static void end_files(const struct files *f, bool more, cJSON *answer)
{
    if (f->full || more) { /* a partial list must say so */
        result_put_bool(answer, "files_truncated", true);
    }
}

void python_put_changed(struct tool_call *call, const struct python_shape *shape,
                        const struct fleet_outcome *o, cJSON *answer)
{
    struct files f = begin_files(call, shape, answer);
    for (size_t i = 0; i < o->file_count && add_file(&f, o->files[i].path); i++) {
    }
    end_files(&f, o->files_more, answer);
}

struct found {
    char *path;
    uint64_t mtime_ms;
};

struct results {
    struct found *files;
    size_t count;
};

static bool on_result_entry(void *arg, const struct msg_entry *e)
{
    struct results *r = arg;
    if (e->type == FILE_TYPE_FILE) {
        r->files = alloc_check(realloc(r->files, (r->count + 1) * sizeof(r->files[0])));
        r->files[r->count++] = (struct found){alloc_viewdup(e->path), e->mtime_ms};
    }
    return true;
}

/* Files of one time stay in the order of their names. */
static int compare_found(const void *a, const void *b)
{
    const struct found *x = a;
    const struct found *y = b;
    return x->mtime_ms != y->mtime_ms ? (x->mtime_ms < y->mtime_ms ? 1 : -1)
                                      : strcmp(x->path, y->path);
}

void python_put_named(struct tool_call *call, const struct python_shape *shape,
                      const struct fleet_outcome *listing, cJSON *answer)
{
    struct err bad = ERR_INIT;
    struct files f = begin_files(call, shape, answer);
    struct results r = {.count = 0};
    bool more = listing == NULL;
    if (listing != NULL) {
        int rc = entries_read(listing->out, on_result_entry, &r, &bad);
        more = rc < 0 || listing->end->truncated || listing->out_bytes > listing->out.len;
    }
    if (r.count > 0) {
        qsort(r.files, r.count, sizeof(r.files[0]), compare_found);
    }
    for (size_t i = 0; i < r.count; i++) {
        if (!f.full) {
            (void)add_file(&f, view_of(r.files[i].path));
        }
        free(r.files[i].path);
    }
    free(r.files);
    end_files(&f, more, answer);
}
