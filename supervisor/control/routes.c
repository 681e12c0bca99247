/*
 * The table of the control API. A row is all there is of a request but what it does: GET /v1 shows
 * the table, and the page of contrib/docs is checked against it.
 */
#include "supervisor/control/internal.h"

/* clang-format off */
const struct control_route control_routes[] = {
    {"GET", "/v1", control_get_index, "this list", NULL},
    {"GET", "/v1/version", control_get_version, "version of the server and of this API", NULL},
    {"GET", "/v1/status", control_get_status, "the server: limits, pool, engine, sandboxes by state", NULL},
    {"POST", "/v1/reload", control_reload, "read tokens and certificate again, reopen the audit log", "reload"},
    {"GET", "/v1/sandboxes", control_list_sandboxes, "all sandboxes; ?usage=1 with what they use", NULL},
    {"POST", "/v1/sandboxes", control_make_sandbox, "make a sandbox that is nobody's", "sandbox.create"},
    {"GET", "/v1/sandboxes/*", control_get_sandbox, "one sandbox by id or name: usage, latest executions", NULL},
    {"DELETE", "/v1/sandboxes/*", control_delete_sandbox, "close it: what runs in it ends, its files go", "sandbox.close"},
    {"POST", "/v1/sandboxes/*/stop", control_stop_sandbox, "stop all that runs in it; it stays", "sandbox.stop"},
    {"POST", "/v1/sandboxes/*/exec", control_exec, "start code, or a program, in it", "execution.start"},
    {"GET", "/v1/sandboxes/*/files", control_read_file, "the bytes of a file: ?path=PATH", "file.read"},
    {"GET", "/v1/sandboxes/*/entries", control_list_entries,
     "what is in a directory, down to the last: ?path=PATH", NULL},
    {"POST", "/v1/sandboxes/*/files", control_write_file,
     "write the body to a file: ?path=PATH, ?append=1, ?mode=N", "file.write"},
    {"GET", "/v1/executions", control_list_executions,
     "executions, latest first; ?sandbox=ID, ?running=1, ?limit=N (100)", NULL},
    {"GET", "/v1/executions/*", control_get_execution, "one with its output; ?wait=SECONDS waits for its end", NULL},
    {"GET", "/v1/executions/*/displays", control_get_displays, "what it has displayed, such as plots", NULL},
    {"GET", "/v1/executions/*/logs", control_get_logs,
     "its output as JSON lines; ?follow=1 until it has ended", NULL},
    {"POST", "/v1/executions/*/stop", control_stop_execution, "interrupt it, and kill it if that does not help", "execution.stop"},
    {"POST", "/v1/executions/*/stdin", control_write_stdin, "write to its stdin, resize its terminal", "execution.stdin"},
    {"GET", "/v1/workers", control_list_workers, "the worker process of each sandbox", NULL},
    {"GET", "/v1/page", control_get_page, "the page /ui/ on a port of loopback, for as long as the answer is held", "page.open"},
    {"GET", "/v1/events", control_get_events,
     "what happened, as JSON lines; ?follow=1 goes on, ?since=NUMBER begins behind that one", NULL},
};
/* clang-format on */

const size_t control_route_count = sizeof(control_routes) / sizeof(control_routes[0]);
