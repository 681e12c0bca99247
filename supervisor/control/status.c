/*
 * The server itself: its version, its limits and how far they are used, its engine, its pool, its
 * workers, and the list of what can be asked.
 */
#include <string.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "proto/place.h"
#include "supervisor/base/config.h"
#include "supervisor/control/internal.h"
#include "supervisor/results/result.h"

void control_get_index(struct control *c, struct web_exchange *x, const char *name)
{
    (void)c, (void)name;
    cJSON *body = cJSON_CreateObject();
    cJSON *list = result_put_array(body, "paths");
    for (size_t i = 0; i < control_route_count; i++) {
        const struct control_route *route = &control_routes[i];
        cJSON *row = cJSON_CreateObject();
        result_put_text(row, "method", route->method);
        result_put_text(row, "path", route->path);
        result_put_text(row, "about", route->about);
        cJSON_AddItemToArray(list, row);
    }
    control_answer(x, 200, body);
}

static cJSON *version_object(void)
{
    cJSON *body = cJSON_CreateObject();
    result_put_text(body, "version", CLOISTER_VERSION);
    result_put_int(body, "api", CONTROL_API);
    result_put_int(body, "pid", getpid());
    return body;
}

void control_get_version(struct control *c, struct web_exchange *x, const char *name)
{
    (void)c, (void)name;
    control_answer(x, 200, version_object());
}

void control_reload(struct control *c, struct web_exchange *x, const char *name)
{
    (void)name;
    struct err err = ERR_INIT;
    if (c->reload(c->reload_arg, &err) < 0) {
        control_fail(x, ERR_CONFIG, err.text, "what is wrong stays as it was");
        return;
    }
    cJSON *body = cJSON_CreateObject();
    result_put_bool(body, "reloaded", true);
    control_answer(x, 200, body);
}

/* ---- status --------------------------------------------------------------------------------- */

/* Sums over all sandboxes. */
struct census {
    cJSON *states;
    uint64_t count, memory_mb, running;
};

static void count_sandbox(void *arg, const struct fleet_info *info)
{
    struct census *census = arg;
    if (control_is_ending(info)) {
        return;
    }
    cJSON *state = cJSON_GetObjectItemCaseSensitive(census->states, info->state);
    if (state != NULL) {
        cJSON_SetNumberValue(state, state->valuedouble + 1);
    } else {
        cJSON_AddNumberToObject(census->states, info->state, 1);
    }
    census->count++;
    census->memory_mb += strcmp(info->state, "failed") != 0 ? info->memory_mb : 0;
}

static void count_running(void *arg, const struct fleet_outcome *outcome)
{
    struct census *census = arg;
    census->running += outcome->state != OP_DONE;
}

static void put_engine(cJSON *body, const struct control *c)
{
    struct fleet_engine engine;
    cJSON *object = result_put_object(body, "engine");
    if (!fleet_engine(c->fleet, &engine)) { /* nothing has been probed yet */
        result_put_text(object, "configured", c->config->backend);
        return;
    }
    CLEANUP_FREE char *at = place_list_text(engine.place);
    result_put_text(object, "backend", engine.backend);
    result_put_words(object, "runtime", engine.runtime);
    result_put_words(object, "address", at);
}

static void put_preload(cJSON *pool, const struct fleet_pool *figures)
{
    cJSON *modules = figures->preload_count > 0 ? result_put_array(pool, "preload") : NULL;
    for (size_t i = 0; i < figures->preload_count; i++) {
        const struct fleet_preload *m = &figures->preload[i];
        CLEANUP_FREE char *name = alloc_viewdup(m->module);
        cJSON *one = cJSON_CreateObject();
        result_put_text(one, "module", name);
        result_put_words(one, "state", m->state);
        result_put_words(one, "reason", m->reason);
        cJSON_AddItemToArray(modules, one);
    }
}

static void put_pool_figures(cJSON *body, const struct control *c)
{
    const struct fleet_pool pool = fleet_pool(c->fleet);
    cJSON *object = result_put_object(body, "pool");
    result_put_uint(object, "size", pool.size);
    result_put_uint(object, "ready", pool.ready);
    result_put_uint(object, "hits", pool.hits);
    result_put_uint(object, "misses", pool.misses);
    put_preload(object, &pool);
}

void control_get_status(struct control *c, struct web_exchange *x, const char *name)
{
    (void)name;
    cJSON *body = version_object();
    result_put_words(body, "instance", c->config->instance);
    result_put_words(body, "directory", c->dir != NULL ? c->dir : "");
    result_put_words(body, "url", c->url != NULL ? c->url : "");
    result_put_bool(body, "stdio", c->config->http[0] == '\0' || c->config->stdio);
    result_put_time(body, "started_at", c->started_wall_ms);
    put_engine(body, c);
    cJSON *sandboxes = result_put_object(body, "sandboxes");
    struct census census = {.states = cJSON_CreateObject()};
    fleet_list(c->fleet, NULL, count_sandbox, &census);
    fleet_executions(c->fleet, NULL, NULL, count_running, &census);
    result_put_uint(sandboxes, "count", census.count);
    result_put_uint(sandboxes, "limit", c->config->max_sandboxes);
    result_put(sandboxes, "states", census.states);
    cJSON *memory = result_put_object(body, "memory");
    result_put_uint(memory, "promised_mb", census.memory_mb);
    result_put_uint(memory, "budget_mb", c->config->memory_budget_mb);
    result_put_uint(body, "executions_running", census.running);
    put_pool_figures(body, c);
    result_put_uint(body, "last_event", fleet_note_last(c->fleet));
    control_answer(x, 200, body);
}

/* ---- workers -------------------------------------------------------------------------------- */

static void add_worker(void *arg, const struct fleet_info *info)
{
    cJSON_AddItemToArray(arg, control_worker(info));
}

void control_list_workers(struct control *c, struct web_exchange *x, const char *name)
{
    (void)name;
    cJSON *body = cJSON_CreateObject();
    fleet_list(c->fleet, NULL, add_worker, result_put_array(body, "workers"));
    control_answer(x, 200, body);
}
