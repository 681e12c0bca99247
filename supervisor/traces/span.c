/*
 * Spans as JSON in the encoding of OTLP: ids in hexadecimal, times as decimal texts in nanoseconds,
 * kinds and statuses as numbers. They are printed directly, because a tree of so many small parts
 * would cost a call more than all else that is noted of it; only a text that needs escaping goes
 * through cJSON.
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

#define KIND_INTERNAL   1
#define KIND_SERVER     2
#define REQUEST_MAX     (16u << 20) /* far above a batch of spans, whose texts are all short */
#define SPANS_MAX_BYTES (64u << 10) /* of one call, likewise */
#define NAME_SIZE       128
#define WORD_MAX_BYTES  256 /* of a principal, which an issuer chooses */

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

/* Whether JSON has the text as it is. */
static bool needs_no_escape(const char *text)
{
    while (*text >= ' ' && *text < 0x7f && *text != '"' && *text != '\\') {
        text++;
    }
    return *text == '\0';
}

/* Adds an attribute behind `comma`; nothing if there is no text. Returns the comma of the next. */
static const char *put_attribute(struct buf *out, const char *comma, const char *key,
                                 const char *text)
{
    if (text == NULL || text[0] == '\0') {
        return comma;
    }
    size_t fit = text_fit(view_of(text), WORD_MAX_BYTES);
    if (needs_no_escape(text)) {
        text_printf(out, "%s{\"key\":\"%s\",\"value\":{\"stringValue\":\"%.*s\"}}", comma, key,
                    (int)fit, text);
        return ",";
    }
    CLEANUP_FREE char *word = alloc_viewdup(view_bytes(text, fit));
    cJSON *json = alloc_check(cJSON_CreateString(word));
    CLEANUP_FREE char *quoted = alloc_check(cJSON_PrintUnformatted(json));
    cJSON_Delete(json);
    text_printf(out, "%s{\"key\":\"%s\",\"value\":{\"stringValue\":%s}}", comma, key, quoted);
    return ",";
}

/* The beginning of a span, up to its attributes. Names are ours. */
static void begin_span(struct buf *out, const struct traceparent *at, const char *parent,
                       const char *name, int kind, uint64_t begin_us, uint64_t end_us)
{
    bool below = parent[0] != '\0';
    text_printf(out,
                "{\"traceId\":\"%s\",\"spanId\":\"%s\",%s%s%s\"name\":\"%s\",\"kind\":%d,"
                "\"startTimeUnixNano\":\"%" PRIu64 "000\",\"endTimeUnixNano\":\"%" PRIu64
                "000\",\"attributes\":[",
                at->trace_id, at->span_id, below ? "\"parentSpanId\":\"" : "", parent,
                below ? "\"," : "", name, kind, begin_us, end_us);
}

static void put_call_span(struct buf *out, const struct traced_call *call,
                          const struct traceparent *at, const char *parent)
{
    char name[NAME_SIZE];
    const char *comma = "";
    snprintf(name, sizeof(name), "tools/call %s", call->tool);
    begin_span(out, at, parent, name, KIND_SERVER, call->begun_wall_us,
               call->begun_wall_us + call->duration_us);
    comma = put_attribute(out, comma, "mcp.method.name", "tools/call");
    comma = put_attribute(out, comma, "gen_ai.tool.name", call->tool);
    comma = put_attribute(out, comma, "enduser.id", call->principal);
    comma = put_attribute(out, comma, "cloister.outcome", call->outcome);
    comma = put_attribute(out, comma, "cloister.sandbox", call->sandbox);
    comma = put_attribute(out, comma, "cloister.execution", call->execution);
    (void)put_attribute(out, comma, "error.type", call->error); /* the last one */
    text_printf(out, call->is_error ? "],\"status\":{\"code\":2}}" : "]}");
}

/* A span below that of the call, behind a comma. */
static void put_child_span(struct buf *out, const struct traceparent *call_at, const char *name,
                           uint64_t begin_us, uint64_t end_us)
{
    struct traceparent at = *call_at;
    if (make_id(at.span_id, SPAN_ID_CHARS)) {
        text_printf(out, ",");
        begin_span(out, &at, call_at->span_id, name, KIND_INTERNAL, begin_us, end_us);
        text_printf(out, "]}");
    }
}

/* Whether the code has begun and ended within the call. */
static bool has_run(const struct traced_call *call)
{
    return call->asked_wall_us >= call->begun_wall_us && call->run_us > 0 &&
           call->run_us <= call->duration_us;
}

static void put_child_spans(struct buf *out, const struct traced_call *call,
                            const struct traceparent *at)
{
    if (!has_run(call)) {
        return;
    }
    uint64_t end_us = call->begun_wall_us + call->duration_us;
    uint64_t run_us = end_us - call->run_us;
    uint64_t asked_us = call->asked_wall_us < run_us ? call->asked_wall_us : run_us;
    put_child_span(out, at, "sandbox", call->begun_wall_us, asked_us);
    put_child_span(out, at, "worker", asked_us, run_us);
    put_child_span(out, at, "run", run_us, end_us);
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
    CLEANUP_BUF struct buf out;
    buf_init(&out, SPANS_MAX_BYTES);
    put_call_span(&out, call, &at, parent);
    put_child_spans(&out, call, &at);
    return alloc_strdup(text_cstr(&out));
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
