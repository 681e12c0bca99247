/*
 * A token is compared with every entry of the file, in full, so the time shows neither how much of
 * a guess was right nor which line it resembles. 4096 lines take some 60 microseconds.
 *
 * The file is read into a new set, which replaces the old one only when all of it was good. A
 * mistake in line 100 therefore changes nothing.
 */
#include "supervisor/web/auth/tokens.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/alloc.h"
#include "common/clock.h"
#include "common/str.h"
#include "supervisor/base/secret_file.h"

#define DIGEST_PREFIX "sha256:"
#define HEX_DIGITS    ((size_t)WEB_DIGEST_BYTES * 2)
#define WORDS_MAX     8
#define NEVER_MS      UINT64_MAX
#define LIMIT_MAX     UINT32_MAX
#define DAY_MS        (UINT64_C(86400) * 1000)

enum limit_key { LIMIT_KEY_SANDBOXES, LIMIT_KEY_MEMORY, LIMIT_KEY_CALLS, LIMIT_KEY_COUNT };

static const char *const limit_keys[LIMIT_KEY_COUNT] = {"sandboxes=", "memory_mb=", "calls="};

struct token {
    unsigned char digest[WEB_DIGEST_BYTES];
    uint64_t expires_ms; /* wall clock */
    size_t holder;
    size_t line;
};

struct holder {
    struct principal *principal;
    uint64_t hash;                      /* hash of the name, compared first */
    size_t limit_line[LIMIT_KEY_COUNT]; /* the line that set it; 0: none */
    size_t metrics_line;
    bool good; /* has an unexpired token */
};

struct tokens {
    struct token *items;
    size_t count;
    struct holder *holders;
    size_t holder_count;
};

/* State while the text is read. */
struct reader {
    struct tokens *t;
    const struct principal_limits *defaults;
    uint64_t now_ms;
    size_t line;
    bool plain;
};

/* ---- fields of a line ------------------------------------------------------------------------ */

static bool is_letter_or_digit(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool tokens_name_ok(const char *name)
{
    size_t len = strlen(name);
    for (size_t i = 0; i < len; i++) {
        if (!is_letter_or_digit(name[i]) && strchr("-._", name[i]) == NULL) {
            return false;
        }
    }
    return len > 0 && len <= TOKENS_NAME_MAX && strcmp(name, "local") != 0 &&
           strcmp(name, "stdio") != 0 && strncmp(name, TOKENS_PREFIX, strlen(TOKENS_PREFIX)) != 0;
}

bool tokens_text_ok(struct view text, size_t max)
{
    size_t len = text.len;
    if (len == 0 || len > max) {
        return false;
    }
    while (len > 1 && text.data[len - 1] == '=') {
        len--;
    }
    for (size_t i = 0; i < len; i++) {
        char c = text.data[i];
        if (c == '\0' || (!is_letter_or_digit(c) && strchr("-._~+/", c) == NULL)) {
            return false;
        }
    }
    return true;
}

static bool read_hex(const char *text, unsigned char out[WEB_DIGEST_BYTES])
{
    if (strlen(text) != HEX_DIGITS) {
        return false;
    }
    for (size_t i = 0; i < WEB_DIGEST_BYTES; i++) {
        int high = str_hex_value(text[2 * i]);
        int low = str_hex_value(text[2 * i + 1]);
        if (high < 0 || low < 0) {
            return false;
        }
        out[i] = (unsigned char)(high << 4 | low);
    }
    return true;
}

static bool read_digits(const char *text, size_t len, int *ret)
{
    int value = 0;
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return false;
        }
        value = value * 10 + (text[i] - '0');
    }
    *ret = value;
    return true;
}

/* Returns the first moment at which the token is no longer good. */
static bool read_date(const char *text, uint64_t *ret_ms)
{
    int year, month, day;
    int hour = 0, minute = 0, second = 0;
    size_t len = strlen(text);
    bool whole_day = len == strlen("2027-01-31");
    if ((!whole_day && len != strlen("2027-01-31T12:00:00Z")) || text[4] != '-' || text[7] != '-' ||
        !read_digits(text, 4, &year) || !read_digits(text + 5, 2, &month) ||
        !read_digits(text + 8, 2, &day)) {
        return false;
    }
    if (!whole_day && (text[10] != 'T' || text[13] != ':' || text[16] != ':' || text[19] != 'Z' ||
                       !read_digits(text + 11, 2, &hour) || !read_digits(text + 14, 2, &minute) ||
                       !read_digits(text + 17, 2, &second))) {
        return false;
    }
    struct tm tm = {.tm_year = year - 1900,
                    .tm_mon = month - 1,
                    .tm_mday = day,
                    .tm_hour = hour,
                    .tm_min = minute,
                    .tm_sec = second};
    time_t moment = timegm(&tm);
    if (year < 1970 || moment < 0 || tm.tm_mon != month - 1 || tm.tm_mday != day ||
        tm.tm_hour != hour || tm.tm_min != minute || tm.tm_sec != second) {
        return false; /* 31 February became another day */
    }
    *ret_ms = (uint64_t)moment * 1000 + (whole_day ? DAY_MS : 0);
    return true;
}

