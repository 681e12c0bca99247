/*
 * The page for a server that has none, which is one on stdio: whoever may use the control socket
 * asks for it, and for as long as he holds the answer a listener on a free port of loopback serves
 * the page and this API. `cloister ui` does that and prints the address.
 *
 * Every process of this machine can connect to that port, so the API takes the token that is in the
 * address, behind the `#`, where no browser sends it to anybody. It is new each time and ends with
 * the answer. Host and Origin are checked as everywhere.
 */
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/str.h"
#include "proto/limits.h"
#include "supervisor/control/internal.h"
#include "supervisor/page/page.h"
#include "supervisor/results/result.h"
#include "supervisor/web/http/digest.h"
#include "supervisor/web/http/guard.h"
#include "supervisor/web/http/listener.h"

#define PAGES_MAX   4
#define CONNECTIONS 64
#define TOKEN_CHARS 32
#define PREFIX      "/api"
#define BEARER      "Bearer "
#define READER      1 /* all with the token are one to the listener */

struct private_page {
    TAILQ_ENTRY(private_page) node;
    struct control *control;
    struct web_exchange *holder; /* NULL: it is being closed */
    struct web_listener *listener;
    struct guard *guard;
    char *who;                              /* has asked for it, and does what is done by it */
    unsigned char digest[WEB_DIGEST_BYTES]; /* of the token */
};

/* ---- what the listener does ----------------------------------------------------------------- */

static bool has_page_token(const struct private_page *p, const struct web_exchange *x)
{
    const char *header = web_header(x, "Authorization");
    unsigned char digest[WEB_DIGEST_BYTES];
    struct err err = ERR_INIT;
    return header != NULL && strncmp(header, BEARER, strlen(BEARER)) == 0 &&
           web_digest_sha256(view_of(header + strlen(BEARER)), digest, &err) == 0 &&
           web_digest_equal(digest, p->digest);
}

static int on_page_admit(void *arg, struct web_exchange *x)
{
    const struct private_page *p = arg;
    if (!guard_admit(p->guard, x)) {
        return -1;
    }
    if (page_has(web_path(x))) {
        return 0;
    }
    if (!has_page_token(p, x)) {
        control_fail_as(x, 401, ERR_DENIED, "the token of this page is needed",
                        "`cloister ui` prints an address that has it");
        return -1;
    }
    return 0;
}

static void on_page_request(void *arg, struct web_exchange *x)
{
    const struct private_page *p = arg;
    const char *path = web_path(x);
    if (page_has(path)) {
        page_handle(x);
    } else if (strncmp(path, PREFIX "/", strlen(PREFIX "/")) == 0) {
        web_set_known(x, READER);
        control_handle(p->control, x, path + strlen(PREFIX), p->who);
    } else {
        control_fail_as(x, 404, ERR_INVALID, "there is no such path", "the page is at /ui/");
    }
}

/* ---- its life ------------------------------------------------------------------------------- */

static void free_page(struct private_page *p)
{
    guard_destroy(p->guard);
    free(p->who);
    free(p);
}

static void on_page_listener_closed(void *arg)
{
    struct private_page *p = arg;
    struct control *c = p->control;
    TAILQ_REMOVE(&c->pages, p, node);
    c->page_count--;
    free_page(p);
    control_part_closed(c);
}

static void on_holder_gone(void *arg)
{
    struct private_page *p = arg;
    p->holder = NULL;
    web_listener_close(p->listener, 0, on_page_listener_closed, p);
}

void control_end_pages(struct control *c)
{
    struct private_page *p, *next;
    for (p = TAILQ_FIRST(&c->pages); p != NULL; p = next) {
        next = TAILQ_NEXT(p, node);
        if (p->holder != NULL) {
            web_on_gone(p->holder, NULL, NULL);
            web_stream_end(p->holder);
            on_holder_gone(p);
        }
    }
}

static int open_page(struct private_page *p, char token[TOKEN_CHARS + 1], struct err *err)
{
    const struct web_listener_config config = {
        .address = "127.0.0.1",
        .max_connections = CONNECTIONS,
        .max_body_bytes = LIMIT_LINE_BYTES,
        .admit = on_page_admit,
        .handle = on_page_request,
        .arg = p,
    };
    int rc = random_id(token, TOKEN_CHARS, err);
    rc = rc < 0 ? rc : web_digest_sha256(view_of(token), p->digest, err);
    rc = rc < 0 ? rc : guard_create(p->control->config, &p->guard, err);
    rc = rc < 0 ? rc : web_listener_open(p->control->loop, &config, &p->listener, err);
    if (rc == 0) {
        guard_set_url(p->guard, web_listener_url(p->listener));
    }
    return rc;
}

void control_get_page(struct control *c, struct web_exchange *x, const char *name)
{
    (void)name;
    char token[TOKEN_CHARS + 1];
    struct err err = ERR_INIT;
    if (c->page_count >= PAGES_MAX || c->quiet) {
        control_fail(x, c->quiet ? ERR_SHUTTING_DOWN : ERR_BUSY,
                     c->quiet ? "the server is shutting down" : "too many look already", NULL);
        return;
    }
    struct private_page *p = alloc_one(struct private_page);
    p->control = c;
    p->holder = x;
    p->who = alloc_strdup(control_deed_who(x));
    int rc = open_page(p, token, &err);
    if (rc < 0) {
        free_page(p);
        control_fail(x, rc, err.text, NULL);
        return;
    }
    TAILQ_INSERT_TAIL(&c->pages, p, node);
    c->page_count++;
    control_deed_done(x, 0);
    web_on_gone(x, on_holder_gone, p);
    web_stream_begin(x, 200, CONTROL_LINES);
    CLEANUP_FREE char *url = alloc_printf("%s/ui/#%s", web_listener_url(p->listener), token);
    cJSON *line = cJSON_CreateObject();
    result_put_text(line, "url", url);
    control_write_line(x, line);
}
