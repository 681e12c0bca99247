/*
 * One request's way in:
 *
 *   nothing configured ──▶ "local", for everybody
 *   Authorization read ──▶ malformed: 400 · none: 401
 *   file of tokens     ──▶ found: in
 *   issuer, remembered ──▶ good: in · too little scope: 403
 *   throttle           ──▶ too many wrong ones from there: 429
 *   issuer, asked      ──▶ good: in · bad: 401 · too little scope: 403 · cannot be asked: 503
 *
 * The order matters. Known tokens are accepted before the throttle is asked, so nobody can lock
 * others out by sending wrong tokens from the same address; the throttle slows down guessing, and
 * questions to the issuer. A client whose good token would have to be asked for may therefore have
 * to wait some seconds, as its 429 says. Requests without a token cost nothing and are not counted,
 * since clients begin without one.
 *
 * All steps but the last run twice: when the head is there, so that nobody can make us read
 * megabytes before the refusal, and again when the request is whole, since much can have changed
 * while a body came in slowly.
 *
 * Whoever gets in is known to the listener from then on, which lets connections of others give way
 * when there are many.
 *
 * While the issuer is asked, the exchange belongs to this module, which is also told if its client
 * disconnects.
 */
#include "supervisor/web/auth/auth.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/log.h"
#include "supervisor/base/config.h"
#include "supervisor/base/principal.h"
#include "supervisor/base/secret_file.h"
#include "supervisor/web/auth/challenge.h"
#include "supervisor/web/auth/introspect.h"
#include "supervisor/web/auth/tokens.h"
#include "supervisor/web/files/endpoint.h"
#include "supervisor/web/http/digest.h"
#include "supervisor/web/http/exchange.h"
#include "supervisor/web/http/guard.h"
#include "supervisor/web/http/rate_limit.h"
#include "supervisor/web/http/throttle.h"

#define TOKEN_MAX_BYTES ((size_t)8192) /* an issuer may make long ones */

/* One exchange that waits for the issuer. */
struct check {
    struct web_auth *auth;
    struct check *next;
    struct web_exchange *x;
    struct introspect_wait *wait;
    void (*done)(void *arg, struct principal *principal);
    void *arg;
};

struct web_auth {
    uv_loop_t *loop;
    const struct config *config;
    struct guard *guard;
    struct challenge challenge;
    struct throttle *throttle;
    struct principal_limits limits;
    struct principal *local;           /* NULL: a token is needed */
    struct tokens *tokens;             /* NULL: no token file */
    struct introspect *introspect;     /* NULL: there is no issuer */
    bool (*is_open)(const char *path); /* NULL: no page is for strangers */
    struct check *checks;
    uint64_t crowds_logged; /* of rate_limit() */
    uv_idle_t end;          /* calls `closed` if there is no issuer */
    void (*closed)(void *arg);
    void *closed_arg;
};

typedef void (*auth_done_fn)(void *arg, struct principal *principal);

/* ---- start ---------------------------------------------------------------------------------- */

/* Reads the one line of --oauth-client into `file`, which the caller wipes. */
static int read_client(const struct config *config, struct buf *file, struct view *ret,
                       struct err *err)
{
    bool open = false;
    int rc = secret_file_read(config->oauth_client, file, &open, err);
    if (rc < 0) {
        return err_wrap(err, "--oauth-client");
    }
    if (open) {
        secret_file_wipe(file);
        return err_set(err, ERR_CONFIG,
                       "--oauth-client: everybody may read %s, and there is a secret in it: chmod "
                       "600 %s",
                       config->oauth_client, config->oauth_client);
    }
    struct view line = view_bytes(file->data, file->len);
    while (line.len > 0 && strchr("\r\n", line.data[line.len - 1]) != NULL &&
           line.data[line.len - 1] != '\0') {
        line.len--;
    }
    *ret = line;
    return 0;
}

