/*
 * Blocks are recorded only while allocations are counted; earlier blocks are ignored. The table has
 * a fixed size, and blocks that do not fit are not recorded.
 */
#include "tests/lib/heap.h"

#include <malloc.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/text.h"

#define BLOCKS 4096 /* a power of two */
#define PROBES 64

static _Thread_local struct {
    bool counting, failed, any;
    size_t nth, count;
    unsigned certain; /* depth of calls whose failure ends the process */
    void *blocks[BLOCKS];
} heap;

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *block, size_t size);
void __real_free(void *block);
void *__real_alloc_array(size_t n, size_t size);
void *__real_alloc_block(size_t size);
char *__real_alloc_strdup(const char *text);
char *__real_alloc_viewdup(struct view v);
size_t __real_text_add(struct buf *out, struct view v, size_t max_cost, bool more);
void __real_text_printf(struct buf *out, const char *fmt, ...);
const char *__real_text_cstr(struct buf *b);

/* Names of the linker's --wrap. */
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *block, size_t size);
char *__wrap_strdup(const char *text);
void __wrap_free(void *block);
void *__wrap_alloc_array(size_t n, size_t size);
void *__wrap_alloc_block(size_t size);
char *__wrap_alloc_strdup(const char *text);
char *__wrap_alloc_viewdup(struct view v);
char *__wrap_alloc_printf(const char *fmt, ...) PRINTF_LIKE(1, 2);
size_t __wrap_text_add(struct buf *out, struct view v, size_t max_cost, bool more);
void __wrap_text_printf(struct buf *out, const char *fmt, ...) PRINTF_LIKE(2, 3);
const char *__wrap_text_cstr(struct buf *b);

void heap_fail(size_t nth)
{
    heap.counting = true;
    heap.failed = false;
    heap.any = false;
    heap.nth = nth;
    heap.count = 0;
    memset(heap.blocks, 0, sizeof(heap.blocks));
}

void heap_fail_any(size_t nth)
{
    heap_fail(nth);
    heap.any = true;
}

size_t heap_end(void)
{
    heap.counting = false;
    return heap.count;
}

bool heap_failed(void)
{
    return heap.failed;
}

size_t heap_held(void)
{
    size_t held = 0;
    for (size_t i = 0; i < BLOCKS; i++) {
        held += malloc_usable_size(heap.blocks[i]);
    }
    return held;
}

void heap_free_rest(void)
{
    for (size_t i = 0; i < BLOCKS; i++) {
        __real_free(heap.blocks[i]);
        heap.blocks[i] = NULL;
    }
}

/* The slot of a block, or (NULL) a free one for `wanted`; NULL if there is none. */
static void **place_of(const void *block, const void *wanted)
{
    size_t first = (size_t)(((uintptr_t)wanted >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 32);
    for (size_t i = 0; i < PROBES; i++) {
        void **place = &heap.blocks[(first + i) & (BLOCKS - 1)];
        if (*place == block) {
            return place;
        }
    }
    return NULL;
}

static void *note(void *block)
{
    void **place = heap.counting && block != NULL ? place_of(NULL, block) : NULL;
    if (place != NULL) {
        *place = block;
    }
    return block;
}

static void forget(const void *block)
{
    void **place = heap.counting && block != NULL ? place_of(block, block) : NULL;
    if (place != NULL) {
        *place = NULL;
    }
}

static bool fails(void)
{
    if (!heap.counting || (heap.certain > 0 && !heap.any) || heap.count++ != heap.nth) {
        return false;
    }
    heap.failed = true;
    return true;
}

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : note(__real_malloc(size));
}

void *__wrap_calloc(size_t n, size_t size)
{
    return fails() ? NULL : note(__real_calloc(n, size));
}

void *__wrap_realloc(void *block, size_t size)
{
    if (fails()) {
        return NULL;
    }
    forget(block);
    return note(__real_realloc(block, size));
}

char *__wrap_strdup(const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = __wrap_malloc(size);
    return copy != NULL ? memcpy(copy, text, size) : NULL;
}

void __wrap_free(void *block)
{
    forget(block);
    __real_free(block);
}

/* ---- what ends the process instead ----------------------------------------------------------- */

void *__wrap_alloc_array(size_t n, size_t size)
{
    heap.certain++;
    void *block = __real_alloc_array(n, size);
    heap.certain--;
    return block;
}

void *__wrap_alloc_block(size_t size)
{
    heap.certain++;
    void *block = __real_alloc_block(size);
    heap.certain--;
    return block;
}

char *__wrap_alloc_strdup(const char *text)
{
    heap.certain++;
    char *copy = __real_alloc_strdup(text);
    heap.certain--;
    return copy;
}

char *__wrap_alloc_viewdup(struct view v)
{
    heap.certain++;
    char *copy = __real_alloc_viewdup(v);
    heap.certain--;
    return copy;
}

char *__wrap_alloc_printf(const char *fmt, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, fmt);
    int n = vasprintf(&text, fmt, args);
    va_end(args);
    return note(alloc_check(n >= 0 ? text : NULL));
}

size_t __wrap_text_add(struct buf *out, struct view v, size_t max_cost, bool more)
{
    heap.certain++;
    size_t taken = __real_text_add(out, v, max_cost, more);
    heap.certain--;
    return taken;
}

void __wrap_text_printf(struct buf *out, const char *fmt, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, fmt);
    int n = vasprintf(&text, fmt, args);
    va_end(args);
    heap.certain++;
    __real_text_printf(out, "%s", (const char *)alloc_check(n >= 0 ? text : NULL));
    heap.certain--;
    __real_free(text);
}

const char *__wrap_text_cstr(struct buf *b)
{
    heap.certain++;
    const char *text = __real_text_cstr(b);
    heap.certain--;
    return text;
}
