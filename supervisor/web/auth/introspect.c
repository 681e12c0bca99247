/*
 * An issuer that is slow, down or wrong must cost the holders of its tokens a refusal (503), and
 * everybody else nothing. So each question has a deadline and its answer a limit, the number of
 * questions is limited, and no answer is used for longer than it allows: there is no fallback to an
 * old answer. An answer that cannot be parsed is not cached.
 *
 * Good and bad tokens have separate caches, so that a flood of wrong tokens does not evict good
 * ones. The caches hold digests; the text of a token is only in the body of a question, which is
 * wiped. We log neither tokens nor what the issuer says about one.
 *
 * Principals are kept by name as long as anybody holds one, so that two tokens of one subject share
 * a principal and its counters.
 */
#include "supervisor/web/auth/introspect.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/base64.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/io/http_client.h"
#include "common/log.h"
#include "supervisor/web/auth/token_cache.h"
#include "supervisor/web/http/rate_limit.h"
#include "supervisor/web/http/url.h"

#define CONNECT_MS       3000
#define CLIENT_MAX_BYTES 1024
#define SWEEP_AT         256 /* number of principals at which unused ones are dropped */

struct introspect_wait {
    struct ask *ask;
    struct introspect_wait *next;
    void (*done)(void *arg, const struct introspect_result *r);
    void *arg;
};

/* A question to the issuer about one token. */
struct ask {
    struct introspect *in;
    struct ask *next;
    unsigned char digest[WEB_DIGEST_BYTES];
    unsigned epoch; /* of the client secret; an answer to an older one is not cached */
    char *body;
    struct http_call *call;
    struct introspect_wait *waits;
};

struct introspect {
    uv_loop_t *loop;
    struct http_client *http;
    char *issuer, *url, *scopes, *place, *audience;
    char *path;          /* the path of the URL */
    char *authorization; /* the whole header line */
    struct principal_limits limits;
    struct ask *asks;
    size_t ask_count;
    struct token_cache *good, *bad;
    struct principal **principals;
    size_t principal_count, principal_cap, sweep_at;
    unsigned epoch;
    uint64_t next_log_ms;
    void (*closed)(void *arg);
    void *closed_arg;
};

/* ---- client credentials --------------------------------------------------------------------- */

static void free_secret(char *text)
{
    if (text != NULL) {
        explicit_bzero(text, strlen(text));
        free(text);
    }
}

/* Form-encodes a text, as RFC 6749 demands for both ID and secret. */
static char *escape(struct view text)
{
    char *copy = alloc_viewdup(text);
    char *escaped = http_escape(copy);
    free_secret(copy);
    return escaped;
}

static int make_authorization(struct view client, char **ret, struct err *err)
{
    const char *colon = client.len > 0 ? memchr(client.data, ':', client.len) : NULL;
    bool plain = client.len <= CLIENT_MAX_BYTES && colon != NULL && colon != client.data;
    for (size_t i = 0; i < client.len && plain; i++) {
        plain = client.data[i] >= ' ' && client.data[i] != 0x7f;
    }
    if (!plain) {
        return err_set(err, ERR_CONFIG, "expected one line ID:SECRET of printable characters");
    }
    size_t id_len = (size_t)(colon - client.data);
    char *id = escape(view_bytes(client.data, id_len));
    char *secret = escape(view_bytes(colon + 1, client.len - id_len - 1));
    char *both = alloc_printf("%s:%s", id, secret);
    CLEANUP_BUF struct buf encoded;
    buf_init(&encoded, CLIENT_MAX_BYTES * 6);
    int rc = base64_encode(&encoded, view_of(both), err);
    if (rc == 0) {
        *ret =
            alloc_printf("Authorization: Basic %.*s", (int)encoded.len, (const char *)encoded.data);
        explicit_bzero(encoded.data, encoded.cap);
    }
    free_secret(id);
    free_secret(secret);
    free_secret(both);
    return rc;
}

int introspect_set_client(struct introspect *in, struct view client, struct err *err)
{
    char *fresh = NULL;
    int rc = make_authorization(client, &fresh, err);
    if (rc < 0) {
        return rc;
    }
    free_secret(in->authorization);
    in->authorization = fresh;
    in->epoch++;
    token_cache_clear(in->good);
    token_cache_clear(in->bad);
    return 0;
}

/* ---- life ----------------------------------------------------------------------------------- */

static void destroy_introspect(struct introspect *in)
{
    for (size_t i = 0; i < in->principal_count; i++) {
        principal_release(in->principals[i]);
    }
    token_cache_destroy(in->good);
    token_cache_destroy(in->bad);
    free(in->principals);
    free(in->issuer);
    free(in->url);
    free(in->scopes);
    free(in->place);
    free(in->audience);
    free(in->path);
    free_secret(in->authorization);
    free(in);
}

