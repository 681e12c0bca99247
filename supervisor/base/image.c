/*
 * The grammar is that of the engines, slightly stricter: a valid reference can stand in a path of
 * the engine's API and in an argument list without another meaning. It cannot contain "..", a
 * blank, a control character or a leading dash, because each part begins and ends with a letter or
 * digit.
 *
 * A pattern of allowed images must not match more than its author expects. So "*" stops at "/":
 * "python*" is every tag of python and never "python.example.com/anything".
 */
#include "supervisor/base/image.h"

#include <stdio.h>
#include <string.h>

#define HUB         "docker.io/"
#define HUB_OWN     "docker.io/library/"
#define LOWER       "abcdefghijklmnopqrstuvwxyz"
#define UPPER       "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS      "0123456789"
#define TAG         ":latest"
#define TAG_MAX     128
#define SPELLED_MAX (sizeof(HUB_OWN) + IMAGE_REFERENCE_MAX + sizeof(TAG))

/* Letters and digits, joined by single ".", by "_" or "__", or by any number of "-". */
static bool is_component(const char *text, size_t len)
{
    size_t at = 0;
    for (;;) {
        size_t word = strspn(text + at, LOWER DIGITS);
        if (word == 0 || at + word > len) {
            return false;
        }
        at += word;
        if (at == len) {
            return true;
        }
        size_t dashes = strspn(text + at, "-");
        size_t joint = dashes > 0                         ? dashes
                       : text[at] == '.'                  ? 1
                       : strncmp(text + at, "__", 2) == 0 ? 2
                       : text[at] == '_'                  ? 1
                                                          : 0;
        if (joint == 0) {
            return false;
        }
        at += joint;
    }
}

/* Whether the part before the first "/" is a registry, not the first part of a repository. */
static bool is_host(const char *text, size_t len)
{
    return memchr(text, '.', len) != NULL || memchr(text, ':', len) != NULL ||
           (len == 9 && strncmp(text, "localhost", 9) == 0);
}

static bool is_good_host(const char *text, size_t len)
{
    const char *colon = memchr(text, ':', len);
    size_t name = colon != NULL ? (size_t)(colon - text) : len;
    size_t port = colon != NULL ? len - name - 1 : 0;
    if (colon != NULL && (port == 0 || port > 5 || strspn(colon + 1, DIGITS) < port)) {
        return false;
    }
    return is_component(text, name);
}

static bool is_digest(const char *text)
{
    static const struct {
        const char *name;
        size_t digits;
    } kinds[] = {{"sha256:", 64}, {"sha512:", 128}};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        size_t len = strlen(kinds[i].name);
        if (strncmp(text, kinds[i].name, len) == 0) {
            return strlen(text + len) == kinds[i].digits &&
                   strspn(text + len, DIGITS "abcdef") == kinds[i].digits;
        }
    }
    return false;
}

static bool is_tag(const char *text, size_t len)
{
    return len > 0 && len <= TAG_MAX && text[0] != '.' && text[0] != '-' &&
           strspn(text, LOWER UPPER DIGITS "_.-") >= len;
}

static bool is_repository(const char *text, size_t len)
{
    const char *slash = memchr(text, '/', len);
    if (slash != NULL && is_host(text, (size_t)(slash - text))) {
        if (!is_good_host(text, (size_t)(slash - text))) {
            return false;
        }
        len -= (size_t)(slash - text) + 1;
        text = slash + 1;
    }
    for (;;) {
        slash = memchr(text, '/', len);
        size_t part = slash != NULL ? (size_t)(slash - text) : len;
        if (!is_component(text, part)) {
            return false;
        }
        if (slash == NULL) {
            return true;
        }
        text += part + 1;
        len -= part + 1;
    }
}

/* Length of the repository including its host, up to the tag or digest. */
static size_t repository_length(const char *text)
{
    size_t len = strcspn(text, "@");
    for (size_t i = len; i > 0 && text[i - 1] != '/'; i--) {
        if (text[i - 1] == ':') {
            return i - 1;
        }
    }
    return len;
}

