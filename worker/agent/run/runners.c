/*
 * The rows come from the supervisor through the worker, so they are trusted. They are still read
 * strictly, because an extra word or a file name with a slash would only show much later, as a
 * program that behaves oddly.
 */
#include "worker/agent/run/runners.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "proto/codec.h"
#include "proto/limits.h"

static bool is_nonempty_text(struct view v)
{
    return v.len > 0 && memchr(v.data, '\0', v.len) == NULL;
}

static bool is_file_name(struct view v)
{
    return is_nonempty_text(v) && memchr(v.data, '/', v.len) == NULL && !view_is(v, ".") &&
           !view_is(v, "..") && !view_is(v, RUNNER_EXE);
}

static void free_words(char **words)
{
    for (size_t i = 0; words != NULL && words[i] != NULL; i++) {
        free(words[i]);
    }
    free(words);
}

static void finish_one(struct runner *r)
{
    free(r->language);
    free(r->file);
    free_words(r->compile);
    free_words(r->run);
    free_words(r->needs);
}

/* Sets *ret to NULL for an empty list. */
static int take_words(struct view_list list, char ***ret, struct err *err)
{
    size_t bytes = 0;
    if (list.count > LIMIT_RUNNER_WORDS) {
        return err_set(err, ERR_PROTOCOL, "a command of %zu words", list.count);
    }
    for (size_t i = 0; i < list.count; i++) {
        bytes += list.items[i].len;
        if (!is_nonempty_text(list.items[i]) || bytes > LIMIT_RUNNER_BYTES) {
            return err_set(err, ERR_PROTOCOL, "a word that is empty, too long or has a NUL byte");
        }
    }
    if (list.count == 0) {
        return 0;
    }
    char **words = alloc_array(list.count + 1, sizeof(words[0]));
    for (size_t i = 0; i < list.count; i++) {
        words[i] = alloc_viewdup(list.items[i]);
    }
    *ret = words;
    return 0;
}

static int take_one(const struct msg_runner *m, struct runner *r, struct err *err)
{
    if (!is_nonempty_text(m->language) || !is_file_name(m->file)) {
        return err_set(err, ERR_PROTOCOL, "a runner without a language or a file name");
    }
    r->there = SPAWN_UNKNOWN;
    r->language = alloc_viewdup(m->language);
    r->file = alloc_viewdup(m->file);
    int rc = take_words(m->compile, &r->compile, err);
    if (rc == 0) {
        rc = take_words(m->run, &r->run, err);
    }
    if (rc == 0) {
        rc = take_words(m->needs, &r->needs, err);
    }
    if (rc < 0) {
        return err_wrap(err, "runner of %s", r->language);
    }
    if (r->run == NULL || *runner_command(r->run) == NULL ||
        (r->compile != NULL && *runner_command(r->compile) == NULL)) {
        return err_set(err, ERR_PROTOCOL, "runner of %s: a command without a program", r->language);
    }
    return 0;
}

int runners_load(struct runners *r, struct view_list list, struct err *err)
{
    if (list.count > LIMIT_RUNNERS) {
        return err_set(err, ERR_PROTOCOL, "%zu runners", list.count);
    }
    struct runners fresh = {.items = alloc_array(list.count + 1, sizeof(fresh.items[0])),
                            .known = true};
    int rc = 0;
    while (rc == 0 && fresh.count < list.count) {
        struct view item = list.items[fresh.count];
        struct msg m;
        rc = msg_decode(MSG_LINK_A, item.data, item.len, &m, err);
        if (rc < 0) {
            break;
        }
        if (m.type != MSG_RUNNER || m.seq != 0) {
            rc = err_set(err, ERR_PROTOCOL, "%s among runners", msg_name(m.type));
        } else {
            rc = take_one(&m.runner, &fresh.items[fresh.count++], err);
        }
        msg_finish(&m);
    }
    if (rc < 0) {
        runners_finish(&fresh);
        return rc;
    }
    *r = fresh;
    return 0;
}

void runners_finish(struct runners *r)
{
    for (size_t i = 0; i < r->count; i++) {
        finish_one(&r->items[i]);
    }
    free(r->items);
    *r = (struct runners){0};
}

