/*
 * Reads the options of options.c from defaults, files, environment and command line. Each value is
 * checked when it is read, and an error names its source.
 */
#include "supervisor/base/config.h"

#include <ctype.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/backends.h"
#include "common/cleanup.h"
#include "common/fd.h"
#include "common/place.h"
#include "common/room.h"
#include "common/str.h"
#include "supervisor/base/ceilings.h"
#include "supervisor/base/config_file.h"
#include "supervisor/base/image.h"
#include "supervisor/base/interpreter_type.h"
#include "supervisor/base/local/file.h"
#include "supervisor/base/near.h"
#include "supervisor/base/options.h"
#include "supervisor/base/pool_option.h"
#include "supervisor/base/share.h"
#include "supervisor/base/sources.h"

#define HTTP_INSTANCE "main"

/* ---- values --------------------------------------------------------------------------------- */

/* Whether the list contains the word. */
static bool has_word(const char *list, char separator, const char *word)
{
    const char ends[] = {separator, '\0'};
    size_t word_len = strlen(word);
    while (*list != '\0') {
        size_t len = strcspn(list, ends);
        if (len == word_len && strncmp(list, word, len) == 0) {
            return true;
        }
        list += len + (list[len] == separator ? 1 : 0);
    }
    return false;
}

static bool is_choice(const char *choices, const char *value)
{
    return has_word(choices, ' ', value);
}

bool config_lists(const char *list, const char *word)
{
    return has_word(list, ',', word);
}

bool config_is_python(const struct config *config)
{
    return config_lists(config->compat, "python-env") ||
           config_lists(config->compat, "python-env@later") ||
           config_lists(config->compat, "python-sandbox");
}

/* Parses digits with at most three decimals, as thousandths. */
static int read_milli(const char *text, uint64_t min, uint64_t max, uint64_t *ret, struct err *err)
{
    uint64_t value = 0;
    int decimals = -1;
    bool good = isdigit((unsigned char)text[0]) && strlen(text) <= 12;
    for (const char *p = text; good && *p != '\0'; p++) {
        if (*p == '.' && decimals < 0) {
            decimals = 0;
        } else if (isdigit((unsigned char)*p) && decimals < 3) {
            value = value * 10 + (uint64_t)(*p - '0');
            decimals += decimals >= 0;
        } else {
            good = false;
        }
    }
    for (int i = decimals < 0 ? 0 : decimals; i < 3; i++) {
        value *= 10;
    }
    if (!good || value < min || value > max) {
        return err_set(err, ERR_CONFIG, "expected a number between %g and %g, got \"%.64s\"",
                       (double)min / 1000.0, (double)max / 1000.0, text);
    }
    *ret = value;
    return 0;
}

static int read_flag(const char *text, bool *ret, struct err *err)
{
    if (is_choice("1 yes true on", text)) {
        *ret = true;
    } else if (is_choice("0 no false off", text)) {
        *ret = false;
    } else {
        return err_set(err, ERR_CONFIG, "expected yes or no, got \"%.64s\"", text);
    }
    return 0;
}

static void set_text(char **field, const char *value)
{
    free(*field);
    *field = alloc_strdup(value);
}

static void add_text(char **field, const char *value)
{
    bool more = *field != NULL && (*field)[0] != '\0';
    char *longer = alloc_printf("%s%s%s", more ? *field : "", more ? "," : "", value);
    free(*field);
    *field = longer;
}

/* Adds words that are not in the list yet. */
static int add_choices(char **field, const char *choices, const char *value, struct err *err)
{
    while (*value != '\0') {
        size_t len = strcspn(value, ",");
        CLEANUP_FREE char *word = alloc_viewdup((struct view){value, len});
        if (!is_choice(choices, word)) {
            return err_set(err, ERR_CONFIG, "expected one of: %s; got \"%.64s\"", choices, word);
        }
        if (!config_lists(*field, word)) {
            add_text(field, word);
        }
        value += len + (value[len] == ',' ? 1 : 0);
    }
    return 0;
}

