/*
 * Everything here runs with the rights of user code, on files that other user code can reach, so
 * following a path gives it nothing that it did not have. The directory has an unguessable name and
 * is created, never taken over.
 *
 * A program is looked up as a shell does, in the PATH that it will have. A file that is no program
 * is an error, and is not handed to a shell.
 */
#include "worker/agent/run/progwork.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/fd.h"

extern char **environ;

/* The kind of terminal that programs are told they have; a TERM of the client's wins. */
#define TERMINAL_KIND "xterm-256color"

/* What words may name. */
#define WORD_DIR  "{dir}"
#define WORD_FILE "{file}"
#define WORD_EXE  "{exe}"

struct strings {
    char **items;
    size_t count;
};

static int no_memory(struct err *err)
{
    return err_sys(err, ERR_NO_MEMORY, ENOMEM, "start a program");
}

/* ---- words ----------------------------------------------------------------------------------- */

static char *copy(struct view v)
{
    char *text = malloc(v.len + 1);
    if (text != NULL) {
        if (v.len > 0) {
            memcpy(text, v.data, v.len);
        }
        text[v.len] = '\0';
    }
    return text;
}

static int add_place(struct buf *out, const struct progwork *w, const char *name, struct err *err)
{
    return name == NULL ? buf_add_str(out, w->dir, err)
                        : buf_printf(out, err, "%s/%s", w->dir, name);
}

/* Replaces {exe} and the like in a word of the runner table. */
static char *fill_in(const struct progwork *w, const char *word)
{
    const struct {
        const char *name;
        const char *file;
    } places[] = {{WORD_DIR, NULL}, {WORD_FILE, w->runner->file}, {WORD_EXE, RUNNER_EXE}};
    struct buf out;
    buf_init(&out, 2 * (size_t)LIMIT_RUNNER_BYTES * LIMIT_NAME);
    int rc = 0;
    while (*word != '\0' && rc == 0) {
        size_t used = 0;
        for (size_t i = 0; i < sizeof(places) / sizeof(places[0]) && used == 0; i++) {
            if (strncmp(word, places[i].name, strlen(places[i].name)) == 0) {
                used = strlen(places[i].name);
                rc = add_place(&out, w, places[i].file, NULL);
            }
        }
        if (used == 0) {
            used = 1 + strcspn(word + 1, "{");
            rc = buf_add(&out, word, used, NULL);
        }
        word += used;
    }
    return rc == 0 ? (char *)(uintptr_t)buf_cstr(&out) : NULL;
}

/* Makes room for one more string and for the NULL behind the last. */
static int make_room(struct strings *s, size_t most, struct err *err)
{
    s->items = calloc(most + 1, sizeof(s->items[0]));
    return s->items != NULL ? 0 : no_memory(err);
}

static int add_string(struct strings *s, char *text, struct err *err)
{
    if (text == NULL) {
        return no_memory(err);
    }
    s->items[s->count++] = text;
    return 0;
}

/* Sets NAME=value, replacing an entry of that name. */
static int set_entry(struct strings *env, char *entry, struct err *err)
{
    size_t name = entry != NULL ? strcspn(entry, "=") + 1 : 0;
    for (size_t i = 0; entry != NULL && i < env->count; i++) {
        if (strncmp(env->items[i], entry, name) == 0) {
            env->items[i] = entry;
            return 0;
        }
    }
    return add_string(env, entry, err);
}

static size_t count(char *const *words)
{
    size_t n = 0;
    while (words != NULL && words[n] != NULL) {
        n++;
    }
    return n;
}

/* Arguments: the step's words, then, for the last step, the client's. Environment: the agent's,
 * then the client's, then the table's. */
static int build_command(struct progwork *w, struct strings *argv, struct strings *env,
                         struct err *err)
{
    struct request *r = &w->request;
    char *const *words = w->runner == NULL ? NULL
                         : w->compile      ? w->runner->compile
                                           : w->runner->run;
    char *const *command = words != NULL ? runner_command(words) : NULL;
    int rc = make_room(argv, count(command) + r->arg_count, err);
    if (rc == 0) {
        rc = make_room(env, count(environ) + 1 + r->env_count + count(words), err);
    }
    for (size_t i = 0; rc == 0 && i < count(command); i++) {
        rc = add_string(argv, fill_in(w, command[i]), err);
    }
    for (size_t i = 0; rc == 0 && i < r->arg_count; i++) {
        struct view arg = request_next(r);
        rc = w->compile ? 0 : add_string(argv, copy(arg), err);
    }
    for (size_t i = 0; rc == 0 && environ[i] != NULL; i++) {
        rc = add_string(env, environ[i], err);
    }
    if (rc == 0 && w->terminal) {
        rc = set_entry(env, copy(view_of("TERM=" TERMINAL_KIND)), err);
    }
    for (size_t i = 0; rc == 0 && i < r->env_count; i++) {
        rc = set_entry(env, copy(request_next(r)), err);
    }
    for (char *const *word = words; rc == 0 && word != command; word++) {
        if (word > words) { /* `env` itself */
            rc = set_entry(env, fill_in(w, *word), err);
        }
    }
    return rc;
}