static int open_client(struct introspect *in, struct err *err)
{
    struct url issuer, url;
    if (!url_parse(in->issuer, &issuer) || !url_parse(in->url, &url)) {
        return err_set(err, ERR_CONFIG, "--oauth-issuer and --oauth-introspection must be URLs");
    }
    const char *path = in->url + url.origin.len; /* a trailing slash of the URL is significant */
    CLEANUP_FREE char *base = alloc_viewdup(url.origin);
    struct http_endpoint endpoint = {.name = in->url, .base_url = base, .verify = true};
    in->path = alloc_strdup(path[0] != '\0' ? path : "/");
    in->place = issuer.authority.port != 0
                    ? alloc_printf("%s:%u", issuer.authority.host, issuer.authority.port)
                    : alloc_strdup(issuer.authority.host);
    return http_client_create(in->loop, &endpoint, &in->http, err);
}

int introspect_create(uv_loop_t *loop, const struct introspect_config *config,
                      struct introspect **ret, struct err *err)
{
    struct introspect *in = alloc_one(struct introspect);
    in->loop = loop;
    in->issuer = alloc_strdup(config->issuer);
    in->url = alloc_strdup(config->url);
    in->scopes = alloc_strdup(config->scopes);
    in->audience = alloc_strdup("");
    in->limits = config->limits;
    in->good = token_cache_create(INTROSPECT_KNOWN);
    in->bad = token_cache_create(INTROSPECT_KNOWN);
    in->sweep_at = SWEEP_AT;
    int rc = introspect_set_client(in, config->client, err);
    rc = rc == 0 ? open_client(in, err) : rc;
    if (rc < 0) {
        destroy_introspect(in);
        return rc;
    }
    *ret = in;
    return 0;
}

static void free_ask(struct ask *ask)
{
    free_secret(ask->body);
    free(ask);
}

static void on_http_closed(void *arg)
{
    struct introspect *in = arg;
    void (*closed)(void *arg) = in->closed;
    void *closed_arg = in->closed_arg;
    while (in->asks != NULL) { /* the requests have ended, so nobody reads the bodies any more */
        struct ask *ask = in->asks;
        in->asks = ask->next;
        free_ask(ask);
    }
    destroy_introspect(in);
    closed(closed_arg);
}

void introspect_close(struct introspect *in, void (*closed)(void *arg), void *arg)
{
    in->closed = closed;
    in->closed_arg = arg;
    http_client_close(in->http, on_http_closed, in);
}

void introspect_set_audience(struct introspect *in, const char *audience)
{
    free(in->audience);
    in->audience = alloc_strdup(audience);
}

/* ---- principals ----------------------------------------------------------------------------- */

/* Drops the principals that only this table holds. */
static void sweep_principals(struct introspect *in)
{
    size_t kept = 0;
    for (size_t i = 0; i < in->principal_count; i++) {
        if (in->principals[i]->refs > 1) {
            in->principals[kept++] = in->principals[i];
        } else {
            principal_release(in->principals[i]);
        }
    }
    in->principal_count = kept;
    in->sweep_at = 2 * kept > SWEEP_AT ? 2 * kept : SWEEP_AT;
}

static struct principal *need_principal(struct introspect *in, const char *name)
{
    for (size_t i = 0; i < in->principal_count; i++) {
        if (strcmp(in->principals[i]->name, name) == 0) {
            return in->principals[i];
        }
    }
    if (in->principal_count >= in->sweep_at) {
        sweep_principals(in);
    }
    if (in->principal_count == in->principal_cap) {
        size_t cap = in->principal_cap > 0 ? 2 * in->principal_cap : 16;
        struct principal **more = alloc_array(cap, sizeof(more[0]));
        for (size_t i = 0; i < in->principal_count; i++) {
            more[i] = in->principals[i];
        }
        free(in->principals);
        in->principals = more;
        in->principal_cap = cap;
    }
    struct principal *p = principal_create(name, &in->limits);
    in->principals[in->principal_count++] = p;
    return p;
}

/* ---- answers -------------------------------------------------------------------------------- */

static void unlink_ask(struct ask *ask)
{
    struct introspect *in = ask->in;
    struct ask **slot = &in->asks;
    while (*slot != ask) {
        slot = &(*slot)->next;
    }
    *slot = ask->next;
    in->ask_count--;
}

/* Calls everybody who waits, and ends the question. A callback may do anything but close `in`. */
static void finish_ask(struct ask *ask, const struct introspect_result *r)
{
    unlink_ask(ask);
    while (ask->waits != NULL) {
        struct introspect_wait *w = ask->waits;
        ask->waits = w->next;
        w->done(w->arg, r);
        free(w);
    }
    free_ask(ask);
}

static void remember(struct ask *ask, const struct introspect_result *r, uint64_t good_s)
{
    struct introspect *in = ask->in;
    bool good = r->verdict == INTROSPECT_GOOD;
    struct token_known known = {(int)r->verdict, r->why, r->principal};
    uint64_t for_ms = good ? INTROSPECT_GOOD_MS : INTROSPECT_BAD_MS;
    if (good && good_s < INTROSPECT_GOOD_MS / 1000) {
        for_ms = good_s * 1000;
    }
    if (ask->epoch == in->epoch && for_ms > 0) {
        token_cache_put(good ? in->good : in->bad, ask->digest, &known, uv_now(in->loop) + for_ms);
    }
}

