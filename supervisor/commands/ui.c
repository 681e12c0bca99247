/*
 * `cloister ui`: the page of a server, also of one on stdio. The server shows it as long as this
 * program holds the answer, so Ctrl-C ends both.
 */
#include <stdio.h>
#include <unistd.h>

#include "supervisor/commands/internal.h"

struct showing {
    const struct server *server;
    bool json;
};

static bool print_address(void *arg, const cJSON *line)
{
    const struct showing *s = arg;
    if (s->json) {
        print_object(s->server, line);
    } else {
        printf("Open %s in a browser.\n", member_text(line, "url"));
        if (isatty(STDERR_FILENO)) {
            fprintf(stderr,
                    "Who has this address can stop and close everything. Ctrl-C ends it.\n");
        }
    }
    return fflush(stdout) == 0;
}

int command_ui(const struct steer *s)
{
    struct servers servers;
    struct err err = ERR_INIT;
    struct showing showing = {.json = s->json};
    servers_find(s->config, &servers);
    int rc = servers_only(&servers, &showing.server, &err);
    rc = rc == 0 ? server_lines(showing.server, "/v1/page", print_address, &showing, &err) : rc;
    servers_finish(&servers);
    return rc < 0 ? command_fail(&err) : 0;
}
