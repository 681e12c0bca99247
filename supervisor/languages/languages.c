/*
 * The table is made and encoded once, at the start; OPEN then carries a list of views. A row of the
 * file replaces all built-in rows of its name. A live language cannot be replaced, because its
 * driver is in the agent.
 *
 * Rows that the agent would refuse are refused here, where their author can read why.
 */
#include "supervisor/languages/languages.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/fd.h"
#include "common/io/json.h"
#include "proto/codec.h"
#include "supervisor/languages/builtin.h"
#include "supervisor/languages/names.h"

#define FILE_MAX_BYTES (256u << 10)
#define FILE_MAX_DEPTH 8
#define EXE_NAME       "program" /* {exe} is beside the code (worker/agent/run/runners.h) */

struct languages {
    struct language_names names; /* live languages first */
    size_t live_count;
    struct buf runners[LIMIT_RUNNERS]; /* encoded */
    struct view views[LIMIT_RUNNERS];
    size_t runner_count;
};

/* ---- rows ------------------------------------------------------------------------------------ */

struct words {
    struct view items[LIMIT_RUNNER_WORDS];
    size_t count, bytes;
};

static int add_word(struct words *w, const char *what, struct view word, struct err *err)
{
    w->bytes += word.len;
    if (word.len == 0) {
        return err_set(err, ERR_CONFIG, "%s has an empty word", what);
    }
    if (w->count == LIMIT_RUNNER_WORDS || w->bytes > LIMIT_RUNNER_BYTES) {
        return err_set(err, ERR_CONFIG, "%s has more than %d words or %d bytes", what,
                       LIMIT_RUNNER_WORDS, LIMIT_RUNNER_BYTES);
    }
    w->items[w->count++] = word;
    return 0;
}

static struct view_list view_words(const struct words *w)
{
    return (struct view_list){w->items, w->count};
}

static bool is_variable(struct view word)
{
    size_t n = 0;
    while (n < word.len && strchr("=", word.data[n]) == NULL) {
        char c = word.data[n];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
        if (!letter && !(c >= '0' && c <= '9')) {
            return false;
        }
        n++;
    }
    return n > 0 && n < word.len;
}

/* `env` itself does not count: it sets variables for the program after it. */
static int check_command(const struct words *w, const char *what, struct err *err)
{
    size_t at = 0;
    if (w->count > 0 && view_is(w->items[0], "env")) {
        at = 1;
        while (at < w->count && is_variable(w->items[at])) {
            at++;
        }
    }
    if (at == w->count) {
        return err_set(err, ERR_CONFIG, "%s names no program", what);
    }
    if (at > 0 && w->items[at].data[0] == '-') {
        return err_set(err, ERR_CONFIG, "%s: env takes NAME=value words here, no options", what);
    }
    return 0;
}

static int check_file(struct view file, struct err *err)
{
    if (file.len == 0 || file.len > LIMIT_NAME || memchr(file.data, '/', file.len) != NULL ||
        view_is(file, ".") || view_is(file, "..") || view_is(file, EXE_NAME)) {
        return err_set(err, ERR_CONFIG,
                       "file has to be a file name of at most %d bytes without a slash, and not "
                       "\"" EXE_NAME "\"",
                       LIMIT_NAME);
    }
    return 0;
}

static int add_runner(struct languages *l, const char *name, struct view file,
                      const struct words *compile, const struct words *run,
                      const struct words *needs, struct err *err)
{
    struct msg m = {.type = MSG_RUNNER};
    m.runner.language = view_of(name);
    m.runner.file = file;
    m.runner.compile = view_words(compile);
    m.runner.run = view_words(run);
    m.runner.needs = view_words(needs);
    int rc = check_file(file, err);
    if (rc == 0 && compile->count > 0) {
        rc = check_command(compile, "compile", err);
    }
    if (rc == 0) {
        rc = check_command(run, "run", err);
    }
    if (rc == 0 && l->runner_count == LIMIT_RUNNERS) {
        rc = err_set(err, ERR_CONFIG, "more than %d rows, with the built-in ones", LIMIT_RUNNERS);
    }
    if (rc < 0) {
        return rc;
    }
    struct buf *out = &l->runners[l->runner_count];
    buf_init(out, LIMIT_ITEM);
    rc = msg_encode(out, &m, err);
    if (rc < 0) {
        buf_finish(out);
        err->code = ERR_CONFIG; /* not text */
        return -ERR_CONFIG;
    }
    l->runner_count++;
    return 0;
}

/* ---- built in -------------------------------------------------------------------------------- */

