/*
 * What there is: `ps`, `inspect` and `version`. They ask every server of this user; one that does
 * not answer is named, and the others are shown.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/io/json.h"
#include "supervisor/commands/internal.h"

#define PS_QUIET 1

/* ---- ps ------------------------------------------------------------------------------------- */

/* "2027-01-31T12:00:00.000Z" as "2027-01-31 12:00:00". */
static char *short_time(const char *iso)
{
    char *text = alloc_strdup(iso);
    char *letter = strchr(text, 'T');
    if (letter != NULL && strlen(letter) > 8) {
        *letter = ' ';
        letter[9] = '\0';
    }
    return text;
}

static void add_ps_row(struct table *t, const struct server *server, const cJSON *s)
{
    CLEANUP_FREE char *created = short_time(member_text(s, "created_at"));
    CLEANUP_FREE char *runs = alloc_printf("%.0f", member_number(s, "executions"));
    CLEANUP_FREE char *memory =
        alloc_printf("%.0f MiB", member_number(json_get(s, "limits"), "memory_mb"));
    const char *const cells[] = {member_text(s, "sandbox_id"),
                                 member_text(s, "name"),
                                 member_text(s, "owner"),
                                 member_text(s, "state"),
                                 member_text(s, "image"),
                                 memory,
                                 runs,
                                 created,
                                 server->name};
    table_add(t, cells);
}

static int show_sandboxes(const struct steer *s, const struct server *server, void *arg)
{
    struct err err = ERR_INIT;
    cJSON *answer = NULL;
    if (server_ask(server, "GET", "/v1/sandboxes", &answer, &err) < 0) {
        return command_fail(&err);
    }
    const cJSON *sandbox;
    cJSON_ArrayForEach(sandbox, json_get(answer, "sandboxes"))
    {
        if (s->json) {
            print_object(server, sandbox);
        } else if (s->values[PS_QUIET] != NULL) {
            printf("%s\n", member_text(sandbox, "sandbox_id"));
        } else {
            add_ps_row(arg, server, sandbox);
        }
    }
    cJSON_Delete(answer);
    return 0;
}

int command_ps(const struct steer *s)
{
    static const char *const heads[] = {"SANDBOX ID", "NAME", "OWNER",   "STATE",  "IMAGE",
                                        "MEMORY",     "RUNS", "CREATED", "SERVER", NULL};
    struct table *t = table_create(heads);
    int status = servers_each(s, show_sandboxes, t);
    table_end(t, !s->json && s->values[PS_QUIET] == NULL);
    return status;
}

/* ---- inspect -------------------------------------------------------------------------------- */

int command_inspect(const struct steer *s)
{
    struct servers servers;
    int status = 0;
    cJSON *all = cJSON_CreateArray();
    servers_find(s->config, &servers);
    for (size_t i = 0; i < s->word_count; i++) {
        struct err err = ERR_INIT;
        const struct server *server;
        char *path = NULL;
        cJSON *answer = NULL;
        if (servers_with(&servers, s->words[i], &server, &path, &err) < 0 ||
            server_ask(server, "GET", path, &answer, &err) < 0) {
            status = command_fail(&err);
        } else {
            cJSON_AddStringToObject(answer, "server", server->name);
            cJSON_AddItemToArray(all, answer);
        }
        free(path);
    }
    CLEANUP_FREE char *text = alloc_check(cJSON_Print(all));
    cJSON_Delete(all);
    printf("%s\n", text);
    servers_finish(&servers);
    return status;
}

/* ---- version -------------------------------------------------------------------------------- */

static int show_version(const struct steer *s, const struct server *server, void *arg)
{
    struct err err = ERR_INIT;
    cJSON *answer = NULL;
    if (server_ask(server, "GET", "/v1/version", &answer, &err) < 0) {
        return command_fail(&err);
    }
    CLEANUP_FREE char *who = alloc_printf("server %s", server->name);
    CLEANUP_FREE char *pid = alloc_printf("%.0f", member_number(answer, "pid"));
    const char *const cells[] = {who, member_text(answer, "version"), pid};
    table_add(arg, cells);
    if (s->json) {
        print_object(server, answer);
    }
    cJSON_Delete(answer);
    return 0;
}

int command_version(const struct steer *s)
{
    static const char *const heads[] = {"PROGRAM", "VERSION", "PID", NULL};
    static const char *const mine[] = {"cloister", CLOISTER_VERSION, ""};
    struct table *t = table_create(heads);
    table_add(t, mine);
    int status = servers_each(s, show_version, t);
    table_end(t, !s->json);
    return status;
}
