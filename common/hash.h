/*
 * FNV-1a with 64 bits: a hash for data that no attacker chooses. Thread: any. Nothing blocks.
 */
#ifndef CLOISTER_COMMON_HASH_H
#define CLOISTER_COMMON_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

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
