/*
 * Checked text helpers. The UTF-8 reader follows the tables of RFC 3629 (no surrogates, no overlong
 * forms, nothing above U+10FFFF), because strict JSON readers must accept what we send.
 */
#include "common/str.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

int str_to_u64(const char *text, uint64_t min, uint64_t max, uint64_t *ret, struct err *err)
{
    uint64_t value = 0;
    if (*text == '\0') {
        return err_set(err, ERR_INVALID, "expected a number, got nothing");
    }
    for (const char *p = text; *p != '\0'; p++) {
        if (*p < '0' || *p > '9') {
            return err_set(err, ERR_INVALID, "expected a whole number, got \"%.64s\"", text);
        }
        uint64_t digit = (uint64_t)(*p - '0');
        if (value > (UINT64_MAX - digit) / 10) {
            return err_set(err, ERR_INVALID, "number \"%.64s\" is too large", text);
        }
        value = value * 10 + digit;
    }
    if (value < min || value > max) {
        return err_set(err, ERR_INVALID, "expected a number between %llu and %llu, got %.64s",
                       (unsigned long long)min, (unsigned long long)max, text);
    }
    *ret = value;
    return 0;
}

int str_hex_value(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

int str_copy(char *dst, size_t size, const char *src, struct err *err)
{
    size_t len = strlen(src);
    if (len >= size) {
        dst[0] = '\0';
        return err_set(err, ERR_TOO_BIG, "text of %zu bytes is longer than %zu", len, size - 1);
    }
    memcpy(dst, src, len + 1);
    return 0;
}

/* Length of the valid sequence at p, 0 if there is none within len bytes. */
static size_t sequence_len(const unsigned char *p, size_t len)
{
    unsigned char c = p[0];
    if (c < 0x80) {
        return 1;
    }
    if (c < 0xc2 || c > 0xf4) {
        return 0;
    }
    size_t n = c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
    if (len < n) {
        return 0;
    }
    /* only the second byte has special ranges */
    unsigned char low = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80;
    unsigned char high = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf;
    if (p[1] < low || p[1] > high) {
        return 0;
    }
    for (size_t i = 2; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    return n;
}

size_t utf8_valid_prefix(const char *data, size_t len)
{
    const unsigned char *p = (const unsigned char *)data;
    size_t i = 0;
    while (i < len) {
        /* most text is ASCII: take eight bytes a step */
        uint64_t word;
        while (i + sizeof(word) <= len) {
            memcpy(&word, p + i, sizeof(word));
            if ((word & 0x8080808080808080u) != 0) {
                break;
            }
            i += sizeof(word);
        }
        if (i >= len) {
            break;
        }
        size_t n = sequence_len(p + i, len - i);
        if (n == 0) {
            break;
        }
        i += n;
    }
    return i;
}

bool utf8_valid(const char *data, size_t len)
{
    return utf8_valid_prefix(data, len) == len;
}

int utf8_add_lossy(struct buf *out, const char *data, size_t len, struct err *err)
{
    static const char replacement[] = "\xef\xbf\xbd";
    size_t i = 0;
    while (i < len) {
        size_t run = utf8_valid_prefix(data + i, len - i);
        const char *nul = run > 0 ? memchr(data + i, '\0', run) : NULL;
        if (nul != NULL) {
            run = (size_t)(nul - (data + i));
        }
        int rc = buf_add(out, data + i, run, err);
        if (rc < 0) {
            return rc;
        }
        i += run;
        if (i < len) {
            rc = buf_add(out, replacement, sizeof(replacement) - 1, err);
            if (rc < 0) {
                return rc;
            }
            i++;
        }
    }
    return 0;
}

int random_bytes(void *out, size_t len, struct err *err)
{
    for (size_t have = 0; have < len;) {
        ssize_t n = getrandom((char *)out + have, len - have, 0);
        if (n < 0 && errno != EINTR) {
            return err_sys(err, ERR_INTERNAL, errno, "no random numbers");
        }
        have += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

int random_id(char *out, size_t chars, struct err *err)
{
    static const char alphabet[33] = "abcdefghijklmnopqrstuvwxyz234567";
    int rc = random_bytes(out, chars, err);
    for (size_t i = 0; rc == 0 && i < chars; i++) {
        out[i] = alphabet[(unsigned char)out[i] & 31];
    }
    out[rc == 0 ? chars : 0] = '\0';
    return rc;
}
