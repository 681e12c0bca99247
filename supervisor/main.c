/*
 * The command `cloister`: finds out what is wanted and hands over. Serving is the default, since
 * MCP clients start servers by a bare command.
 */
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/confine.h"
#include "common/err.h"
#include "common/log.h"
#include "proto/exit_codes.h"
#include "proto/limits.h"
#include "supervisor/base/asked.h"
#include "supervisor/base/config.h"
#include "supervisor/base/near.h"
#include "supervisor/base/options.h"
#include "supervisor/base/share.h"
#include "supervisor/cli/config_check.h"
#include "supervisor/cli/demo.h"
#include "supervisor/cli/doctor.h"
#include "supervisor/cli/token.h"
#include "supervisor/commands/commands.h"
#include "supervisor/fleet/state/sweeper.h"
#include "supervisor/front/serve.h"

static void print_help(void)
{
    printf("cloister %s: an MCP server that runs code for language models\nin isolated sandboxes\n"
           "\n"
           "usage:\n"
           "  cloister [OPTIONS]          serve MCP on stdin and stdout (clients start it\n"
           "                              this way), or with --http over HTTP\n"
           "  cloister COMMAND [WORDS]    do one of what is listed below\n"
           "  cloister COMMAND --help     say what it does, with an example\n"
           "  cloister --help             this text\n"
           "  cloister --version          version\n",
           CLOISTER_VERSION);
    commands_print_list();
    printf("\nOptions, with their defaults in brackets:\n");
    options_print_help();
    printf("\n"
           "To use it from an MCP client, put this into the client's configuration:\n"
           "  {\"mcpServers\": {\"cloister\": {\"command\": \"cloister\", \"args\": []}}}\n");
}

static int usage_error(const char *fmt, ...) PRINTF_LIKE(1, 2);

static int usage_error(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fprintf(stderr, "cloister: ");
    vfprintf(stderr, fmt, args);
    fprintf(stderr, "\n");
    va_end(args);
    return EXIT_CODE_USAGE;
}

/* Whether one of the words is it. */
static bool asked_for(int count, char **words, const char *name, const char *letter)
{
    for (int i = 0; i < count; i++) {
        if (strcmp(words[i], name) == 0 || strcmp(words[i], letter) == 0) {
            return true;
        }
    }
    return false;
}

/* Reads the options and begins to log as they say. Returns 0, or the status to exit with. */
static int take_options(struct config *config, int argc, char **argv, int *ret_used)
{
    struct err err = ERR_INIT;
    if (config_load(config, argc, argv, ret_used, &err) < 0) {
        return usage_error("%s", err.text);
    }
    if (serve_check(config, &err) < 0) {
        config_finish(config);
        return usage_error("%s", err.text);
    }
    log_set_level(config->log_level);
    asked_warn_variables(environ);
    shares_warn(config->share);
    return 0;
}

/* A person who has typed the bare command sees nothing else, and would wait as well. */
static void tell_person(const struct config *config)
{
    if (isatty(STDIN_FILENO) && (config->http[0] == '\0' || config->stdio)) {
        fprintf(stderr, "cloister: waiting for an MCP client's messages here, one JSON object a "
                        "line; Ctrl-D leaves.\n"
                        "Clients start this command by themselves: what to write into their "
                        "configuration is at the end of\n"
                        "`cloister --help`. `cloister demo` shows a server at work, `cloister "
                        "doctor` what works on this host.\n");
    }
}

static int serve(struct config *config)
{
    char self[LIMIT_PATH];
    size_t size = sizeof(self);
    struct err err = ERR_INIT;
    if (asked_check_http(config, &err) < 0) {
        config_finish(config);
        return usage_error("%s", err.text);
    }
    tell_person(config);
    confine_process(CONFINE_SUPERVISOR);
    if (uv_exepath(self, &size) == 0) { /* else the next server sweeps after this one */
        config->sweeper = self;
    }
    int status = serve_run(config);
    config_finish(config);
    return status;
}

static int reach(void *arg, pid_t server, char **ret_url, bool *ret_token, struct err *err)
{
    return command_reach(arg, server, ret_url, ret_token, err);
}

/* The word with the path of a file or directory in it made absolute, as clients start their servers
 * somewhere else; `option` is the word before. Owned by the caller. */
static char *absolute_word(const char *option, const char *word)
{
    const char *equals = strncmp(word, "--", 2) == 0 ? strchr(word, '=') : NULL;
    struct view name = equals != NULL ? view_bytes(word + 2, (size_t)(equals - word) - 2)
                                      : view_of(option + strspn(option, "-"));
    const char *path = equals != NULL ? equals + 1 : word;
    const struct option *o = option_find(name);
    char whole[PATH_MAX];
    bool is_path = o != NULL && o->value_name != NULL && path[0] != '/' &&
                   (strcmp(o->value_name, "FILE") == 0 || strcmp(o->value_name, "DIR") == 0);
    if (!is_path || realpath(path, whole) == NULL) {
        return alloc_strdup(word);
    }
    return alloc_printf("%.*s%s", (int)(path - word), word, whole);
}

