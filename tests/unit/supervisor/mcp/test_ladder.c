/* A request of the latest revision over HTTP with several errors: which one is reported first, and
 * with which status. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <cmocka.h>

#include "tests/unit/supervisor/mcp/lab.h"

#define NOW "2026-07-28"
#define CAN "'io.modelcontextprotocol/clientCapabilities':"
#define VER "'io.modelcontextprotocol/protocolVersion':"

/* Headers Mcp-Param-<name>. */
struct params {
    const char *region, *zone, *fast;
};

static const char *param(void *arg, const char *name)
{
    const struct params *p = arg;
    return strcasecmp(name, "Region") == 0 ? p->region
           : strcasecmp(name, "Zone") == 0 ? p->zone
           : strcasecmp(name, "Fast") == 0 ? p->fast
                                           : NULL;
}

static int setup(void **state)
{
    *state = lab_create();
    return 0;
}

static int teardown(void **state)
{
    lab_free(*state);
    return 0;
}

/* Sends it as a request of its own and checks the error; 0 expects a result. */
static void check(struct lab *l, const struct mcp_head *head, const char *method,
                  const char *params, int code, int status, const char *words)
{
    struct peer *p = peer_create(l, MCP_SESSION_SINGLE, NULL);
    assert_true(peer_send(p, head, "{'jsonrpc':'2.0','id':'x','method':'%s','params':{%s}}", method,
                          params));
    assert_int_equal(p->count, 1);
    if (code == 0) {
        if (at(peer_last(p), "result") == NULL) {
            fail_msg("%s %s: %s", method, params, text_at(peer_last(p), "error.message"));
        }
    } else {
        assert_error(p, code, words);
    }
    assert_string_equal(text_at(peer_last(p), "id"), "x");
    assert_int_equal(peer_status(p), status);
    peer_end(p);
}

/* At first everything is wrong; each step corrects the reported error, and the next one is
 * reported. */
static void faults_are_told_in_the_order_of_the_protocol(void **state)
{
    struct lab *l = *state;
    struct params none = {NULL};
    struct params good = {.region = "eu"};
    struct mcp_head head = {.version = "2025-11-25", .param = param, .arg = &none};
    head.method = "tools/list";
    check(l, &head, "no/such", "'_meta':{" VER "7}", -32602, 400,
          "must have \"io.modelcontextprotocol/protocolVersion\" (a string) and "
          "\"io.modelcontextprotocol/clientCapabilities\" (an object)");
    check(l, &head, "no/such", "'_meta':{" VER "7," CAN "{}}", -32602, 400,
          "must have \"io.modelcontextprotocol/protocolVersion\" (a string)");
    check(l, &head, "no/such", "'_meta':{" VER "'1999-01-01'}", -32602, 400,
          "must have \"io.modelcontextprotocol/clientCapabilities\" (an object)");
    check(l, &head, "no/such", "'_meta':{" VER "'1999-01-01'," CAN "[]}", -32602, 400,
          "clientCapabilities");
    check(l, &head, "no/such", "'_meta':{" VER "'1999-01-01'," CAN "{}}", -32020, 400,
          "MCP-Protocol-Version");
    head.version = NULL;
    check(l, &head, "no/such", "'_meta':{" VER "'1999-01-01'," CAN "{}}", -32020, 400, "missing");
    head.version = NOW;
    check(l, &head, "no/such", "'_meta':{" VER "'bogus'," CAN "{}}", -32020, 400,
          "MCP-Protocol-Version");
    head.version = "1999-01-01";
    check(l, &head, "no/such", "'_meta':{" VER "'1999-01-01'," CAN "{}}", -32022, 400, "version");
    head.version = NOW;
    check(l, &head, "no/such", LAB_META, -32020, 400, "Mcp-Method");
    head.method = NULL;
    check(l, &head, "no/such", LAB_META, -32020, 400, "Mcp-Method");
    head.method = "no/such";
    check(l, &head, "no/such", LAB_META, -32601, 404, "no/such");
    head.method = "tools/call";
    check(l, &head, "tools/call", LAB_META ",'name':'routed','arguments':{'region':'eu'}", -32020,
          400, "Mcp-Name");
    head.name = "echo";
    check(l, &head, "tools/call", LAB_META ",'name':'routed','arguments':{'region':'eu'}", -32020,
          400, "Mcp-Name");
    head.name = "routed";
    check(l, &head, "tools/call", LAB_META ",'name':'routed','arguments':{'region':'eu'}", -32020,
          400, "Mcp-Param-Region");
    head.arg = &good;
    check(l, &head, "tools/call", LAB_META ",'name':'routed','arguments':{'region':'eu'}", 0, 200,
          NULL);
}

static void late_faults_are_answers_like_any_other(void **state)
{
    struct lab *l = *state;
    struct mcp_head head = {.version = NOW, .method = "tools/call", .name = "nope"};
    check(l, &head, "tools/call", LAB_META ",'name':'nope'", -32602, 200, "Unknown tool");
    head.name = NULL;
    check(l, &head, "tools/call", LAB_META, -32602, 200, "name");
    check(l, &head, "tools/call", LAB_META ",'name':7", -32602, 200, "name");
    head.name = "needs";
    check(l, &head, "tools/call", LAB_META ",'name':'needs'", -32021, 400, "sampling");
    check(l, &head, "tools/call",
          "'name':'needs','_meta':{" VER "'" NOW "'," CAN "{'sampling':{}}}", 0, 200, NULL);
    head.method = "resources/read";
    head.name = "test://none";
    check(l, &head, "resources/read", LAB_META ",'uri':'test://none'", -32602, 200, "test://none");
    head.method = "tools/list";
    check(l, &head, "tools/list", LAB_META ",'cursor':'x'", -32602, 200, "cursor");
    check(l, &head, "tools/list",
          "'_meta':{" VER "'" NOW "'," CAN "{},'io.modelcontextprotocol/logLevel':'loud'}", -32602,
          200, "logLevel");
    l->app.offers = MCP_OFFER_TOOLS;
    head.method = "prompts/list";
    check(l, &head, "prompts/list", LAB_META, -32601, 404, "prompts/list");
    head.method = "ping";
    check(l, &head, "ping", LAB_META, -32601, 404, "ping");
}