/* ---- lines ---------------------------------------------------------------------------------- */

static size_t find_holder(const struct tokens *t, const char *name)
{
    uint64_t hash = hash_text(name);
    size_t i = 0;
    while (i < t->holder_count &&
           (t->holders[i].hash != hash || strcmp(t->holders[i].principal->name, name) != 0)) {
        i++;
    }
    return i;
}

static struct holder *need_holder(struct reader *r, const char *name)
{
    struct tokens *t = r->t;
    size_t at = find_holder(t, name);
    if (at == t->holder_count) {
        t->holders[at].principal = principal_create(name, r->defaults);
        t->holders[at].hash = hash_text(name);
        t->holder_count++;
    }
    return &t->holders[at];
}

static int bad(const struct reader *r, struct err *err, const char *why)
{
    return err_set(err, ERR_CONFIG, "line %zu: %s", r->line, why);
}

static int read_token(struct reader *r, const char *text, struct token *token, struct err *err)
{
    size_t prefix = strlen(DIGEST_PREFIX);
    size_t len = strlen(text);
    if (strncmp(text, DIGEST_PREFIX, prefix) == 0) {
        return read_hex(text + prefix, token->digest)
                   ? 0
                   : bad(r, err, "expected 64 hexadecimal digits behind sha256:");
    }
    if (len < TOKENS_SHORTEST) {
        return bad(r, err,
                   "the token has fewer than 16 characters and could be guessed; "
                   "\"cloister token NAME\" makes a good one");
    }
    if (!tokens_text_ok(view_of(text), TOKENS_LONGEST)) {
        return bad(r, err,
                   "a token has at most 256 characters of A-Z a-z 0-9 - . _ ~ + /, and = "
                   "at its end");
    }
    r->plain = true;
    int rc = web_digest_sha256(view_of(text), token->digest, err);
    return rc < 0 ? err_wrap(err, "line %zu", r->line) : 0;
}

static int read_limit(struct reader *r, struct holder *h, enum limit_key key, const char *text,
                      struct err *err)
{
    struct principal_limits *limits = &h->principal->limits;
    uint64_t *const fields[LIMIT_KEY_COUNT] = {&limits->sandboxes, &limits->memory_mb,
                                               &limits->calls};
    uint64_t value;
    if (str_to_u64(text, 0, LIMIT_MAX, &value, NULL) < 0) {
        return err_set(err, ERR_CONFIG, "line %zu: expected a number behind %s", r->line,
                       limit_keys[key]);
    }
    if (h->limit_line[key] != 0 && *fields[key] != value) {
        return err_set(err, ERR_CONFIG,
                       "line %zu: %s says something else than line %zu does for "
                       "the same name",
                       r->line, limit_keys[key], h->limit_line[key]);
    }
    h->limit_line[key] = r->line;
    *fields[key] = value;
    return 0;
}

static int read_metrics(struct reader *r, struct holder *h, const char *text, struct err *err)
{
    bool only = strcmp(text, "only") == 0;
    enum principal_metrics wanted = only ? PRINCIPAL_METRICS_ONLY : PRINCIPAL_METRICS_YES;
    if (!only && strcmp(text, "yes") != 0) {
        return bad(r, err,
                   "expected metrics=yes, to read /metrics beside using tools, or metrics=only, to "
                   "do nothing else");
    }
    if (h->metrics_line != 0 && h->principal->metrics != wanted) {
        return err_set(err, ERR_CONFIG,
                       "line %zu: metrics= says something else than line %zu does for the same "
                       "name",
                       r->line, h->metrics_line);
    }
    h->metrics_line = r->line;
    h->principal->metrics = wanted;
    return 0;
}

