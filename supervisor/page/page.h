/*
 * The page for people who operate a server: /ui/ and the files that it needs.
 *
 * Thread: the loop thread. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_PAGE_PAGE_H
#define CLOISTER_SUPERVISOR_PAGE_PAGE_H

#include <stdbool.h>

struct web_exchange;

/* Whether a path is one of the page's. No token is needed for these. */
bool page_has(const char *path);

/* Answers a request for such a path at once. */
void page_handle(struct web_exchange *x);

#endif
