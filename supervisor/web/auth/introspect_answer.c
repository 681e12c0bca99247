/*
 * A token is good if the issuer says that it is active, nothing in the answer contradicts that, and
 * it was made for us. Servers often forget the last check: an issuer serves many services, and a
 * token for one of them must not open another ("confused deputy"). So we refuse an answer without
 * an audience, though RFC 7662 allows it: the issuer must be configured to say for whom its tokens
 * are.
 *
 * We also refuse a token that is bound to a key of its holder ("cnf"), since we cannot ask for the
 * proof that a thief could not give, and a token whose type is not that of an access token.
 *
 * Names: two subjects must never become one principal. The name of a subject differs from names in
 * the token file (by the @), and from a client that acts for itself (by "client/", since a slash in
 * a subject is escaped). So nobody who may choose a name at the issuer can choose somebody else's.
 */
#include "supervisor/web/auth/introspect_answer.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/alloc.h"
#include "common/io/json.h"

#define ANSWER_DEPTH  16
#define AUDIENCES_MAX 64
#define SUBJECT_MAX   255 /* the limit of OpenID Connect */
#define CLOCK_SKEW_S  30  /* tolerated difference between the issuer's clock and ours */
#define LATEST_S      9007199254740992.0

static int malformed(struct err *err, const char *what)
{
    return err_set(err, ERR_PROTOCOL, "the issuer's answer makes no sense: %s", what);
}

/* ---- members -------------------------------------------------------------------------------- */

/* NULL also for JSON null, which some issuers write for unknown values. */
static const cJSON *answer_member(const cJSON *answer, const char *key)
{
    const cJSON *item = json_get(answer, key);
    return cJSON_IsNull(item) ? NULL : item;
}

/* Reads a time in seconds. *ret_has is false if the member is absent. */
static int read_moment(const cJSON *answer, const char *key, bool *ret_has, uint64_t *ret,
                       struct err *err)
{
    const cJSON *item = answer_member(answer, key);
    *ret_has = item != NULL;
    if (item == NULL) {
        return 0;
    }
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0) || item->valuedouble > LATEST_S) {
        return malformed(err, "exp or nbf is not a time");
    }
    *ret = (uint64_t)item->valuedouble;
    return 0;
}

/* Reads an optional string. */
static int read_text(const cJSON *answer, const char *key, const char **ret, struct err *err)
{
    const cJSON *item = answer_member(answer, key);
    if (item != NULL && !cJSON_IsString(item)) {
        return malformed(err, "one of iss, sub, client_id, scope and token_type is not a text");
    }
    *ret = item != NULL ? item->valuestring : NULL;
    return 0;
}

/* Compares URLs except for a trailing slash, which only some issuers write. NULL equals nothing. */
static bool same_url(const char *a, const char *b)
{
    size_t a_len = strlen(a);
    size_t b_len = strlen(b);
    a_len -= a_len > 0 && a[a_len - 1] == '/';
    b_len -= b_len > 0 && b[b_len - 1] == '/';
    return a_len > 0 && a_len == b_len && memcmp(a, b, a_len) == 0;
}

static int is_for_us(const cJSON *answer, const char *audience, bool *ret, struct err *err)
{
    const cJSON *aud = answer_member(answer, "aud");
    const cJSON *item;
    size_t count = 0;
    *ret = false;
    if (aud == NULL) {
        return 0;
    }
    if (cJSON_IsString(aud)) {
        *ret = same_url(aud->valuestring, audience);
        return 0;
    }
    if (!cJSON_IsArray(aud)) {
        return malformed(err, "aud is neither a text nor a list");
    }
    cJSON_ArrayForEach(item, aud)
    {
        if (!cJSON_IsString(item) || ++count > AUDIENCES_MAX) {
            return malformed(err, "aud is no list of at most 64 texts");
        }
        *ret = *ret || same_url(item->valuestring, audience);
    }
    return 0;
}

static bool has_scope(const char *list, struct view word)
{
    while (*list != '\0') {
        size_t len = strcspn(list, " ");
        if (len == word.len && memcmp(list, word.data, len) == 0) {
            return true;
        }
        list += len;
        list += strspn(list, " ");
    }
    return false;
}

static bool covers(const char *have, const char *need)
{
    need += strspn(need, " ");
    while (*need != '\0') {
        size_t len = strcspn(need, " ");
        if (!has_scope(have, view_bytes(need, len))) {
            return false;
        }
        need += len;
        need += strspn(need, " ");
    }
    return true;
}

/* "Bearer", or what some issuers write instead. */
static bool is_access_token(const cJSON *answer, const char *type)
{
    const char *use = json_get_str(answer, "token_use");
    bool plain =
        type == NULL || strcasecmp(type, "Bearer") == 0 || strcmp(type, "access_token") == 0;
    bool access = use == NULL || strcmp(use, "access_token") == 0 || strcmp(use, "access") == 0;
    return plain && access && answer_member(answer, "cnf") == NULL;
}

