/*
 * The table of commands. A row says all that is told of a command: help.c prints it, and
 * commands_json.c hands it to the manual page and to the completions of shells.
 */
#include <string.h>

#include "supervisor/commands/commands.h"
#include "supervisor/commands/internal.h"

#define FORMAT                                                                                     \
    {                                                                                              \
        "format", '\0', "FORMAT", "a table, or lines of JSON for programs", "table", "table json"  \
    }

/* clang-format off */
const struct command command_rows[] = {
    /* ---- for this host; main.c runs them ---- */
    {"doctor", "", "find out what can isolate sandboxes here, and what is missing", 0, 0, {{0}}, NULL, 0,
     "It takes the options of a server, and tries what a server with them would do. It exits with 0 if sandboxes can "
     "be made.",
     "doctor\ndoctor --backend docker --image python:3.12"},
    {"demo", "", "start a server and show what it does, step by step", 0, 0, {{0}}, NULL, 0,
     "It takes the options of a server, and ends with the configuration that an MCP client needs to start it so, or "
     "to reach it where it serves over HTTP.",
     "demo\ndemo --backend docker"},
    {"token", "NAME\nadd NAME [WORD...]\nlist\nrevoke NAME", "make bearer tokens, and change the file that lists them", 0, 100, {{0}}, NULL, 0,
     "With a name alone the line for the file of --tokens is printed, and the token on stderr. add writes that line "
     "itself, with words such as admin=yes behind it, and prints the token; list shows whom there are tokens for; "
     "revoke removes the lines of a name. Servers that run take a changed file after cloister reload.",
     "token --tokens /etc/cloister/tokens add alice admin=yes\ntoken --tokens /etc/cloister/tokens revoke alice"},
    {"config", "check [FILE]", "read the configuration, and say what is wrong with it", 1, 2, {{0}}, NULL, 0,
     "Without a file those that a server reads by itself.",
     "config check\nconfig check ./cloister.conf"},
    {"help", "[COMMAND]", "print the options, or what a command does", 0, 1, {{0}}, NULL, 0,
     NULL,
     "help exec"},
    /* ---- for running servers ---- */
    {"ps", "", "list sandboxes of all servers of this user", 0, 0,
     {FORMAT, {"quiet", 'q', NULL, "only ids", NULL, NULL}}, command_ps, 0,
     NULL,
     "ps\nps --format json"},
    {"inspect", "NAME...", "show all of sandboxes or executions, as JSON", 1, 100, {{0}}, command_inspect, 0,
     NULL,
     "inspect box"},
    {"logs", "NAME", "print the output of an execution, or of all in a sandbox", 1, 1,
     {FORMAT, {"follow", 'f', NULL, "go on until it has ended, or the sandbox is closed", NULL, NULL}}, command_logs, 0,
     NULL,
     "logs -f box"},
    {"run", "[FILE|-] [ARG...]", "run code in a fresh sandbox; exits as the code does", 0, 100,
     {{"language", 'l', "NAME", "of the code", "by the end of the file's name, or python", NULL},
      {"image", '\0', "IMAGE", "of the sandbox", NULL, NULL},
      {"timeout", '\0', "SECONDS", "deadline of the code", NULL, NULL},
      {"network", '\0', NULL, "the code reaches the network, though not this host's loopback", NULL, NULL}}, command_run_code, 1,
     "The code is read from the file, or from stdin. The sandbox is closed behind it. The exit status is the code's, "
     "or 124 after its deadline, 137 for too much memory, 130 if it was stopped. It runs in a server with a name "
     "that runs; where there is none, or an option such as --backend says how it is to be, one is started for this "
     "code alone and ends with it.",
     "run hello.py\necho 'print(6 * 7)' | cloister run\nrun --timeout 10 build.sh --fast\nrun --backend docker --image python:3.12 hello.py", true},
    {"exec", "NAME COMMAND [ARG...]", "run a program in a sandbox; exits as it does", 2, 100,
     {{"interactive", 'i', NULL, "our stdin is its stdin", NULL, NULL},
      {"tty", 't', NULL, "it has a terminal", NULL, NULL}}, command_exec, 2,
     NULL,
     "exec -it box bash"},
    {"cp", "FROM TO", "copy files and directories into a sandbox, or out of one", 2, 2, {{0}}, command_cp, 0,
     "SANDBOX:PATH is one in a sandbox, - is stdin or stdout. A directory goes into one that is there, as docker cp "
     "has it, and becomes one that is not; DIR/. means what is in it. Links, special files and empty directories are "
     "left out and named, with exit status 1.",
     "cp data.csv box:\ncp box:/workspace/plots ."},
    {"stop", "NAME...", "stop executions, or all that runs in sandboxes", 1, 100, {FORMAT}, command_stop, 0,
     NULL,
     "stop box"},
    {"rm", "NAME...", "close sandboxes", 1, 100, {FORMAT}, command_rm, 0,
     NULL,
     "rm box"},
    {"prune", "", "close sandboxes that have failed", 0, 0,
     {FORMAT, {"all", 'a', NULL, "also those that work, and in which nothing runs", NULL, NULL}}, command_prune, 0,
     NULL,
     "prune -a"},
    {"reload", "", "let servers read tokens and certificates again, and reopen audit logs", 0, 0, {FORMAT}, command_reload, 0,
     NULL,
     "reload --instance main"},
    {"top", "", "show what sandboxes use", 0, 0,
     {FORMAT, {"no-stream", '\0', NULL, "only once, as where stdout is no terminal", NULL, NULL}}, command_top, 0,
     NULL,
     "top"},
    {"events", "", "print what happens on a server", 0, 0,
     {FORMAT, {"since", '\0', "NUMBER", "begin behind that event; 0: with all that are kept", NULL, NULL},
      {"no-stream", '\0', NULL, "only what there is", NULL, NULL}}, command_events, 0,
     NULL,
     "events --since 0"},
    {"ui", "", "show the page of a server, with an address for a browser", 0, 0, {FORMAT}, command_ui, 0,
     "It also shows that of a server on stdio. The page ends with this command.",
     "ui"},
    {"version", "", "print the version of this program and of running servers", 0, 0, {FORMAT}, command_version, 0,
     NULL,
     "version"},
};
/* clang-format on */

const size_t command_count = sizeof(command_rows) / sizeof(command_rows[0]);

const struct command *command_find(const char *name)
{
    for (size_t i = 0; i < command_count; i++) {
        if (strcmp(command_rows[i].name, name) == 0) {
            return &command_rows[i];
        }
    }
    return NULL;
}

const char *command_name(size_t number)
{
    return number < command_count ? command_rows[number].name : NULL;
}

bool command_steers(const struct command *command)
{
    return command->run != NULL;
}

const struct command_flag *command_flag_at(const struct command *c, size_t number)
{
    static const struct command_flag help = {"help", 'h', NULL, "this text", NULL, NULL};
    size_t own = 0;
    while (own < COMMAND_FLAGS_MAX && c->flags[own].name != NULL) {
        own++;
    }
    return number < own ? &c->flags[number] : number == own ? &help : NULL;
}