static int create_introspect(struct web_auth *a, struct err *err)
{
    const struct config *c = a->config;
    struct introspect_config config = {.issuer = c->oauth_issuer,
                                       .url = c->oauth_introspection,
                                       .scopes = c->oauth_scopes,
                                       .limits = a->limits};
    struct buf file;
    int rc = read_client(c, &file, &config.client, err);
    if (rc < 0) {
        return rc;
    }
    rc = introspect_create(a->loop, &config, &a->introspect, err);
    secret_file_wipe(&file);
    return rc < 0 ? err_wrap(err, "--oauth-client, --oauth-introspection") : 0;
}

static int create_parts(struct web_auth *a, struct err *err)
{
    const struct config *c = a->config;
    unsigned char probe[WEB_DIGEST_BYTES];
    int rc = web_auth_check_config(c, err);
    rc = rc == 0 ? guard_create(c, &a->guard, err) : rc;
    if (rc == 0 && (c->tokens[0] != '\0' || c->oauth_issuer[0] != '\0')) {
        /* loads GnuTLS now, so that an error shows at the start */
        rc = web_digest_sha256(view_of(""), probe, err);
    }
    if (rc == 0 && c->tokens[0] != '\0') {
        rc = tokens_load(c->tokens, &a->limits, &a->tokens, err);
        rc = rc < 0 ? err_wrap(err, "--tokens") : 0;
    }
    if (rc == 0 && c->oauth_issuer[0] != '\0') {
        rc = create_introspect(a, err);
    }
    return rc;
}

static void destroy_auth(struct web_auth *a)
{
    guard_destroy(a->guard);
    challenge_finish(&a->challenge);
    throttle_destroy(a->throttle);
    tokens_destroy(a->tokens);
    principal_release(a->local);
    free(a);
}

static void warn_if_empty(const struct web_auth *a)
{
    if (a->tokens != NULL && tokens_count(a->tokens) == 0) {
        log_warn("HTTP: no token in %s is good, so nobody comes in by one; \"cloister token NAME\" "
                 "makes one",
                 a->config->tokens);
    }
}

int web_auth_create(uv_loop_t *loop, const struct config *config, struct web_auth **ret,
                    struct err *err)
{
    struct web_auth *a = alloc_one(struct web_auth);
    bool issuer = config->oauth_issuer[0] != '\0';
    a->loop = loop;
    a->config = config;
    a->limits = (struct principal_limits){config->principal_sandboxes, config->principal_memory_mb,
                                          config->principal_calls};
    a->throttle = throttle_create();
    challenge_init(&a->challenge, issuer ? config->oauth_issuer : NULL, config->oauth_scopes);
    int rc = create_parts(a, err);
    if (rc < 0) {
        destroy_auth(a); /* the issuer is set up last, so nothing of it is left */
        return rc;
    }
    if (a->tokens == NULL && a->introspect == NULL) {
        a->local = principal_create("local", &a->limits);
        a->local->metrics = PRINCIPAL_METRICS_YES; /* there is nobody else */
        a->local->admin = true;
    }
    uv_idle_init(loop, &a->end);
    a->end.data = a;
    if (config->public_url[0] != '\0') {
        challenge_set_url(&a->challenge, config->public_url);
        if (a->introspect != NULL) {
            introspect_set_audience(a->introspect, a->challenge.resource);
        }
    }
    warn_if_empty(a);
    *ret = a;
    return 0;
}

void web_auth_set_url(struct web_auth *a, const char *url)
{
    guard_set_url(a->guard, url);
    if (a->config->public_url[0] == '\0') {
        challenge_set_url(&a->challenge, url);
        if (a->introspect != NULL && a->challenge.resource != NULL) {
            introspect_set_audience(a->introspect, a->challenge.resource);
        }
    }
}

void web_auth_set_names(struct web_auth *a, const char *const *names, size_t count)
{
    guard_set_names(a->guard, names, count);
}

void web_auth_set_open(struct web_auth *a, bool (*is_open)(const char *path))
{
    a->is_open = is_open;
}

