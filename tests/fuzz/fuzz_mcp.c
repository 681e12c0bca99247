/*
 * A whole MCP session, fed lines as a client may send them, in front of a fleet that answers late
 * and in every way there is. Everything the session says must be one line of JSON-RPC.
 *
 * A line that begins with "." lets the oldest thing under way come to its end.
 */
#include <string.h>

#include "common/io/json.h"
#include "proto/limits.h"
#include "supervisor/config.h"
#include "supervisor/jsonrpc.h"
#include "supervisor/mcp.h"
#include "tests/fuzz/fake_fleet.h"
#include "tests/fuzz/fuzz.h"

enum { ANSWER_MAX_BYTES = 64 << 20, ANSWER_DEPTH = 200 };

static void check_message(const cJSON *message)
{
    FUZZ_REQUIRE(cJSON_IsObject(message));
    const char *version = json_get_str(message, "jsonrpc");
    FUZZ_REQUIRE(version != NULL && strcmp(version, "2.0") == 0);
    const cJSON *error = json_get(message, "error");
    if (json_get(message, "method") == NULL) {
        FUZZ_REQUIRE((json_get(message, "result") != NULL) != (error != NULL));
    }
    if (error != NULL) {
        FUZZ_REQUIRE(json_is_int(json_get(error, "code")));
        FUZZ_REQUIRE(json_get_str(error, "message") != NULL);
    }
}

static void on_send(void *arg, char *text)
{
    (void)arg;
    size_t len = strlen(text);
    FUZZ_REQUIRE(memchr(text, '\n', len) == NULL);
    cJSON *message = NULL;
    struct err err = ERR_INIT;
    /* what user code wrote may hold NUL characters; the transport sends them as it must */
    bool has_nul = false;
    FUZZ_REQUIRE(json_parse(text, len, ANSWER_MAX_BYTES, ANSWER_DEPTH, &message, &has_nul, &err) ==
                 0);
    if (cJSON_IsArray(message)) {
        const cJSON *item;
        cJSON_ArrayForEach(item, message)
        {
            check_message(item);
        }
    } else {
        check_message(message);
    }
    cJSON_Delete(message);
    free(text);
}

static void take_line(struct mcp_session *session, const char *line, size_t len)
{
    cJSON *message = NULL;
    bool has_nul = false;
    struct err err = ERR_INIT;
    if (json_parse(line, len, LIMIT_LINE_BYTES, LIMIT_JSON_DEPTH, &message, &has_nul, &err) < 0) {
        mcp_session_reject(session, JSONRPC_PARSE_ERROR, err.text);
    } else {
        mcp_session_take(session, message, len, has_nul);
    }
}

static void on_stopped(void *arg)
{
    *(bool *)arg = true;
}

/* Tools and schemas are made once: they hold no state of a session. */
static struct mcp_server *the_server(struct fleet **ret_fleet)
{
    static struct config config;
    static struct fleet *fleet;
    static struct mcp_server *server;
    if (server == NULL) {
        struct err err = ERR_INIT;
        int used;
        FUZZ_REQUIRE(config_load(&config, 0, NULL, &used, &err) == 0);
        fleet = fleet_create(NULL, &config);
        server = mcp_server_create(&config, fleet);
    }
    *ret_fleet = fleet;
    return server;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fleet *fleet;
    struct mcp_server *server = the_server(&fleet);
    struct mcp_session *session = mcp_session_create(server, "fuzz", on_send, NULL);

    const char *at = (const char *)data;
    size_t left = size;
    while (left > 0) {
        const char *end = memchr(at, '\n', left);
        size_t len = end != NULL ? (size_t)(end - at) : left;
        if (len > 0 && at[0] == '.') {
            fake_fleet_step(fleet);
        } else if (len > 0) {
            take_line(session, at, len);
        }
        size_t taken = len + (end != NULL);
        at += taken;
        left -= taken;
    }

    bool stopped = false;
    fleet_shutdown(fleet, FLEET_END_CLOSE, on_stopped, &stopped);
    FUZZ_REQUIRE(stopped && mcp_session_open_calls(session) == 0);
    mcp_session_destroy(session);
    return 0;
}
