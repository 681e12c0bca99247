/*
 * The control API: what those who operate a server ask of it and tell it, as HTTP and JSON.
 *
 * It is served on the instance's control socket, to processes of the same user, and by the front
 * under /api/ to principals with admin=yes. Who may ask is decided before: this room answers.
 *
 * Thread: the loop thread. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_CONTROL_CONTROL_H
#define CLOISTER_SUPERVISOR_CONTROL_CONTROL_H

#include <stdint.h>
#include <uv.h>

#include "common/err.h"

struct audit;
struct config;
struct control;
struct fleet;
struct web_exchange;

/* What it speaks for; all borrowed until control_close() has called back. */
struct control_setup {
    uv_loop_t *loop;
    const struct config *config;
    struct fleet *fleet;
    struct audit *audit; /* where deeds are noted; NULL: nowhere */
    const char *url;     /* of the HTTP server; NULL: there is none. Copied */
    /* Reads again what SIGHUP reads again. The error says what stays as it was. */
    int (*reload)(void *arg, struct err *err);
    void *reload_arg;
};

/* Opens the socket when the instance has its directory. What goes wrong with that is logged: a
 * server serves without it, too. */
struct control *control_create(const struct control_setup *setup);

/* Answers a request for a path of the API, "/v1/...", now or later; one that there is with 503 once
 * control_quiesce() was called. `who` asks, as the audit log names him: a principal, or "user
 * NUMBER". */
void control_handle(struct control *c, struct web_exchange *x, const char *path, const char *who);

/* Takes the socket away and lets streams end. Call it before the fleet gives the instance up: its
 * next server has a socket of the same name. */
void control_quiesce(struct control *c);

/* Ends all streams and closes the connections of the socket; `closed` is called when nothing of it
 * is on the loop. Call it after the fleet's last callback. */
void control_close(struct control *c, uint64_t flush_ms, void (*closed)(void *arg), void *arg);
void control_destroy(struct control *c); /* NULL is fine */

#endif
