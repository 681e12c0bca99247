/*
 * MCP on stdin and stdout: one session for the life of the pipe, one sink for all its messages.
 *
 * While a client does not read its answers, we read no requests (stdio_transport.h), so its
 * requests are bounded and answers are never dropped. Notifications are not bounded by that, since
 * calls in progress still report. So they are dropped when much is queued.
 */
#include <stddef.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/io/json.h"
#include "proto/limits.h"
#include "supervisor/base/config.h"
#include "supervisor/base/principal.h"
#include "supervisor/front/serve_internal.h"
#include "supervisor/front/stdio_transport.h"
#include "supervisor/mcp/session.h"
#include "supervisor/mcp/wire/jsonrpc.h"
#include "supervisor/mcp/wire/raw_id.h"

#define OWNER        "stdio"
#define BEHIND_BYTES (4u << 20) /* queued bytes above which notifications are dropped */

struct serve_stdio {
    struct mcp_sink sink; /* writes to the pipe */
    int in_fd, out_fd;
    struct mcp_session *session;
    struct stdio *stdio;
    struct raw_id long_id; /* of the line that is being skipped */
    const struct serve_stdio_events *events;
    void *arg;
};

/* ---- messages ------------------------------------------------------------------------------- */

static void on_line(void *arg, const char *line, size_t len)
{
    struct serve_stdio *s = arg;
    struct err err = ERR_INIT;
    struct mcp_incoming in = {.bytes = len, .sink = &s->sink};
    int rc =
        json_parse(line, len, LIMIT_LINE_BYTES, LIMIT_JSON_DEPTH, &in.message, &in.has_nul, &err);
    if (rc < 0) {
        CLEANUP_FREE char *id = raw_id_of(line, len);
        mcp_session_reject_id(s->session, &s->sink, id,
                              rc == -ERR_NO_MEMORY ? JSONRPC_INTERNAL : JSONRPC_PARSE_ERROR,
                              err.text);
        return;
    }
    CLEANUP_FREE char *mended = raw_id_mended(in.message, line, len);
    if (mended != NULL) {
        cJSON_Delete(in.message);
        mcp_session_reject_id(s->session, &s->sink, mended, JSONRPC_INVALID_REQUEST, RAW_ID_MENDED);
        return;
    }
    mcp_session_take(s->session, &in);
}

/* Clients write the id before what is long, or behind it. */
static void on_too_long(void *arg, const char *piece, size_t len, bool last)
{
    struct serve_stdio *s = arg;
    raw_id_take(&s->long_id, piece, len);
    if (last) {
        CLEANUP_FREE char *id = raw_id_end(&s->long_id);
        s->long_id = (struct raw_id){.place = RAW_ID_BEFORE};
        mcp_session_reject_id(s->session, &s->sink, id, JSONRPC_INVALID_REQUEST,
                              "line over 16 MiB");
    }
}

static void on_end(void *arg, bool broken)
{
    struct serve_stdio *s = arg;
    if (broken) {
        s->events->broken(s->arg);
    } else {
        s->events->ended(s->arg);
    }
}

static bool on_stdio_send(struct mcp_sink *sink, char *json)
{
    struct serve_stdio *s = (struct serve_stdio *)sink;
    if (stdio_queued(s->stdio) > BEHIND_BYTES) {
        free(json);
        return false;
    }
    stdio_send(s->stdio, json);
    return true;
}

static void on_stdio_answer(struct mcp_sink *sink, char *json, enum mcp_status status)
{
    struct serve_stdio *s = (struct serve_stdio *)sink;
    if (json != NULL) {
        stdio_send(s->stdio, json);
    }
    s->events->answered(s->arg);
}

/* ---- life ----------------------------------------------------------------------------------- */

struct serve_stdio *serve_stdio_claim(struct err *err)
{
    static const struct mcp_sink_ops ops = {on_stdio_send, on_stdio_answer};
    int in_fd;
    int out_fd;
    if (stdio_claim(&in_fd, &out_fd, err) < 0) {
        return NULL;
    }
    struct serve_stdio *s = alloc_one(struct serve_stdio);
    s->sink.ops = &ops;
    s->in_fd = in_fd;
    s->out_fd = out_fd;
    return s;
}

int serve_stdio_open(struct serve_stdio *s, uv_loop_t *loop, const struct config *config,
                     struct mcp_server *server, const struct serve_stdio_events *events, void *arg,
                     struct err *err)
{
    static const struct stdio_events lines = {on_line, on_too_long, on_end};
    /* Whoever started us may have everything, and not a share, also beside clients over HTTP. */
    const struct principal_limits limits = {.sandboxes = config->max_sandboxes,
                                            .memory_mb = config->memory_budget_mb};
    s->events = events;
    s->arg = arg;
    struct principal *principal = principal_create(OWNER, &limits);
    s->session = mcp_session_create(server, MCP_SESSION_PIPE, principal);
    principal_release(principal);
    return stdio_open(loop, s->in_fd, s->out_fd, &lines, s, &s->stdio, err);
}

bool serve_stdio_is_file(const struct serve_stdio *s)
{
    return stdio_input_is_file(s->stdio);
}

size_t serve_stdio_open_requests(const struct serve_stdio *s)
{
    return mcp_session_open_requests(s->session);
}

void serve_stdio_close(struct serve_stdio *s, uint64_t flush_ms, void (*closed)(void *arg),
                       void *arg)
{
    /* End the session first: it can still send notifications, for example when sandboxes end. */
    mcp_session_end(s->session);
    s->session = NULL;
    stdio_close(s->stdio, flush_ms, closed, arg);
}

void serve_stdio_free(struct serve_stdio *s)
{
    free(s);
}