static int read_admin(struct reader *r, struct holder *h, const char *text, struct err *err)
{
    if (strcmp(text, "yes") != 0) {
        return bad(r, err,
                   "expected admin=yes, which lets a principal see and stop what others have; "
                   "without it he may not");
    }
    h->principal->admin = true;
    return 0;
}

static int read_option(struct reader *r, struct holder *h, struct token *token, const char *word,
                       struct err *err)
{
    static const char expires[] = "expires=";
    static const char metrics[] = "metrics=";
    static const char admin[] = "admin=";
    for (int key = 0; key < LIMIT_KEY_COUNT; key++) {
        size_t len = strlen(limit_keys[key]);
        if (strncmp(word, limit_keys[key], len) == 0) {
            return read_limit(r, h, (enum limit_key)key, word + len, err);
        }
    }
    if (strncmp(word, metrics, strlen(metrics)) == 0) {
        return read_metrics(r, h, word + strlen(metrics), err);
    }
    if (strncmp(word, admin, strlen(admin)) == 0) {
        return read_admin(r, h, word + strlen(admin), err);
    }
    if (strncmp(word, expires, strlen(expires)) != 0) {
        return bad(r, err,
                   "behind the token may stand sandboxes=N, memory_mb=N, calls=N, metrics=yes, "
                   "metrics=only, admin=yes and expires=DATE");
    }
    if (token->expires_ms != NEVER_MS || !read_date(word + strlen(expires), &token->expires_ms)) {
        return bad(r, err,
                   "expected one date behind expires=, such as 2027-01-31 or "
                   "2027-01-31T12:00:00Z");
    }
    return 0;
}

static int add_token(struct reader *r, struct holder *h, struct token *token, struct err *err)
{
    struct tokens *t = r->t;
    for (size_t i = 0; i < t->count; i++) {
        if (memcmp(t->items[i].digest, token->digest, WEB_DIGEST_BYTES) == 0) {
            return err_set(err, ERR_CONFIG, "line %zu: the same token as in line %zu", r->line,
                           t->items[i].line);
        }
    }
    token->holder = (size_t)(h - t->holders);
    token->line = r->line;
    h->good = h->good || token->expires_ms > r->now_ms;
    t->items[t->count++] = *token;
    return 0;
}

/* Splits at blanks, in place. */
static size_t split_line(char *line, char *words[WORDS_MAX + 1])
{
    size_t count = 0;
    for (char *at = line + strspn(line, " \t"); *at != '\0' && count <= WORDS_MAX;) {
        words[count++] = at;
        at += strcspn(at, " \t");
        if (*at != '\0') {
            *at++ = '\0';
            at += strspn(at, " \t");
        }
    }
    return count;
}

static int read_line(struct reader *r, char *line, struct err *err)
{
    char *words[WORDS_MAX + 1];
    size_t count = split_line(line, words);
    struct token token = {.expires_ms = NEVER_MS};
    if (count == 0 || words[0][0] == '#') {
        return 0;
    }
    if (r->t->count == TOKENS_MAX) {
        return bad(r, err, "more than 4096 tokens");
    }
    if (!tokens_name_ok(words[0])) {
        return bad(r, err,
                   "the line begins with a name of at most 64 letters, digits, - . _ that "
                   "is not \"local\" or \"stdio\", nor a token");
    }
    if (count < 2 || count > WORDS_MAX) {
        return bad(r, err,
                   "expected NAME TOKEN [sandboxes=N] [memory_mb=N] [calls=N] "
                   "[metrics=yes|only] [admin=yes] [expires=DATE]");
    }
    struct holder *h = need_holder(r, words[0]);
    int rc = read_token(r, words[1], &token, err);
    for (size_t i = 2; i < count && rc == 0; i++) {
        rc = read_option(r, h, &token, words[i], err);
    }
    return rc < 0 ? rc : add_token(r, h, &token, err);
}

/* Reads all lines, and checks what every line must have. */
static int read_lines(struct reader *r, struct view text, struct err *err)
{
    char line[TOKENS_LINE_MAX_BYTES + 1];
    int rc = 0;
    for (size_t at = 0; at < text.len && rc == 0;) {
        const char *end = memchr(text.data + at, '\n', text.len - at);
        size_t len = end != NULL ? (size_t)(end - text.data) - at : text.len - at;
        size_t next = at + len + 1;
        r->line++;
        if (len > 0 && text.data[at + len - 1] == '\r') {
            len--;
        }
        if (len > TOKENS_LINE_MAX_BYTES || memchr(text.data + at, '\0', len) != NULL) {
            rc = bad(r, err, "a line has at most 1024 bytes, and none of them is zero");
        } else {
            memcpy(line, text.data + at, len);
            line[len] = '\0';
            rc = read_line(r, line, err);
        }
        at = next;
    }
    explicit_bzero(line, sizeof(line));
    return rc;
}

