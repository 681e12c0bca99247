/*
 * expose_port: an address by which a browser reaches a web server that runs in a sandbox.
 */
#include <inttypes.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "supervisor/links/links.h"
#include "supervisor/results/result.h"
#include "supervisor/tools/args.h"
#include "supervisor/tools/tool.h"

static void give_address(struct tool_call *call)
{
    uint64_t port = args_uint(call->args, "port"), expires_s = 0;
    const struct tool_services *services = call->session->services;
    struct err err = ERR_INIT;
    if (services->open_ports != NULL && services->open_ports(services->ports_arg, &err) < 0) {
        tool_fail(call, err.code, err.text, "the user has to see to it");
        return;
    }
    CLEANUP_FREE char *url =
        links_make_port(services->port_links, call->sandbox_id, (uint16_t)port, &expires_s);
    if (url == NULL) {
        tool_fail(call, ERR_INTERNAL, "no address could be made", "the server's log says why");
        return;
    }
    struct result r;
    result_init(&r);
    result_put_text(r.structured, "sandbox_id", call->sandbox_id);
    result_put_uint(r.structured, "port", port);
    result_put_text(r.structured, "url", url);
    result_put_time(r.structured, "expires_at", expires_s * 1000);
    CLEANUP_FREE char *text =
        alloc_printf("Port %" PRIu64 " of sandbox %s is at %s\nGive this address to the user as it "
                     "is. It works in a browser while the web server runs.",
                     port, call->sandbox_id, url);
    result_add_text(&r, text);
    tool_finish(call, &r);
}

static void run_expose_port(struct tool_call *call)
{
    tool_with_sandbox_there(call, give_address);
}

/* clang-format off */
const struct tool tool_expose_port = {
    .name = "expose_port",
    .title = "Expose a port",
    .description =
        "Gives an address at which the user's browser reaches a web server that listens in the sandbox on 127.0.0.1 at this "
        "port, although the sandbox has no network. Start the server first, as a process that goes on in the background. "
        "Pages must use relative links, since they are not at the root of their host; there are no cookies. A WebSocket is opened at an address relative to location.href, with ws in place of http. "
        "Whoever has the address can use that port until it expires.",
    .input_schema = JSON_TEXT({
        "type": "object",
        "properties": {
            "port": {
                "type": "integer", "minimum": 1, "maximum": 65535,
                "description": "Port at which the web server listens."
            },
            @sandbox_there@
        },
        "required": ["port"],
        "additionalProperties": false
    }),
    .output_schema = JSON_TEXT({
        "type": "object",
        "properties": {
            "sandbox_id": {"type": "string"},
            "port": {"type": "integer"},
            "url": {"type": "string", "description": "Ends with a slash; paths of the web server follow."},
            "expires_at": {"type": "string", "description": "The address is good until then, or until the sandbox ends."}
        },
        "required": ["sandbox_id", "port", "url", "expires_at"]
    }),
    .read_only = true,
    .idempotent = true,
    .run = run_expose_port,
};
/* clang-format on */
