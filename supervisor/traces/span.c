/*
 * Spans as JSON in the encoding of OTLP: ids in hexadecimal, times as decimal texts in nanoseconds,
 * kinds and statuses as numbers.
 *
 * A call is a span of kind SERVER, a child of the client's if its request had a traceparent. If its
 * code has begun and ended within it, spans below tell where the time went: "sandbox", until there
 * was one; "worker", until the code ran (a worker was awaited, other code ran); and "run". The
 * length of the run is what the agent measured; where it lies is not known, so it is put at the
 * end, since the outcome is passed on at once and waiting comes before.
 */
#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/str.h"
#include "common/text.h"
#include "supervisor/traces/internal.h"
#include "supervisor/traces/traceparent.h"

#define KIND_INTERNAL  1
#define KIND_SERVER    2
#define STATUS_ERROR   2
#define TIME_SIZE      32
#define REQUEST_MAX    (16u << 20) /* far above a batch of spans, whose texts are all short */
#define WORD_MAX_BYTES 256         /* of a principal, which an issuer chooses */

static const char request_begin[] =
    "{\"resourceSpans\":[{\"resource\":{\"attributes\":["
    "{\"key\":\"service.name\",\"value\":{\"stringValue\":\"cloister\"}},"
    "{\"key\":\"service.version\",\"value\":{\"stringValue\":\"" CLOISTER_VERSION "\"}}]},"
    "\"scopeSpans\":[{\"scope\":{\"name\":\"cloister\",\"version\":\"" CLOISTER_VERSION "\"},"
    "\"spans\":[";
static const char request_end[] = "]}]}]}";

/* Random digits; false if there is no randomness. */
static bool make_id(char *out, size_t chars)
{
    char random[TRACE_ID_CHARS + 1];
    if (random_id(random, chars, NULL) < 0) {
        return false;
    }
    for (size_t i = 0; i < chars; i++) { /* of 32 values, two for each digit */
        unsigned value =
            random[i] >= 'a' ? (unsigned)(random[i] - 'a') : (unsigned)(random[i] - '2') + 26;
        out[i] = "0123456789abcdef"[value % 16];
    }
    out[chars] = '\0';
    return true;
}

static void put_attribute(cJSON *span, const char *key, const char *text)
{
    if (text == NULL || text[0] == '\0') {
        return;
    }
    CLEANUP_FREE char *word =
        alloc_viewdup(view_bytes(text, text_fit(view_of(text), WORD_MAX_BYTES)));
    cJSON *list = cJSON_GetObjectItemCaseSensitive(span, "attributes");
    cJSON *item = cJSON_CreateObject();
    cJSON *value = cJSON_CreateObject();
    cJSON_AddStringToObject(item, "key", key);
    cJSON_AddStringToObject(value, "stringValue", word);
    cJSON_AddItemToObjectCS(item, "value", value);
    cJSON_AddItemToArray(list, item);
}

static void put_time(cJSON *span, const char *key, uint64_t wall_us)
{
    char text[TIME_SIZE];
    snprintf(text, sizeof(text), "%" PRIu64 "000", wall_us);
    cJSON_AddItemToObjectCS(span, key, cJSON_CreateString(text));
}

static cJSON *new_span(const struct traceparent *at, const char *parent, const char *name, int kind,
                       uint64_t begin_us, uint64_t end_us)
{
    cJSON *span = alloc_check(cJSON_CreateObject());
    cJSON_AddStringToObject(span, "traceId", at->trace_id);
    cJSON_AddStringToObject(span, "spanId", at->span_id);
    if (parent[0] != '\0') {
        cJSON_AddStringToObject(span, "parentSpanId", parent);
    }
    cJSON_AddStringToObject(span, "name", name);
    cJSON_AddNumberToObject(span, "kind", kind);
    put_time(span, "startTimeUnixNano", begin_us);
    put_time(span, "endTimeUnixNano", end_us);
    cJSON_AddArrayToObject(span, "attributes");
    return span;
}

