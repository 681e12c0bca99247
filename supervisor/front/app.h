/*
 * Cloister as an application of the protocol layer: its tools in front of the fleet.
 *
 * Thread: the loop thread. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_FRONT_APP_H
#define CLOISTER_SUPERVISOR_FRONT_APP_H

#include <uv.h>

struct app;
struct audit;
struct config;
struct err;
struct fleet;
struct languages;
struct links;
struct mcp_app;
struct mcp_server;
struct traces;

/* Everything is borrowed for its life; `links` NULL: no HTTP. */
struct app *app_create(uv_loop_t *loop, const struct config *config,
                       const struct languages *languages, struct fleet *fleet, struct links *links);

/* Where calls are noted from now on, borrowed; NULL: nowhere. */
void app_set_audit(struct app *a, struct audit *audit);

/* Where the spans of calls go from now on, borrowed; NULL: nowhere. */
void app_set_traces(struct app *a, struct traces *traces);

/* Sets links to ports for a server without HTTP, and what makes that somebody listens there. All is
 * borrowed. */
void app_set_ports(struct app *a, struct links *links, int (*open)(void *arg, struct err *err),
                   void *arg);

/* Sets the gauges of what tools do beside calls (metrics.def) to the present figures. */
void app_measure(const struct app *a);

/* Ends what tools do beside calls (installations). Call it before fleet_shutdown(). */
void app_stop(struct app *a);

/* Closes its handles on the loop. Call it after the fleet's last callback. */
void app_close(struct app *a);

/* Call it after the server that uses it is closed, and after the fleet's last callback. */
void app_destroy(struct app *a);

/* For mcp_server_create(); borrowed. */
const struct mcp_app *app_mcp(const struct app *a);

/* Sets the server whose clients are notified of changes. NULL: none, before that server is
 * closed. */
void app_announce(struct app *a, struct mcp_server *server);

#endif
