/*
 * Spans are printed when their call ends, and wait in a ring. A batch leaves a second after the
 * first span that waits, or as soon as the ring has enough for one, and never while another one is
 * on its way. A batch that is not taken is lost, as OTLP allows: trying again would only pile up
 * spans while the collector is away.
 *
 * Nothing is on the loop's timers while no span waits, so an idle server sleeps.
 */
#include "supervisor/traces/traces.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/io/http_client.h"
#include "common/log.h"
#include "supervisor/metrics/metrics.h"
#include "supervisor/traces/internal.h"
#include "supervisor/web/http/rate_limit.h"
#include "supervisor/web/http/url.h"

#define TRACES_PATH      "/v1/traces"
#define ANSWER_MAX_BYTES ((size_t)64 << 10)
#define STATUS_GOOD      200
#define STATUS_OTHER     300

struct traces {
    struct http_client *http;
    char *path;
    char *url;                         /* for the log */
    char *waiting[TRACES_QUEUE_CALLS]; /* a ring */
    size_t first, count;
    uv_timer_t timer;
    struct http_call *call; /* the batch that is on its way; NULL: none */
    char *body;             /* its text */
    size_t in_flight;       /* how many calls it has */
    uint64_t next_log_ms;   /* of rate_limit() */
    bool closing;
    uv_timer_t deadline; /* of closing */
    unsigned open_handles;
    void (*closed)(void *arg);
    void *closed_arg;
};

static void lose(size_t calls, size_t reason)
{
    metrics_add(METRIC_TRACES_DROPPED, reason, 0, calls);
}

static void on_traces_due(uv_timer_t *timer);
static void close_parts(struct traces *t);

/* Starts the timer if something waits and nothing is on its way. */
static void plan_batch(struct traces *t)
{
    if (t->call == NULL && t->count > 0) {
        bool now = t->closing || t->count >= TRACES_BATCH_CALLS;
        if (now || !uv_is_active((uv_handle_t *)&t->timer)) {
            uv_timer_start(&t->timer, on_traces_due, now ? 0 : TRACES_EVERY_MS, 0);
        }
    } else if (t->call == NULL && t->closing) {
        close_parts(t);
    }
}

static void end_batch(struct traces *t)
{
    t->call = NULL;
    free(STEAL_PTR(t->body));
    t->in_flight = 0;
}

static void on_collector_answer(void *arg, int rc, const struct http_response *response,
                                const struct err *err)
{
    struct traces *t = arg;
    bool good = rc == 0 && response->status >= STATUS_GOOD && response->status < STATUS_OTHER;
    if (good) {
        metrics_add(METRIC_TRACES, 0, 0, t->in_flight);
    } else {
        lose(t->in_flight, METRIC_SPAN_DROP_SEND_FAILED);
        bool tell = rate_limit(&t->next_log_ms);
        if (tell && rc < 0) {
            log_warn("traces: those of %zu calls are lost: %s", t->in_flight, err->text);
        } else if (tell) {
            log_warn("traces: those of %zu calls are lost: %s answered with status %d",
                     t->in_flight, t->url, response->status);
        }
    }
    end_batch(t);
    plan_batch(t);
}

static void on_traces_due(uv_timer_t *timer)
{
    struct traces *t = timer->data;
    char *texts[TRACES_BATCH_CALLS];
    size_t count = t->count < TRACES_BATCH_CALLS ? t->count : TRACES_BATCH_CALLS;
    for (size_t i = 0; i < count; i++) {
        texts[i] = t->waiting[(t->first + i) % TRACES_QUEUE_CALLS];
    }
    t->first = (t->first + count) % TRACES_QUEUE_CALLS;
    t->count -= count;
    t->body = span_request(texts, count);
    t->in_flight = count;
    for (size_t i = 0; i < count; i++) {
        free(texts[i]);
    }
    const struct http_request request = {
        .method = "POST",
        .path = t->path,
        .content_type = "application/json",
        .body = view_of(t->body),
        .total_ms = TRACES_SEND_MS,
        .max_bytes = ANSWER_MAX_BYTES,
    };
    t->call = http_send(t->http, &request, on_collector_answer, t);
}

