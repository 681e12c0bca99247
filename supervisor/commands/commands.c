/*
 * How the words of a command are read.
 *
 * Options of a server may stand anywhere, as --instance and --runtime-dir say which servers are
 * meant; a command's own options stand behind its name. What is neither is refused with the option
 * that it resembles, and so are options that say how a server is to be, by commands that start
 * none. A configuration file and variables may have them: those are for all that people do with
 * servers.
 */
#include "supervisor/commands/commands.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/log.h"
#include "proto/exit_codes.h"
#include "supervisor/base/near.h"
#include "supervisor/base/options.h"
#include "supervisor/commands/internal.h"

/* ---- words ---------------------------------------------------------------------------------- */

/* What was typed, sorted: options of servers for the configuration, and the command's own. */
struct typed {
    const struct command *command;
    char **server_words;
    int server_count;
    struct steer steer;
    bool help, version; /* is asked for */
};

static int refuse_words(const struct command *c, const char *fmt, ...) PRINTF_LIKE(2, 3);

static int refuse_words(const struct command *c, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fprintf(stderr, "cloister %s: ", c->name);
    vfprintf(stderr, fmt, args);
    fprintf(stderr, "\n");
    va_end(args);
    return EXIT_CODE_USAGE;
}

/* The place of a flag in the list of the command, -1: it has none. */
static int find_flag(const struct command *c, struct view name, bool is_letter)
{
    for (int i = 0; i < COMMAND_FLAGS_MAX && c->flags[i].name != NULL; i++) {
        if (is_letter ? name.len == 1 && c->flags[i].letter == name.data[0]
                      : view_is(name, c->flags[i].name)) {
            return i;
        }
    }
    return -1;
}

static int refuse_flag(const struct command *c, const char *word)
{
    struct near_word near;
    const char *name = word + strspn(word, "-");
    near_begin(&near, view_bytes(name, strcspn(name, "=")));
    for (int i = 0; i < COMMAND_FLAGS_MAX && c->flags[i].name != NULL; i++) {
        near_try(&near, c->flags[i].name);
    }
    near_try(&near, "help");
    near_try(&near, "instance");
    near_try(&near, "runtime-dir");
    return refuse_words(c, "unknown option %.64s%s%s%s", word,
                        near.best != NULL ? "; did you mean --" : "",
                        near.best != NULL ? near.best : "", near.best != NULL ? "?" : "");
}

/* Takes switches of one letter that stand together ("-fq"); false: one is unknown. */
static bool take_letters(struct typed *t, const char *letters)
{
    for (; *letters != '\0'; letters++) {
        int at = find_flag(t->command, view_bytes(letters, 1), true);
        if (at < 0 || t->command->flags[at].value_name != NULL) {
            return false;
        }
        t->steer.values[at] = "yes";
    }
    return true;
}

/* Takes an option of one letter with a value, "-l NAME" or "-lNAME"; false: it is none. */
static bool take_letter_value(struct typed *t, int argc, char **argv, int *at, const char *word)
{
    int flag = find_flag(t->command, view_bytes(word + 1, 1), true);
    if (flag < 0 || t->command->flags[flag].value_name == NULL ||
        (word[2] == '\0' && *at == argc)) {
        return false;
    }
    t->steer.values[flag] = word[2] != '\0' ? word + 2 : argv[(*at)++];
    return true;
}

/* Takes the word at *at, and its value behind it. Returns 0, or the status to exit with. */
static int sort_word(struct typed *t, int argc, char **argv, int *at)
{
    char *word = argv[(*at)++];
    if (word[0] != '-' || word[1] == '\0') {
        t->steer.words[t->steer.word_count++] = word;
        return 0;
    }
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
        t->help = true;
        return 0;
    }
    if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0) {
        t->version = true;
        return 0;
    }
    if (word[1] != '-') {
        bool taken = take_letter_value(t, argc, argv, at, word) || take_letters(t, word + 1);
        return taken ? 0 : refuse_flag(t->command, word);
    }
    struct view name = view_bytes(word + 2, strcspn(word + 2, "="));
    char *value = name.data[name.len] == '=' ? word + 2 + name.len + 1 : NULL;
    int flag = find_flag(t->command, name, false);
    const struct option *option = option_find(name);
    if (flag < 0 && option == NULL) {
        return refuse_flag(t->command, word);
    }
    bool wants =
        flag >= 0 ? t->command->flags[flag].value_name != NULL : option->type != OPTION_FLAG;
    if (flag < 0) {
        t->server_words[t->server_count++] = word;
    }
    if (wants && value == NULL) {
        if (*at == argc) {
            return refuse_words(t->command, "expected a value behind %s", word);
        }
        value = argv[(*at)++];
        if (flag < 0) {
            t->server_words[t->server_count++] = value;
        }
    }
    if (flag >= 0) {
        t->steer.values[flag] = value != NULL ? value : "yes";
    }
    return 0;
}

