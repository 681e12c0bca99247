/*
 * One pass. A word is never longer than the text from which it is made, so all words fit into a
 * buffer of the line's size.
 */
#include "supervisor/compat/shlex.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"

static bool is_shell_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Copies a quoted text; *at is after the opening quote. A backslash escapes only in double quotes,
 * and only a quote or another backslash. */
static int take_quoted(const char **at, char quote, char **to, struct err *err)
{
    const char *p = *at;
    for (; *p != quote; p++) {
        if (*p == '\0') {
            return err_set(err, ERR_INVALID, "No closing quotation");
        }
        if (*p == '\\' && quote == '"' && (p[1] == '"' || p[1] == '\\')) {
            p++;
        }
        *(*to)++ = *p;
    }
    *at = p + 1;
    return 0;
}

static int take_shell_word(const char **at, char **to, struct err *err)
{
    const char *p = *at;
    int rc = 0;
    while (rc == 0 && *p != '\0' && !is_shell_blank(*p)) {
        char c = *p++;
        if (c == '"' || c == '\'') {
            rc = take_quoted(&p, c, to, err);
        } else if (c == '\\' && *p == '\0') {
            rc = err_set(err, ERR_INVALID, "No escaped character");
        } else {
            *(*to)++ = c == '\\' ? *p++ : c;
        }
    }
    *at = p;
    return rc;
}

int shlex_split(const char *line, struct shlex *ret, struct err *err)
{
    size_t len = strlen(line);
    ret->text = alloc_array(len + 1, 1);
    ret->count = 0;
    char *to = ret->text;
    int rc = 0;
    for (;;) {
        while (is_shell_blank(*line)) {
            line++;
        }
        if (*line == '\0') {
            return 0;
        }
        if (ret->count == LIMIT_LIST) {
            return err_set(err, ERR_INVALID, "more than %d words", LIMIT_LIST);
        }
        char *word = to;
        rc = take_shell_word(&line, &to, err);
        if (rc < 0) {
            return rc;
        }
        ret->items[ret->count++] = view_bytes(word, (size_t)(to - word));
    }
}

void shlex_finish(struct shlex *words)
{
    free(words->text);
    words->text = NULL;
    words->count = 0;
}