/* Takes the next word; false at the end. */
static bool next_setting_word(const char **text, struct view *ret)
{
    while (*text != NULL && **text == ' ') {
        (*text)++;
    }
    if (*text == NULL || **text == '\0') {
        return false;
    }
    *ret = view_bytes(*text, strcspn(*text, " "));
    *text += ret->len;
    return true;
}

static int split_setting(const char *text, const char *script, struct words *ret, struct err *err)
{
    struct view word;
    int rc = 0;
    *ret = (struct words){.count = 0};
    while (rc == 0 && next_setting_word(&text, &word)) {
        bool is_script = script != NULL && view_is(word, "$SCRIPT");
        rc = add_word(ret, "a built-in command", is_script ? view_of(script) : word, err);
    }
    return rc;
}

static int add_aliases(struct languages *l, const char *name, const char *aliases, struct err *err)
{
    struct view word;
    int rc = 0;
    while (rc == 0 && next_setting_word(&aliases, &word)) {
        CLEANUP_FREE char *alias = alloc_viewdup(word);
        rc = language_names_add_alias(&l->names, alias, name, err);
    }
    return rc;
}

static int load_live(struct languages *l, struct err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < languages_live_count; i++) {
        const struct languages_live *live = &languages_live[i];
        rc = language_names_add(&l->names, live->name, err);
        if (rc == 0) {
            rc = add_aliases(l, live->name, live->aliases, err);
        }
    }
    (void)language_names_list(&l->names, &l->live_count);
    return rc;
}

static bool is_replaced(const cJSON *rows, const char *name)
{
    const cJSON *row;
    cJSON_ArrayForEach(row, rows)
    {
        const char *other = json_get_str(row, "name");
        if (other != NULL && strcmp(other, name) == 0) {
            return true;
        }
    }
    return false;
}

/* Rows that the file replaces are not loaded, but their names and aliases are. */
static int load_builtin(struct languages *l, const cJSON *rows, struct err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < languages_program_count; i++) {
        const struct languages_program *p = &languages_programs[i];
        struct words compile;
        struct words run;
        struct words needs;
        rc = language_names_add(&l->names, p->name, err);
        if (rc == 0) {
            rc = add_aliases(l, p->name, p->aliases, err);
        }
        if (rc == 0 && is_replaced(rows, p->name)) {
            continue;
        }
        if (rc == 0) {
            rc = split_setting(p->compile, p->script, &compile, err);
        }
        if (rc == 0) {
            rc = split_setting(p->run, NULL, &run, err);
        }
        if (rc == 0) {
            rc = split_setting(p->needs, NULL, &needs, err);
        }
        if (rc == 0) {
            rc = add_runner(l, p->name, view_of(p->file), &compile, &run, &needs, err);
        }
    }
    return rc;
}

/* ---- the file -------------------------------------------------------------------------------- */