static int read_url(const char *url, struct url *ret, struct err *err)
{
    if (!url_parse(url, ret) || (!url_is(ret, "http") && !url_is(ret, "https"))) {
        return err_set(err, ERR_CONFIG,
                       "--otlp-endpoint: expected http://HOST[:PORT] or https://…, without "
                       "/v1/traces, got \"%.200s\"",
                       url);
    }
    return 0;
}

int traces_check(const char *url, struct err *err)
{
    struct url u;
    return read_url(url, &u, err);
}

int traces_create(uv_loop_t *loop, const char *url, struct traces **ret, struct err *err)
{
    struct url u;
    if (read_url(url, &u, err) < 0) {
        return -err->code;
    }
    CLEANUP_FREE char *base = alloc_viewdup(u.origin);
    const struct http_endpoint endpoint = {.name = url, .base_url = base, .verify = true};
    struct http_client *http;
    int rc = http_client_create(loop, &endpoint, &http, err);
    if (rc < 0) {
        return err_wrap(err, "--otlp-endpoint");
    }
    struct traces *t = alloc_one(struct traces);
    t->http = http;
    t->path = alloc_printf("%.*s" TRACES_PATH, VIEW_ARG(u.path));
    t->url = alloc_strdup(url);
    uv_timer_init(loop, &t->timer);
    uv_timer_init(loop, &t->deadline);
    t->timer.data = t->deadline.data = t;
    *ret = t;
    return 0;
}

void traces_call(struct traces *t, const struct traced_call *call)
{
    if (t == NULL || t->closing) {
        return;
    }
    if (t->count == TRACES_QUEUE_CALLS) {
        lose(1, METRIC_SPAN_DROP_QUEUE_FULL);
        return;
    }
    char *text = span_text(call);
    if (text != NULL) {
        t->waiting[(t->first + t->count) % TRACES_QUEUE_CALLS] = text;
        t->count++;
        plan_batch(t);
    }
}

/* ---- closing --------------------------------------------------------------------------------- */

static void part_closed(void *arg)
{
    struct traces *t = arg;
    if (--t->open_handles > 0) {
        return;
    }
    void (*closed)(void *arg) = t->closed;
    void *closed_arg = t->closed_arg;
    free(t->body); /* of a batch that was given up */
    free(t->path);
    free(t->url);
    free(t);
    closed(closed_arg);
}

static void on_timer_gone(uv_handle_t *handle)
{
    part_closed(handle->data);
}

/* What still waits is lost. */
static void close_parts(struct traces *t)
{
    lose(t->count + t->in_flight, METRIC_SPAN_DROP_SEND_FAILED);
    for (; t->count > 0; t->count--) {
        free(t->waiting[t->first]);
        t->first = (t->first + 1) % TRACES_QUEUE_CALLS;
    }
    t->open_handles = 3;
    uv_close((uv_handle_t *)&t->timer, on_timer_gone);
    uv_close((uv_handle_t *)&t->deadline, on_timer_gone);
    http_client_close(t->http, part_closed, t); /* cancels what is on its way */
}

static void on_traces_deadline(uv_timer_t *timer)
{
    struct traces *t = timer->data;
    log_warn("traces: those of %zu calls are lost: %s takes too long", t->count + t->in_flight,
             t->url);
    close_parts(t);
}

void traces_close(struct traces *t, void (*closed)(void *arg), void *arg)
{
    t->closing = true;
    t->closed = closed;
    t->closed_arg = arg;
    uv_timer_start(&t->deadline, on_traces_deadline, TRACES_CLOSE_MS, 0);
    plan_batch(t);
}
