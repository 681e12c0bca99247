/*
 * A module that cannot be imported costs each sandbox of the pool an interpreter, and one that
 * hangs a minute. What has failed in a few of them in a row will fail in the next, since all have
 * the same image and the same limits: it is left out until the server starts again. Fewer could be
 * the fault of a busy machine.
 */
#include "supervisor/fleet/preload.h"

#include <stdio.h>

#include "common/log.h"
#include "common/str.h"
#include "supervisor/metrics/metrics.h"

#define FAILURES_MAX 3

void preload_init(struct preload *p, const struct config *config)
{
    *p = (struct preload){.option = pool_option_modules(config)};
    for (size_t i = 0; i < p->option.count; i++) {
        p->modules[i] = (struct fleet_preload){
            .module = p->option.names[i], .state = "", .reason = p->reasons[i]};
    }
}

unsigned preload_left_out(const struct preload *p)
{
    unsigned bits = 0;
    for (size_t i = 0; i < p->option.count; i++) {
        bits |= p->failures[i] >= FAILURES_MAX ? 1u << i : 0;
    }
    return bits;
}

void preload_tell(struct preload *p, size_t module, const char *why)
{
    struct fleet_preload *m = &p->modules[module];
    metrics_count(METRIC_POOL_PRELOADS, why == NULL ? METRIC_SUCCESS_OK : METRIC_SUCCESS_FAILED);
    char *reason = p->reasons[module];
    int len = snprintf(reason, PRELOAD_REASON_BYTES, "%s", why != NULL ? why : "");
    if (len >= PRELOAD_REASON_BYTES) {
        reason[utf8_valid_prefix(reason, PRELOAD_REASON_BYTES - 1)] = '\0';
    }
    if (why == NULL) {
        p->failures[module] = 0;
        m->state = "imported";
        return;
    }
    bool gives_up = ++p->failures[module] == FAILURES_MAX;
    m->state = gives_up ? "left out" : "failed";
    log_warn("pool: %.*s cannot be imported in advance: %s; %s", VIEW_ARG(m->module), reason,
             gives_up ? "it is left out from now on, until the server is started again"
                      : "the sandbox is used without it, and the next one tries again");
}
