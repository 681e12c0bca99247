/*
 * Clients of the endpoint that send, hang up and come back in any order. One command per line:
 *
 *   > METHOD TARGET      begins a request of alice, ) one of bob. Lines with a colon are headers,
 *                        a line that begins with = is the body, an empty line sends the request
 *   x N                  exchange N hangs up
 *   q N                  exchange N has a full queue, or an empty one again
 *   a N                  call N of "wait" is answered
 *   p N                  call N of "wait" reports progress
 *   r                    alice is revoked
 *   c                    the list of tools changes
 *
 * `$` is the latest session. Each exchange must be answered or ended exactly once, and no session
 * may be left at the end: the fake exchanges and world_free() check that.
 */
#include <string.h>
#include <strings.h>

#include "common/alloc.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/supervisor/web/web_world.h"

#define HEADS_MAX (8u << 10)

struct script {
    struct world *w;
    char who, *method, *target, *body;
    char headers[HEADS_MAX];
    size_t header_count;
};

static void begin(struct script *s, char *line)
{
    s->who = line[0];
    s->method = line + 1 + strspn(line + 1, " ");
    s->target = s->method + strcspn(s->method, " ");
    if (*s->target != '\0') {
        *s->target++ = '\0';
    }
    s->body = NULL;
    s->header_count = 1;
    snprintf(s->headers, sizeof(s->headers), "Authorization: Bearer %s\n",
             s->who == '>' ? "alice" : "bob");
}

static void add_header(struct script *s, const char *line)
{
    size_t len = strlen(s->headers);
    if (s->header_count < 30 && len + strlen(line) + 2 < sizeof(s->headers) && line[0] != ':' &&
        strncasecmp(line, "authorization", strlen("authorization")) != 0) {
        snprintf(s->headers + len, sizeof(s->headers) - len, "%s\n", line);
        s->header_count++;
    }
}

static void finish(struct script *s)
{
    struct world *w = s->w;
    if (s->who == 0 || w->exchange_count >= WORLD_MAX / 2) {
        return;
    }
    const struct web_exchange *x = world_send(w, s->method, s->target, s->headers, s->body);
    const char *id = fake_sent(x, "Mcp-Session-Id");
    const char *old = strstr(x->text, "?sessionId=");
    if (id != NULL) {
        snprintf(w->id, sizeof(w->id), "%s", id);
    } else if (old != NULL && x->streaming) {
        old += strlen("?sessionId=");
        snprintf(w->id, sizeof(w->id), "%.*s", (int)strcspn(old, "\n"), old);
    }
    s->who = 0;
}

static void act(struct script *s, char what, size_t n)
{
    struct world *w = s->w;
    struct web_exchange *x = n < w->exchange_count ? w->exchanges[n] : NULL;
    struct mcp_request *r = n < w->calls ? w->waiting[n] : NULL;
    if (what == 'x' && x != NULL && !x->ended) {
        fake_hang_up(x);
    } else if (what == 'q' && x != NULL) {
        x->queued = x->queued == 0 ? 1 << 20 : 0;
    } else if (what == 'a' && r != NULL) {
        world_answer(w, n);
    } else if (what == 'p' && r != NULL) {
        mcp_progress_step(r, 1, 0, "on the way");
    } else if (what == 'r') {
        mcp_endpoint_revoke(w->endpoint, fake_principal(w->auth, "alice"));
    } else if (what == 'c') {
        mcp_list_changed(w->server, NULL, MCP_LIST_TOOLS);
        uv_run(&w->loop, UV_RUN_NOWAIT);
    }
}

static void take(struct script *s, char *line)
{
    size_t n = 0;
    for (const char *p = line + strcspn(line, "0123456789"); *p >= '0' && *p <= '9' && n < 1000;
         p++) {
        n = n * 10 + (size_t)(*p - '0');
    }
    if (line[0] == '>' || line[0] == ')') {
        begin(s, line);
    } else if (line[0] == '\0') {
        finish(s);
    } else if (s->who == 0) {
        act(s, line[0], n);
    } else if (line[0] == '=') {
        s->body = line + 1;
    } else if (strchr(line, ':') != NULL) {
        add_header(s, line);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct script s = {.w = world_create(4, 3600000)};
    char *text = alloc_array(1, size + 1);
    if (size > 0) {
        memcpy(text, data, size);
    }
    for (char *line = text; line != NULL && line <= text + size;) {
        char *end = strchr(line, '\n');
        if (end != NULL) {
            *end = '\0';
        }
        take(&s, line);
        line = end != NULL ? end + 1 : NULL;
    }
    world_free(s.w);
    free(text);
    return 0;
}
