/*
 * Versions in the order of PEP 440: epoch, release, and then what comes before the release (dev,
 * a, b, rc) or behind it (post). A version becomes a row of numbers of which the first difference
 * decides, so the order is that of the rows. The local part, behind a +, counts for equality only
 * if the specifier has one.
 *
 * Numbers that are longer than any in use are cut to a limit; such versions count as equal.
 */
#include "supervisor/packages/specifiers.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

#define PARTS_MAX  16
#define NUMBER_MAX 1000000000000u
#define NO_DEV     UINT64_MAX

/* What a release is beside others of its number, in their order. */
enum phase { PHASE_DEV, PHASE_A, PHASE_B, PHASE_RC, PHASE_FINAL };

struct version {
    uint64_t epoch;
    uint64_t parts[PARTS_MAX]; /* of the release; 0 behind the last one */
    size_t count;
    enum phase phase;
    uint64_t pre;
    uint64_t post; /* 0: none, else its number and 1 */
    uint64_t dev;  /* NO_DEV: none */
    struct view local;
};

static bool is_decimal(char c)
{
    return c >= '0' && c <= '9';
}

static bool take_digits(struct view *rest, uint64_t *ret)
{
    uint64_t value = 0;
    size_t n = 0;
    for (; n < rest->len && is_decimal(rest->data[n]); n++) {
        value = value < NUMBER_MAX ? value * 10 + (uint64_t)(rest->data[n] - '0') : NUMBER_MAX;
    }
    if (n == 0) {
        return false;
    }
    *ret = value;
    *rest = view_bytes(rest->data + n, rest->len - n);
    return true;
}

static bool take_word(struct view *rest, const char *word)
{
    size_t n = strlen(word);
    if (rest->len < n || strncasecmp(rest->data, word, n) != 0) {
        return false;
    }
    *rest = view_bytes(rest->data + n, rest->len - n);
    return true;
}

static void take_separator(struct view *rest)
{
    if (rest->len > 0 && strchr(".-_", rest->data[0]) != NULL && rest->data[0] != '\0') {
        *rest = view_bytes(rest->data + 1, rest->len - 1);
    }
}

/* A marker such as rc1 or .post2: with or without separators, its number 0 if it has none. */
static bool take_marker(struct view *rest, const char *word, uint64_t *ret)
{
    struct view at = *rest;
    take_separator(&at);
    if (!take_word(&at, word)) {
        return false;
    }
    struct view behind = at;
    take_separator(&behind);
    *ret = 0;
    *rest = take_digits(&behind, ret) ? behind : at;
    return true;
}

static void take_phase(struct view *rest, struct version *v)
{
    static const struct {
        const char *word;
        enum phase phase;
    } rows[] = {
        {"alpha", PHASE_A}, {"a", PHASE_A},        {"beta", PHASE_B}, {"b", PHASE_B},
        {"rc", PHASE_RC},   {"preview", PHASE_RC}, {"pre", PHASE_RC}, {"c", PHASE_RC},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (take_marker(rest, rows[i].word, &v->pre)) {
            v->phase = rows[i].phase;
            return;
        }
    }
}

static void take_post(struct view *rest, struct version *v)
{
    uint64_t number = 0;
    struct view at = *rest;
    bool bare = at.len > 1 && at.data[0] == '-' && is_decimal(at.data[1]); /* 1.0-1 */
    if (bare) {
        take_separator(&at);
        bare = take_digits(&at, &number);
    }
    if (bare) {
        *rest = at;
        v->post = number + 1;
    } else if (take_marker(rest, "post", &number) || take_marker(rest, "rev", &number) ||
               take_marker(rest, "r", &number)) {
        v->post = number + 1;
    }
}

/* False: this is no version. */
static bool read_version(struct view text, struct version *ret)
{
    *ret = (struct version){.phase = PHASE_FINAL, .dev = NO_DEV};
    struct view rest = text;
    uint64_t number;
    (void)take_word(&rest, "v");
    if (!take_digits(&rest, &number)) {
        return false;
    }
    if (take_word(&rest, "!")) {
        ret->epoch = number;
        if (!take_digits(&rest, &number)) {
            return false;
        }
    }
    for (;;) {
        if (ret->count < PARTS_MAX) {
            ret->parts[ret->count++] = number;
        }
        struct view at = rest;
        if (!take_word(&at, ".") || !take_digits(&at, &number)) {
            break;
        }
        rest = at;
    }
    take_phase(&rest, ret);
    take_post(&rest, ret);
    if (take_marker(&rest, "dev", &number)) {
        ret->dev = number;
        if (ret->phase == PHASE_FINAL && ret->post == 0) {
            ret->phase = PHASE_DEV;
        }
    }
    if (take_word(&rest, "+")) {
        ret->local = rest;
        return rest.len > 0;
    }
    return rest.len == 0;
}

