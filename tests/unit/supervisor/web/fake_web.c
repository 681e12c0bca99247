#include "tests/unit/supervisor/web/fake_web.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/alloc.h"

/* ---- exchanges ------------------------------------------------------------------------------ */

static char *quoted(const char *text, size_t len)
{
    struct view v = {text, len};
    char *copy = alloc_viewdup(v);
    for (char *p = copy; *p != '\0'; p++) {
        *p = *p == '\'' ? '"' : *p;
    }
    return copy;
}

struct web_exchange *fake_exchange(const char *method, const char *target, const char *headers,
                                   const char *body)
{
    struct web_exchange *x = alloc_one(struct web_exchange);
    size_t path_len = strcspn(target, "?");
    x->method = alloc_strdup(method);
    x->path = quoted(target, path_len);
    x->query = alloc_strdup(target[path_len] == '?' ? target + path_len + 1 : "");
    x->body = body != NULL ? quoted(body, strlen(body)) : NULL;
    x->text = alloc_strdup("");
    while (headers != NULL && *headers != '\0') {
        size_t len = strcspn(headers, "\n");
        size_t name_len = strcspn(headers, ":");
        const char *value = headers + name_len + 1;
        value += *value == ' ';
        assert(x->header_count < 32 && name_len < len);
        x->headers[x->header_count++] = (struct fake_field){
            quoted(headers, name_len), quoted(value, (size_t)(headers + len - value))};
        headers += len + (headers[len] == '\n');
    }
    return x;
}

void fake_free(struct web_exchange *x)
{
    if (x == NULL) {
        return;
    }
    for (size_t i = 0; i < x->header_count; i++) {
        free(x->headers[i].name);
        free(x->headers[i].value);
    }
    for (size_t i = 0; i < x->sent_count; i++) {
        free(x->sent[i].name);
        free(x->sent[i].value);
    }
    free(x->method);
    free(x->path);
    free(x->query);
    free(x->body);
    free(x->content_type);
    free(x->text);
    free(x);
}

void fake_hang_up(struct web_exchange *x)
{
    assert(!x->ended);
    x->ended = true;
    if (x->gone != NULL) {
        x->gone(x->gone_arg);
    }
}

static const char *find(const struct fake_field *fields, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (strcasecmp(fields[i].name, name) == 0) {
            return fields[i].value;
        }
    }
    return NULL;
}

const char *fake_sent(const struct web_exchange *x, const char *name)
{
    return find(x->sent, x->sent_count, name);
}

const char *web_method(const struct web_exchange *x)
{
    return x->method;
}

const char *web_path(const struct web_exchange *x)
{
    return x->path;
}

const char *web_header(const struct web_exchange *x, const char *name)
{
    assert(!x->ended);
    return find(x->headers, x->header_count, name);
}

size_t web_header_count(const struct web_exchange *x, const char *name)
{
    size_t count = 0;
    for (size_t i = 0; i < x->header_count; i++) {
        count += strcasecmp(x->headers[i].name, name) == 0;
    }
    return count;
}

const char *web_header_twice(const struct web_exchange *x, const char *prefix)
{
    for (size_t i = 0; i < x->header_count; i++) {
        const char *name = x->headers[i].name;
        if (strncasecmp(name, prefix, strlen(prefix)) == 0 && web_header_count(x, name) > 1) {
            return name;
        }
    }
    return NULL;
}

/* Our paths only use one member. */
const char *web_query(const struct web_exchange *x, const char *name)
{
    size_t len = strlen(name);
    return strncmp(x->query, name, len) == 0 && x->query[len] == '=' ? x->query + len + 1 : NULL;
}

struct view web_body(const struct web_exchange *x)
{
    assert(!x->ended);
    return view_of(x->body);
}

const char *web_peer(const struct web_exchange *x)
{
    return "127.0.0.1";
}

void web_set_header(struct web_exchange *x, const char *name, const char *value)
{
    assert(!x->ended && x->status == 0 && x->sent_count < 16);
    x->sent[x->sent_count++] = (struct fake_field){alloc_strdup(name), alloc_strdup(value)};
}