static int set_option(struct config *c, const struct option *o, const char *value, struct err *err)
{
    void *field = (char *)c + o->offset;
    switch (o->type) {
    case OPTION_TEXT:
        set_text(field, value);
        return 0;
    case OPTION_CHOICE:
        if (!is_choice(o->choices, value)) {
            return err_set(err, ERR_CONFIG, "expected one of: %s; got \"%.64s\"", o->choices,
                           value);
        }
        set_text(field, value);
        return 0;
    case OPTION_PATTERNS:
        if (image_check_patterns(value, err) < 0) {
            return -ERR_CONFIG;
        }
        set_text(field, value);
        return 0;
    case OPTION_TEXTS:
        add_text(field, value);
        return 0;
    case OPTION_LIST:
        return add_choices(field, o->choices, value, err);
    case OPTION_NUMBER:
        return str_to_u64(value, o->min, o->max, field, err);
    case OPTION_MILLI:
        return read_milli(value, o->min, o->max, field, err);
    case OPTION_FLAG:
        return read_flag(value, field, err);
    case OPTION_LEVEL:
        if (log_level_parse(value, field)) {
            return 0;
        }
        break;
    }
    return err_set(err, ERR_CONFIG, "expected error, warn, info or debug, got \"%.64s\"", value);
}

/* ---- sources -------------------------------------------------------------------------------- */

/* A list that a source gives replaces that of the source before it. */
static void clear_list(struct config *c, const struct option *o)
{
    if (o->type == OPTION_LIST || o->type == OPTION_TEXTS) {
        set_text((char **)(void *)((char *)c + o->offset), "");
    }
}

static int take_from_file(void *arg, const struct option *o, const char *value, bool begins,
                          struct err *err)
{
    struct config *c = arg;
    if (begins) {
        clear_list(c, o);
    }
    return value != NULL ? set_option(c, o, value, err) : 0;
}

/* What --config says, before the other options are read; NULL: nothing. */
static const char *find_named_file(int argc, char **argv)
{
    static const char flag[] = "--" CONFIG_FILE_OPTION;
    const char *found = NULL;
    size_t len = strlen(flag);
    int end = config_options_end(argc, argv);
    for (int i = 0; i < end; i++) {
        if (strcmp(argv[i], flag) == 0 && i + 1 < end) {
            found = argv[i + 1];
        } else if (strncmp(argv[i], flag, len) == 0 && argv[i][len] == '=') {
            found = argv[i] + len + 1;
        }
    }
    return found;
}

static int read_files(struct config *c, int argc, char **argv, struct err *err)
{
    char *paths[CONFIG_FILES_MAX];
    const char *named = find_named_file(argc, argv);
    CLEANUP_FREE char *variable = option_env_name(option_find(view_of(CONFIG_FILE_OPTION)));
    named = named != NULL ? named : getenv(variable);
    size_t count = config_files(named != NULL ? named : "", paths);
    int rc = 0;
    for (size_t i = 0; i < count; i++) {
        rc = rc == 0 ? config_file_read(paths[i], take_from_file, c, err) : rc;
        free(paths[i]);
    }
    return rc;
}

static int read_env(struct config *c, const struct option *o, const char *name, struct err *err)
{
    const char *value = getenv(name);
    if (value == NULL || value[0] == '\0') {
        return 0;
    }
    clear_list(c, o);
    return set_option(c, o, value, err) < 0 ? err_wrap(err, "%s", name) : 0;
}

/* INTERPRETER_TYPE is checked later, when it is known which profiles are on. */
static int read_environment(struct config *c, struct err *ret_type, struct err *err)
{
    /* Users of similar servers know the choice of backend by this name. It may be set for such a
     * server, to a value that we do not know, so our own name takes precedence. */
    const char *own = getenv("CLOISTER_BACKEND");
    if (own == NULL || own[0] == '\0') {
        err_ignore(read_env(c, option_find(view_of("backend")), INTERPRETER_TYPE, ret_type));
    }
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < option_count; i++) {
        CLEANUP_FREE char *name = option_env_name(&options[i]);
        rc = read_env(c, &options[i], name, err);
    }
    return rc;
}

/* The address of servers behind the python profiles (APP_HOST, APP_PORT). We listen there if
 * neither --http nor --stdio is given. */
static void take_foreign_address(struct config *c)
{
    const char *host = getenv("APP_HOST"), *port = getenv("APP_PORT");
    bool asked = (host != NULL && host[0] != '\0') || (port != NULL && port[0] != '\0');
    if (asked && config_is_python(c) && c->http[0] == '\0' && !c->stdio) {
        bool six = host != NULL && strchr(host, ':') != NULL && host[0] != '[';
        free(c->http);
        c->http = alloc_printf("%s%s%s:%s", six ? "[" : "",
                               host != NULL && host[0] != '\0' ? host : "127.0.0.1", six ? "]" : "",
                               port != NULL && port[0] != '\0' ? port : "8000");
    }
}

/* Sandboxes of python-env live for an hour without a call, as that server says of its own, unless
 * the operator gives another time. */