/* Reads a list; an absent list is empty. */
static int take_words(const cJSON *row, const char *key, struct words *ret, struct err *err)
{
    const cJSON *list = json_get(row, key);
    const cJSON *item;
    *ret = (struct words){.count = 0};
    if (list != NULL && !cJSON_IsArray(list)) {
        return err_set(err, ERR_CONFIG, "%s has to be a list of strings", key);
    }
    cJSON_ArrayForEach(item, list)
    {
        if (!cJSON_IsString(item)) {
            return err_set(err, ERR_CONFIG, "%s has to be a list of strings", key);
        }
        int rc = add_word(ret, key, view_of(item->valuestring), err);
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

static int check_members(const cJSON *object, const char *const *known, struct err *err)
{
    const cJSON *member;
    cJSON_ArrayForEach(member, object)
    {
        size_t i = 0;
        while (known[i] != NULL && strcmp(known[i], member->string) != 0) {
            i++;
        }
        if (known[i] == NULL) {
            return err_set(err, ERR_CONFIG, "\"%.64s\" means nothing here",
                           language_name_shown(member->string));
        }
    }
    return 0;
}

static int load_row(struct languages *l, const char *name, const cJSON *row, struct err *err)
{
    static const char *const known[] = {"name", "aliases", "file", "compile", "run", "needs", NULL};
    struct words compile;
    struct words run;
    struct words needs;
    struct words aliases;
    size_t at = 0;
    const char *file = json_get_str(row, "file");
    if (language_names_has(&l->names, name, &at) && at < l->live_count) {
        return err_set(err, ERR_CONFIG, "it has a live interpreter, which cannot be replaced");
    }
    if (file == NULL || json_get(row, "run") == NULL) {
        return err_set(err, ERR_CONFIG, "it needs file (a string) and run (a list of strings)");
    }
    int rc = check_members(row, known, err);
    if (rc == 0) {
        rc = language_names_add(&l->names, name, err);
    }
    if (rc == 0) {
        rc = take_words(row, "aliases", &aliases, err);
    }
    for (size_t i = 0; rc == 0 && i < aliases.count; i++) {
        rc = language_names_add_alias(&l->names, aliases.items[i].data, name, err);
    }
    if (rc == 0) {
        rc = take_words(row, "compile", &compile, err);
    }
    if (rc == 0) {
        rc = take_words(row, "run", &run, err);
    }
    if (rc == 0) {
        rc = take_words(row, "needs", &needs, err);
    }
    return rc < 0 ? rc : add_runner(l, name, view_of(file), &compile, &run, &needs, err);
}

static int load_rows(struct languages *l, const cJSON *rows, struct err *err)
{
    const cJSON *row;
    size_t number = 0;
    cJSON_ArrayForEach(row, rows)
    {
        const char *name = json_get_str(row, "name");
        number++;
        if (name == NULL) {
            return err_set(err, ERR_CONFIG, "row %zu has no name (a string)", number);
        }
        int rc = load_row(l, name, row, err);
        if (rc < 0) {
            return err_wrap(err, "row %zu (%.32s)", number, language_name_shown(name));
        }
    }
    return 0;
}

static int parse_rows(struct view text, cJSON **ret_tree, const cJSON **ret_rows, struct err *err)
{
    static const char *const known[] = {"languages", NULL};
    cJSON *tree = NULL;
    int rc = json_parse(text.data, text.len, FILE_MAX_BYTES, FILE_MAX_DEPTH, &tree, NULL, err);
    if (rc < 0) {
        return rc;
    }
    const cJSON *rows = json_get(tree, "languages");
    if (cJSON_IsObject(tree)) { /* only members of an object have names */
        rc = check_members(tree, known, err);
    }
    if (rc == 0 && !cJSON_IsArray(rows)) {
        rc = err_set(err, ERR_CONFIG, "it has to be {\"languages\": [...]}");
    }
    if (rc < 0) {
        cJSON_Delete(tree);
        return rc;
    }
    *ret_tree = tree;
    *ret_rows = rows;
    return 0;
}

/* ---- interface ------------------------------------------------------------------------------- */

static void finish_tables(struct languages *l)
{
    for (size_t i = 0; i < l->runner_count; i++) {
        l->views[i] = view_bytes(l->runners[i].data, l->runners[i].len);
    }
    language_names_seal(&l->names);
}

int languages_read(struct view text, struct languages **ret, struct err *err)
{
    struct languages *l = alloc_one(struct languages);
    cJSON *tree = NULL;
    const cJSON *rows = NULL;
    int rc = text.len > 0 ? parse_rows(text, &tree, &rows, err) : 0;
    if (rc == 0) {
        rc = load_live(l, err);
    }
    if (rc == 0) {
        rc = load_builtin(l, rows, err);
    }
    if (rc == 0) {
        rc = load_rows(l, rows, err);
    }
    cJSON_Delete(tree);
    if (rc < 0) {
        languages_destroy(l);
        err->code = ERR_CONFIG; /* for every kind of error */
        return -ERR_CONFIG;
    }
    finish_tables(l);
    *ret = l;
    return 0;
}

int languages_load(const char *file, struct languages **ret, struct err *err)
{
    CLEANUP_BUF struct buf text;
    buf_init(&text, FILE_MAX_BYTES);
    if (file[0] == '\0') {
        return languages_read(view_of(""), ret, err);
    }
    int rc = file_read(file, &text, err);
    if (rc == 0 && text.len == 0) {
        rc = err_set(err, ERR_CONFIG, "it is empty");
    }
    if (rc == 0) {
        rc = languages_read(view_bytes(text.data, text.len), ret, err);
    }
    if (rc < 0) {
        err->code = ERR_CONFIG;
        return err_wrap(err, "--languages %s", file);
    }
    return 0;
}

void languages_destroy(struct languages *l)
{
    if (l == NULL) {
        return;
    }
    for (size_t i = 0; i < l->runner_count; i++) {
        buf_finish(&l->runners[i]);
    }
    language_names_finish(&l->names);
    free(l);
}

const char *languages_find(const struct languages *l, const char *name)
{
    return language_names_find(&l->names, name);
}

const char *const *languages_names(const struct languages *l, size_t *ret_count)
{
    return language_names_list(&l->names, ret_count);
}

const char *const *languages_words(const struct languages *l, size_t *ret_count)
{
    return language_names_words(&l->names, ret_count);
}

struct view_list languages_runners(const struct languages *l)
{
    return (struct view_list){l->views, l->runner_count};
}
