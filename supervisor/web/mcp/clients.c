/*
 * The table of legacy clients, by session id.
 *
 * A session id has 130 random bits, but is not a credential: it works only for the principal that
 * opened the session. For another principal the session does not exist.
 *
 * A client that sends nothing for long, has no open stream and waits for no answer is idle, and its
 * session ends. If the client comes back, its session is resumed (resume.c). If that is impossible,
 * it gets a 404 and begins a new session, as the protocol wants it.
 *
 * When the table is full, a new session evicts another one. All principals share the table. A
 * principal with less than its fair share evicts the longest idle session of the principal with
 * most sessions, however briefly that was idle. A principal that has its share evicts one of its
 * own: a session that was opened and never used, or its longest idle one after 10 s. If it has
 * none, and no more than half of the table, it evicts another principal's session that has been
 * idle for a minute. A session in use is evicted last, only from a principal with more than half of
 * the table, and only for one with less than its share. So one principal cannot keep others out,
 * nor evict those within their share; two principals with half of the table each, all in use, can.
 * If no session can be evicted, the client gets a 503.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/log.h"
#include "common/str.h"
#include "supervisor/base/principal.h"
#include "supervisor/web/mcp/internal.h"

static struct mcp_bucket *bucket_of(struct mcp_endpoint *e, const char *id)
{
    return &e->buckets[hash_text(id) & (e->bucket_count - 1)];
}

void mcp_clients_init(struct mcp_endpoint *e)
{
    e->bucket_count = 16;
    while (e->bucket_count < e->config.max_sessions) {
        e->bucket_count *= 2;
    }
    LIST_INIT(&e->shares);
    e->buckets = alloc_array(e->bucket_count, sizeof(*e->buckets));
}

void mcp_clients_finish(struct mcp_endpoint *e)
{
    free(e->buckets);
    e->buckets = NULL;
}

static bool is_client_busy(const struct mcp_client *c)
{
    return c->attached > 0 || mcp_session_open_requests(c->session) > 0;
}

static bool is_of(const struct mcp_client *c, const struct principal *p)
{
    return strcmp(mcp_session_principal(c->session)->name, p->name) == 0;
}

/* ---- room ----------------------------------------------------------------------------------- */

static struct mcp_share *share_find(struct mcp_endpoint *e, const struct principal *p)
{
    struct mcp_share *share;
    LIST_FOREACH(share, &e->shares, node)
    {
        if (strcmp(share->principal->name, p->name) == 0) {
            return share;
        }
    }
    return NULL;
}

static struct mcp_share *share_hold(struct mcp_endpoint *e, struct principal *p)
{
    struct mcp_share *share = share_find(e, p);
    if (share == NULL) {
        share = alloc_one(struct mcp_share);
        share->principal = principal_hold(p);
        LIST_INSERT_HEAD(&e->shares, share, node);
        e->share_count++;
    }
    share->sessions++;
    return share;
}

static void share_release(struct mcp_endpoint *e, struct mcp_share *share)
{
    if (--share->sessions == 0) {
        LIST_REMOVE(share, node);
        e->share_count--;
        principal_release(share->principal);
        free(share);
    }
}

/* The fair share of each principal if the table is full and this one wants a session. */
static size_t fair_share(const struct mcp_endpoint *e, const struct mcp_share *own)
{
    size_t fair = e->config.max_sessions / (e->share_count + (own == NULL));
    return fair > 0 ? fair : 1;
}

/* Returns the session that was quiet for longest, of the principal with most sessions, if these are
 * more than `above`. */
static struct mcp_client *of_the_largest(struct mcp_endpoint *e, size_t above, bool busy)
{
    struct mcp_client *found = NULL;
    struct timeout *t;
    TAILQ_FOREACH(t, &e->idle.list, node) /* quiet for longest first */
    {
        struct mcp_client *c = t->owner;
        if (c->share->sessions > above && (busy || !is_client_busy(c))) {
            above = c->share->sessions;
            found = c;
        }
    }
    return found;
}

/* A session of this principal, or of another one, that is idle for long enough to be evicted. */
static struct mcp_client *idle_for_long(struct mcp_endpoint *e, const struct mcp_share *own)
{
    struct mcp_client *used = NULL, *other = NULL;
    uint64_t now = uv_now(e->idle.timer.loop);
    struct timeout *t;
    TAILQ_FOREACH(t, &e->idle.list, node)
    {
        struct mcp_client *c = t->owner;
        bool mine = c->share == own;
        if (is_client_busy(c)) {
            continue;
        }
        if (mine && !c->used) {
            return c;
        }
        uint64_t heard_ms = t->due_ms - e->idle.period_ms;
        if (mine && used == NULL && now - heard_ms >= EVICT_USED_MS) {
            used = c;
        } else if (!mine && other == NULL && now - heard_ms >= EVICT_IDLE_MS) {
            other = c;
        }
    }
    bool has_much = own != NULL && own->sessions > e->config.max_sessions / 2;
    return used != NULL || has_much ? used : other;
}

/* The session to evict for a new one of this principal; NULL if there is none. */
static struct mcp_client *victim(struct mcp_endpoint *e, const struct principal *p)
{
    const struct mcp_share *own = share_find(e, p);
    size_t fair = fair_share(e, own), half = e->config.max_sessions / 2;
    bool has_less = own == NULL || own->sessions < fair;
    struct mcp_client *c = has_less ? of_the_largest(e, fair, false) : NULL;
    if (c == NULL) {
        c = idle_for_long(e, own);
    }
    if (c == NULL && has_less) {
        c = of_the_largest(e, half > fair ? half : fair, true);
    }
    return c;
}