static int choose_ttl(struct config *c, struct err *err)
{
    const struct option *o = option_find(view_of("ttl-seconds"));
    if (c->ttl_s != 0) {
        return 0;
    }
    return set_option(c, o, config_lists(c->compat, "python-env") ? "3600" : o->value, err);
}

/* The first value of the command line replaces a list of the environment; further ones are added.
 * `given` has a flag for each option. */
static void begin_list(struct config *c, const struct option *o, bool *given)
{
    bool *known = &given[o - options];
    if (!*known) {
        clear_list(c, o);
    }
    *known = true;
}

/* Reads one option at argv[*at] and its value; moves *at past them. */
static int read_argument(struct config *c, int argc, char **argv, int *at, bool *given,
                         struct err *err)
{
    const char *word = argv[(*at)++];
    const char *equals = strchr(word, '=');
    size_t len = equals != NULL ? (size_t)(equals - word) : strlen(word);
    const struct option *o =
        strncmp(word, "--", 2) == 0 ? option_find(view_bytes(word + 2, len - 2)) : NULL;
    if (o == NULL) {
        struct near_word near;
        near_begin(&near, view_bytes(word + strspn(word, "-"), len - strspn(word, "-")));
        for (size_t i = 0; i < option_count; i++) {
            near_try(&near, options[i].name);
        }
        return err_set(err, ERR_CONFIG, "unknown option %.64s; %s%s%s--help lists those there are",
                       word, near.best != NULL ? "did you mean --" : "",
                       near.best != NULL ? near.best : "", near.best != NULL ? "? " : "");
    }
    const char *value = equals != NULL ? equals + 1 : "yes";
    if (equals == NULL && o->type != OPTION_FLAG) {
        if (*at >= argc) {
            return err_set(err, ERR_CONFIG, "--%s: expected a value behind it (%s)", o->name,
                           o->value_name);
        }
        value = argv[(*at)++];
    }
    begin_list(c, o, given);
    return set_option(c, o, value, err) < 0 ? err_wrap(err, "--%s", o->name) : 0;
}

/* Whether the address says that the engine is reached by a network. */
static bool is_reached_by_network(const char *engine)
{
    return strstr(engine, "://") != NULL && strncmp(engine, "unix://", strlen("unix://")) != 0;
}

static int check_together(const struct config *c, struct err *err)
{
    if (c->timeout_s > c->max_timeout_s) {
        return err_set(err, ERR_CONFIG,
                       "--timeout-seconds (%" PRIu64 ") is more than "
                       "--max-timeout-seconds (%" PRIu64 ")",
                       c->timeout_s, c->max_timeout_s);
    }
    if (c->disk_mb << 20 > room_disk_max(c->memory_mb << 20)) {
        return err_set(err, ERR_CONFIG,
                       "--disk-mb (%" PRIu64
                       ") leaves no room for programs in --memory-mb (%" PRIu64
                       "), as files are kept in memory: give at most --disk-mb %" PRIu64
                       ", or at least --memory-mb %" PRIu64,
                       c->disk_mb, c->memory_mb, room_disk_max(c->memory_mb << 20) >> 20,
                       room_memory_min(c->disk_mb << 20) >> 20);
    }
    if (c->front_lease_s > 0 && c->instance[0] == '\0' && c->http[0] == '\0') {
        return err_set(err, ERR_CONFIG,
                       "--front-lease-seconds: the sandboxes of a server without a name end with "
                       "it; give it one with --instance, or leave the option out");
    }
    if (pool_option_check(c, err) < 0) {
        return err_wrap(err, "--pool");
    }
    if (pool_option_check_modules(c, err) < 0) {
        return err_wrap(err, "--preload");
    }
    struct view dir;
    bool writable = false;
    for (const char *dirs = c->local_files; local_dirs_next(&dirs, &dir, &writable);) {
        if (dir.len == 0 || dir.data[0] != '/' || (writable && dir.len == 1)) {
            return err_set(
                err, ERR_CONFIG,
                "--local-files: expected absolute paths of directories, separated by "
                "commas, each with :rw behind it if files may be saved there (not /), got "
                "\"%.200s\"",
                c->local_files);
        }
    }
    if (c->share[0] != '\0' && is_reached_by_network(c->engine)) {
        return err_set(err, ERR_CONFIG,
                       "--share: the engine at %.200s may be on another host, which does not have "
                       "the directories of this one; leave --share out, or use an engine of this "
                       "host by its socket",
                       c->engine);
    }
    int rc = sources_check(c, err);
    if (rc < 0) {
        return rc;
    }
    const struct place engine = {.kind = PLACE_NAMED, .address = c->engine};
    if (c->engine[0] != '\0' && place_check(&engine, err) < 0) {
        err->code = ERR_CONFIG;
        return err_wrap(err, "--engine");
    }
    if (config_names_references(c) && c->image[0] != '\0' &&
        image_check_reference(c->image, err) < 0) {
        err->code = ERR_CONFIG;
        return err_wrap(err, "--image on %s", config_backend(c)->name);
    }
    return 0;
}