static void begin(struct web_exchange *x, int status, const char *content_type)
{
    assert(!x->ended && x->status == 0);
    x->status = status;
    x->content_type = content_type != NULL ? alloc_strdup(content_type) : NULL;
}

void web_respond(struct web_exchange *x, int status, const char *content_type, struct view body)
{
    begin(x, status, content_type);
    free(x->text);
    x->text = alloc_viewdup(body);
    x->ended = true;
}

void web_respond_text(struct web_exchange *x, int status, const char *content_type, char *text)
{
    begin(x, status, content_type);
    free(x->text);
    x->text = text;
    x->ended = true;
}

void web_stream_begin(struct web_exchange *x, int status, const char *content_type)
{
    begin(x, status, content_type);
    x->streaming = true;
}

void web_stream_write(struct web_exchange *x, char *data, size_t len)
{
    assert(x->streaming && !x->ended);
    char *text = alloc_printf("%s%.*s", x->text, (int)len, data);
    free(data);
    free(x->text);
    x->text = text;
}

size_t web_stream_queued(const struct web_exchange *x)
{
    return x->queued;
}

void web_stream_end(struct web_exchange *x)
{
    assert(x->streaming && !x->ended);
    x->ended = true;
}

void web_on_gone(struct web_exchange *x, void (*gone)(void *arg), void *arg)
{
    assert(!x->ended);
    x->gone = gone;
    x->gone_arg = arg;
}

void web_on_drain(struct web_exchange *x, void (*drained)(void *arg), void *arg)
{
}

/* ---- authentication ------------------------------------------------------------------------- */

struct web_auth {
    struct principal *known[8];
    size_t count;
    struct web_exchange *asking;
    void (*done)(void *arg, struct principal *principal);
    void *done_arg;
};

struct web_auth *fake_auth(void)
{
    return alloc_one(struct web_auth);
}

void fake_auth_free(struct web_auth *a)
{
    for (size_t i = 0; i < a->count; i++) {
        principal_release(a->known[i]);
    }
    free(a);
}

struct principal *fake_principal(struct web_auth *a, const char *name)
{
    static const struct principal_limits none;
    for (size_t i = 0; i < a->count; i++) {
        if (strcmp(a->known[i]->name, name) == 0) {
            return a->known[i];
        }
    }
    assert(a->count < 8);
    return a->known[a->count++] = principal_create(name, &none);
}

void fake_auth_decide(struct web_auth *a, const char *name)
{
    struct web_exchange *x = a->asking;
    a->asking = NULL;
    x->gone = NULL;
    if (name == NULL) {
        web_respond(x, 401, NULL, view_of(NULL));
    }
    a->done(a->done_arg, name != NULL ? fake_principal(a, name) : NULL);
}

static void on_gone(void *arg)
{
    struct web_auth *a = arg;
    a->asking = NULL;
    a->done(a->done_arg, NULL);
}

void web_auth_check(struct web_auth *a, struct web_exchange *x,
                    void (*done)(void *arg, struct principal *principal), void *arg)
{
    const char *authorization = web_header(x, "Authorization");
    a->done = done;
    a->done_arg = arg;
    if (authorization == NULL || strncmp(authorization, "Bearer ", 7) != 0) {
        web_set_header(x, "WWW-Authenticate", "Bearer");
        web_respond(x, 401, NULL, view_of(NULL));
        done(arg, NULL);
    } else if (strcmp(authorization + 7, "slow") == 0) {
        a->asking = x;
        web_on_gone(x, on_gone, a);
    } else {
        done(arg, fake_principal(a, authorization + 7));
    }
}

bool web_auth_metadata(struct web_auth *a, struct web_exchange *x)
{
    if (strcmp(web_path(x), "/.well-known/oauth-protected-resource") != 0) {
        return false;
    }
    web_respond(x, 200, "application/json", view_of("{}"));
    return true;
}
