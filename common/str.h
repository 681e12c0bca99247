/*
 * Checked text helpers: numbers, UTF-8, identifiers, a hash. Thread: any; nothing blocks.
 */
#ifndef CLOISTER_COMMON_STR_H
#define CLOISTER_COMMON_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common/buf.h"
#include "common/err.h"
#include "common/view.h"

/* Whole-string decimal within [min, max]; *ret is written on success only. */
int str_to_u64(const char *text, uint64_t min, uint64_t max, uint64_t *ret,
               struct err *err) WARN_UNUSED;

/* Copies into a fixed array; -ERR_TOO_BIG (array emptied) if it does not fit with its NUL. */
int str_copy(char *dst, size_t size, const char *src, struct err *err) WARN_UNUSED;

/* The value of a hexadecimal digit in either case; -1 for other characters. */
int str_hex_value(char c);

/* Length in bytes of the longest valid UTF-8 prefix (RFC 3629: no surrogates, no overlong). */
size_t utf8_valid_prefix(const char *data, size_t len);
bool utf8_valid(const char *data, size_t len);

/* Appends data as UTF-8: each invalid byte and each NUL becomes U+FFFD. A sequence cut off by the
 * end of data is replaced too. */
int utf8_add_lossy(struct buf *out, const char *data, size_t len, struct err *err) WARN_UNUSED;

/* Unguessable bytes. -ERR_INTERNAL if the kernel gives none. */
int random_bytes(void *out, size_t len, struct err *err) WARN_UNUSED;

/* Fills out[] with `chars` random characters of [a-z2-7] (5 bits each) and a NUL. Unguessable. */
int random_id(char *out, size_t chars, struct err *err) WARN_UNUSED;

/* FNV-1a with 64 bits: for data that no attacker chooses. */
static inline uint64_t hash_bytes(const void *data, size_t len)
{
    const uint8_t *bytes = data;
    uint64_t hash = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < len; i++) {
        hash = (hash ^ bytes[i]) * UINT64_C(1099511628211);
    }
    return hash;
}

static inline uint64_t hash_text(const char *text)
{
    return hash_bytes(text, strlen(text));
}

#endif