uint64_t config_disk_mb(const struct config *c, uint64_t memory_mb)
{
    uint64_t fitting = room_disk_default(memory_mb << 20) >> 20;
    bool fits = c->disk_mb != 0 && (memory_mb >= c->memory_mb || c->disk_mb <= fitting);
    uint64_t disk_mb = fits ? c->disk_mb : fitting;
    return disk_mb < c->max_disk_mb ? disk_mb : c->max_disk_mb;
}

uint64_t config_packages_bytes(const struct config *c)
{
    return c->packages && c->build_packages ? c->packages_mb << 20 : 0;
}

int config_options_end(int argc, char **argv)
{
    int at = 0;
    while (at < argc && argv[at][0] == '-' && strcmp(argv[at], "--") != 0) {
        const char *word = argv[at++];
        bool has_value = strchr(word, '=') != NULL;
        const struct option *o =
            strncmp(word, "--", 2) == 0 ? option_find(view_of(word + 2)) : NULL;
        if (o != NULL && o->type != OPTION_FLAG && !has_value && at < argc) {
            at++;
        }
    }
    return at;
}

/* Whether one of our own names says which backend it is. */
static bool is_backend_given(const bool *given)
{
    const char *own = getenv("CLOISTER_BACKEND");
    return given[option_find(view_of("backend")) - options] || (own != NULL && own[0] != '\0');
}

int config_load(struct config *c, int argc, char **argv, int *ret_used, struct err *err)
{
    memset(c, 0, sizeof(*c));
    struct err type = ERR_INIT;
    CLEANUP_FREE bool *given = alloc_array(option_count, sizeof(bool));
    int rc = 0;
    int at = 0;
    for (size_t i = 0; rc == 0 && i < option_count; i++) {
        if (options[i].type == OPTION_LIST) {
            set_text((char **)(void *)((char *)c + options[i].offset), "");
        }
        rc = set_option(c, &options[i], options[i].value, err);
    }
    if (rc == 0) {
        c->ttl_s = 0; /* not given, as no value of the option is 0 */
        rc = read_files(c, argc, argv, err);
    }
    if (rc == 0) {
        rc = read_environment(c, &type, err);
    }
    while (rc == 0 && at < argc && argv[at][0] == '-' && strcmp(argv[at], "--") != 0) {
        rc = read_argument(c, argc, argv, &at, given, err);
    }
    if (rc == 0 && type.code != 0 && !interpreter_type_is_foreign(c)) {
        rc = err_set(err, ERR_CONFIG, "%s; with --compat code-sandbox also: e2b firecracker",
                     type.text);
    }
    if (rc == 0) {
        rc = interpreter_type_settle(c, is_backend_given(given), err);
    }
    if (rc == 0) {
        rc = choose_ttl(c, err);
    }
    if (rc == 0) {
        rc = config_check_taken(c, err);
    }
    if (rc == 0) {
        rc = check_together(c, err);
    }
    if (rc == 0) {
        const struct ceilings_machine machine = ceilings_machine();
        rc = ceilings_settle(c, &machine, err);
    }
    if (rc == 0 && shares_settle(&c->share, err) < 0) {
        rc = err_wrap(err, "--share");
    }
    if (rc == 0 && config_backend(c) != NULL && !backend_row_has_packages(config_backend(c))) {
        c->packages = false; /* so nobody is offered any */
    }
    if (rc == 0) {
        take_foreign_address(c);
    }
    if (rc == 0 && c->http[0] != '\0' && c->instance[0] == '\0') {
        /* clients outlive the server, and expect their sandboxes from the next one */
        set_text(&c->instance, HTTP_INSTANCE);
    }
    if (rc < 0) {
        config_finish(c);
        return rc;
    }
    *ret_used = at;
    return 0;
}

void config_finish(struct config *c)
{
    for (size_t i = 0; i < option_count; i++) {
        if (option_is_text(&options[i])) {
            char **text = (char **)(void *)((char *)c + options[i].offset);
            free(*text);
            *text = NULL;
        }
    }
}
