/*
 * Running servers are found by their sockets: <top>/<instance>/control.sock. One is trusted only if
 * socket and directory are this user's and nobody else can write there, since whoever answers is
 * told what to stop and is believed what it shows. A socket that nobody listens on any more is left
 * over from a server that was killed.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/io/http_client.h"
#include "supervisor/base/control_socket.h"
#include "supervisor/commands/internal.h"
#include "supervisor/fleet/host/instance.h"

/* ---- finding -------------------------------------------------------------------------------- */

static bool is_of_this_user(const char *path, mode_t kind)
{
    struct stat st;
    return lstat(path, &st) == 0 && (st.st_mode & S_IFMT) == kind && st.st_uid == geteuid() &&
           (st.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

static void add_server(struct servers *s, const char *name)
{
    CLEANUP_FREE char *dir = alloc_printf("%s/%s", s->top, name);
    CLEANUP_FREE char *socket = alloc_printf("%s/" CONTROL_SOCKET_NAME, dir);
    if (name[0] == '.' || !is_of_this_user(dir, S_IFDIR) || !is_of_this_user(socket, S_IFSOCK)) {
        return;
    }
    struct server *more = alloc_array(s->count + 1, sizeof(*more));
    memcpy(more, s->items != NULL ? s->items : more, s->count * sizeof(*more));
    more[s->count++] = (struct server){alloc_strdup(name), STEAL_PTR(socket)};
    free(s->items);
    s->items = more;
}

/* Whether the server is on stdio, and ends with the client that has started it. */
static bool is_of_client(const char *name)
{
    return strncmp(name, "stdio-", 6) == 0;
}

static int compare_servers(const void *a, const void *b)
{
    const char *one = ((const struct server *)a)->name, *other = ((const struct server *)b)->name;
    bool own = is_of_client(one), other_own = is_of_client(other);
    return own != other_own ? (int)own - (int)other_own : strcmp(one, other);
}

void servers_find(const struct config *config, struct servers *ret)
{
    *ret = (struct servers){.top = instance_top(config)};
    DIR *dir = config->instance[0] == '\0' ? opendir(ret->top) : NULL;
    const struct dirent *entry;
    if (config->instance[0] != '\0' && strchr(config->instance, '/') == NULL) {
        add_server(ret, config->instance);
    }
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        add_server(ret, entry->d_name);
    }
    if (dir != NULL) {
        closedir(dir);
    }
    if (ret->count > 1) {
        qsort(ret->items, ret->count, sizeof(ret->items[0]), compare_servers);
    }
}

void servers_finish(struct servers *s)
{
    for (size_t i = 0; i < s->count; i++) {
        free(s->items[i].name);
        free(s->items[i].socket);
    }
    free(s->items);
    free(s->top);
}

int servers_each(const struct steer *s, servers_each_fn one, void *arg)
{
    struct servers servers;
    int status = 0;
    servers_find(s->config, &servers);
    for (size_t i = 0; i < servers.count; i++) {
        int rc = one(s, &servers.items[i], arg);
        status = rc != 0 ? rc : status;
    }
    servers_finish(&servers);
    return status;
}

static bool answers(const struct server *server)
{
    struct err err = ERR_INIT;
    cJSON *version = NULL;
    bool good = server_ask(server, "GET", "/v1/version", &version, &err) == 0;
    cJSON_Delete(version);
    if (!good) {
        (void)command_fail(&err);
    }
    return good;
}

void servers_keep_standing(struct servers *s)
{
    size_t kept = 0;
    for (size_t i = 0; i < s->count; i++) {
        if (!is_of_client(s->items[i].name) && answers(&s->items[i])) {
            s->items[kept++] = s->items[i];
        } else {
            free(s->items[i].name);
            free(s->items[i].socket);
        }
    }
    s->count = kept;
}

/* ---- choosing ------------------------------------------------------------------------------- */

static int set_none(const struct servers *s, struct err *err)
{
    return err_set(err, ERR_ENGINE,
                   "no server of this user runs below %s (one on stdio is there from its first "
                   "sandbox on); --runtime-dir says where else to look",
                   s->top);
}

int servers_only(const struct servers *s, const struct server **ret, struct err *err)
{
    if (s->count == 0) {
        return set_none(s, err);
    }
    if (s->count > 1) {
        return err_set(err, ERR_INVALID,
                       "there are %zu servers (%s, %s%s): choose one by --instance", s->count,
                       s->items[0].name, s->items[1].name, s->count > 2 ? ", ..." : "");
    }
    *ret = &s->items[0];
    return 0;
}

/* Whether the server has it; an error of the connection is none, since others may. */
static bool has_path(const struct server *server, const char *path, struct err *err)
{
    cJSON *answer = NULL;
    bool has = server_ask(server, "GET", path, &answer, err) == 0;
    cJSON_Delete(answer);
    return has;
}

int servers_with(const struct servers *s, const char *name, const struct server **ret,
                 char **ret_path, struct err *err)
{
    static const char *const kinds[] = {"sandboxes", "executions"};
    CLEANUP_FREE char *escaped = http_escape(name);
    struct err last = ERR_INIT;
    for (size_t i = 0; i < s->count; i++) {
        for (size_t kind = 0; kind < sizeof(kinds) / sizeof(kinds[0]); kind++) {
            CLEANUP_FREE char *path = alloc_printf("/v1/%s/%s", kinds[kind], escaped);
            if (has_path(&s->items[i], path, &last)) {
                *ret = &s->items[i];
                *ret_path = STEAL_PTR(path);
                return 0;
            }
            if (last.code == ERR_INVALID) { /* several have this name */
                *err = last;
                return -ERR_INVALID;
            }
        }
    }
    if (s->count == 0) {
        return set_none(s, err);
    }
    return err_set(err, ERR_SANDBOX_NOT_FOUND,
                   "there is no sandbox or execution \"%.64s\"; cloister ps lists the sandboxes",
                   name);
}