/* ---- files ----------------------------------------------------------------------------------- */

static int file_error(struct err *err, const char *what, const char *path)
{
    bool full = errno == ENOSPC || errno == EDQUOT;
    return err_sys(err, full ? ERR_NO_SPACE : ERR_DENIED, errno, "%s %s", what, path);
}

static int write_code(const struct progwork *w, struct err *err)
{
    char path[LIMIT_PATH];
    if (mkdir(w->dir, 0700) < 0) {
        return file_error(err, "make the directory", w->dir);
    }
    snprintf(path, sizeof(path), "%s/%s", w->dir, w->runner->file);
    CLEANUP_FD int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) {
        return file_error(err, "create", path);
    }
    if (fd_write_all(fd, w->request.code.data, w->request.code.len, NULL) < 0) {
        return file_error(err, "write the code to", path);
    }
    return 0;
}

void progwork_clear(const char *dir)
{
    err_ignore(dir_remove(dir, NULL)); /* user code may have made files that cannot be removed */
}

/* Changes to the working directory. */
static int go_there(const struct progwork *w, struct err *err)
{
    struct view path = w->request.code;
    if (chdir(w->cwd) < 0 && chdir("/") < 0) {
        return file_error(err, "enter", w->cwd);
    }
    if (w->runner != NULL || path.len == 0) {
        return 0;
    }
    char *text = copy(path);
    if (text == NULL) {
        return no_memory(err);
    }
    if (chdir(text) < 0) {
        return err_sys(err, errno == ENOENT ? ERR_FILE_NOT_FOUND : ERR_PATH, errno, "run in %.200s",
                       text);
    }
    return 0;
}

/* ---- execution ------------------------------------------------------------------------------- */

static int exec_error(const struct progwork *w, int sys, const char *program, struct err *err)
{
    enum err_code code = ERR_INVALID;
    if (sys == ENOENT || sys == ENOTDIR) {
        code = w->runner != NULL ? ERR_LANGUAGE : ERR_FILE_NOT_FOUND;
    } else if (sys == EACCES || sys == EPERM) {
        code = ERR_DENIED;
    } else if (sys == E2BIG) {
        code = ERR_TOO_BIG;
    } else if (sys == EAGAIN) {
        code = ERR_BUSY;
    } else if (sys == ENOMEM) {
        code = ERR_NO_MEMORY;
    }
    return err_sys(err, code, sys, "run %.200s", program);
}

static const char *path_of(char *const *env)
{
    for (size_t i = 0; env[i] != NULL; i++) {
        if (strncmp(env[i], "PATH=", 5) == 0 && env[i][5] != '\0') {
            return env[i] + 5;
        }
    }
    return SPAWN_DEFAULT_PATH;
}

/* Tries each directory of PATH. A file that may not be executed is remembered for the error, and
 * the search goes on. */
static int execute(char *const *argv, char *const *env)
{
    const char *program = argv[0];
    int denied = 0;
    if (strchr(program, '/') != NULL || program[0] == '\0') {
        execve(program, argv, env);
        return errno;
    }
    for (const char *p = path_of(env); *p != '\0';) {
        char path[LIMIT_PATH];
        size_t len = strcspn(p, ":");
        int n = snprintf(path, sizeof(path), "%.*s/%s", (int)len, len > 0 ? p : ".", program);
        if (len < sizeof(path) && n > 0 && (size_t)n < sizeof(path)) {
            execve(path, argv, env);
            if (errno ==
                EACCES) { /* the file, or a directory on the way to it, is closed to the user */
                denied = access(path, F_OK) == 0 ? EACCES : denied;
            } else if (errno != ENOENT && errno != ENOTDIR) {
                return errno;
            }
        }
        p += len + (p[len] == ':');
    }
    return denied != 0 ? denied : ENOENT;
}

int progwork_become(void *arg, struct err *err)
{
    struct progwork *w = arg;
    struct strings argv = {0};
    struct strings env = {0};
    /* until exec this process has a copy of the agent's memory */
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0) {
        return err_sys(err, ERR_INTERNAL, errno, "hide memory");
    }
    int rc = w->first ? write_code(w, err) : 0;
    if (rc == 0) {
        rc = go_there(w, err);
    }
    if (rc == 0) {
        rc = build_command(w, &argv, &env, err);
    }
    if (rc < 0) {
        return rc;
    }
    return exec_error(w, execute(argv.items, env.items), argv.items[0], err);
}
