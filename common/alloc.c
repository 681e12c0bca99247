/*
 * Allocation that succeeds or ends the process, for sizes that we choose. If 100 bytes are not
 * available, an error path would fail as well, and untested error paths contain bugs.
 */
#include "common/alloc.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "common/log.h"

void *alloc_check(void *p)
{
    if (p == NULL) {
        log_error("out of memory");
        _exit(ALLOC_EXIT_CODE); /* not abort(): a core file needs room, too */
    }
    return p;
}

void *alloc_array(size_t n, size_t size)
{
    return alloc_check(calloc(n > 0 ? n : 1, size > 0 ? size : 1));
}

void *alloc_block(size_t size)
{
    return alloc_check(malloc(size > 0 ? size : 1));
}

char *alloc_strdup(const char *text)
{
    return alloc_check(strdup(text));
}

char *alloc_viewdup(struct view v)
{
    char *copy = alloc_array(v.len + 1, 1);
    if (v.len > 0) {
        memcpy(copy, v.data, v.len);
    }
    return copy;
}

struct view_list alloc_listdup(struct view_list list)
{
    struct view *items = alloc_array(list.count + 1, sizeof(*items));
    for (size_t i = 0; i < list.count; i++) {
        items[i] = view_bytes(alloc_viewdup(list.items[i]), list.items[i].len);
    }
    return (struct view_list){items, list.count};
}

void alloc_listfree(struct view_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free((char *)(uintptr_t)list->items[i].data); /* ours, see alloc_listdup() */
    }
    free((struct view *)(uintptr_t)list->items);
    *list = (struct view_list){NULL, 0};
}

char *alloc_printf(const char *fmt, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, fmt);
    int n = vasprintf(&text, fmt, args);
    va_end(args);
    return alloc_check(n >= 0 ? text : NULL);
}

void alloc_give_back(void)
{
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

void alloc_share_heap(void)
{
#ifdef __GLIBC__
    mallopt(M_ARENA_MAX, 1);
#endif
}
