/*
 * The option table. A row is all there is to an option: its flag "--memory-mb", its environment
 * variable CLOISTER_MEMORY_MB, its default, its bounds, its line in --help. Values are checked when
 * they are read, and an error names where the value came from.
 */
#include "supervisor/config.h"

#include <ctype.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/str.h"
#include "supervisor/image.h"

enum option_type {
    OPTION_TEXT,
    OPTION_CHOICE,   /* one of `choices` */
    OPTION_PATTERNS, /* of image references */
    OPTION_NUMBER,
    OPTION_MILLI, /* "1.5" as 1500 */
    OPTION_FLAG,  /* no value needed on the command line */
    OPTION_LEVEL,
};

struct option {
    const char *name; /* without the dashes */
    enum option_type type;
    size_t offset;
    const char *value; /* default, as it would be typed */
    uint64_t min, max; /* numbers, in the unit of the field */
    const char *placeholder;
    const char *help;
    const char *choices; /* "a b c" */
};

#define FIELD(name) offsetof(struct config, name)

/* clang-format off */
static const struct option options[] = {
    {"backend", OPTION_CHOICE, FIELD(backend), "auto", 0, 0, "NAME",
     "what isolates sandboxes: docker (a container engine), oci (runc, crun, ... on this host), auto "
     "(docker if an engine answers, else oci) or fake (nothing at all, for tests)",
     "auto docker oci fake"},
    {"engine", OPTION_TEXT, FIELD(engine), "", 0, 0, "ADDRESS",
     "docker: where the engine is, unix:///path or tcp://host:port; default: looked for as the docker "
     "command does (DOCKER_HOST, context, usual sockets)", NULL},
    {"runtime", OPTION_TEXT, FIELD(runtime), "", 0, 0, "NAME",
     "OCI runtime by name or path; docker: the engine's name for it (runsc, kata, ...); default: the first "
     "that works, or the engine's own; with auto it means oci", NULL},
    {"image", OPTION_TEXT, FIELD(image), "", 0, 0, "IMAGE",
     "root file system of sandboxes; docker: an image reference, default " IMAGE_DOCKER_DEFAULT "; oci: a "
     "directory, default this host's /usr; with auto a path (/dir or ./dir) means oci, anything else docker",
     NULL},
    {"pull", OPTION_CHOICE, FIELD(pull), "missing", 0, 0, "WHEN",
     "docker: whether the engine fetches an image that it does not have: missing or never",
     "missing never"},
    {"allow-images", OPTION_PATTERNS, FIELD(allow_images), "", 0, 0, "PATTERNS",
     "docker: image references that clients may choose, separated by commas, * for any characters but /, "
     "NAME/* for all below NAME; default: any", NULL},
    {"image-dir", OPTION_TEXT, FIELD(image_dir), "", 0, 0, "DIR",
     "oci: directory of root directories, which clients may choose from by name; default: no choice; with "
     "auto it means oci", NULL},
    {"memory-mb", OPTION_NUMBER, FIELD(memory_mb), "512", 16, 1048576, "MIB",
     "memory of a sandbox", NULL},
    {"cpus", OPTION_MILLI, FIELD(cpu_milli), "1", 10, 1024000, "N",
     "CPU cores of a sandbox, may be a fraction", NULL},
    {"pids", OPTION_NUMBER, FIELD(pids), "256", 8, 1000000, "N",
     "processes and threads of a sandbox", NULL},
    {"disk-mb", OPTION_NUMBER, FIELD(disk_mb), "256", 1, 1048576, "MIB",
     "space for files of a sandbox", NULL},
    {"files", OPTION_NUMBER, FIELD(files), "1024", 128, 1048576, "N",
     "open files of a process in a sandbox", NULL},
    {"timeout-seconds", OPTION_NUMBER, FIELD(timeout_s), "60", 1, 86400, "S",
     "deadline of an execution that names none", NULL},
    {"max-timeout-seconds", OPTION_NUMBER, FIELD(max_timeout_s), "3600", 1, 86400, "S",
     "longest deadline that a call may ask for", NULL},
    {"sync-budget-seconds", OPTION_NUMBER, FIELD(sync_budget_s), "45", 1, 3600, "S",
     "a call waits so long for its code to end; then it answers that the code is running", NULL},
    {"ttl-seconds", OPTION_NUMBER, FIELD(ttl_s), "1800", 1, 2592000, "S",
     "a sandbox closes after this long without a call", NULL},
    {"max-lifetime-seconds", OPTION_NUMBER, FIELD(max_lifetime_s), "86400", 1, 31536000, "S",
     "a sandbox closes this long after its creation, whatever it is doing", NULL},
    {"max-sandboxes", OPTION_NUMBER, FIELD(max_sandboxes), "32", 1, 4096, "N",
     "most sandboxes at a time", NULL},
    {"strict", OPTION_FLAG, FIELD(strict), "no", 0, 0, NULL,
     "fail rather than go without a limit that this host cannot enforce", NULL},
    {"runtime-dir", OPTION_TEXT, FIELD(runtime_dir), "", 0, 0, "DIR",
     "for sockets and records; default: $XDG_RUNTIME_DIR/cloister or /run/cloister", NULL},
    {"instance", OPTION_TEXT, FIELD(instance), "", 0, 0, "NAME",
     "name of this server's sandboxes: the next server with it takes them over; default: they end with this "
     "one", NULL},
    {"grace-seconds", OPTION_NUMBER, FIELD(grace_s), "10", 1, 3600, "S",
     "a sandbox lives on for this long without a server", NULL},
    {"worker-path", OPTION_TEXT, FIELD(worker_path), "", 0, 0, "FILE",
     "the cloister-worker program; default: found beside this one", NULL},
    {"agent-path", OPTION_TEXT, FIELD(agent_path), "", 0, 0, "FILE",
     "the cloister-agent program; default: found beside this one", NULL},
    {"log-level", OPTION_LEVEL, FIELD(log_level), "info", 0, 0, "LEVEL",
     "what goes to stderr: error, warn, info or debug", NULL},
};
/* clang-format on */