static bool make_client_room(struct mcp_endpoint *e, const struct principal *p)
{
    if (e->clients < e->config.max_sessions) {
        return true;
    }
    struct mcp_client *c = victim(e, p);
    if (c == NULL) {
        return false;
    }
    log_debug("session %.8s evicted: %zu sessions are open, the most allowed", c->id, e->clients);
    mcp_client_forget(c);
    mcp_client_lose(c, 404, "this session has ended: there are too many");
    return true;
}

/* ---- life ----------------------------------------------------------------------------------- */

struct mcp_client *mcp_client_add(struct mcp_endpoint *e, struct principal *p, const char *name,
                                  bool old, enum result_form results,
                                  const struct mcp_agreed *agreed)
{
    if (!make_client_room(e, p)) {
        uint64_t now = uv_now(e->idle.timer.loop);
        if (now >= e->warn_again_ms) {
            log_warn("no room for a session of %s: %zu are open and in use", p->name, e->clients);
            e->warn_again_ms = now + WARN_EVERY_MS;
        }
        return NULL;
    }
    struct mcp_client *c = alloc_one(struct mcp_client);
    snprintf(c->id, sizeof(c->id), "%s", name);
    c->endpoint = e;
    c->old = old;
    c->idle.owner = c;
    TAILQ_INIT(&c->streams);
    c->share = share_hold(e, p);
    c->session = mcp_session_create_named(e->config.server, p, c->id, agreed);
    c->results = results;
    mcp_session_set_results(c->session, results);
    mcp_stream_init_standing(c);
    c->standing.kind = old ? MCP_STREAM_OLD : MCP_STREAM_STANDING;
    mcp_session_set_stream(c->session, &c->standing.sink);
    LIST_INSERT_HEAD(bucket_of(e, c->id), c, node);
    e->clients++;
    mcp_client_touch(c);
    log_debug("session %.8s of %s %s", c->id, p->name, agreed != NULL ? "goes on" : "begins");
    return c;
}

struct mcp_client *mcp_client_create(struct mcp_endpoint *e, struct principal *p, bool old,
                                     enum result_form results)
{
    char name[SESSION_NAME_CHARS + 1];
    struct err err = ERR_INIT;
    if (random_id(name, SESSION_NAME_CHARS, &err) < 0) {
        log_error("no session: %s", err.text);
        return NULL;
    }
    return mcp_client_add(e, p, name, old, results, NULL);
}

void mcp_client_end(struct mcp_client *c, int status, const char *why)
{
    struct mcp_endpoint *e = c->endpoint;
    struct mcp_stream *s;
    log_debug("session %.8s ends: %s", c->id, why);
    LIST_REMOVE(c, node);
    e->clients--;
    /* The session ends first, so that it does not call the streams that are destroyed below. */
    c->null_id = mcp_session_null_id(c->session);
    mcp_session_end(c->session);
    c->session = NULL;
    mcp_stream_send_away(&c->standing, status, why);
    mcp_stream_forget(&c->standing);
    while ((s = TAILQ_FIRST(&c->streams)) != NULL) {
        s->answered = true; /* there is no session to cancel it in */
        mcp_stream_send_away(s, status, why);
        mcp_stream_destroy(s);
    }
    timeout_list_drop(&c->idle);
    share_release(e, c->share);
    free(c->told);
    free(c);
}

void mcp_client_lose(struct mcp_client *c, int status, const char *why)
{
    mcp_session_set_lost(c->session);
    mcp_client_end(c, status, why);
}

struct mcp_client *mcp_client_find(struct mcp_endpoint *e, const char *id, bool old,
                                   const struct principal *p)
{
    char name[SESSION_NAME_CHARS + 1];
    struct mcp_client *c;
    snprintf(name, sizeof(name), "%s", id); /* an id begins with its name */
    LIST_FOREACH(c, bucket_of(e, name), node)
    {
        if (strcmp(c->id, name) == 0) {
            bool whole = strcmp(c->told != NULL && !old ? c->told : c->id, id) == 0;
            return whole && c->old == old && is_of(c, p) ? c : NULL;
        }
    }
    return NULL;
}

/* The first client of this principal in a bucket (NULL: of any principal). */
static struct mcp_client *first_of(struct mcp_bucket *bucket, const struct principal *p)
{
    struct mcp_client *c;
    LIST_FOREACH(c, bucket, node)
    {
        if (p == NULL || is_of(c, p)) {
            return c;
        }
    }
    return NULL;
}

void mcp_clients_end(struct mcp_endpoint *e, const struct principal *p, int status, const char *why)
{
    for (size_t i = 0; i < e->bucket_count; i++) {
        struct mcp_client *c;
        /* Ending one client may end others, so the search starts anew. */
        while ((c = first_of(&e->buckets[i], p)) != NULL) {
            mcp_client_end(c, status, why);
        }
    }
}

size_t mcp_clients_open_requests(const struct mcp_endpoint *e)
{
    size_t count = 0;
    for (size_t i = 0; i < e->bucket_count; i++) {
        const struct mcp_client *c;
        LIST_FOREACH(c, &e->buckets[i], node)
        {
            count += mcp_session_open_requests(c->session);
        }
    }
    return count;
}

/* ---- time ----------------------------------------------------------------------------------- */

void mcp_client_touch(struct mcp_client *c)
{
    timeout_list_set(&c->endpoint->idle, &c->idle);
}

void mcp_client_on_idle(void *owner)
{
    struct mcp_client *c = owner;
    if (is_client_busy(c)) {
        mcp_client_touch(c);
    } else {
        mcp_client_lose(c, 404, "this session was idle for too long");
    }
}
