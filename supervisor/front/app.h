/*
 * cloister as an application of the protocol layer: its tools in front of the fleet.
 * Thread: the loop thread. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_FRONT_APP_H
#define CLOISTER_SUPERVISOR_FRONT_APP_H

#include <uv.h>

struct app;
struct config;
struct fleet;
struct languages;
struct links;
struct mcp_app;
struct mcp_server;

/* All is borrowed for its life; `links` NULL: without HTTP. */
struct app *app_create(uv_loop_t *loop, const struct config *config,
                       const struct languages *languages, struct fleet *fleet, struct links *links);

/* Ends what its tools have under way beside calls. Before fleet_shutdown(). */
void app_stop(struct app *a);

/* When nothing of the fleet calls back any more: what it has on the loop is closed. */
void app_close(struct app *a);

/* After the server that offers it, and when nothing of the fleet calls back any more. */
void app_destroy(struct app *a);

/* For mcp_server_create(); borrowed. */
const struct mcp_app *app_mcp(const struct app *a);

/* The server that was made of it: from now on its clients are told what changes. NULL: none any
 * more, before it is closed. */
void app_announce(struct app *a, struct mcp_server *server);

#endif