static bool is_variable(const char *word)
{
    size_t name = strspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_");
    return name > 0 && word[name] == '=';
}

char *const *runner_command(char *const *words)
{
    if (strcmp(words[0], "env") != 0) {
        return words;
    }
    do {
        words++;
    } while (*words != NULL && is_variable(*words));
    return words;
}

/* Looks for a program; words like {exe} are made by the compile step and count as found. */
static enum spawn_found look_for(const char *program, const struct spawn_config *c)
{
    CLEANUP_FREE char *path = NULL;
    return program[0] == '{' ? SPAWN_FOUND : spawn_find_program(c, program, &path);
}

/* "Absent" wins over "unknown", because one missing program is enough. */
static enum spawn_found both(enum spawn_found a, enum spawn_found b)
{
    bool none = a == SPAWN_NOT_THERE || b == SPAWN_NOT_THERE;
    return none ? SPAWN_NOT_THERE : a == SPAWN_UNKNOWN ? a : b;
}

static enum spawn_found look_for_all(const struct runner *one, const struct spawn_config *c)
{
    enum spawn_found all = look_for(*runner_command(one->run), c);
    if (one->compile != NULL && all != SPAWN_NOT_THERE) {
        all = both(all, look_for(*runner_command(one->compile), c));
    }
    for (char *const *need = one->needs; need != NULL && *need != NULL; need++) {
        all = all == SPAWN_NOT_THERE ? all : both(all, look_for(*need, c));
    }
    return all;
}

void runners_look(struct runners *r, const struct spawn_config *c)
{
    for (size_t i = 0; i < r->count; i++) {
        if (r->items[i].there == SPAWN_UNKNOWN) {
            r->items[i].there = look_for_all(&r->items[i], c);
        }
    }
}

void runners_doubt(struct runners *r)
{
    for (size_t i = 0; i < r->count; i++) {
        if (r->items[i].there == SPAWN_NOT_THERE) {
            r->items[i].there = SPAWN_UNKNOWN;
        }
    }
}

const struct runner *runners_find(const struct runners *r, struct view language)
{
    for (size_t i = 0; i < r->count; i++) {
        if (r->items[i].there == SPAWN_FOUND && view_is(language, r->items[i].language)) {
            return &r->items[i];
        }
    }
    return NULL;
}

/* ---- live languages as programs -------------------------------------------------------------- */

/* The code's own directory must not be where imports are looked for: as in a live interpreter, that
 * is the workspace. */
#define RUN_PYTHON                                                                                 \
    "import sys; del sys.argv[0]; f = open(sys.argv[0], 'rb'); c = f.read(); f.close(); "          \
    "exec(compile(c, sys.argv[0], 'exec'))"
#define RUN_NODE                                                                                   \
    "const f = process.argv[1]; (0, eval)(require('fs').readFileSync(f, 'utf8') + "                \
    "'\\n//# sourceURL=' + f)"

/* Words are not const, since those of other runners are owned. */
#define WORD(text) ((char *)(uintptr_t)(text))

const struct runner *runners_of_live(struct view language)
{
    static char *python[] = {WORD("python3"),  WORD("-X"),     WORD("utf8"), WORD("-c"),
                             WORD(RUN_PYTHON), WORD("{file}"), NULL};
    static char *node[] = {WORD("node"), WORD("-e"),     WORD(RUN_NODE),
                           WORD("--"),   WORD("{file}"), NULL};
    static char *bash[] = {WORD("bash"), WORD("{file}"), NULL};
    static const struct runner live[] = {
        {.language = WORD("python"), .file = WORD("main.py"), .run = python, .there = SPAWN_FOUND},
        {.language = WORD("javascript"),
         .file = WORD("main.js"),
         .run = node,
         .there = SPAWN_FOUND},
        {.language = WORD("bash"), .file = WORD("main.sh"), .run = bash, .there = SPAWN_FOUND},
    };
    for (size_t i = 0; i < sizeof(live) / sizeof(live[0]); i++) {
        if (view_is(language, live[i].language)) {
            return &live[i];
        }
    }
    return NULL;
}
