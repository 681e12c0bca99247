/*
 * Turns events of the fleet into notifications for subscribers. Single files are not watched: each
 * file of a sandbox may have changed when an operation that can write has ended in it; interested
 * clients read it again.
 */
#include <stdlib.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "supervisor/fleet/fleet.h"
#include "supervisor/links/uri.h"
#include "supervisor/mcp/session.h"
#include "supervisor/resources/resources.h"

static void on_sandboxes(void *arg, const char *owner)
{
    mcp_list_changed(arg, owner, MCP_LIST_RESOURCES);
}

static void on_files(void *arg, const char *owner, const char *sandbox, const char *name)
{
    CLEANUP_FREE char *by_id = alloc_printf(URI_SANDBOX "%s/", sandbox);
    mcp_resource_updated(arg, owner, by_id);
    if (name[0] != '\0') {
        CLEANUP_FREE char *by_name = alloc_printf(URI_SANDBOX "%s/", name);
        mcp_resource_updated(arg, owner, by_name);
    }
    mcp_list_changed(arg, owner, MCP_LIST_RESOURCES);
}

static void on_execution_changed(void *arg, const char *owner, const char *execution)
{
    CLEANUP_FREE char *uri = alloc_printf(URI_EXECUTION "%s/", execution);
    mcp_resource_updated(arg, owner, uri);
}

void resources_observe(struct fleet *f, struct mcp_server *server)
{
    static const struct fleet_events events = {on_sandboxes, on_files, on_execution_changed};
    fleet_observe(f, server != NULL ? &events : NULL, server);
}
