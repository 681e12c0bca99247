/*
 * What is ended: `stop` what runs, `rm` sandboxes, `prune` those that nobody needs. Each name is
 * printed when it is done, as docker does, and what cannot be done is told while the others are.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/io/json.h"
#include "supervisor/commands/internal.h"

/* Makes the request about one name; `more` is what follows its path. */
static int end_one(const struct steer *s, const struct servers *servers, const char *name,
                   const char *method, const char *more)
{
    struct err err = ERR_INIT;
    const struct server *server;
    CLEANUP_FREE char *path = NULL;
    cJSON *answer = NULL;
    if (servers_with(servers, name, &server, &path, &err) < 0) {
        return command_fail(&err);
    }
    if (strcmp(method, "DELETE") == 0 && strstr(path, "/sandboxes/") == NULL) {
        err_set(&err, ERR_INVALID, "%s is an execution: cloister stop stops it", name);
        return command_fail(&err);
    }
    CLEANUP_FREE char *whole = alloc_printf("%s%s", path, more);
    if (server_ask(server, method, whole, &answer, &err) < 0) {
        return command_fail(&err);
    }
    print_done(s, server, name, answer);
    cJSON_Delete(answer);
    return 0;
}

static int end_each(const struct steer *s, const char *method, const char *more)
{
    struct servers servers;
    int status = 0;
    servers_find(s->config, &servers);
    for (size_t i = 0; i < s->word_count; i++) {
        int rc = end_one(s, &servers, s->words[i], method, more);
        status = rc != 0 ? rc : status;
    }
    servers_finish(&servers);
    return status;
}

int command_stop(const struct steer *s)
{
    return end_each(s, "POST", "/stop");
}

int command_rm(const struct steer *s)
{
    return end_each(s, "DELETE", "");
}

/* ---- prune ---------------------------------------------------------------------------------- */

#define PRUNE_ALL 1

/* Whether something runs in it, as far as the server tells: then it is kept. */
static bool runs_something(const struct server *server, const char *id)
{
    struct err err = ERR_INIT;
    cJSON *list = NULL;
    CLEANUP_FREE char *path = alloc_printf("/v1/executions?running=1&limit=1&sandbox=%s", id);
    bool at_work = server_ask(server, "GET", path, &list, &err) < 0 ||
                   cJSON_GetArraySize(json_get(list, "executions")) > 0;
    cJSON_Delete(list);
    return at_work;
}

static int prune_one(const struct steer *s, const struct server *server, const char *id)
{
    struct err err = ERR_INIT;
    cJSON *closed = NULL;
    CLEANUP_FREE char *path = alloc_printf("/v1/sandboxes/%s", id);
    if (server_ask(server, "DELETE", path, &closed, &err) < 0) {
        return command_fail(&err);
    }
    print_done(s, server, id, closed);
    cJSON_Delete(closed);
    return 0;
}

static int prune_server(const struct steer *s, const struct server *server, void *arg)
{
    (void)arg;
    struct err err = ERR_INIT;
    cJSON *list = NULL;
    const cJSON *sandbox;
    int status = 0;
    if (server_ask(server, "GET", "/v1/sandboxes", &list, &err) < 0) {
        return command_fail(&err);
    }
    cJSON_ArrayForEach(sandbox, json_get(list, "sandboxes"))
    {
        const char *id = member_text(sandbox, "sandbox_id"), *state = member_text(sandbox, "state");
        bool is_idle = s->values[PRUNE_ALL] != NULL && strcmp(state, "ready") == 0;
        if (strcmp(state, "failed") == 0 || (is_idle && !runs_something(server, id))) {
            int rc = prune_one(s, server, id);
            status = rc != 0 ? rc : status;
        }
    }
    cJSON_Delete(list);
    return status;
}

int command_prune(const struct steer *s)
{
    return servers_each(s, prune_server, NULL);
}

/* ---- reload --------------------------------------------------------------------------------- */

static int reload_server(const struct steer *s, const struct server *server, void *arg)
{
    struct err err = ERR_INIT;
    cJSON *answer = NULL;
    (void)arg;
    if (server_ask(server, "POST", "/v1/reload", &answer, &err) < 0) {
        fprintf(stderr, "%s: ", server->name);
        return command_fail(&err);
    }
    print_done(s, server, server->name, answer);
    cJSON_Delete(answer);
    return 0;
}

int command_reload(const struct steer *s)
{
    return servers_each(s, reload_server, NULL);
}
