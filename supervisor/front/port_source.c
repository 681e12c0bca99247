/*
 * The signature is checked first, so that a request without a valid address learns nothing about
 * sandboxes. What is connected to is in the address and nowhere else. A connection counts as use of
 * the sandbox: whoever looks at its pages wants it to go on.
 *
 * A connection here outlives both the call of the fleet and what is being told to it, since the
 * answer to the latter may come after the former has ended.
 */
#include "supervisor/front/port_source.h"

#include <stdlib.h>

#include "common/alloc.h"
#include "supervisor/base/config.h"
#include "supervisor/fleet/fleet.h"
#include "supervisor/links/links.h"

struct port_source {
    struct fleet *fleet;
    struct links *links;
    uint64_t longest_ms; /* that a connection may last */
};

struct connection {
    struct fleet_call *call; /* NULL: it has ended */
    bool telling;
    const struct port_events *events;
    void *arg;
};

struct port_source *port_source_create(struct fleet *fleet, struct links *links,
                                       const struct config *config)
{
    struct port_source *s = alloc_one(struct port_source);
    s->fleet = fleet;
    s->links = links;
    s->longest_ms = config->max_timeout_s * 1000;
    return s;
}

void port_source_destroy(struct port_source *s)
{
    free(s);
}

static int check_address(void *arg, const struct port_address *address, const char **ret_owner,
                         const char **ret_why)
{
    struct port_source *s = arg;
    switch (links_check_port(s->links, address->sandbox, address->port, address->expires,
                             address->signature)) {
    case LINK_WRONG:
        *ret_why = "this address is not one that this server has made; take it as it is";
        return 403;
    case LINK_EXPIRED:
        *ret_why = "this address has expired; ask for a new one";
        return 410;
    case LINK_GOOD:
        break;
    }
    *ret_owner = fleet_owner(s->fleet, address->sandbox);
    if (*ret_owner == NULL) {
        *ret_why = "the sandbox of this address is gone";
        return 404;
    }
    return 0;
}

/* ---- a connection --------------------------------------------------------------------------- */

static void free_connection_if_over(struct connection *c)
{
    if (c->call == NULL && !c->telling) {
        free(c);
    }
}

static void on_connection_said(void *arg, struct view bytes)
{
    struct connection *c = arg;
    c->events->said(c->arg, bytes);
}

static enum port_end end_of(int rc, const struct fleet_outcome *outcome)
{
    uint64_t code = rc < 0 ? (uint64_t)-rc : outcome->end->fail_code;
    if (rc >= 0 && outcome->end->status == OP_STATUS_OK) {
        return PORT_END_WELL;
    }
    if (rc >= 0 && outcome->end->status == OP_STATUS_TIMEOUT) {
        return PORT_END_LATE;
    }
    if (rc >= 0 && outcome->end->status != OP_STATUS_FAILED) {
        return PORT_END_GONE;
    }
    switch (code) {
    case ERR_FILE_NOT_FOUND:
        return PORT_END_NOBODY;
    case ERR_BUSY:
        return PORT_END_BUSY;
    case ERR_IO:
    case ERR_NO_MEMORY:
        return PORT_END_BROKEN;
    default:
        return PORT_END_GONE;
    }
}

static void on_connection_over(void *arg, int rc, const struct fleet_outcome *outcome,
                               const struct err *err, const char *hint)
{
    struct connection *c = arg;
    (void)err, (void)hint;
    c->call = NULL;
    c->events->ended(c->arg, end_of(rc, outcome));
    free_connection_if_over(c);
}

static void *begin_connection(void *arg, const struct port_address *address, struct view first,
                              const struct port_events *events, void *events_arg)
{
    struct port_source *s = arg;
    struct connection *c = alloc_one(struct connection);
    c->events = events;
    c->arg = events_arg;
    c->call = fleet_connect(s->fleet, address->sandbox, address->port, first, s->longest_ms,
                            on_connection_said, on_connection_over, c);
    return c;
}

static void on_connection_told(void *arg, int rc, const struct fleet_input_state *state,
                               const struct err *err, const char *hint)
{
    struct connection *c = arg;
    (void)err, (void)hint;
    c->telling = false;
    if (c->call == NULL) {
        free_connection_if_over(c);
    } else {
        c->events->told(c->arg,
                        rc >= 0              ? PORT_TOLD
                        : rc == -ERR_TOO_BIG ? PORT_TOLD_LATER
                                             : PORT_TOLD_NEVER,
                        rc >= 0 ? state->unread : 0);
    }
}

static void tell_connection(void *connection, uint64_t at, struct view bytes)
{
    struct connection *c = connection;
    const struct fleet_input in = {.data = bytes, .has_at = true, .at = at};
    c->telling = true;
    fleet_tell(c->call, &in, on_connection_told, c);
}

static void pause_connection(void *connection, bool paused)
{
    struct connection *c = connection;
    fleet_pause(c->call, paused);
}

static void stop_connection(void *connection)
{
    struct connection *c = connection;
    fleet_cancel(c->call);
}

struct ports_source port_source_table(struct port_source *s)
{
    return (struct ports_source){
        .arg = s,
        .check = check_address,
        .connect = begin_connection,
        .tell = tell_connection,
        .pause = pause_connection,
        .stop = stop_connection,
    };
}