static void take_rest(struct typed *t, int argc, char **argv, int at)
{
    for (; at < argc; at++) {
        t->steer.words[t->steer.word_count++] = argv[at];
    }
}

static int sort_words(struct typed *t, int argc, char **argv)
{
    int status = 0;
    for (int at = 0; at < argc && status == 0;) {
        if (strcmp(argv[at], "--") == 0) { /* what follows are words, whatever they look like */
            take_rest(t, argc, argv, at + 1);
            break;
        }
        status = sort_word(t, argc, argv, &at);
        if (t->command->own_words != 0 && t->steer.word_count >= t->command->own_words) {
            take_rest(t, argc, argv, at);
            break;
        }
    }
    return status;
}

static int check_words(struct typed *t)
{
    const struct command *c = t->command;
    struct steer *s = &t->steer;
    int format = find_flag(c, view_of("format"), false);
    const char *wanted = format >= 0 ? s->values[format] : NULL;
    if (s->word_count < c->least) {
        return refuse_words(c, "expected %s behind it; cloister %s --help says more", c->words,
                            c->name);
    }
    if (s->word_count > c->most) {
        return refuse_words(c, "unexpected argument %.64s", s->words[c->most]);
    }
    if (wanted != NULL && strcmp(wanted, "json") != 0 && strcmp(wanted, "table") != 0) {
        return refuse_words(c, "--format: expected table or json, got \"%.64s\"", wanted);
    }
    s->json = wanted != NULL && strcmp(wanted, "json") == 0;
    const struct option *shape = c->starts_server ? NULL : typed_option(s, typed_shapes_server);
    if (shape != NULL) {
        return refuse_words(c,
                            "--%s says how a server is to be, and this command starts none: of "
                            "servers' options it takes --instance, --runtime-dir, --config and "
                            "--log-level",
                            shape->name);
    }
    return 0;
}

int command_fail(const struct err *err)
{
    CLEANUP_FREE char *text = text_for_terminal(err->text); /* names in it are a sandbox's */
    (void)fflush(stdout);
    fprintf(stderr, "cloister: %s\n", text);
    return EXIT_FAILED;
}

int command_run(const struct command *command, int before, int argc, char **argv)
{
    CLEANUP_FREE char **server_words = alloc_array((size_t)argc + 1, sizeof(char *));
    CLEANUP_FREE char **words = alloc_array((size_t)argc + 1, sizeof(char *));
    struct typed t = {.command = command, .server_words = server_words};
    t.steer.words = words;
    for (; t.server_count < before; t.server_count++) {
        server_words[t.server_count] = argv[t.server_count];
    }
    int status = sort_words(&t, argc - before, argv + before);
    if (status == 0 && (t.help || t.version)) {
        t.help ? command_print_help(command) : command_print_version();
        return 0;
    }
    t.steer.server_words = t.server_words;
    t.steer.server_word_count = t.server_count;
    if (status == 0) {
        status = check_words(&t);
    }
    if (status != 0) {
        return status;
    }
    struct config config;
    struct err err = ERR_INIT;
    int used;
    if (config_load(&config, t.server_count, server_words, &used, &err) < 0) {
        return refuse_words(command, "%s", err.text);
    }
    log_set_level(config.log_level == LOG_INFO ? LOG_WARN : config.log_level);
    t.steer.config = &config;
    status = command->run(&t.steer);
    config_finish(&config);
    return status;
}
