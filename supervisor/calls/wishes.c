/*
 * Packages that code in a sandbox wants: they travel with the output of whatever runs there, from
 * where user code lives, so they are checked once more.
 */
#include "common/log.h"
#include "proto/codec.h"
#include "proto/outcome.h"
#include "supervisor/calls/call_internal.h"
#include "supervisor/fleet/host/host.h"

#define WISHES_MAX 1000 /* of one call; more count as a fault of its worker */

bool call_take_wishes(struct fleet_call *call, const struct msg_output *o, bool *ret_new)
{
    const struct fleet_host *host = call->host;
    *ret_new = false;
    bool good = o->installs.count == 0 || o->state != OP_DONE;
    for (size_t i = 0; i < o->installs.count && good; i++) {
        struct msg m;
        struct view item = o->installs.items[i];
        if (msg_decode(MSG_LINK_W, item.data, item.len, &m, NULL) < 0) {
            return false;
        }
        good = outcome_check_install(&m.install, NULL) == 0;
        bool taken =
            good && host->install != NULL && !sandbox_is_installer(call->sandbox) &&
            host->install(host->install_arg, call->sandbox->owner, call->sandbox->id, &m.install);
        *ret_new = *ret_new || (taken && ++call->wishes <= WISHES_MAX);
        msg_finish(&m);
    }
    return good;
}
