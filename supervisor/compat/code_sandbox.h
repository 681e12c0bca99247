/*
 * The tools of the profile code-sandbox, and what their files share.
 */
#ifndef CLOISTER_SUPERVISOR_COMPAT_CODE_SANDBOX_H
#define CLOISTER_SUPERVISOR_COMPAT_CODE_SANDBOX_H

#include <cjson/cJSON.h>
#include <stdbool.h>

#include "supervisor/compat/runs.h"
#include "supervisor/tools/tool.h"

/* Whether INTERPRETER_TYPE is "firecracker"; any other value means "e2b". It decides the form of
 * logs. */
bool code_sandbox_is_firecracker(void);

/* Finds the sandbox that the argument session_id names, and stores its id in call->sandbox_id.
 * False: there is none, and the call is answered. */
bool code_sandbox_find(struct tool_call *call);

/* Returns the path in our sandbox of a file that a client names. Borrowed from `path`. */
const char *code_sandbox_inside(const char *path);

/* The name of the sandbox that holds telnet connections; it belongs to no session. */
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