static void names_may_be_encoded(void **state)
{
    static const struct {
        const char *uri, *header;
        bool good;
    } cases[] = {
        {"test://x", "test://x", true},
        {"test://x", "=?base64?dGVzdDovL3g=?=", true},
        {"test://\xc3\xa9", "=?base64?dGVzdDovL8Op?=", true},
        {"",
         "=?base64?"
         "?=",
         true},
        {"test://x", "=?base64?dGVzdDovL3g?=", false},   /* no padding */
        {"test://x", "=?base64?dGVz dDovL3g=?=", false}, /* a blank */
        {"test://x", "=?BASE64?dGVzdDovL3g=?=", false},
        {"test://x", "=?base64?dGVzdDovL3k=?=", false}, /* another value */
        {"test://x", "=?base64?/w==?=", false},         /* no UTF-8 */
        {"test://x", "=?base64?dGVzdDovL3gA?=", false}, /* a NUL at the end */
        {"=?base64?x", "=?base64?x", true}, /* only one of both marks: taken literally */
        {"x?=", "x?=", true},
        {"test://x", "TEST://x", false},
        {"test://x", "", false},
    };
    struct lab *l = *state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct mcp_head head = {
            .version = NOW, .method = "resources/read", .name = cases[i].header};
        char params[300];
        snprintf(params, sizeof(params), LAB_META ",'uri':'%s'", cases[i].uri);
        check(l, &head, "resources/read", params, cases[i].good ? 0 : -32020,
              cases[i].good ? 200 : 400, "Mcp-Name");
    }
}

static void arguments_are_repeated_in_headers(void **state)
{
    static const struct {
        const char *arguments;
        struct params headers;
        const char *wrong; /* NULL: accepted */
    } cases[] = {
        {"{}", {NULL}, NULL},
        {"{}", {.region = "not asked for"}, NULL},
        {"{'region':null}", {NULL}, NULL},
        {"{'region':'eu'}", {.region = "eu"}, NULL},
        {"{'region':'eu'}", {.region = "=?base64?ZXU=?="}, NULL},
        {"{'region':'eu'}", {.region = "EU"}, "Mcp-Param-Region"},
        {"{'region':'eu'}", {.region = "=?base64?ZX?="}, "Mcp-Param-Region"},
        {"{'region':'eu'}", {NULL}, "Mcp-Param-Region"},
        {"{'region':''}", {NULL}, "Mcp-Param-Region"},
        {"{'region':''}", {.region = ""}, NULL},
        {"{'fast':true}", {.fast = "true"}, NULL},
        {"{'fast':false}", {.fast = "false"}, NULL},
        {"{'fast':true}", {.fast = "1"}, "Mcp-Param-Fast"},
        {"{'fast':true}", {NULL}, "Mcp-Param-Fast"},
        {"{'where':{'zone':42}}", {.zone = "42"}, NULL},
        {"{'where':{'zone':42}}", {.zone = "42.0"}, NULL},
        {"{'where':{'zone':42}}", {.zone = "043"}, "Mcp-Param-Zone"},
        {"{'where':{'zone':42}}", {.zone = "0x2a"}, "Mcp-Param-Zone"},
        {"{'where':{'zone':42}}", {.zone = ""}, "Mcp-Param-Zone"},
        {"{'where':{'zone':42}}", {.zone = " 42"}, "Mcp-Param-Zone"},
        {"{'where':{'zone':9007199254740991}}", {.zone = "9007199254740991"}, NULL},
        {"{'where':7}", {NULL}, NULL}, /* refused, but not because of its header */
        {"{'region':[1]}", {NULL}, NULL},
        {"{'zone':42}", {NULL}, NULL}, /* not at its place in the schema */
    };
    struct lab *l = *state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct params headers = cases[i].headers;
        struct mcp_head head = {.version = NOW,
                                .method = "tools/call",
                                .name = "routed",
                                .param = param,
                                .arg = &headers};
        char params[300];
        snprintf(params, sizeof(params), LAB_META ",'name':'routed','arguments':%s",
                 cases[i].arguments);
        check(l, &head, "tools/call", params, cases[i].wrong != NULL ? -32020 : 0,
              cases[i].wrong != NULL ? 400 : 200, cases[i].wrong);
    }
}

/* Without headers (on a pipe) the same requests are judged by their bodies alone. */
static void a_pipe_has_no_headers(void **state)
{
    struct lab *l = *state;
    check(l, NULL, "tools/call", LAB_META ",'name':'routed','arguments':{'region':'eu'}", 0, 200,
          NULL);
    check(l, NULL, "no/such", LAB_META, -32601, 404, "no/such");
    check(l, NULL, "no/such", "'_meta':{" VER "'1999-01-01'," CAN "{}}", -32022, 400, "version");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(faults_are_told_in_the_order_of_the_protocol),
        TEST(late_faults_are_answers_like_any_other),
        TEST(names_may_be_encoded),
        TEST(arguments_are_repeated_in_headers),
        TEST(a_pipe_has_no_headers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
