/*
 * `exec`: a program in a sandbox that is there, with our stdin (-i) and in a terminal (-t), as
 * docker has it. Without -i it has no stdin. A signal that ends us stops it first.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/io/json.h"
#include "supervisor/commands/internal.h"

#define EXEC_INTERACTIVE 0
#define EXEC_TTY         1

static cJSON *exec_body(const struct steer *s)
{
    bool tty = s->values[EXEC_TTY] != NULL, interactive = s->values[EXEC_INTERACTIVE] != NULL;
    cJSON *body = cJSON_CreateObject();
    talk_add_args(s, body);
    if (tty) {
        const char *term = getenv("TERM");
        CLEANUP_FREE char *variable = alloc_printf("TERM=%s", term != NULL ? term : "xterm");
        cJSON_AddItemToArray(cJSON_AddArrayToObject(body, "env"), cJSON_CreateString(variable));
        cJSON_AddTrueToObject(body, "tty");
    } else if (interactive) {
        cJSON_AddTrueToObject(body, "stdin_open");
    }
    return body;
}

static int exec_in(const struct steer *s, const struct server *server, const char *path,
                   struct err *err)
{
    bool tty = s->values[EXEC_TTY] != NULL, interactive = s->values[EXEC_INTERACTIVE] != NULL;
    const struct talk talk = {
        .server = server,
        .sends_stdin = interactive,
        .ends_stdin = tty && !interactive,
        .is_terminal = tty && isatty(STDIN_FILENO),
    };
    return talk_run(&talk, path, exec_body(s), err);
}

int command_exec(const struct steer *s)
{
    struct servers servers;
    struct err err = ERR_INIT;
    const struct server *server;
    CLEANUP_FREE char *path = NULL;
    servers_find(s->config, &servers);
    int rc = servers_with(&servers, s->words[0], &server, &path, &err);
    if (rc == 0 && strstr(path, "/sandboxes/") == NULL) {
        rc = err_set(&err, ERR_INVALID, "%s is an execution; name a sandbox", s->words[0]);
    }
    if (rc == 0) {
        interrupts_begin();
        rc = exec_in(s, server, path, &err);
    }
    servers_finish(&servers);
    interrupts_end();
    return rc < 0 ? command_fail(&err) : rc;
}
