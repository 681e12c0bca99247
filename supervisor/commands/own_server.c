/*
 * `run` where no server runs: this very program as a server on stdio, for this code alone. It makes
 * the sandbox by MCP, since a server on stdio has no control socket before its first one; then it
 * is talked to like any other. Whatever ends us closes its stdin, which ends it with all that it
 * has made, also if we are killed.
 *
 * A configuration that makes a server over HTTP is that of another one: what it says of HTTP is
 * taken back by options behind all others, so that nothing listens and nobody finds it by a name.
 * Tools of profiles would hide our own, and a pool would make a second sandbox for nobody.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/io/json.h"
#include "proto/limits.h"
#include "supervisor/base/asked.h"
#include "supervisor/base/options.h"
#include "supervisor/cli/pipe_client.h"
#include "supervisor/commands/internal.h"

#define CREATE_TIMEOUT_MS 900000 /* an image may have to come first */

struct own_server {
    struct pipe_client client;
    struct servers servers; /* itself alone */
    char *sandbox;
};

/* ---- its options ---------------------------------------------------------------------------- */

struct words {
    char **items;
    size_t count;
};

static void add_own_word(struct words *w, char *owned)
{
    char **more = alloc_array(w->count + 1, sizeof(*more));
    memcpy(more, w->items != NULL ? w->items : more, w->count * sizeof(*more));
    more[w->count++] = owned;
    free(w->items);
    w->items = more;
}

static void finish_own_words(struct words *w)
{
    for (size_t i = 0; i < w->count; i++) {
        free(w->items[i]);
    }
    free(w->items);
}

/* Whether it makes a server that others come to. */
static bool is_for_others(const struct option *o)
{
    return o->topic == OPTION_TOPIC_HTTP || o->topic == OPTION_TOPIC_ACCESS ||
           strcmp(o->name, "compat") == 0 || strcmp(o->name, "front-lease-seconds") == 0;
}

const struct option *own_server_refuses(const struct steer *s)
{
    return typed_option(s, is_for_others);
}

static struct words own_words(const struct steer *s, const struct own_server_wish *wish)
{
    struct words w = {.items = NULL};
    add_own_word(&w, alloc_strdup("--log-level=error")); /* stderr is for the code's */
    add_own_word(&w, alloc_strdup("--pool=0"));
    for (int i = 0; i < s->server_word_count; i++) {
        add_own_word(&w, alloc_strdup(s->server_words[i]));
    }
    for (size_t i = 0; i < option_count; i++) {
        const struct option *o = &options[i];
        if (is_for_others(o) && asked_for_option(s->config, o)) {
            add_own_word(&w, alloc_printf("--%s=%s", o->name, o->value));
        }
    }
    add_own_word(&w, alloc_strdup("--instance="));
    add_own_word(&w, alloc_strdup("--stdio"));
    if (wish->image != NULL) {
        add_own_word(&w, alloc_printf("--image=%s", wish->image));
    }
    if (wish->network) {
        add_own_word(&w, alloc_strdup("--allow-network"));
    }
    return w;
}

/* ---- its sandbox ---------------------------------------------------------------------------- */

static int make_own_sandbox(struct own_server *o, const struct own_server_wish *wish,
                            struct err *err)
{
    cJSON *args = cJSON_CreateObject(), *result = NULL;
    if (wish->network) {
        cJSON_AddStringToObject(args, "network", "full");
    }
    int rc = pipe_client_call(&o->client, "create_sandbox", args, CREATE_TIMEOUT_MS, &result, err);
    const cJSON *made = json_get(result, "structuredContent");
    const char *id = json_get_str(made, "sandbox_id");
    if (rc == 0 && id == NULL) {
        rc = server_refusal(made, 0, err);
    } else if (rc == 0) {
        o->sandbox = alloc_strdup(id);
    }
    cJSON_Delete(result);
    return rc;
}

static bool is_of_process(const struct server *server, pid_t pid)
{
    struct err dead = ERR_INIT;
    cJSON *status = NULL;
    bool is = server_ask(server, "GET", "/v1/status", &status, &dead) == 0 &&
              (pid_t)member_number(status, "pid") == pid;
    cJSON_Delete(status);
    return is;
}

/* Its instance has its pid in its name, as one that was killed may have had it before. */
static int find_own_place(const struct steer *s, struct own_server *o, struct err *err)
{
    char none[] = "";
    struct config anywhere = *s->config;
    anywhere.instance = none;
    CLEANUP_FREE char *name = alloc_printf("stdio-%d-", (int)o->client.pid);
    servers_find(&anywhere, &o->servers);
    for (size_t i = 0; i < o->servers.count; i++) {
        if (strncmp(o->servers.items[i].name, name, strlen(name)) == 0 &&
            is_of_process(&o->servers.items[i], o->client.pid)) {
            struct server first = o->servers.items[0];
            o->servers.items[0] = o->servers.items[i];
            o->servers.items[i] = first;
            return 0;
        }
    }
    return err_set(err, ERR_ENGINE, "the server that was started for this has no control socket");
}

/* ---- its life ------------------------------------------------------------------------------- */

int own_server_start(const struct steer *s, const struct own_server_wish *wish,
                     struct own_server **ret, struct err *err)
{
    char self[LIMIT_PATH];
    size_t size = sizeof(self);
    cJSON *info = NULL;
    int failed = uv_exepath(self, &size);
    if (failed < 0) {
        return err_set(err, ERR_INTERNAL, "cannot find this program: %s", uv_strerror(failed));
    }
    struct own_server *o = alloc_one(struct own_server);
    struct words words = own_words(s, wish);
    const struct pipe_client_how how = {
        .self = self,
        .name = "cloister-run",
        .option_count = (int)words.count,
        .options = words.items,
        .own_group = true, /* Ctrl-C is for us: the code is stopped first */
        .watch = interrupts_fd(),
    };
    int rc = pipe_client_start(&o->client, &how, &info, err);
    rc = rc == 0 ? make_own_sandbox(o, wish, err) : rc;
    rc = rc == 0 ? find_own_place(s, o, err) : rc;
    cJSON_Delete(info);
    finish_own_words(&words);
    if (rc < 0) {
        own_server_end(o);
        return rc;
    }
    *ret = o;
    return 0;
}

const struct server *own_server_place(const struct own_server *o)
{
    return &o->servers.items[0];
}

const char *own_server_sandbox(const struct own_server *o)
{
    return o->sandbox;
}

void own_server_end(struct own_server *o)
{
    err_ignore(pipe_client_stop(&o->client, NULL)); /* it is gone in any case */
    servers_finish(&o->servers);
    free(o->sandbox);
    free(o);
}
