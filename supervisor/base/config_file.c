/*
 * The format is YAML because a library reads it that the program knows already, and because people
 * who run servers write it. Of YAML it takes one map of scalars and lists of scalars: there is
 * nothing to nest in options. Values are texts to us, whatever YAML thinks of their type, and are
 * checked by the same code as those of the command line: so `cpus: 1.5`, `strict: yes` and `http:
 * 8080` mean what they say, with or without quotes.
 *
 * A file that others than root and this user may write is refused (secret_file_read()): it names
 * directories that sandboxes see, and who may come in.
 */
#include "supervisor/base/config_file.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/io/yaml_tree.h"
#include "supervisor/base/near.h"
#include "supervisor/base/options.h"
#include "supervisor/base/secret_file.h"

#define SYSTEM_FILE "/etc/cloister/cloister.conf"
#define USER_FILE   "/cloister/cloister.conf"

/* ---- which files ---------------------------------------------------------------------------- */

static char *user_file(void)
{
    const char *xdg = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    if (xdg != NULL && xdg[0] == '/') {
        return alloc_printf("%s" USER_FILE, xdg);
    }
    return home != NULL && home[0] == '/' ? alloc_printf("%s/.config" USER_FILE, home) : NULL;
}

size_t config_files(const char *named, char *ret[CONFIG_FILES_MAX])
{
    size_t count = 0;
    if (strcmp(named, CONFIG_FILE_NONE) == 0) {
        return 0;
    }
    if (named[0] != '\0') {
        ret[count++] = alloc_strdup(named);
        return count;
    }
    char *usual[CONFIG_FILES_MAX] = {alloc_strdup(SYSTEM_FILE), user_file()};
    for (size_t i = 0; i < CONFIG_FILES_MAX; i++) {
        if (usual[i] != NULL && access(usual[i], F_OK) == 0) {
            ret[count++] = usual[i];
        } else {
            free(usual[i]);
        }
    }
    return count;
}

/* ---- keys and values ------------------------------------------------------------------------ */

struct reading_file {
    struct yaml_tree *tree;
    config_file_fn take;
    void *arg;
    size_t *lines; /* where each option stood; 0: it did not */
};

static void set_unknown_key(const char *key, struct err *err)
{
    struct near_word near;
    near_begin(&near, view_of(key));
    for (size_t i = 0; i < option_count; i++) {
        near_try(&near, options[i].name);
    }
    err_set(err, ERR_CONFIG, "unknown key %.64s%s%s%s", key,
            near.best != NULL ? "; did you mean " : "", near.best != NULL ? near.best : "",
            near.best != NULL ? "?" : "");
}

/* The option of a key; NULL: it is none, or it was there before. */
static const struct option *find_key(struct reading_file *f, yaml_at key, struct err *err)
{
    const char *name = yaml_text(f->tree, key);
    if (name == NULL) {
        err_set(err, ERR_CONFIG, "expected the name of an option, a colon and its value");
        return NULL;
    }
    const struct option *o = option_find(view_of(name));
    if (o == NULL || strcmp(name, CONFIG_FILE_OPTION) == 0) {
        set_unknown_key(name, err);
        return NULL;
    }
    size_t *line = &f->lines[o - options];
    if (*line != 0) {
        err_set(err, ERR_CONFIG, "%s stands in line %zu already", name, *line);
        return NULL;
    }
    *line = yaml_line(f->tree, key);
    return o;
}

static int take_items(struct reading_file *f, const struct option *o, yaml_at list, struct err *err)
{
    yaml_at item = yaml_item(f->tree, list, 0);
    int rc = item == 0 ? f->take(f->arg, o, NULL, true, err) : 0;
    for (size_t i = 0; rc == 0 && (item = yaml_item(f->tree, list, i)) != 0; i++) {
        const char *text = yaml_text(f->tree, item);
        rc = text != NULL ? f->take(f->arg, o, text, i == 0, err)
                          : err_set(err, ERR_CONFIG, "expected a list of values");
    }
    return rc;
}

static int take_option_value(struct reading_file *f, const struct option *o, yaml_at value,
                             struct err *err)
{
    bool is_list = o->type == OPTION_LIST || o->type == OPTION_TEXTS;
    const char *text = yaml_text(f->tree, value);
    if (text != NULL) {
        return f->take(f->arg, o, text, true, err);
    }
    if (is_list && yaml_is_list(f->tree, value)) {
        return take_items(f, o, value, err);
    }
    return err_set(err, ERR_CONFIG, "expected one value%s", is_list ? ", or a list of them" : "");
}

static int take_pair(struct reading_file *f, yaml_at key, yaml_at value, struct err *err)
{
    const struct option *o = find_key(f, key, err);
    if (o != NULL && take_option_value(f, o, value, err) == 0) {
        return 0;
    }
    if (o != NULL) {
        err_wrap(err, "%s", o->name);
    }
    err->code = ERR_CONFIG;
    return err_wrap(err, "line %zu", yaml_line(f->tree, key));
}

/* Whether there is nothing but blank lines and comments, which YAML calls no document. */
static bool has_only_comments(struct view text)
{
    while (text.len > 0) {
        const char *end = memchr(text.data, '\n', text.len);
        size_t len = end != NULL ? (size_t)(end - text.data) : text.len;
        struct view line = view_trimmed(view_bytes(text.data, len));
        if (line.len > 0 && line.data[0] != '#') {
            return false;
        }
        size_t next = end != NULL ? len + 1 : len;
        text = view_bytes(text.data + next, text.len - next);
    }
    return true;
}

int config_file_parse(struct view text, config_file_fn take, void *arg, struct err *err)
{
    CLEANUP_FREE size_t *lines = alloc_array(option_count, sizeof(*lines));
    struct reading_file f = {.take = take, .arg = arg, .lines = lines};
    yaml_at key, value;
    if (has_only_comments(text)) {
        return 0;
    }
    int rc = yaml_tree_parse(text, &f.tree, err);
    if (rc < 0) {
        err->code = ERR_CONFIG;
        return -ERR_CONFIG;
    }
    if (!yaml_is_map(f.tree, yaml_root(f.tree))) {
        rc = err_set(err, ERR_CONFIG, "line 1: expected lines of the form NAME: VALUE");
    }
    for (size_t i = 0; rc == 0 && yaml_pair(f.tree, yaml_root(f.tree), i, &key, &value); i++) {
        rc = take_pair(&f, key, value, err);
    }
    yaml_tree_free(f.tree);
    return rc;
}

/* ---- the file ------------------------------------------------------------------------------- */

int config_file_read(const char *path, config_file_fn take, void *arg, struct err *err)
{
    struct buf text;
    bool open = false;
    int rc = secret_file_read(path, &text, &open, err);
    if (rc < 0) {
        return rc;
    }
    rc = config_file_parse(view_bytes(text.data, text.len), take, arg, err);
    secret_file_wipe(&text);
    return rc < 0 ? err_wrap(err, "%s", path) : 0;
}
