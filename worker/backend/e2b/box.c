/*
 * Ids, tokens and domains become parts of requests: of paths, headers and hosts. So they are taken
 * only if they are made of what these may have. The service would send no others; a proxy in
 * between might.
 */
#include "worker/backend/e2b/box.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/io/json.h"
#include "common/str.h"

#define TOKEN_MAX  4096
#define DOMAIN_MAX 253
#define LOWER      "abcdefghijklmnopqrstuvwxyz"
#define DIGITS     "0123456789"

void e2b_box_finish(struct e2b_box *box)
{
    if (box->token != NULL) {
        explicit_bzero(box->token, strlen(box->token));
        free(box->token);
    }
    free(box->domain);
    *box = (struct e2b_box){.token = NULL};
}

static bool is_made_of(const char *text, const char *chars, size_t max)
{
    size_t len = strlen(text);
    return len > 0 && len <= max && strspn(text, chars) == len;
}

static bool is_box_token(const char *text)
{
    size_t len = 0;
    while (text[len] > ' ' && text[len] < 0x7f && len <= TOKEN_MAX) {
        len++;
    }
    return text[len] == '\0' && len > 0;
}

int e2b_box_read(const cJSON *json, struct e2b_box *ret, struct err *err)
{
    const char *id = json_get_str(json, "sandboxID");
    const char *token = json_get_str(json, "envdAccessToken");
    const char *domain = json_get_str(json, "domain");
    const char *version = json_get_str(json, "envdVersion");
    const char *state = json_get_str(json, "state");
    if (id == NULL || !is_made_of(id, LOWER DIGITS, E2B_BOX_ID_SIZE - 1)) {
        return err_set(err, ERR_PROTOCOL, "the answer of the service has no sandboxID");
    }
    if (token != NULL && !is_box_token(token)) {
        return err_set(err, ERR_PROTOCOL, "the envdAccessToken of %s is none", id);
    }
    if (domain != NULL && !is_made_of(domain, LOWER DIGITS ".-:", DOMAIN_MAX)) {
        return err_set(err, ERR_PROTOCOL, "the domain of %s is none", id);
    }
    *ret = (struct e2b_box){.paused = state != NULL && strcmp(state, "paused") == 0};
    snprintf(ret->id, sizeof(ret->id), "%s", id);
    if (version != NULL && is_made_of(version, LOWER DIGITS ".-+", E2B_VERSION_MAX - 1)) {
        snprintf(ret->version, sizeof(ret->version), "%s", version);
    }
    ret->token = token != NULL ? alloc_strdup(token) : NULL;
    ret->domain = domain != NULL ? alloc_strdup(domain) : NULL;
    return 0;
}

bool e2b_box_is_of(const cJSON *json, const char *sandbox)
{
    const char *own = json_get_str(json_get(json, "metadata"), E2B_META_SANDBOX);
    return own != NULL && strcmp(own, sandbox) == 0;
}

bool e2b_box_is_at_least(const char *version, unsigned major, unsigned minor, unsigned patch)
{
    const unsigned wanted[] = {major, minor, patch};
    for (size_t i = 0; i < 3; i++) {
        unsigned number = 0;
        size_t digits = strspn(version, DIGITS);
        if (digits == 0 || digits > 6) {
            return false;
        }
        for (size_t k = 0; k < digits; k++) {
            number = number * 10 + (unsigned)(version[k] - '0');
        }
        if (number != wanted[i]) {
            return number > wanted[i];
        }
        version += digits;
        version += *version == '.';
    }
    return true;
}
