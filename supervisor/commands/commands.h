/*
 * The commands that look at running servers and steer them: `cloister ps`, `cloister logs -f` and
 * so on. Each is a client of the control API (contrib/docs/control.md), so it knows nothing that
 * any other client could not know. Their table has the commands for this host too, such as
 * `cloister doctor`, as far as help for them goes.
 *
 * Thread: the main thread of a process that does not serve; all of it may block, and prints.
 */
#ifndef CLOISTER_SUPERVISOR_COMMANDS_COMMANDS_H
#define CLOISTER_SUPERVISOR_COMMANDS_COMMANDS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "common/err.h"

struct command;
struct config;

/* NULL if there is none of this name. */
const struct command *command_find(const char *name);

/* Whether it is for running servers, and command_run() runs it; the others are for this host. */
bool command_steers(const struct command *command);

/* Runs the command. `argv` has the words before and behind its name: its own and options of
 * servers, of which --instance and --runtime-dir say which servers are meant. Returns the exit
 * status. */
int command_run(const struct command *command, int before, int argc, char **argv);

/* The names of all, for hints; NULL behind the last. */
const char *command_name(size_t number);

/* Prints its --help. */
void command_print_help(const struct command *command);

/* Prints the list of all for --help. */
void commands_print_list(void);

/* Finds the server of this pid, and asks where it listens for MCP over HTTP whether it answers.
 * *ret_url is that address (owned by the caller); *ret_token: it wants a token first. */
int command_reach(const struct config *config, pid_t pid, char **ret_url, bool *ret_token,
                  struct err *err) WARN_UNUSED;

/* Prints what --version does. */
void command_print_version(void);

#endif
