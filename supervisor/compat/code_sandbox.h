/*
 * The tools of the profile code-sandbox, and what they have in common.
 */
#ifndef CLOISTER_SUPERVISOR_COMPAT_CODE_SANDBOX_H
#define CLOISTER_SUPERVISOR_COMPAT_CODE_SANDBOX_H

#include <cjson/cJSON.h>
#include <stdbool.h>

#include "supervisor/compat/runs.h"
#include "supervisor/tools/tool.h"

/* As INTERPRETER_TYPE says, which for that server names the backend and so the shape of logs:
 * "firecracker", or else "e2b". */
bool code_sandbox_is_firecracker(void);

/* Finds the sandbox of `session_id` among the arguments and puts it into call->sandbox_id; false:
 * there is none, and the call is answered. */
bool code_sandbox_find(struct tool_call *call);

/* The path by which we know a file that clients name: borrowed from it. */
const char *code_sandbox_inside(const char *path);

/* The name of the sandbox that holds telnet connections, which is nobody's session. */
#define CODE_SANDBOX_TELNET "telnet-connections"

extern const struct tool code_sandbox_create, code_sandbox_close, code_sandbox_status;
extern const struct tool code_sandbox_execute, code_sandbox_install, code_sandbox_run_close;
extern const struct tool code_sandbox_list_files, code_sandbox_read_file;
extern const struct tool code_sandbox_write_file, code_sandbox_upload_file;
extern const struct tool code_sandbox_line_chart, code_sandbox_bar_chart;
extern const struct tool code_sandbox_scatter_plot, code_sandbox_interactive_chart;
extern const struct tool code_sandbox_heatmap;
extern const struct tool code_sandbox_connect, code_sandbox_send_command;
extern const struct tool code_sandbox_disconnect, code_sandbox_list_connections;

#endif
