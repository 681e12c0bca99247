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
    OPTION_LIST,     /* of `choices`, separated by commas; given again it adds to what was given */
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
    const char *value_name;
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
    {"task-after-seconds", OPTION_NUMBER, FIELD(task_after_s), "5", 0, 3600, "S",
     "code that takes longer becomes a task, for clients that can handle one", NULL},
    {"http", OPTION_TEXT, FIELD(http), "", 0, 0, "[HOST:]PORT",
     "serve MCP over HTTP there, at /mcp and for old clients at /sse, instead of stdio; without HOST on "
     "127.0.0.1 only", NULL},
    {"stdio", OPTION_FLAG, FIELD(stdio), "no", 0, 0, NULL,
     "with --http: serve stdio, too", NULL},
    {"public-url", OPTION_TEXT, FIELD(public_url), "", 0, 0, "URL",
     "HTTP: where clients find us, if a proxy is in front: https://host[/path], without /mcp", NULL},
    {"tls-cert", OPTION_TEXT, FIELD(tls_cert), "", 0, 0, "FILE",
     "HTTP: certificate chain, PEM; needs --tls-key", NULL},
    {"tls-key", OPTION_TEXT, FIELD(tls_key), "", 0, 0, "FILE",
     "HTTP: private key of the certificate, PEM", NULL},
    {"tokens", OPTION_TEXT, FIELD(tokens), "", 0, 0, "FILE",
     "HTTP: bearer tokens and whom they stand for; SIGHUP reads it again", NULL},
    {"oauth-issuer", OPTION_TEXT, FIELD(oauth_issuer), "", 0, 0, "URL",
     "HTTP: authorization server whose tokens are taken", NULL},
    {"oauth-introspection", OPTION_TEXT, FIELD(oauth_introspection), "", 0, 0, "URL",
     "HTTP: where that server tells what a token is worth (RFC 7662)", NULL},
    {"oauth-client", OPTION_TEXT, FIELD(oauth_client), "", 0, 0, "FILE",
     "HTTP: file with ID:SECRET that we show there", NULL},
    {"oauth-scopes", OPTION_TEXT, FIELD(oauth_scopes), "", 0, 0, "LIST",
     "HTTP: scopes that a token must have, separated by blanks", NULL},
    {"allow-hosts", OPTION_TEXT, FIELD(allow_hosts), "", 0, 0, "LIST",
     "HTTP: names in the Host header besides our address and that of --public-url, separated by commas", NULL},
    {"allow-origins", OPTION_TEXT, FIELD(allow_origins), "", 0, 0, "LIST",
     "HTTP: origins of web pages that may call us, separated by commas; default: those of this machine", NULL},
    {"insecure-http", OPTION_FLAG, FIELD(insecure_http), "no", 0, 0, NULL,
     "HTTP: listen on other than this machine's own addresses though nobody needs a token, or though tokens "
     "travel without TLS", NULL},
    {"max-connections", OPTION_NUMBER, FIELD(max_connections), "1024", 4, 65536, "N",
     "HTTP: most connections at a time", NULL},
    {"max-sessions", OPTION_NUMBER, FIELD(max_sessions), "1024", 1, 65536, "N",
     "HTTP: most sessions of clients at a time", NULL},
    {"session-idle-seconds", OPTION_NUMBER, FIELD(session_idle_s), "3600", 1, 2592000, "S",
     "HTTP: a session that nobody uses ends after this", NULL},
    {"principal-sandboxes", OPTION_NUMBER, FIELD(principal_sandboxes), "0", 0, 4096, "N",
     "HTTP: most sandboxes of one principal, 0: all there are; the file of tokens may say otherwise", NULL},
    {"principal-memory-mb", OPTION_NUMBER, FIELD(principal_memory_mb), "0", 0, 16777216, "MIB",
     "HTTP: memory of all sandboxes of one principal, 0: no limit", NULL},
    {"principal-calls", OPTION_NUMBER, FIELD(principal_calls), "0", 0, 65536, "N",
     "HTTP: requests of one principal in flight, 0: no limit", NULL},
    {"compat", OPTION_LIST, FIELD(compat), "", 0, 0, "PROFILE",
     "offer another server's tools, by their names and with their results, beside our own; may be repeated: "
     "code-sandbox, docker-interpreter, python-env, python-sandbox",
     "code-sandbox docker-interpreter python-env python-sandbox"},
    {"allow-network", OPTION_FLAG, FIELD(allow_network), "no", 0, 0, NULL,
     "clients may create sandboxes that reach the network", NULL},
    {"packages", OPTION_FLAG, FIELD(packages), "yes", 0, 0, NULL,
     "packages can be installed, by an installer of its own that has network while the sandbox has none", NULL},
    {"package-index", OPTION_TEXT, FIELD(package_index), "", 0, 0, "URL",
     "where pip finds packages; default: its own index", NULL},
    {"package-dir", OPTION_TEXT, FIELD(package_dir), "", 0, 0, "DIR",
     "directory of wheels on this host, for pip; without --package-index nothing else is asked then", NULL},
    {"npm-registry", OPTION_TEXT, FIELD(npm_registry), "", 0, 0, "URL",
     "where npm finds packages; default: its own registry", NULL},
    {"package-proxy", OPTION_TEXT, FIELD(package_proxy), "", 0, 0, "URL",
     "proxy through which packages are fetched", NULL},
    {"package-ca", OPTION_TEXT, FIELD(package_ca), "", 0, 0, "FILE",
     "certificates that the installer trusts, PEM, instead of the usual ones", NULL},
    {"packages-mb", OPTION_NUMBER, FIELD(packages_mb), "1024", 1, 1048576, "MIB",
     "most that the packages of one sandbox take", NULL},
    {"install-timeout-seconds", OPTION_NUMBER, FIELD(install_timeout_s), "600", 1, 86400, "S",
     "an installation that takes longer is stopped", NULL},
    {"languages", OPTION_TEXT, FIELD(languages), "", 0, 0, "FILE",
     "JSON file of further languages, or of other commands for known ones", NULL},
    {"local-files", OPTION_TEXT, FIELD(local_files), "", 0, 0, "DIRS",
     "directories of this host, separated by commas, from which upload_file may take files by local_path; "
     "default: none", NULL},
    {"link-seconds", OPTION_NUMBER, FIELD(link_s), "3600", 1, 604800, "S",
     "HTTP: a link to a file of a sandbox is good for so long", NULL},
    {"strict", OPTION_FLAG, FIELD(strict), "no", 0, 0, NULL,
     "fail rather than go without a limit that this host cannot enforce", NULL},
    {"runtime-dir", OPTION_TEXT, FIELD(runtime_dir), "", 0, 0, "DIR",
     "for sockets and records; default: /run/cloister for root, else $XDG_RUNTIME_DIR/cloister "
     "or /tmp/cloister-UID", NULL},
    {"instance", OPTION_TEXT, FIELD(instance), "", 0, 0, "NAME",
     "name of this server's sandboxes: the next server with it takes them over; default: they end with this "
     "one, with --http main", NULL},
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

