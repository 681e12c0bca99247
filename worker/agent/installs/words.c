/*
 * Options are in three lists: those that change nothing here, those of them that have a value, and
 * all others, which are refused by name, because to leave out what was asked for would install
 * something else. Which names there can be is for the supervisor to say; only what people write
 * instead of names is told apart here: paths, URLs and repositories.
 */
#include "worker/agent/installs/words.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/fd.h"

#define FILE_BYTES (256u << 10) /* of requirements */

#define NO_OPTION                                                                                  \
    "%.*s cannot be honoured: an installer outside of the sandbox fetches packages, from where "   \
    "the server's operator says; leave it out"
#define NO_NAME                                                                                    \
    "\"%.80s\" is no name of a package: the installer takes names with versions, and sees "        \
    "neither files of the sandbox nor other places"

static const char *const pip_flags[] = {
    "-q",
    "-qq",
    "-qqq",
    "--quiet",
    "-v",
    "-vv",
    "-vvv",
    "--verbose",
    "-U",
    "--upgrade",
    "--user",
    "--no-cache-dir",
    "--no-input",
    "--disable-pip-version-check",
    "--no-color",
    "--break-system-packages",
    "--no-warn-script-location",
    "--no-warn-conflicts",
    "--prefer-binary",
    NULL,
};
static const char *const pip_valued[] = {
    "--progress-bar",  "--timeout",          "--default-timeout", "--retries", "--root-user-action",
    "--exists-action", "--upgrade-strategy", "--cache-dir",       NULL,
};
static const char *const npm_flags[] = {
    "-g",
    "--global",
    "-S",
    "--save",
    "-D",
    "--save-dev",
    "-E",
    "--save-exact",
    "-P",
    "--save-prod",
    "-O",
    "--save-optional",
    "--no-save",
    "-s",
    "--silent",
    "-q",
    "--quiet",
    "--no-audit",
    "--no-fund",
    "--no-progress",
    "-f",
    "--force",
    "-y",
    "--yes",
    "--production",
    "--legacy-peer-deps",
    "--no-package-lock",
    "--prefer-offline",
    NULL,
};
static const char *const npm_valued[] = {"--loglevel", "--omit", "--audit", "--fund", NULL};
static const char *const quiet_flags[] = {"-q", "-qq", "-qqq", "--quiet", "-s", "--silent", NULL};
static const char *const npm_verbs[] = {"install", "i", "in", "add", NULL};
static const char *const pip_verbs[] = {"install", NULL};

static bool is_among(const char *const *list, const char *word, size_t len)
{
    for (size_t i = 0; list[i] != NULL; i++) {
        if (strlen(list[i]) == len && memcmp(list[i], word, len) == 0) {
            return true;
        }
    }
    return false;
}

static bool begins(const char *word, const char *with)
{
    return strncmp(word, with, strlen(with)) == 0;
}

/* A path, a URL or a repository, where a name belongs. */
static bool is_elsewhere(const char *word)
{
    return word[0] == '.' || word[0] == '/' || word[0] == '~' || strstr(word, "://") != NULL ||
           begins(word, "git+") || begins(word, "file:") || begins(word, "github:");
}

/* Spaces around operators are for people. */
static char *without_spaces(const char *text, size_t len)
{
    char *word = alloc_printf("%.*s", (int)len, text);
    size_t n = 0;
    for (const char *p = word; *p != '\0'; p++) {
        if (*p != ' ' && *p != '\t') {
            word[n++] = *p;
        }
    }
    word[n] = '\0';
    return word;
}

static int add_word(struct words *w, const char *text, size_t len, struct err *err)
{
    CLEANUP_FREE char *word = without_spaces(text, len);
    if (word[0] == '\0' || is_elsewhere(word)) {
        return err_set(err, ERR_INVALID, NO_NAME, word);
    }
    if (w->count == LIMIT_INSTALL_WORDS) {
        return err_set(err, ERR_INVALID, "at most %d packages at a time", LIMIT_INSTALL_WORDS);
    }
    w->items[w->count++] = STEAL_PTR(word);
    return 0;
}

