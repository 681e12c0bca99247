/*
 * The control API on an HTTP server, below /api/: who may use it.
 *
 * Thread: the loop thread. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_FRONT_CONTROL_PAGE_H
#define CLOISTER_SUPERVISOR_FRONT_CONTROL_PAGE_H

#include <stdbool.h>

struct control;
struct web_auth;
struct web_exchange;

bool control_page_has(const char *path);

/* Answers the exchange, now or later. Both are borrowed until web_auth_close() was called. */
void control_page_handle(struct web_auth *auth, struct control *control, struct web_exchange *x);

#endif