#define HELP_INDENT  29
#define HELP_WIDTH   (size_t)70
#define OPTION_COUNT (sizeof(options) / sizeof(options[0]))

/* ---- values --------------------------------------------------------------------------------- */

static bool is_choice(const char *choices, const char *value)
{
    size_t len = strlen(value);
    while (*choices != '\0') {
        size_t n = strcspn(choices, " ");
        if (n == len && strncmp(choices, value, n) == 0) {
            return true;
        }
        choices += n + (choices[n] == ' ' ? 1 : 0);
    }
    return false;
}

/* Digits with at most three behind a point, as thousandths. */
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

static bool is_text(const struct option *o)
{
    return o->type == OPTION_TEXT || o->type == OPTION_CHOICE || o->type == OPTION_PATTERNS;
}

static void set_text(char **field, const char *value)
{
    free(*field);
    *field = alloc_strdup(value);
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

static char *env_name(const struct option *o)
{
    char *name = alloc_printf("CLOISTER_%s", o->name);
    for (char *p = name; *p != '\0'; p++) {
        *p = *p == '-' ? '_' : (char)toupper((unsigned char)*p);
    }
    return name;
}

static int read_env(struct config *c, const struct option *o, const char *name, struct err *err)
{
    const char *value = getenv(name);
    if (value == NULL || value[0] == '\0') {
        return 0;
    }
    return set_option(c, o, value, err) < 0 ? err_wrap(err, "%s", name) : 0;
}

static int read_environment(struct config *c, struct err *err)
{
    /* The name by which users of similar servers know the choice of backend. It may be there for
     * such a server, with a value that we do not know: our own name for it comes first. */
    const char *own = getenv("CLOISTER_BACKEND");
    int rc = own == NULL || own[0] == '\0' ? read_env(c, &options[0], "INTERPRETER_TYPE", err) : 0;
    for (size_t i = 0; rc == 0 && i < OPTION_COUNT; i++) {
        CLEANUP_FREE char *name = env_name(&options[i]);
        rc = read_env(c, &options[i], name, err);
    }
    return rc;
}

static const struct option *find_option(const char *name, size_t len)
{
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        if (strlen(options[i].name) == len && strncmp(options[i].name, name, len) == 0) {
            return &options[i];
        }
    }
    return NULL;
}