/* One line of a file of requirements. */
static int add_required(struct words *w, const char *line, size_t len, struct err *err)
{
    for (size_t i = 0; i < len; i++) {
        if (line[i] == '#' && (i == 0 || line[i - 1] == ' ' || line[i - 1] == '\t')) {
            len = i;
        }
    }
    while (len > 0 && strchr(" \t\r", line[len - 1]) != NULL) {
        len--;
    }
    while (len > 0 && strchr(" \t", line[0]) != NULL) {
        line++;
        len--;
    }
    if (len == 0) {
        return 0;
    }
    if (line[0] == '-') {
        return err_set(err, ERR_INVALID, NO_OPTION, (int)strcspn(line, " \t=\r\n"), line);
    }
    return add_word(w, line, len, err);
}

static int add_required_file(struct words *w, const char *path, struct err *err)
{
    CLEANUP_BUF struct buf text;
    buf_init(&text, FILE_BYTES);
    int rc = file_read(path, &text, err);
    const char *rest = rc < 0 ? "" : buf_cstr(&text);
    while (rc == 0 && *rest != '\0') {
        size_t len = strcspn(rest, "\n");
        rc = add_required(w, rest, len, err);
        rest += len + (rest[len] == '\n');
    }
    return rc;
}

/* The file that an option of pip names: -r FILE, -rFILE, --requirement=FILE. *at may be moved to
 * FILE. NULL: it is another option. */
static const char *file_of(int argc, char **argv, int *at)
{
    const char *word = argv[*at];
    if (begins(word, "--requirement=")) {
        return strchr(word, '=') + 1;
    }
    if (begins(word, "-r") && word[2] != '\0') {
        return word + 2;
    }
    bool next = strcmp(word, "-r") == 0 || strcmp(word, "--requirement") == 0;
    return next && *at + 1 < argc ? argv[++*at] : NULL;
}

static int take_option(struct words *w, int argc, char **argv, int *at, struct err *err)
{
    const char *word = argv[*at];
    size_t len = strcspn(word, "=");
    const char *file = w->npm ? NULL : file_of(argc, argv, at);
    if (file != NULL) {
        return add_required_file(w, file, err);
    }
    if (is_among(w->npm ? npm_flags : pip_flags, word, strlen(word))) {
        w->quiet = w->quiet || is_among(quiet_flags, word, len);
        return 0;
    }
    if (is_among(w->npm ? npm_valued : pip_valued, word, len)) {
        *at += word[len] != '=' && *at + 1 < argc;
        return 0;
    }
    return err_set(err, ERR_INVALID, NO_OPTION, (int)len, word);
}

/* The place of the verb; 0: there is none that we know. */
static int find_verb(const struct words *w, int argc, char **argv)
{
    int at = 1;
    while (at < argc && is_among(w->npm ? npm_flags : pip_flags, argv[at], strlen(argv[at]))) {
        at++;
    }
    bool known = at < argc && is_among(w->npm ? npm_verbs : pip_verbs, argv[at], strlen(argv[at]));
    return known ? at : 0;
}

static bool wants_help(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "-h") == 0 || strcmp(argv[i], "--help") == 0) {
            return true;
        }
    }
    return false;
}

enum words_kind words_read(int argc, char **argv, struct words *ret, struct err *err)
{
    const char *name = strrchr(argv[0], '/');
    *ret = (struct words){.npm = strcmp(name != NULL ? name + 1 : argv[0], "npm") == 0};
    int verb = find_verb(ret, argc, argv);
    if (verb == 0 || wants_help(argc, argv)) {
        return WORDS_OTHER;
    }
    int rc = 0;
    for (int i = 1; i < argc && rc == 0; i++) {
        if (i == verb) {
            continue;
        }
        rc = argv[i][0] == '-' ? take_option(ret, argc, argv, &i, err)
                               : add_word(ret, argv[i], strlen(argv[i]), err);
    }
    if (rc == 0 && ret->count == 0) {
        rc = err_set(err, ERR_INVALID,
                     ret->npm ? "name the packages: the installer sees no package.json"
                              : "no package is named");
    }
    return rc < 0 ? WORDS_REFUSED : WORDS_INSTALL;
}

void words_finish(struct words *w)
{
    for (size_t i = 0; i < w->count; i++) {
        free(w->items[i]);
    }
    w->count = 0;
}