static int demo(struct config *config, int argc, char **argv)
{
    char self[LIMIT_PATH];
    size_t size = sizeof(self);
    int rc = uv_exepath(self, &size);
    if (rc < 0) {
        fprintf(stderr, "cloister: cannot find this program: %s\n", uv_strerror(rc));
        return EXIT_CODE_SETUP;
    }
    CLEANUP_FREE char **words = alloc_array((size_t)argc + 1, sizeof(*words));
    for (int i = 0; i < argc; i++) {
        words[i] = absolute_word(i > 0 ? argv[i - 1] : "", argv[i]);
    }
    const struct demo_how how = {
        .self = self,
        .argc = argc,
        .argv = words,
        .environment = environ,
        .reach = config->http[0] != '\0' && !config->stdio ? reach : NULL,
        .arg = config,
    };
    int status = demo_run(&how);
    for (int i = 0; i < argc; i++) {
        free(words[i]);
    }
    return status;
}

static int unknown_command(const char *command)
{
    struct near_word near;
    near_begin(&near, view_of(command));
    for (size_t i = 0; command_name(i) != NULL; i++) {
        near_try(&near, command_name(i));
    }
    return usage_error("unknown command %.64s: %s%s%scloister --help lists them; none serves",
                       command, near.best != NULL ? "did you mean " : "",
                       near.best != NULL ? near.best : "", near.best != NULL ? "? " : "");
}

/* `cloister help COMMAND`, or without one. */
static int help(int count, char **words)
{
    const struct command *command = count > 0 ? command_find(words[0]) : NULL;
    if (count > 1) {
        return usage_error("help: unexpected argument %.64s", words[1]);
    }
    if (count > 0 && command == NULL) {
        return unknown_command(words[0]);
    }
    command != NULL ? command_print_help(command) : print_help();
    return EXIT_CODE_OK;
}

/* Says what --help or --version asks for; the first of them wins. `before` words are options, then
 * comes the command, if there is one. False: nothing is asked for here. */
static bool tell_asked(int before, int argc, char **argv)
{
    const struct command *command = before < argc ? command_find(argv[before]) : NULL;
    bool is_local = command != NULL && !command_steers(command);
    int looked_at = is_local ? argc : before; /* commands for servers look at their own words */
    if (asked_for(looked_at, argv, "--help", "-h")) {
        command != NULL ? command_print_help(command) : print_help();
        return true;
    }
    if (asked_for(looked_at, argv, "--version", "-V")) {
        command_print_version();
        return true;
    }
    return false;
}

/* argv[at] is the command; options may stand on either side of it. */
static int run_command(int argc, char **argv, int at)
{
    const char *command = argv[at];
    bool is_known = command_find(command) != NULL;
    if (!is_known && asked_for(argc - at, argv + at, "--help", "-h")) {
        return unknown_command(command);
    }
    CLEANUP_FREE char **words = alloc_array((size_t)argc, sizeof(char *));
    int count = 0;
    for (int i = 1; i < argc; i++) {
        if (i != at) {
            words[count++] = argv[i];
        }
    }
    struct config config;
    int used;
    int status = take_options(&config, count, words, &used);
    if (status != 0) {
        return status;
    }
    if (!is_known) {
        status = unknown_command(command);
    } else if (strcmp(command, "token") == 0) {
        status = token_command(&config, count - used, words + used);
    } else if (strcmp(command, "config") == 0) {
        status = config_command(&config, count - used, words + used);
    } else if (used < count) {
        status = usage_error("unexpected argument %.64s", words[used]);
    } else if (strcmp(command, "doctor") == 0) {
        confine_process(CONFINE_SUPERVISOR); /* as the server that it speaks for */
        status = doctor_run(&config);
    } else {
        status = demo(&config, count, words);
    }
    config_finish(&config);
    return status;
}

int main(int argc, char **argv)
{
    confine_memory();
    if (argc > 1 && strcmp(argv[1], SWEEPER_ARGUMENT) == 0) {
        return sweeper_run(argc - 2, argv + 2);
    }
    log_set_component("cloister");
    struct config config;
    int used = config_options_end(argc - 1, argv + 1);
    if (tell_asked(used, argc - 1, argv + 1)) {
        return EXIT_CODE_OK;
    }
    const struct command *command = used < argc - 1 ? command_find(argv[1 + used]) : NULL;
    if (command != NULL && command_steers(command)) {
        memmove(&argv[1 + used], &argv[2 + used], (size_t)(argc - 1 - used) * sizeof(*argv));
        return command_run(command, used, argc - 2, argv + 1);
    }
    if (command != NULL && strcmp(argv[1 + used], "help") == 0) { /* whatever is configured */
        return help(argc - 2 - used, argv + 2 + used);
    }
    if (used < argc - 1) {
        return run_command(argc, argv, 1 + used);
    }
    int status = take_options(&config, argc - 1, argv + 1, &used);
    return status != 0 ? status : serve(&config);
}