/* ---- closing --------------------------------------------------------------------------------- */

static void on_end_closed(uv_handle_t *handle)
{
    struct web_auth *a = handle->data;
    void (*closed)(void *arg) = a->closed;
    void *arg = a->closed_arg;
    destroy_auth(a);
    closed(arg);
}

static void on_introspect_closed(void *arg)
{
    struct web_auth *a = arg;
    uv_close((uv_handle_t *)&a->end, on_end_closed);
}

/* Takes the check out of the list and frees it; the caller answers the exchange. */
static void drop_check(struct check *k)
{
    struct check **slot = &k->auth->checks;
    while (*slot != k) {
        slot = &(*slot)->next;
    }
    *slot = k->next;
    free(k);
}

void web_auth_close(struct web_auth *a, void (*closed)(void *arg), void *arg)
{
    a->closed = closed;
    a->closed_arg = arg;
    while (a->checks != NULL) {
        struct check k = *a->checks;
        introspect_forget(k.wait);
        drop_check(a->checks);
        web_on_gone(k.x, NULL, NULL);
        challenge_unknown(k.x);
        k.done(k.arg, NULL);
    }
    if (a->introspect != NULL) {
        introspect_close(STEAL_PTR(a->introspect), on_introspect_closed, a);
    } else {
        on_introspect_closed(a);
    }
}

/* ---- the head ------------------------------------------------------------------------------- */

bool web_auth_metadata(struct web_auth *a, struct web_exchange *x)
{
    return challenge_metadata(&a->challenge, x);
}

enum credential { CREDENTIAL_NONE, CREDENTIAL_TOKEN, CREDENTIAL_MALFORMED };

/* Reads the request's credential; *ret is borrowed from the request. */
static enum credential read_credential(const struct web_exchange *x, struct view *ret,
                                       const char **ret_why)
{
    static const char scheme[] = "Bearer";
    size_t len = strlen(scheme);
    size_t count = web_header_count(x, "Authorization");
    const char *value = web_header(x, "Authorization");
    if (count > 1) {
        *ret_why = "there is more than one Authorization header";
        return CREDENTIAL_MALFORMED;
    }
    if (count == 0 || value == NULL) {
        if (web_query(x, "access_token") == NULL) {
            return CREDENTIAL_NONE;
        }
        *ret_why = "a token belongs into the Authorization header, not into the URL";
        return CREDENTIAL_MALFORMED;
    }
    if (strncasecmp(value, scheme, len) != 0 || (value[len] != ' ' && value[len] != '\0')) {
        return CREDENTIAL_NONE; /* another scheme: the 401 names the one that we accept */
    }
    value += len;
    value += strspn(value, " ");
    *ret = view_of(value);
    if (!tokens_text_ok(*ret, TOKEN_MAX_BYTES)) {
        *ret_why = "expected Bearer and a token in the Authorization header";
        return CREDENTIAL_MALFORMED;
    }
    return CREDENTIAL_TOKEN;
}

/* ---- verdicts ------------------------------------------------------------------------------- */

/* Answers the exchange if the issuer's verdict is not good; else returns the token's principal. */
static struct principal *conclude(struct web_auth *a, struct web_exchange *x,
                                  const struct introspect_result *r)
{
    if (!r->known) {
        challenge_unknown(x);
        return NULL;
    }
    switch (r->verdict) {
    case INTROSPECT_GOOD:
        return r->principal;
    case INTROSPECT_SCOPE:
        challenge_scope(&a->challenge, x, r->why);
        return NULL;
    case INTROSPECT_BAD:
        break;
    }
    throttle_failed(a->throttle, web_peer(x), uv_now(a->loop));
    challenge_bad_token(&a->challenge, x, r->why);
    return NULL;
}

/* The listener knows from now on whose connection that is. One principal gets at most half of them,
 * so that the others can come in, whatever his requests wait for. */
