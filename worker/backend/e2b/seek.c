/*
 *     LIST by metadata --> GET by id --> [WAKE, if it is paused] --> done
 *
 * A list does not have the token of a sandbox's daemon, and its token may be another one than it
 * was. Waking one says how long it is to live from now on, because it would be short otherwise.
 */
#include "worker/backend/e2b/seek.h"

#include <stdlib.h>

#include "common/alloc.h"
#include "worker/backend/backend.h"
#include "worker/backend/e2b/api.h"

#define GET_MS 8000

struct e2b_seek {
    struct e2b_host *api;
    char *sandbox; /* while it is looked for */
    uint64_t ttl_s;
    bool was_paused;
    e2b_seek_fn done;
    void *arg;
};

void e2b_seek_free(struct e2b_seek *s)
{
    if (s != NULL) {
        free(s->sandbox);
        free(s);
    }
}

static void finish_seek(struct e2b_seek *s, int rc, const struct e2b_box *box,
                        const struct err *failure)
{
    e2b_seek_fn done = s->done;
    void *arg = s->arg;
    struct err err = failure != NULL ? *failure : (struct err)ERR_INIT;
    e2b_seek_free(s);
    if (rc == -ERR_GONE) {
        err_ignore(err_set(&err, ERR_GONE,
                           BACKEND_ENDED "the service has it no more: somebody removed it, or its "
                                         "time was over"));
    }
    done(arg, rc, box, rc < 0 ? &err : NULL);
}

static void on_sought(void *arg, int rc, const struct e2b_reply *reply, const struct err *failure)
{
    struct e2b_seek *s = arg;
    struct e2b_box box = {.token = NULL};
    struct err err = ERR_INIT;
    if (rc < 0) {
        err = *failure;
    } else if ((rc = e2b_box_read(reply->json, &box, &err)) < 0) {
        rc = -(err.code = ERR_ENGINE);
    } else if (box.paused && !s->was_paused) {
        s->was_paused = true;
        e2b_api_wake(s->api, box.id, s->ttl_s, on_sought, s);
        e2b_box_finish(&box);
        return;
    }
    box.paused = s->was_paused;
    finish_seek(s, rc, rc == 0 ? &box : NULL, &err);
    e2b_box_finish(&box);
}

static void on_seek_listed(void *arg, int rc, const struct e2b_reply *reply, const struct err *err)
{
    struct e2b_seek *s = arg;
    struct e2b_box box;
    const cJSON *item;
    if (rc < 0 || !cJSON_IsArray(reply->json)) {
        struct err why = ERR_INIT; /* whatever it is, it says nothing about a sandbox */
        err_ignore(err_set(&why, ERR_ENGINE, "sandbox %s cannot be looked for: %.300s", s->sandbox,
                           rc < 0 ? err->text : "the answer of the service is no list"));
        finish_seek(s, -ERR_ENGINE, NULL, &why);
        return;
    }
    cJSON_ArrayForEach(item, reply->json)
    {
        if (e2b_box_is_of(item, s->sandbox) && e2b_box_read(item, &box, NULL) == 0) {
            e2b_api_get(s->api, box.id, GET_MS, on_sought, s);
            e2b_box_finish(&box);
            return;
        }
    }
    finish_seek(s, -ERR_GONE, NULL, NULL);
}

static struct e2b_seek *new_seek(struct e2b_host *api, uint64_t ttl_s, e2b_seek_fn done, void *arg)
{
    struct e2b_seek *s = alloc_one(struct e2b_seek);
    s->api = api;
    s->ttl_s = ttl_s;
    s->done = done;
    s->arg = arg;
    return s;
}

struct e2b_seek *e2b_seek_sandbox(struct e2b_host *api, const char *sandbox, uint64_t ttl_s,
                                  e2b_seek_fn done, void *arg)
{
    struct e2b_seek *s = new_seek(api, ttl_s, done, arg);
    s->sandbox = alloc_strdup(sandbox);
    e2b_api_list(api, E2B_META_SANDBOX, sandbox, view_of(""), on_seek_listed, s);
    return s;
}

struct e2b_seek *e2b_seek_box(struct e2b_host *api, const char *id, uint64_t ttl_s,
                              e2b_seek_fn done, void *arg)
{
    struct e2b_seek *s = new_seek(api, ttl_s, done, arg);
    e2b_api_get(api, id, GET_MS, on_sought, s);
    return s;
}