static char *printed(cJSON *span)
{
    char *text = alloc_check(cJSON_PrintUnformatted(span));
    cJSON_Delete(span);
    return text;
}

static char *call_span(const struct traced_call *call, const struct traceparent *at,
                       const char *parent)
{
    CLEANUP_FREE char *name = alloc_printf("tools/call %s", call->tool);
    cJSON *span = new_span(at, parent, name, KIND_SERVER, call->begun_wall_us,
                           call->begun_wall_us + call->duration_us);
    put_attribute(span, "mcp.method.name", "tools/call");
    put_attribute(span, "gen_ai.tool.name", call->tool);
    put_attribute(span, "enduser.id", call->principal);
    put_attribute(span, "cloister.outcome", call->outcome);
    put_attribute(span, "cloister.sandbox", call->sandbox);
    put_attribute(span, "cloister.execution", call->execution);
    put_attribute(span, "error.type", call->error);
    if (call->is_error) {
        cJSON *status = cJSON_AddObjectToObject(span, "status");
        cJSON_AddNumberToObject(status, "code", STATUS_ERROR);
    }
    return printed(span);
}

/* A span below that of the call. */
static char *child_span(const struct traceparent *call_at, const char *name, uint64_t begin_us,
                        uint64_t end_us)
{
    struct traceparent at = *call_at;
    return make_id(at.span_id, SPAN_ID_CHARS)
               ? printed(new_span(&at, call_at->span_id, name, KIND_INTERNAL, begin_us, end_us))
               : NULL;
}

/* Whether the code has begun and ended within the call. */
static bool has_run(const struct traced_call *call)
{
    return call->asked_wall_us >= call->begun_wall_us && call->run_us > 0 &&
           call->run_us <= call->duration_us;
}

/* The spans below that of the call, each behind a comma; "" if there are none. */
static char *child_spans(const struct traced_call *call, const struct traceparent *at)
{
    if (!has_run(call)) {
        return alloc_strdup("");
    }
    uint64_t end_us = call->begun_wall_us + call->duration_us;
    uint64_t run_us = end_us - call->run_us;
    uint64_t asked_us = call->asked_wall_us < run_us ? call->asked_wall_us : run_us;
    CLEANUP_FREE char *sandbox = child_span(at, "sandbox", call->begun_wall_us, asked_us);
    CLEANUP_FREE char *worker = child_span(at, "worker", asked_us, run_us);
    CLEANUP_FREE char *run = child_span(at, "run", run_us, end_us);
    bool all = sandbox != NULL && worker != NULL && run != NULL;
    return all ? alloc_printf(",%s,%s,%s", sandbox, worker, run) : alloc_strdup("");
}

char *span_text(const struct traced_call *call)
{
    struct traceparent at;
    char parent[SPAN_ID_CHARS + 1] = "";
    if (traceparent_read(call->traceparent, &at)) {
        if (!at.sampled) {
            return NULL;
        }
        memcpy(parent, at.span_id, sizeof(parent));
    } else if (!make_id(at.trace_id, TRACE_ID_CHARS)) {
        return NULL;
    }
    if (!make_id(at.span_id, SPAN_ID_CHARS)) {
        return NULL;
    }
    CLEANUP_FREE char *own = call_span(call, &at, parent);
    CLEANUP_FREE char *below = child_spans(call, &at);
    return alloc_printf("%s%s", own, below);
}

char *span_request(char *const *texts, size_t count)
{
    CLEANUP_BUF struct buf body;
    buf_init(&body, REQUEST_MAX);
    text_printf(&body, "%s", request_begin);
    for (size_t i = 0; i < count; i++) {
        text_printf(&body, "%s%s", i > 0 ? "," : "", texts[i]);
    }
    text_printf(&body, "%s", request_end);
    return alloc_strdup(text_cstr(&body));
}