static bool let_in(struct web_auth *a, struct web_exchange *x, const struct principal *principal)
{
    if (!web_auth_has_several(a) || !web_would_crowd(x, principal->number)) {
        web_set_known(x, principal->number);
        return true;
    }
    web_set_known(x, 0);
    if (rate_limit(&a->crowds_logged)) {
        log_warn("HTTP: %s has half of all connections (--max-connections), and gets no more",
                 principal->name);
    }
    challenge_crowd(x);
    return false;
}

static void on_result(void *arg, const struct introspect_result *r)
{
    struct check k = *(struct check *)arg;
    struct web_auth *a = k.auth;
    drop_check(arg);
    web_on_gone(k.x, NULL, NULL);
    struct principal *principal = conclude(a, k.x, r);
    if (principal != NULL && !let_in(a, k.x, principal)) {
        principal = NULL;
    }
    k.done(k.arg, principal);
}

static void on_client_gone(void *arg)
{
    struct check k = *(struct check *)arg;
    introspect_forget(k.wait);
    drop_check(arg);
    k.done(k.arg, NULL);
}

/* Asks the issuer about a token that is neither in the file nor in the cache. */
static void ask_issuer(struct web_auth *a, struct web_exchange *x,
                       const unsigned char digest[WEB_DIGEST_BYTES], struct view token,
                       auth_done_fn done, void *arg)
{
    struct check *k = alloc_one(struct check);
    struct introspect_wait *wait = introspect_ask(a->introspect, digest, token, on_result, k);
    if (wait == NULL) {
        free(k);
        challenge_unknown(x);
        done(arg, NULL);
        return;
    }
    *k = (struct check){
        .auth = a, .next = a->checks, .x = x, .wait = wait, .done = done, .arg = arg};
    a->checks = k;
    web_on_gone(x, on_client_gone, k);
}

/* ---- checks ---------------------------------------------------------------------------------- */

enum outcome { OUTCOME_IN, OUTCOME_ANSWERED, OUTCOME_ASK };

/* Whether the token has the form of those that we make. Such a token is never shown to the issuer,
 * even after it was removed from the file. */
static bool is_ours(struct view token)
{
    size_t len = strlen(TOKENS_PREFIX);
    return token.len > len && memcmp(token.data, TOKENS_PREFIX, len) == 0;
}

/* Looks the token up in the file and in the cache; asks nobody. */
static enum outcome look_up_token(struct web_auth *a, struct web_exchange *x, struct view token,
                                  const unsigned char digest[WEB_DIGEST_BYTES],
                                  struct principal **ret)
{
    struct introspect *issuer = is_ours(token) ? NULL : a->introspect;
    struct introspect_result r = {
        .known = true, .verdict = INTROSPECT_BAD, .why = "the token is not known here"};
    struct principal *p =
        a->tokens != NULL ? tokens_find(a->tokens, digest, clock_wall_ms()) : NULL;
    if (p != NULL) {
        *ret = p;
        return OUTCOME_IN;
    }
    bool found = issuer != NULL && introspect_find(issuer, digest, &r);
    if (!found || r.verdict == INTROSPECT_BAD) {
        uint64_t wait_ms = throttle_wait_ms(a->throttle, web_peer(x), uv_now(a->loop));
        if (wait_ms > 0) {
            challenge_busy(x, wait_ms);
            return OUTCOME_ANSWERED;
        }
        if (!found && issuer != NULL) {
            return OUTCOME_ASK;
        }
    }
    p = conclude(a, x, &r);
    if (p == NULL) {
        return OUTCOME_ANSWERED;
    }
    *ret = p;
    return OUTCOME_IN;
}

