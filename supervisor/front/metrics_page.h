/*
 * The page /metrics of an HTTP server: who may read it, and its figures.
 *
 * Thread: the loop thread. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_FRONT_METRICS_PAGE_H
#define CLOISTER_SUPERVISOR_FRONT_METRICS_PAGE_H

#include <stdbool.h>

struct app;
struct fleet;
struct web_auth;
struct web_exchange;

/* What the figures are of; all borrowed, and there until web_auth_close() was called. */
struct metrics_page {
    struct web_auth *auth;
    const struct fleet *fleet;
    const struct app *app;
};

bool metrics_page_has(const char *path);

/* Answers the exchange, at once or when its token was checked. */
void metrics_page_handle(const struct metrics_page *page, struct web_exchange *x);

#endif