int image_check_reference(const char *text, struct err *err)
{
    size_t all = strlen(text);
    if (all == 0 || all > IMAGE_REFERENCE_MAX) {
        return err_set(err, ERR_INVALID, "image: expected 1 to %d bytes, got %zu",
                       IMAGE_REFERENCE_MAX, all);
    }
    size_t repository = repository_length(text);
    const char *tag = text + repository;
    const char *digest = strchr(text, '@');
    size_t tag_len = strcspn(tag, "@");
    bool good = is_repository(text, repository) && (tag_len == 0 || is_tag(tag + 1, tag_len - 1)) &&
                (digest == NULL || is_digest(digest + 1));
    if (!good) {
        return err_set(err, ERR_INVALID,
                       "image: expected repository[:tag][@digest] with the repository in lower "
                       "case, such as \"python:3.13-slim\" or \"ghcr.io/owner/name:tag\"");
    }
    return 0;
}

bool image_is_path(const char *text)
{
    return text[0] == '/' || strncmp(text, "./", 2) == 0 || strncmp(text, "../", 3) == 0 ||
           strcmp(text, ".") == 0 || strcmp(text, "..") == 0;
}

/* ---- what is allowed ------------------------------------------------------------------------ */

int image_check_patterns(const char *patterns, struct err *err)
{
    if (patterns[0] == '\0') {
        return 0;
    }
    if (strlen(patterns) > IMAGE_PATTERNS_MAX) {
        return err_set(err, ERR_CONFIG, "expected at most %d bytes, got %zu", IMAGE_PATTERNS_MAX,
                       strlen(patterns));
    }
    for (const char *at = patterns;; at++) {
        size_t len = strcspn(at, ",");
        if (len == 0 || len > IMAGE_REFERENCE_MAX ||
            strspn(at, LOWER UPPER DIGITS "._-/:@*") < len) {
            return err_set(err, ERR_CONFIG,
                           "expected image references, in which * may stand for anything, "
                           "separated by commas, got \"%.64s\"",
                           patterns);
        }
        at += len;
        if (*at == '\0') {
            return 0;
        }
    }
}

/* Only the latest "*" needs backtracking: the match of an earlier one is settled by the text
 * between them. */
static bool matches(const char *pattern, const char *text)
{
    const char *star = NULL; /* after the latest "*" */
    const char *from = NULL; /* end of its match so far */
    bool behind_slash = false;
    while (*text != '\0') {
        if (*pattern == '*') {
            if (behind_slash && pattern[1] == '\0') {
                return true;
            }
            star = ++pattern;
            from = text;
        } else if (*pattern == *text) {
            behind_slash = *pattern == '/';
            pattern++;
            text++;
        } else if (star != NULL && *from != '/') {
            pattern = star;
            text = ++from;
            behind_slash = false;
        } else {
            return false;
        }
    }
    pattern += strspn(pattern, "*");
    return *pattern == '\0';
}

/* Completes a short name as an engine does: the registry, "library" for official images, and the
 * tag. */
static void spell_out(const char *name, char *out, size_t size)
{
    size_t len = strlen(name);
    size_t repository = repository_length(name);
    const char *slash = memchr(name, '/', repository);
    const char *before = slash == NULL ? HUB_OWN : HUB;
    if (slash != NULL && is_host(name, (size_t)(slash - name))) {
        before = "";
    }
    bool whole = repository < len || (len > 0 && name[len - 1] == '*');
    snprintf(out, size, "%s%s%s", before, name, whole ? "" : TAG);
}

bool image_is_allowed(const char *patterns, const char *reference)
{
    char wanted[SPELLED_MAX];
    char pattern[IMAGE_REFERENCE_MAX + 1];
    char spelled[SPELLED_MAX];
    if (patterns[0] == '\0') {
        return true;
    }
    spell_out(reference, wanted, sizeof(wanted));
    for (const char *at = patterns;; at++) {
        size_t len = strcspn(at, ",");
        if (len < sizeof(pattern)) {
            snprintf(pattern, sizeof(pattern), "%.*s", (int)len, at);
            spell_out(pattern, spelled, sizeof(spelled));
            if (matches(spelled, wanted)) {
                return true;
            }
        }
        at += len;
        if (*at == '\0') {
            return false;
        }
    }
}