/* The same for a request; also returns the token and its digest, for a question to the issuer. */
static enum outcome look_at_request(struct web_auth *a, struct web_exchange *x,
                                    struct principal **ret, struct view *ret_token,
                                    unsigned char digest[WEB_DIGEST_BYTES])
{
    const char *why = "";
    struct err err = ERR_INIT;
    if (a->local != NULL) {
        *ret = a->local;
        return OUTCOME_IN;
    }
    switch (read_credential(x, ret_token, &why)) {
    case CREDENTIAL_TOKEN:
        if (web_digest_sha256(*ret_token, digest, &err) == 0) {
            return look_up_token(a, x, *ret_token, digest, ret);
        }
        log_error("HTTP: cannot check a token: %s", err.text);
        challenge_unknown(x);
        break;
    case CREDENTIAL_MALFORMED:
        challenge_malformed(&a->challenge, x, why);
        break;
    case CREDENTIAL_NONE:
        challenge_no_token(&a->challenge, x);
        break;
    }
    return OUTCOME_ANSWERED;
}

/* Whether the request needs no token: clients look here for how to get one, and monitors for
 * whether the server is alive. */
static bool is_for_strangers(const struct web_auth *a, const struct web_exchange *x)
{
    static const char open[] = "/.well-known/";
    const char *path = web_path(x);
    return strncmp(path, open, strlen(open)) == 0 || strcmp(path, "/healthz") == 0 ||
           strcmp(path, "/health") == 0 || (a->is_open != NULL && a->is_open(path));
}

bool web_auth_admit_link(struct web_auth *a, struct web_exchange *x)
{
    return guard_admit_link(a->guard, x);
}

/* Refuses an unknown client before its body is read. */
bool web_auth_admit(struct web_auth *a, struct web_exchange *x)
{
    struct principal *principal = NULL;
    struct view token;
    unsigned char digest[WEB_DIGEST_BYTES];
    /* the signature in the link is the only check, and comes later */
    if (files_endpoint_has(web_path(x))) {
        return guard_admit_link(a->guard, x);
    }
    if (!guard_admit(a->guard, x)) {
        return false;
    }
    if (is_for_strangers(a, x)) {
        return true;
    }
    switch (look_at_request(a, x, &principal, &token, digest)) {
    case OUTCOME_IN:
        return let_in(a, x, principal);
    case OUTCOME_ANSWERED:
        web_set_known(x, 0);
        return false;
    case OUTCOME_ASK:
        break;
    }
    return true;
}

void web_auth_check(struct web_auth *a, struct web_exchange *x,
                    void (*done)(void *arg, struct principal *principal), void *arg)
{
    struct principal *principal = NULL;
    struct view token;
    unsigned char digest[WEB_DIGEST_BYTES];
    if (look_at_request(a, x, &principal, &token, digest) == OUTCOME_ASK) {
        ask_issuer(a, x, digest, token, done, arg);
    } else {
        done(arg, principal);
    }
}

bool web_auth_has_several(const struct web_auth *a)
{
    return a->introspect != NULL || (a->tokens != NULL && tokens_names(a->tokens) > 1);
}

/* ---- reload --------------------------------------------------------------------------------- */

/* Reads a new ID:SECRET, if there is an issuer. */
static int reload_client(struct web_auth *a, struct err *err)
{
    struct buf file;
    struct view client;
    if (a->introspect == NULL) {
        return 0;
    }
    int rc = read_client(a->config, &file, &client, err);
    if (rc < 0) {
        return rc;
    }
    rc = introspect_set_client(a->introspect, client, err);
    secret_file_wipe(&file);
    return rc < 0 ? err_wrap(err, "--oauth-client: %s", a->config->oauth_client) : 0;
}

int web_auth_reload(struct web_auth *a, void (*revoked)(void *arg, struct principal *p), void *arg,
                    struct err *err)
{
    struct tokens *fresh = NULL;
    if (a->tokens != NULL && tokens_load(a->config->tokens, &a->limits, &fresh, err) < 0) {
        return err_wrap(err, "--tokens");
    }
    int rc = reload_client(a, err);
    if (rc < 0) {
        tokens_destroy(fresh);
        return rc;
    }
    if (fresh != NULL) {
        struct tokens *old = a->tokens;
        a->tokens = fresh;
        tokens_replace(old, fresh, revoked, arg);
        warn_if_empty(a);
    }
    return 0;
}