#define HTTP_INSTANCE "main"
#define HELP_INDENT   29
#define HELP_WIDTH    (size_t)70
#define OPTION_COUNT  (sizeof(options) / sizeof(options[0]))

/* ---- values --------------------------------------------------------------------------------- */

/* Whether a word is one of a list. */
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
    return o->type == OPTION_TEXT || o->type == OPTION_CHOICE || o->type == OPTION_PATTERNS ||
           o->type == OPTION_LIST;
}

static void set_text(char **field, const char *value)
{
    free(*field);
    *field = alloc_strdup(value);
}

/* Words that are not there yet are added. */
static int add_choices(char **field, const char *choices, const char *value, struct err *err)
{
    while (*value != '\0') {
        size_t len = strcspn(value, ",");
        CLEANUP_FREE char *word = alloc_viewdup((struct view){value, len});
        if (!is_choice(choices, word)) {
            return err_set(err, ERR_CONFIG, "expected one of: %s; got \"%.64s\"", choices, word);
        }
        if (!config_lists(*field, word)) {
            char *longer = alloc_printf("%s%s%s", *field, (*field)[0] != '\0' ? "," : "", word);
            free(*field);
            *field = longer;
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

/* Those users have it in their configuration with a backend that we do not have. With the profile
 * of that server it says how results look (compat/code_sandbox.c), not what isolates sandboxes. */
static bool is_shape(const struct config *c)
{
    const char *type = getenv("INTERPRETER_TYPE");
    return type != NULL && (strcmp(type, "e2b") == 0 || strcmp(type, "firecracker") == 0) &&
           config_lists(c->compat, "code-sandbox");
}

/* What INTERPRETER_TYPE says is judged when it is known which profiles are on. */
static int read_environment(struct config *c, struct err *ret_type, struct err *err)
{
    /* The name by which users of similar servers know the choice of backend. It may be there for
     * such a server, with a value that we do not know: our own name for it comes first. */
    const char *own = getenv("CLOISTER_BACKEND");
    if (own == NULL || own[0] == '\0') {
        err_ignore(read_env(c, &options[0], "INTERPRETER_TYPE", ret_type));
    }
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < OPTION_COUNT; i++) {
        CLEANUP_FREE char *name = env_name(&options[i]);
        rc = read_env(c, &options[i], name, err);
    }
    return rc;
}

/* Where the servers behind the python profiles listen, in their words: over HTTP only, unless
 * somebody has said how we are to be reached. */
static void take_foreign_address(struct config *c)
{
    const char *host = getenv("APP_HOST"), *port = getenv("APP_PORT");
    bool asked = (host != NULL && host[0] != '\0') || (port != NULL && port[0] != '\0');
    bool python =
        config_lists(c->compat, "python-env") || config_lists(c->compat, "python-sandbox");
    if (asked && python && c->http[0] == '\0' && !c->stdio) {
        bool six = host != NULL && strchr(host, ':') != NULL && host[0] != '[';
        free(c->http);
        c->http = alloc_printf("%s%s%s:%s", six ? "[" : "",
                               host != NULL && host[0] != '\0' ? host : "127.0.0.1", six ? "]" : "",
                               port != NULL && port[0] != '\0' ? port : "8000");
    }
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
                           o->value_name);
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
    for (const char *dir = c->local_files; *dir != '\0';
         dir += strcspn(dir, ","), dir += *dir == ',') {
        if (*dir != '/') {
            return err_set(err, ERR_CONFIG,
                           "--local-files: expected absolute paths of directories, separated by "
                           "commas, got \"%.200s\"",
                           c->local_files);
        }
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
    struct err type = ERR_INIT;
    int rc = 0;
    int at = 0;
    for (size_t i = 0; rc == 0 && i < OPTION_COUNT; i++) {
        if (options[i].type == OPTION_LIST) {
            set_text((char **)(void *)((char *)c + options[i].offset), "");
        }
        rc = set_option(c, &options[i], options[i].value, err);
    }
    if (rc == 0) {
        rc = read_environment(c, &type, err);
    }
    while (rc == 0 && at < argc && argv[at][0] == '-' && strcmp(argv[at], "--") != 0) {
        rc = read_argument(c, argc, argv, &at, err);
    }
    if (rc == 0 && type.code != 0 && !is_shape(c)) {
        *err = type;
        rc = -ERR_CONFIG;
    }
    if (rc == 0) {
        rc = check_together(c, err);
    }
    if (rc == 0) {
        take_foreign_address(c);
    }
    if (rc == 0 && c->http[0] != '\0' && c->instance[0] == '\0') {
        /* its clients outlive it, and expect the next one to have their sandboxes */
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
            alloc_printf("--%s%s%s", o->name, o->value_name != NULL ? " " : "",
                         o->value_name != NULL ? o->value_name : "");
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