/* ---- sets ----------------------------------------------------------------------------------- */

/* Drops expired tokens, and principals without a token. */
static void drop_expired(struct tokens *t, uint64_t now_ms)
{
    size_t *moved = alloc_array(t->holder_count + 1, sizeof(size_t));
    size_t holders = 0;
    size_t count = 0;
    for (size_t i = 0; i < t->holder_count; i++) {
        moved[i] = holders;
        if (t->holders[i].good) {
            t->holders[holders++] = t->holders[i];
        } else {
            principal_release(t->holders[i].principal);
        }
    }
    for (size_t i = 0; i < t->count; i++) {
        if (t->items[i].expires_ms > now_ms) {
            t->items[count] = t->items[i];
            t->items[count].holder = moved[t->items[i].holder];
            count++;
        }
    }
    t->holder_count = holders;
    t->count = count;
    free(moved);
}

int tokens_read(struct view text, const struct principal_limits *defaults, uint64_t now_wall_ms,
                struct tokens **ret, bool *ret_plain, struct err *err)
{
    struct tokens *t = alloc_one(struct tokens);
    struct reader r = {.t = t, .defaults = defaults, .now_ms = now_wall_ms};
    t->items = alloc_array(TOKENS_MAX, sizeof(struct token));
    t->holders = alloc_array(TOKENS_MAX, sizeof(struct holder));
    int rc = read_lines(&r, text, err);
    if (rc < 0) {
        tokens_destroy(t);
        return rc;
    }
    drop_expired(t, now_wall_ms);
    *ret = t;
    *ret_plain = r.plain;
    return 0;
}

int tokens_load(const char *path, const struct principal_limits *defaults, struct tokens **ret,
                struct err *err)
{
    struct buf text;
    struct tokens *t = NULL;
    bool open = false;
    bool plain = false;
    int rc = secret_file_read(path, &text, &open, err);
    if (rc < 0) {
        return rc;
    }
    rc = tokens_read(view_bytes(text.data, text.len), defaults, clock_wall_ms(), &t, &plain, err);
    secret_file_wipe(&text);
    if (rc < 0) {
        return err_wrap(err, "%s", path);
    }
    if (open && plain) {
        tokens_destroy(t);
        return err_set(err, ERR_CONFIG,
                       "everybody may read %s, and there are plain tokens in it: chmod 600 %s, or "
                       "keep only their digests there (sha256:...)",
                       path, path);
    }
    *ret = t;
    return 0;
}

void tokens_destroy(struct tokens *t)
{
    if (t != NULL) {
        for (size_t i = 0; i < t->holder_count; i++) {
            principal_release(t->holders[i].principal);
        }
        free(t->holders);
        free(t->items);
        free(t);
    }
}

struct principal *tokens_find(const struct tokens *t, const unsigned char digest[WEB_DIGEST_BYTES],
                              uint64_t now_wall_ms)
{
    const struct token *found = NULL;
    for (size_t i = 0; i < t->count; i++) {
        bool same = web_digest_equal(t->items[i].digest, digest);
        found = same ? &t->items[i] : found;
    }
    if (found == NULL || found->expires_ms <= now_wall_ms) {
        return NULL;
    }
    return t->holders[found->holder].principal;
}

void tokens_replace(struct tokens *old, struct tokens *fresh,
                    void (*revoked)(void *arg, struct principal *p), void *arg)
{
    for (size_t i = 0; i < old->holder_count; i++) {
        struct principal *p = old->holders[i].principal;
        size_t at = find_holder(fresh, p->name);
        if (at < fresh->holder_count) {
            struct principal *successor = fresh->holders[at].principal;
            p->limits = successor->limits;
            p->metrics = successor->metrics;
            p->admin = successor->admin;
            fresh->holders[at].principal = principal_hold(p);
            principal_release(successor);
        } else {
            p->revoked = true;
            revoked(arg, p);
        }
    }
    tokens_destroy(old);
}

size_t tokens_count(const struct tokens *t)
{
    return t->count;
}

size_t tokens_names(const struct tokens *t)
{
    size_t count = 0;
    for (size_t i = 0; i < t->holder_count; i++) {
        count += t->holders[i].principal->metrics != PRINCIPAL_METRICS_ONLY;
    }
    return count;
}
