/*
 * The life of the control API, and the way from a path to its row of the table.
 *
 * The socket is opened when the instance gets its directory: for a server on stdio that is with its
 * first sandbox, since before that it has touched nothing and there is nothing to steer.
 */
#include "supervisor/control/control.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "supervisor/base/near.h"
#include "supervisor/control/internal.h"

/* ---- from a path to its row ----------------------------------------------------------------- */

/* Whether the path is that of the row; *ret_name is what stands at the *, if there is one. */
static bool is_route(const char *pattern, const char *path, struct view *ret_name)
{
    size_t before = strcspn(pattern, "*");
    *ret_name = view_of("");
    if (strncmp(pattern, path, before) != 0) {
        return false;
    }
    if (pattern[before] == '\0') {
        return path[before] == '\0';
    }
    size_t len = strcspn(path + before, "/");
    *ret_name = view_bytes(path + before, len);
    return len > 0 && strcmp(path + before + len, pattern + before + 1) == 0;
}

static void add_method(char **list, const char *method)
{
    char *longer =
        alloc_printf("%s%s%s", *list != NULL ? *list : "", *list != NULL ? ", " : "", method);
    free(*list);
    *list = longer;
}

static void answer_no_method(struct web_exchange *x, const char *allowed)
{
    CLEANUP_FREE char *text = alloc_printf("this path takes %s", allowed);
    web_set_header(x, "Allow", allowed);
    control_fail_as(x, 405, ERR_INVALID, text, NULL);
}

static void answer_no_path(struct web_exchange *x, const char *path)
{
    struct near_word near;
    near_begin(&near, view_of(path));
    for (size_t i = 0; i < control_route_count; i++) {
        near_try(&near, control_routes[i].path);
    }
    CLEANUP_FREE char *hint =
        alloc_printf("%s%s%sGET /v1 lists the paths", near.best != NULL ? "did you mean " : "",
                     near.best != NULL ? near.best : "", near.best != NULL ? "? " : "");
    control_fail_as(x, 404, ERR_INVALID, "there is no such path", hint);
}

void control_handle(struct control *c, struct web_exchange *x, const char *path, const char *who)
{
    CLEANUP_FREE char *allowed = NULL;
    for (size_t i = 0; i < control_route_count; i++) {
        const struct control_route *route = &control_routes[i];
        struct view name;
        if (!is_route(route->path, path, &name)) {
            continue;
        }
        if (strcmp(route->method, web_method(x)) == 0) {
            CLEANUP_FREE char *text = alloc_viewdup(name);
            control_deed_begin(c, x, route->action, who);
            if (c->quiet) { /* the fleet may be gone */
                control_fail(x, ERR_SHUTTING_DOWN, "the server is shutting down", NULL);
            } else {
                route->run(c, x, text);
            }
            return;
        }
        add_method(&allowed, route->method);
    }
    if (allowed != NULL) {
        answer_no_method(x, allowed);
    } else {
        answer_no_path(x, path);
    }
}

/* ---- life ----------------------------------------------------------------------------------- */

static void on_instance(void *arg, const char *dir)
{
    struct control *c = arg;
    free(c->dir);
    c->dir = alloc_strdup(dir);
    if (c->socket == NULL && !c->quiet) {
        c->socket = control_socket_open(c);
    }
}

struct control *control_create(const struct control_setup *setup)
{
    struct control *c = alloc_one(struct control);
    c->loop = setup->loop;
    c->config = setup->config;
    c->fleet = setup->fleet;
    c->audit = setup->audit;
    c->reload = setup->reload;
    c->reload_arg = setup->reload_arg;
    c->url = setup->url != NULL ? alloc_strdup(setup->url) : NULL;
    c->started_wall_ms = clock_wall_ms();
    TAILQ_INIT(&c->watchers);
    TAILQ_INIT(&c->pages);
    control_watch(c);
    fleet_on_instance(c->fleet, on_instance, c);
    return c;
}

void control_quiesce(struct control *c)
{
    c->quiet = true;
    if (c->socket != NULL) {
        control_socket_quiesce(c->socket);
    }
}

void control_part_closed(struct control *c)
{
    if (c->open_parts > 0 && --c->open_parts == 0) {
        c->closed(c->closed_arg);
    }
}

static void on_control_socket_closed(void *arg)
{
    struct control *c = arg;
    c->socket = NULL;
    control_part_closed(c);
}

void control_close(struct control *c, uint64_t flush_ms, void (*closed)(void *arg), void *arg)
{
    control_quiesce(c);
    control_end_watchers(c);
    c->closed = closed;
    c->closed_arg = arg;
    c->open_parts = 1 + c->page_count + (c->socket != NULL ? 1 : 0); /* 1: this function */
    control_end_pages(c);
    if (c->socket != NULL) {
        control_socket_close(c->socket, flush_ms, on_control_socket_closed, c);
    }
    control_part_closed(c);
}

void control_destroy(struct control *c)
{
    if (c != NULL) {
        free(c->url);
        free(c->dir);
        free(c);
    }
}
