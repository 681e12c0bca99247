/*
 *     LIST --> DELETE, all at once --> next page --> done
 *
 * A sandbox is found by its metadata, as its id is in no record of ours. More than one may have the
 * same: a creation is repeated when its answer was lost, and the first may have been made all the
 * same.
 *
 * A server removes a sandbox's directory after the sandbox. So one whose directory is gone is left
 * from a creation that did not finish, or its server could not reach the service (owner.h). It is
 * removed even if it runs, because it costs somebody money; nobody can use it any more.
 */
#include "worker/backend/e2b/end.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/io/json.h"
#include "common/log.h"
#include "worker/backend/e2b/api.h"
#include "worker/backend/e2b/box.h"
#include "worker/backend/owner.h"

#define PAGES_MAX 20

struct e2b_end {
    struct e2b_host *api;
    char *sandbox; /* NULL: a sweep */
    char *page;    /* of the list, that comes next; NULL: none */
    unsigned pages;
    size_t pending;
    struct err err; /* the first failure; code 0: none */
    e2b_end_fn done;
    void *arg;
};

static void list_page(struct e2b_end *e, struct view page);

void e2b_end_free(struct e2b_end *e)
{
    if (e != NULL) {
        free(e->sandbox);
        free(e->page);
        free(e);
    }
}

static void count_answers_down(struct e2b_end *e)
{
    if (--e->pending > 0) {
        return;
    }
    if (e->page != NULL && e->err.code == 0 && ++e->pages < PAGES_MAX) {
        char *page = e->page;
        e->page = NULL;
        list_page(e, view_of(page));
        free(page);
        return;
    }
    e2b_end_fn done = e->done;
    void *arg = e->arg;
    struct err err = e->err;
    e2b_end_free(e);
    done(arg, -err.code, err.code != 0 ? &err : NULL);
}

static void on_e2b_removed(void *arg, int rc, const struct e2b_reply *reply, const struct err *err)
{
    struct e2b_end *e = arg;
    (void)reply;
    if (rc < 0 && rc != -ERR_GONE && e->sandbox == NULL) {
        log_warn("a sandbox of a server that is gone stays: %s", err->text);
    } else if (rc < 0 && rc != -ERR_GONE && e->err.code == 0) {
        e->err = *err;
        e->err.code = e->err.code == ERR_INVALID ? ERR_ENGINE : e->err.code;
    }
    count_answers_down(e);
}

static bool is_to_go(const struct e2b_end *e, const cJSON *item)
{
    return e->sandbox != NULL ? e2b_box_is_of(item, e->sandbox)
                              : owner_is_gone(json_get(item, "metadata"));
}

static void on_e2b_listed(void *arg, int rc, const struct e2b_reply *reply, const struct err *err)
{
    struct e2b_end *e = arg;
    const cJSON *item;
    if (rc < 0) {
        e->err = *err;
        e->err.code = e->err.code == ERR_GONE ? ERR_ENGINE : e->err.code;
    } else if (!cJSON_IsArray(reply->json)) {
        err_ignore(err_set(&e->err, ERR_ENGINE, "%s: the answer of the service is no list",
                           e2b_host_url(e->api)));
    } else {
        e->page = reply->next.len > 0 ? alloc_viewdup(reply->next) : NULL;
        cJSON_ArrayForEach(item, reply->json)
        {
            struct e2b_box box;
            if (!is_to_go(e, item) || e2b_box_read(item, &box, NULL) < 0) {
                continue;
            }
            if (e->sandbox == NULL) {
                log_info("removing sandbox %s, which is nobody's any more", box.id);
            }
            e->pending++;
            e2b_api_remove(e->api, box.id, on_e2b_removed, e);
            e2b_box_finish(&box);
        }
    }
    count_answers_down(e);
}

static void list_page(struct e2b_end *e, struct view page)
{
    char host[E2B_HOST_HASH_SIZE];
    e2b_api_this_host(host);
    e->pending = 1;
    e2b_api_list(e->api, e->sandbox != NULL ? E2B_META_SANDBOX : E2B_META_HOST,
                 e->sandbox != NULL ? e->sandbox : host, page, on_e2b_listed, e);
}

static struct e2b_end *begin_end(struct e2b_host *api, char *sandbox, e2b_end_fn done, void *arg)
{
    struct e2b_end *e = alloc_one(struct e2b_end);
    e->api = api;
    e->sandbox = sandbox;
    e->done = done;
    e->arg = arg;
    list_page(e, view_of(""));
    return e;
}

struct e2b_end *e2b_end_start(struct e2b_host *api, const char *sandbox, e2b_end_fn done, void *arg)
{
    return begin_end(api, alloc_strdup(sandbox), done, arg);
}

struct e2b_end *e2b_end_sweep(struct e2b_host *api, e2b_end_fn done, void *arg)
{
    return begin_end(api, NULL, done, arg);
}