/* One option at argv[*at], with its value; moves *at behind them. */
static int read_argument(struct config *c, int argc, char **argv, int *at, struct err *err)
{
    const char *word = argv[(*at)++];
    const char *equals = strchr(word, '=');
    size_t len = equals != NULL ? (size_t)(equals - word) : strlen(word);
    const struct option *o = strncmp(word, "--", 2) == 0 ? find_option(word + 2, len - 2) : NULL;
    if (o == NULL) {
        return err_set(err, ERR_CONFIG, "unknown option %.64s; --help lists those there are", word);
    }
    const char *value = equals != NULL ? equals + 1 : "yes";
    if (equals == NULL && o->type != OPTION_FLAG) {
        if (*at >= argc) {
            return err_set(err, ERR_CONFIG, "--%s: expected a value behind it (%s)", o->name,
                           o->placeholder);
        }
        value = argv[(*at)++];
    }
    return set_option(c, o, value, err) < 0 ? err_wrap(err, "--%s", o->name) : 0;
}

static int check_together(const struct config *c, struct err *err)
{
    if (c->timeout_s > c->max_timeout_s) {
        return err_set(err, ERR_CONFIG,
                       "--timeout-seconds (%" PRIu64 ") is more than "
                       "--max-timeout-seconds (%" PRIu64 ")",
                       c->timeout_s, c->max_timeout_s);
    }
    if (config_plan(c) == CONFIG_PLAN_DOCKER && c->image[0] != '\0' &&
        image_check_reference(c->image, err) < 0) {
        err->code = ERR_CONFIG;
        return err_wrap(err, "--image on docker");
    }
    return 0;
}

enum config_plan config_plan(const struct config *c)
{
    if (strcmp(c->backend, "fake") == 0) {
        return CONFIG_PLAN_FAKE;
    }
    if (strcmp(c->backend, "auto") != 0) {
        return strcmp(c->backend, "docker") == 0 ? CONFIG_PLAN_DOCKER : CONFIG_PLAN_OCI;
    }
    if (c->runtime[0] != '\0' || c->image_dir[0] != '\0' || image_is_path(c->image)) {
        return CONFIG_PLAN_OCI;
    }
    return c->image[0] != '\0' ? CONFIG_PLAN_DOCKER : CONFIG_PLAN_AUTO;
}

int config_load(struct config *c, int argc, char **argv, int *ret_used, struct err *err)
{
    memset(c, 0, sizeof(*c));
    int rc = 0;
    int at = 0;
    for (size_t i = 0; rc == 0 && i < OPTION_COUNT; i++) {
        rc = set_option(c, &options[i], options[i].value, err);
    }
    if (rc == 0) {
        rc = read_environment(c, err);
    }
    while (rc == 0 && at < argc && argv[at][0] == '-' && strcmp(argv[at], "--") != 0) {
        rc = read_argument(c, argc, argv, &at, err);
    }
    if (rc == 0) {
        rc = check_together(c, err);
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
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        if (is_text(&options[i])) {
            char **text = (char **)(void *)((char *)c + options[i].offset);
            free(*text);
            *text = NULL;
        }
    }
}

/* One option's line, broken at blanks and continued under itself. */
static void print_option(const char *flag, const char *text)
{
    printf("  %-*s", HELP_INDENT - 3, flag);
    while (*text != '\0') {
        size_t len = strlen(text);
        size_t n = len;
        if (len > HELP_WIDTH) {
            for (n = HELP_WIDTH; n > 0 && text[n] != ' '; n--) {
            }
            n = n > 0 ? n : strcspn(text, " ");
        }
        printf(" %.*s\n", (int)n, text);
        text += n;
        text += strspn(text, " ");
        if (*text != '\0') {
            printf("%*s", HELP_INDENT - 1, "");
        }
    }
}

void config_print_help(void)
{
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const struct option *o = &options[i];
        CLEANUP_FREE char *flag =
            alloc_printf("--%s%s%s", o->name, o->placeholder != NULL ? " " : "",
                         o->placeholder != NULL ? o->placeholder : "");
        bool has_default = o->value[0] != '\0';
        CLEANUP_FREE char *text = alloc_printf("%s%s%s%s", o->help, has_default ? " [" : "",
                                               o->value, has_default ? "]" : "");
        print_option(flag, text);
    }
    printf(
        "\nEach option is also read from the environment, --memory-mb for example from\n"
        "CLOISTER_MEMORY_MB; the command line wins. INTERPRETER_TYPE stands for CLOISTER_BACKEND\n"
        "where that is not set.\n");
}
