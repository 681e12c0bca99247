/*
 * What is ended: `stop` what runs, `rm` sandboxes. Each name is printed when it is done, as docker
 * does, and what cannot be done is told while the others are.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
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
    if (s->json) {
        print_object(server, answer);
    } else {
        printf("%s\n", name);
    }
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