static int order(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b ? 1 : 0;
}

/* The order of two releases alone, without what is before and behind. */
static int order_releases(const struct version *a, const struct version *b, size_t count)
{
    int by = order(a->epoch, b->epoch);
    for (size_t i = 0; by == 0 && i < count; i++) {
        by = order(a->parts[i], b->parts[i]);
    }
    return by;
}

static int order_versions(const struct version *a, const struct version *b)
{
    int by = order_releases(a, b, PARTS_MAX);
    by = by != 0 ? by : order(a->phase, b->phase);
    by = by != 0 ? by : order(a->pre, b->pre);
    by = by != 0 ? by : order(a->post, b->post);
    return by != 0 ? by : order(a->dev, b->dev);
}

static bool is_same_text(struct view a, struct view b)
{
    return a.len == b.len && (a.len == 0 || strncasecmp(a.data, b.data, a.len) == 0);
}

static bool is_equal(const struct version *there, const struct version *asked)
{
    return order_versions(there, asked) == 0 &&
           (asked->local.len == 0 || is_same_text(there->local, asked->local));
}

enum relation { REL_EQUAL, REL_OTHER, REL_COMPATIBLE, REL_LEAST, REL_MOST, REL_LESS, REL_MORE };

static bool does_fit(enum relation op, const struct version *there, const struct version *asked)
{
    int by = order_versions(there, asked);
    bool same_release = order_releases(there, asked, PARTS_MAX) == 0;
    switch (op) {
    case REL_COMPATIBLE:
        return by >= 0 && asked->count > 1 && order_releases(there, asked, asked->count - 1) == 0;
    case REL_LEAST:
        return by >= 0;
    case REL_MOST:
        return by <= 0;
    case REL_LESS: /* not the pre-releases of what it shall be less than */
        return by < 0 &&
               (!same_release || asked->phase < PHASE_FINAL || there->phase == PHASE_FINAL);
    case REL_MORE: /* not the corrections of what it shall be more than */
        return by > 0 && (!same_release || asked->post != 0 || there->post == 0);
    case REL_OTHER:
        return !is_equal(there, asked);
    default:
        return is_equal(there, asked);
    }
}

static bool does_specifier_fit(enum relation op, struct view asked, struct view version)
{
    struct version there, wanted;
    bool any = asked.len > 2 && memcmp(asked.data + asked.len - 2, ".*", 2) == 0;
    struct view plain = any ? view_bytes(asked.data, asked.len - 2) : asked;
    if (!read_version(version, &there) || !read_version(plain, &wanted)) {
        bool same = is_same_text(asked, version);
        return op == REL_OTHER ? !same : same;
    }
    if (any && (op == REL_EQUAL || op == REL_OTHER)) {
        return (order_releases(&there, &wanted, wanted.count) == 0) == (op == REL_EQUAL);
    }
    return does_fit(op, &there, &wanted);
}

static enum relation take_relation(struct view *rest)
{
    static const struct {
        const char *word;
        enum relation op;
    } rows[] = {
        {"==", REL_EQUAL}, {"!=", REL_OTHER}, {"~=", REL_COMPATIBLE}, {">=", REL_LEAST},
        {"<=", REL_MOST},  {"<", REL_LESS},   {">", REL_MORE},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (take_word(rest, rows[i].word)) {
            return rows[i].op;
        }
    }
    return REL_EQUAL;
}

bool package_version_fits(const char *requirement, struct view version)
{
    struct view rest = view_of(requirement + strcspn(requirement, "<>=!~"));
    while (rest.len > 0) {
        enum relation op = take_relation(&rest);
        const char *comma = memchr(rest.data, ',', rest.len);
        size_t len = comma != NULL ? (size_t)(comma - rest.data) : rest.len;
        if (!does_specifier_fit(op, view_bytes(rest.data, len), version)) {
            return false;
        }
        len += comma != NULL ? 1 : 0;
        rest = view_bytes(rest.data + len, rest.len - len);
    }
    return true;
}