static void take_issuer_answer(struct ask *ask, const struct introspect_answer *a)
{
    struct introspect *in = ask->in;
    struct introspect_result r = {.known = true, .verdict = a->verdict, .why = a->why};
    if (a->name != NULL) {
        r.principal = principal_hold(need_principal(in, a->name));
    } else if (a->verdict == INTROSPECT_BAD) {
        log_debug("HTTP: refused a token of %s: %s", in->issuer, a->why);
    }
    remember(ask, &r, a->good_s);
    finish_ask(ask, &r);
    principal_release(r.principal);
}

static void fail_ask(struct ask *ask, const char *why)
{
    struct introspect *in = ask->in;
    struct introspect_result r = {.known = false, .why = ""};
    if (rate_limit(&in->next_log_ms)) {
        log_error("HTTP: cannot ask the issuer about a token, so the request is refused: %s", why);
    }
    finish_ask(ask, &r);
}

static void on_issuer_answer(void *arg, int rc, const struct http_response *response,
                             const struct err *http_err)
{
    struct ask *ask = arg;
    struct introspect *in = ask->in;
    struct introspect_answer answer = {.name = NULL};
    struct err err = ERR_INIT;
    ask->call = NULL;
    if (rc < 0) {
        fail_ask(ask, http_err->text);
        return;
    }
    if (response->status != 200) {
        bool refused = response->status == 401 || response->status == 403;
        err_set(&err, ERR_ENGINE, "%s answered %d%s", in->url, response->status,
                refused ? "; does it know the client in --oauth-client?" : "");
        fail_ask(ask, err.text);
        return;
    }
    struct introspect_expect expect = {in->issuer, in->place, in->audience, in->scopes};
    if (introspect_answer_read(response->body, &expect, clock_wall_ms() / 1000, &answer, &err) <
        0) {
        err_wrap(&err, "%s", in->url);
        fail_ask(ask, err.text);
        return;
    }
    take_issuer_answer(ask, &answer);
    free(answer.name);
}

/* ---- questions ------------------------------------------------------------------------------ */

static bool find_in(struct introspect *in, struct token_cache *cache, const unsigned char *digest,
                    struct introspect_result *ret)
{
    const struct token_known *known = token_cache_find(cache, digest, uv_now(in->loop));
    if (known == NULL) {
        return false;
    }
    *ret = (struct introspect_result){true, (enum introspect_verdict)known->verdict, known->why,
                                      known->principal};
    return true;
}

bool introspect_find(struct introspect *in, const unsigned char digest[WEB_DIGEST_BYTES],
                     struct introspect_result *ret)
{
    return find_in(in, in->good, digest, ret) || find_in(in, in->bad, digest, ret);
}

static struct ask *find_ask(struct introspect *in, const unsigned char *digest)
{
    struct ask *ask = in->asks;
    while (ask != NULL &&
           (ask->epoch != in->epoch || memcmp(ask->digest, digest, WEB_DIGEST_BYTES) != 0)) {
        ask = ask->next;
    }
    return ask;
}

static struct ask *begin_ask(struct introspect *in, const unsigned char *digest, struct view token)
{
    struct ask *ask = alloc_one(struct ask);
    char *escaped = escape(token);
    const char *const headers[] = {"Accept: application/json", in->authorization, NULL};
    ask->in = in;
    ask->epoch = in->epoch;
    memcpy(ask->digest, digest, WEB_DIGEST_BYTES);
    ask->body = alloc_printf("token=%s&token_type_hint=access_token", escaped);
    free_secret(escaped);
    struct http_request request = {
        .method = "POST",
        .path = in->path,
        .content_type = "application/x-www-form-urlencoded",
        .body = view_of(ask->body),
        .headers = headers,
        .connect_ms = CONNECT_MS,
        .total_ms = INTROSPECT_WAIT_MS,
        .max_bytes = INTROSPECT_ANSWER_MAX_BYTES,
    };
    ask->call = http_send(in->http, &request, on_issuer_answer, ask);
    ask->next = in->asks;
    in->asks = ask;
    in->ask_count++;
    return ask;
}

struct introspect_wait *introspect_ask(struct introspect *in,
                                       const unsigned char digest[WEB_DIGEST_BYTES],
                                       struct view token,
                                       void (*done)(void *arg, const struct introspect_result *r),
                                       void *arg)
{
    struct ask *ask = find_ask(in, digest);
    if (ask == NULL && in->ask_count == INTROSPECT_ASKS) {
        return NULL;
    }
    if (ask == NULL) {
        ask = begin_ask(in, digest, token);
    }
    struct introspect_wait *w = alloc_one(struct introspect_wait);
    *w = (struct introspect_wait){ask, ask->waits, done, arg};
    ask->waits = w;
    return w;
}

/* The question goes on even if nobody waits for it: the client will probably ask again soon, and
 * the answer is cached. */
void introspect_forget(struct introspect_wait *w)
{
    struct introspect_wait **slot = &w->ask->waits;
    while (*slot != w) {
        slot = &(*slot)->next;
    }
    *slot = w->next;
    free(w);
}
