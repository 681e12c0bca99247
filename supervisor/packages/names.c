/*
 * Two small grammars, parsed by hand from left to right: PEP 508 without URLs, markers and spaces,
 * and npm's name@version, name@range or name@tag without spaces. Each function takes its part from
 * the front of the rest; a rest at the end is the error.
 *
 * Both pip and npm treat a word that ends like an archive as a file, so we refuse such names.
 */
#include "supervisor/packages/names.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define FORM_PIP "pip wants NAME, NAME[extra], NAME==1.2 or NAME>=1.2,<2, without spaces"
#define FORM_NPM "npm wants NAME, @SCOPE/NAME, NAME@1.2.3, NAME@^1.2 or NAME@latest, without spaces"

static bool is_alnum(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static bool is_one_of(char c, const char *set)
{
    return c != '\0' && strchr(set, c) != NULL;
}

static void skip(struct view *rest, size_t n)
{
    rest->data += n;
    rest->len -= n;
}

static bool take_char(struct view *rest, char c)
{
    if (rest->len == 0 || rest->data[0] != c) {
        return false;
    }
    skip(rest, 1);
    return true;
}

/* Letters and digits, and the characters of `inner` between them. */
static bool take_name_word(struct view *rest, const char *inner)
{
    size_t n = 0;
    while (n < rest->len && (is_alnum(rest->data[n]) || is_one_of(rest->data[n], inner))) {
        n++;
    }
    while (n > 0 && !is_alnum(rest->data[n - 1])) {
        n--;
    }
    if (n == 0 || !is_alnum(rest->data[0])) {
        return false;
    }
    skip(rest, n);
    return true;
}

/* 1.2.3, 1.0rc1, 2!1.0+local, 1.2.*, 1.x, v1 */
static bool take_version(struct view *rest)
{
    size_t n = 0;
    while (n < rest->len && (is_alnum(rest->data[n]) || is_one_of(rest->data[n], ".+-_") ||
                             (rest->data[n] == '!' && n > 0) || (rest->data[n] == '*' && n > 0))) {
        n++;
    }
    if (n == 0 || !is_alnum(rest->data[0])) {
        return false;
    }
    skip(rest, n);
    return true;
}

static bool take_operator(struct view *rest, const char *const *operators)
{
    for (size_t i = 0; operators[i] != NULL; i++) {
        size_t n = strlen(operators[i]);
        if (rest->len >= n && memcmp(rest->data, operators[i], n) == 0) {
            skip(rest, n);
            return true;
        }
    }
    return false;
}

/* ---- pip ---- */

static bool take_extras(struct view *rest)
{
    if (!take_char(rest, '[')) {
        return true;
    }
    do {
        if (!take_name_word(rest, "._-")) {
            return false;
        }
    } while (take_char(rest, ','));
    return take_char(rest, ']');
}

static bool take_specifiers(struct view *rest)
{
    static const char *const operators[] = {"~=", "==", "!=", "<=", ">=", "<", ">", NULL};
    if (rest->len == 0) {
        return true;
    }
    do {
        if (!take_operator(rest, operators) || !take_version(rest)) {
            return false;
        }
    } while (take_char(rest, ','));
    return true;
}

static bool is_pip(struct view rest)
{
    return take_name_word(&rest, "._-") && take_extras(&rest) && take_specifiers(&rest) &&
           rest.len == 0;
}

/* ---- npm ---- */

static bool take_npm_name(struct view *rest)
{
    if (take_char(rest, '@') && !(take_name_word(rest, "._-") && take_char(rest, '/'))) {
        return false;
    }
    return take_name_word(rest, "._-");
}

static bool take_range(struct view *rest)
{
    static const char *const operators[] = {"<=", ">=", "<", ">", "=", "^", "~", NULL};
    if (rest->len == 0) {
        return true;
    }
    if (!take_char(rest, '@')) {
        return false;
    }
    if (take_char(rest, '*')) {
        return true;
    }
    (void)take_operator(rest, operators);
    return take_version(rest);
}

static bool is_npm(struct view rest)
{
    return take_npm_name(&rest) && take_range(&rest) && rest.len == 0;
}

/* ---- both ---- */

static bool looks_like_archive(struct view text)
{
    static const char *const ends[] = {".whl", ".zip", ".tar", ".tgz", ".gz", ".tbz",
                                       ".bz2", ".xz",  ".txz", ".tlz", ".lz", ".lzma"};
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        size_t n = strlen(ends[i]);
        if (text.len > n && strncasecmp(text.data + text.len - n, ends[i], n) == 0) {
            return true;
        }
    }
    return false;
}

/* Replaces characters that cannot be shown: the text goes into an error. */
static void show_name(char *out, size_t size, const char *text)
{
    size_t n = 0;
    for (; text[n] != '\0' && n + 1 < size && n < 60; n++) {
        out[n] = text[n] >= 0x20 && text[n] < 0x7f ? text[n] : '?';
    }
    out[n] = '\0';
}

int package_requirement_check(enum package_manager manager, const char *text, struct err *err)
{
    bool pip = manager == PACKAGE_PIP;
    struct view all = view_of(text);
    char shown[64];
    if (all.len > PACKAGE_REQUIREMENT_MAX) {
        return err_set(err, ERR_INVALID, "a package name with its version has at most %d bytes",
                       PACKAGE_REQUIREMENT_MAX);
    }
    if ((pip ? is_pip(all) : is_npm(all)) && !looks_like_archive(all)) {
        struct view name = package_requirement_name(manager, text);
        return name.len < PACKAGE_NAME_SIZE
                   ? 0
                   : err_set(err, ERR_INVALID, "a package name has at most %d bytes",
                             PACKAGE_NAME_SIZE - 1);
    }
    show_name(shown, sizeof(shown), text);
    return err_set(err, ERR_INVALID,
                   "\"%s\" is no package name: %s; options, URLs, paths and markers are not taken",
                   shown, pip ? FORM_PIP : FORM_NPM);
}

struct view package_requirement_name(enum package_manager manager, const char *text)
{
    struct view rest = view_of(text);
    bool taken = manager == PACKAGE_PIP ? take_name_word(&rest, "._-") : take_npm_name(&rest);
    return view_bytes(text, taken ? (size_t)(rest.data - text) : 0);
}

bool package_is_name(enum package_manager manager, struct view text)
{
    struct view rest = text;
    bool taken = manager == PACKAGE_PIP ? take_name_word(&rest, "._-") : take_npm_name(&rest);
    return taken && rest.len == 0 && text.len < PACKAGE_NAME_SIZE;
}

bool package_is_version(struct view text)
{
    struct view rest = text;
    return take_version(&rest) && rest.len == 0 && text.len < PACKAGE_VERSION_SIZE;
}

bool package_name_normal(enum package_manager manager, struct view name,
                         char ret[PACKAGE_NAME_SIZE])
{
    size_t n = 0;
    if (name.len >= PACKAGE_NAME_SIZE) {
        return false;
    }
    for (size_t i = 0; i < name.len; i++) {
        char c = name.data[i];
        bool dash = manager == PACKAGE_PIP && is_one_of(c, "._-");
        if (dash && n > 0 && ret[n - 1] == '-') {
            continue;
        }
        bool upper = manager == PACKAGE_PIP && c >= 'A' && c <= 'Z';
        ret[n++] = upper ? (char)(c - 'A' + 'a') : dash ? '-' : c;
    }
    ret[n] = '\0';
    return true;
}
