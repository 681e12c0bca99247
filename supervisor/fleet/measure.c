/*
 * What the fleet has at this moment, for the page of metrics. It is counted when somebody looks,
 * so that nothing has to be kept in step with the states of sandboxes.
 */
#include "supervisor/base/config.h"
#include "supervisor/fleet/internal.h"
#include "supervisor/fleet/sandbox/sandbox.h"
#include "supervisor/metrics/metrics.h"

/* The states that are left out end in the same turn of the loop. */
static size_t measured_state(enum sandbox_state state)
{
    static const unsigned char states[SANDBOX_STATE_COUNT] = {
        [SANDBOX_CREATING] = METRIC_STATE_CREATING,     [SANDBOX_READY] = METRIC_STATE_READY,
        [SANDBOX_RECOVERING] = METRIC_STATE_RECOVERING, [SANDBOX_FAILED] = METRIC_STATE_FAILED,
        [SANDBOX_CLOSING] = METRIC_STATE_CLOSING,       [SANDBOX_CLOSED] = METRIC_STATE_CLOSING,
        [SANDBOX_LEFT] = METRIC_STATE_CLOSING,
    };
    return states[state];
}

void fleet_measure(const struct fleet *f)
{
    const struct config *config = f->host.config;
    const struct sandbox *s;
    const struct fleet_pool pool = fleet_pool(f);
    uint64_t counts[METRIC_STATE_COUNT] = {0};
    uint64_t memory = 0, workers = 0;
    TAILQ_FOREACH(s, &f->sandboxes, node)
    {
        if (!sandbox_is_installer(s) && !sandbox_is_entry(s)) {
            counts[measured_state(sandbox_state(s))]++;
            memory += sandbox_state(s) != SANDBOX_FAILED ? s->spec.memory_bytes : 0;
        }
        workers += s->link != NULL;
    }
    for (size_t i = 0; i < METRIC_STATE_COUNT; i++) {
        metrics_set(METRIC_SANDBOXES, i, 0, counts[i]);
    }
    metrics_set(METRIC_SANDBOXES_LIMIT, 0, 0, config->max_sandboxes);
    metrics_set(METRIC_SANDBOX_MEMORY, 0, 0, memory);
    metrics_set(METRIC_MEMORY_BUDGET, 0, 0, config->memory_budget_mb << 20);
    metrics_set(METRIC_POOL_SIZE, 0, 0, pool.size);
    metrics_set(METRIC_POOL_READY, 0, 0, pool.ready);
    metrics_set(METRIC_WORKERS, 0, 0, workers);
}
