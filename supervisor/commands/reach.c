/*
 * Where a server is reached over HTTP: it says so by its control socket, as its address may be
 * another than the configuration has (any port, any address, a public URL), and then it is asked
 * there what an MCP client asks first.
 */
#include "common/alloc.h"
#include "common/cleanup.h"
#include "supervisor/commands/internal.h"

#define HTTP_UNAUTHORIZED 401

static int find_url(const struct config *config, pid_t pid, char **ret, struct err *err)
{
    struct servers servers;
    bool found = false;
    servers_find(config, &servers);
    for (size_t i = 0; i < servers.count && !found; i++) {
        cJSON *status = NULL;
        found = server_ask(&servers.items[i], "GET", "/v1/status", &status, err) == 0 &&
                (pid_t)member_number(status, "pid") == pid;
        if (found) {
            *ret = alloc_printf("%s/mcp", member_text(status, "url"));
        }
        cJSON_Delete(status);
    }
    servers_finish(&servers);
    return found ? 0 : err_set(err, ERR_ENGINE, "the server does not tell where it listens");
}

int command_reach(const struct config *config, pid_t pid, char **ret_url, bool *ret_token,
                  struct err *err)
{
    CLEANUP_FREE char *url = NULL;
    int status = 0;
    int rc = find_url(config, pid, &url, err);
    if (rc == 0) {
        rc = server_greet(url, &status, err);
    }
    if (rc == 0 && status != HTTP_UNAUTHORIZED && (status < 200 || status > 299)) {
        rc = err_set(err, ERR_ENGINE, "%s answers with status %d", url, status);
    }
    if (rc == 0) {
        *ret_token = status == HTTP_UNAUTHORIZED;
        *ret_url = STEAL_PTR(url);
    }
    return rc;
}
