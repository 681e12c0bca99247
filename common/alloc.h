/*
 * Allocation for sizes that we chose ourselves: it succeeds or ends the process with a log line.
 * Sizes that came from outside go through buf.h, which reports instead.
 */
#ifndef CLOISTER_COMMON_ALLOC_H
#define CLOISTER_COMMON_ALLOC_H

#include <stddef.h>

#include "common/view.h"

/* Exit code of a process that got no memory. */
#define ALLOC_EXIT_CODE 69

/* Zeroed memory for n objects of `size` bytes. Never NULL. Free with free(). */
void *alloc_array(size_t n, size_t size) __attribute__((returns_nonnull));
#define alloc_one(type) ((type *)alloc_array(1, sizeof(type)))

/* `size` bytes that are not zeroed. Never NULL. Free with free(). */
void *alloc_block(size_t size) __attribute__((returns_nonnull));

/* Returns p, or ends the process if it is NULL: for small memory that a library allocated. */
void *alloc_check(void *p);

/* NUL-terminated copy. Never NULL. Free with free(). */
char *alloc_strdup(const char *text);
char *alloc_viewdup(struct view v);

/* A list with copies of its items. Free with alloc_listfree(), which takes an empty one, too. */
struct view_list alloc_listdup(struct view_list list);
void alloc_listfree(struct view_list *list);

/* printf into a fresh string. Never NULL. Free with free(). For short texts of our own making. */
char *alloc_printf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Gives memory that is free back to the system, where libc can: after work that needed much more
 * than what follows. Takes some 100 us. */
void alloc_give_back(void);

/* Makes all threads of the process share one heap, where libc gives each its own: less memory, for
 * a process whose threads seldom allocate at the same time. Before the first thread. */
void alloc_share_heap(void);

#endif
