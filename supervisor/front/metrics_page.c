/*
 * Whoever may use tools may see what he owns; the page is about everybody, so that takes a word in
 * the file of tokens. Without tokens there is one principal, who sees everything anyway.
 *
 * Gauges are set when somebody looks. That costs a walk over the sandboxes, which is nothing beside
 * the page itself.
 */
#include "supervisor/front/metrics_page.h"

#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/text.h"
#include "supervisor/base/principal.h"
#include "supervisor/fleet/fleet.h"
#include "supervisor/front/app.h"
#include "supervisor/metrics/metrics.h"
#include "supervisor/web/auth/auth.h"
#include "supervisor/web/http/exchange.h"

#define PAGE_MAX_BYTES (1u << 20) /* a twentieth of it is in use */
#define US_PER_S       UINT64_C(1000000)

/* One request whose token is being checked. */
struct look {
    struct metrics_page page;
    struct web_exchange *x;
};

bool metrics_page_has(const char *path)
{
    return strcmp(path, "/metrics") == 0;
}

static uint64_t micros(const uv_timeval_t *t)
{
    return (uint64_t)t->tv_sec * US_PER_S + (uint64_t)t->tv_usec;
}

static void measure_process(void)
{
    uv_rusage_t used;
    size_t rss;
    if (uv_getrusage(&used) == 0) {
        metrics_set(METRIC_PROCESS_CPU, 0, 0, micros(&used.ru_utime) + micros(&used.ru_stime));
    }
    if (uv_resident_set_memory(&rss) == 0) {
        metrics_set(METRIC_PROCESS_MEMORY, 0, 0, rss);
    }
    metrics_set(METRIC_BUILD_INFO, METRIC_VERSION_THIS, 0, 1);
}

static void answer_page(const struct metrics_page *page, struct web_exchange *x)
{
    CLEANUP_BUF struct buf text;
    buf_init(&text, PAGE_MAX_BYTES);
    fleet_measure(page->fleet);
    app_measure(page->app);
    measure_process();
    metrics_write(&text);
    web_set_header(x, "Cache-Control", "no-store");
    web_respond(x, 200, METRICS_CONTENT_TYPE, view_bytes(text.data, text.len));
}

static void refuse_reader(struct web_exchange *x, const struct principal *p)
{
    CLEANUP_FREE char *text =
        alloc_printf("Forbidden: %s may not read this page. Its figures are about all principals; "
                     "metrics=yes or metrics=only in the line of %s in the file of tokens allows "
                     "it.\n",
                     p->name, p->name);
    metrics_count(METRIC_REJECTED, METRIC_REASON_FORBIDDEN);
    web_respond(x, 403, "text/plain; charset=utf-8", view_of(text));
}

static void on_reader_checked(void *arg, struct principal *p)
{
    struct look *look = arg;
    if (p != NULL && p->metrics == PRINCIPAL_METRICS_NO) {
        refuse_reader(look->x, p);
    } else if (p != NULL) {
        answer_page(&look->page, look->x);
    }
    free(look);
}

void metrics_page_handle(const struct metrics_page *page, struct web_exchange *x)
{
    const char *method = web_method(x);
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0) {
        web_set_header(x, "Allow", "GET, HEAD");
        web_respond(x, 405, "text/plain; charset=utf-8", view_of("only GET and HEAD\n"));
        return;
    }
    struct look *look = alloc_one(struct look);
    look->page = *page;
    look->x = x;
    web_auth_check(page->auth, x, on_reader_checked, look);
}