/* ---- names ---------------------------------------------------------------------------------- */

static char *principal_name(const char *kind, const char *subject, const char *place)
{
    static const char digits[] = "0123456789ABCDEF";
    char escaped[3 * SUBJECT_MAX + 1];
    char *out = escaped;
    for (const char *p = subject; *p != '\0'; p++) {
        unsigned char c = (unsigned char)*p;
        if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
            strchr("-._~|:+@", c) != NULL) {
            *out++ = (char)c;
        } else {
            *out++ = '%';
            *out++ = digits[c >> 4];
            *out++ = digits[c & 15];
        }
    }
    *out = '\0';
    return alloc_printf("%s%s@%s", kind, escaped, place);
}

static bool is_subject(const char *text)
{
    return text != NULL && text[0] != '\0' && strlen(text) <= SUBJECT_MAX;
}

/* ---- the answer ----------------------------------------------------------------------------- */

static int refuse_answer(struct introspect_answer *a, enum introspect_verdict verdict,
                         const char *why)
{
    a->verdict = verdict;
    a->why = why;
    return 0;
}

/* Fills *a. Finds everything that is wrong with an active token. */
static int judge_answer(const cJSON *answer, const struct introspect_expect *expect, uint64_t now_s,
                        struct introspect_answer *a, struct err *err)
{
    uint64_t exp_s = 0, nbf_s = 0;
    bool has_exp = false, has_nbf = false, ours = false;
    const char *type = NULL, *iss = NULL, *sub = NULL, *client = NULL, *scope = NULL;
    int rc = read_moment(answer, "exp", &has_exp, &exp_s, err);
    rc = rc == 0 ? read_moment(answer, "nbf", &has_nbf, &nbf_s, err) : rc;
    rc = rc == 0 ? read_text(answer, "token_type", &type, err) : rc;
    rc = rc == 0 ? read_text(answer, "iss", &iss, err) : rc;
    rc = rc == 0 ? read_text(answer, "sub", &sub, err) : rc;
    rc = rc == 0 ? read_text(answer, "client_id", &client, err) : rc;
    rc = rc == 0 ? read_text(answer, "scope", &scope, err) : rc;
    rc = rc == 0 ? is_for_us(answer, expect->audience, &ours, err) : rc;
    if (rc < 0) {
        return rc;
    }
    if (!is_access_token(answer, type)) {
        return refuse_answer(a, INTROSPECT_BAD, "this is not a bearer access token");
    }
    if (has_exp && exp_s <= now_s) {
        return refuse_answer(a, INTROSPECT_BAD, "the token has expired");
    }
    if (has_nbf && nbf_s > now_s + CLOCK_SKEW_S) {
        return refuse_answer(a, INTROSPECT_BAD, "the token is not valid yet");
    }
    if (iss != NULL && !same_url(iss, expect->issuer)) {
        return refuse_answer(a, INTROSPECT_BAD, "the token is of another issuer");
    }
    if (!ours) {
        return refuse_answer(a, INTROSPECT_BAD, "the token was not issued for this server");
    }
    if (!is_subject(sub != NULL ? sub : client)) {
        return refuse_answer(a, INTROSPECT_BAD, "the token does not say whose it is");
    }
    if (!covers(scope != NULL ? scope : "", expect->scopes)) {
        return refuse_answer(a, INTROSPECT_SCOPE, "the token lacks a scope that is needed here");
    }
    a->verdict = INTROSPECT_GOOD;
    a->why = "";
    a->good_s = has_exp ? exp_s - now_s : UINT64_MAX;
    a->name =
        principal_name(sub != NULL ? "" : "client/", sub != NULL ? sub : client, expect->place);
    return 0;
}

int introspect_answer_read(struct view body, const struct introspect_expect *expect,
                           uint64_t now_wall_s, struct introspect_answer *ret, struct err *err)
{
    cJSON *answer = NULL;
    struct introspect_answer a = {.verdict = INTROSPECT_BAD, .why = "the token is not active"};
    if (json_parse(body.data != NULL ? body.data : "", body.len, INTROSPECT_ANSWER_MAX_BYTES,
                   ANSWER_DEPTH, &answer, NULL, err) < 0) {
        err->code = ERR_PROTOCOL;
        return err_wrap(err, "the issuer's answer");
    }
    int rc = 0;
    const cJSON *active = json_get(answer, "active");
    if (!cJSON_IsBool(active)) {
        rc = malformed(err, "\"active\" is neither true nor false");
    } else if (cJSON_IsTrue(active)) {
        rc = judge_answer(answer, expect, now_wall_s, &a, err);
    }
    cJSON_Delete(answer);
    if (rc == 0) {
        *ret = a;
    }
    return rc;
}
