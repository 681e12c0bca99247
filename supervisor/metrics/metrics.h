/*
 * Numbers about this server: counters, gauges and histograms of one table (metrics.def), and the
 * page that shows them.
 *
 * There is one set for the process, as there is one log, so that every room can count without
 * being handed anything. Counting writes to an array of fixed size: no allocation, no lookup, no
 * lock.
 *
 * Thread: the loop thread. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_METRICS_METRICS_H
#define CLOISTER_SUPERVISOR_METRICS_METRICS_H

#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "supervisor/metrics/labels.h"

enum metric_id {
#define METRIC(id, ...) METRIC_##id,
#include "supervisor/metrics/metrics.def"
#undef METRIC
    METRIC_COUNT
};

enum metric_kind { METRIC_KIND_COUNTER, METRIC_KIND_GAUGE, METRIC_KIND_HISTOGRAM };

enum metric_label {
#define X(id, name) METRIC_LABEL_##id,
    METRIC_LABELS(X)
#undef X
        METRIC_LABEL_COUNT
};

/* Kept as it is, or in microseconds and shown in seconds. */
enum metric_unit { METRIC_UNIT_ONE, METRIC_UNIT_SECONDS };

/* A row of the table. */
struct metric {
    const char *name, *help;
    enum metric_kind kind;
    enum metric_unit unit;
    enum metric_label labels[2]; /* METRIC_LABEL_NONE: none */
    const uint64_t *bounds_us;   /* of a histogram, ascending; +Inf follows them */
    size_t bound_count;
};
extern const struct metric metrics_table[METRIC_COUNT];

const char *metric_kind_name(enum metric_kind kind);
const char *metric_label_name(enum metric_label label);
size_t metric_label_values(enum metric_label label);
const char *metric_label_value(enum metric_label label, size_t value);

/* The value with this text; `otherwise` if there is none. */
size_t metric_label_find(enum metric_label label, const char *text, size_t otherwise);

/* Values of the labels are `a` and `b`: 0 where the metric has none. */
void metrics_add(enum metric_id id, size_t a, size_t b, uint64_t by); /* a counter or gauge */
void metrics_lower(enum metric_id id, size_t a, size_t b);            /* a gauge, by one */
void metrics_set(enum metric_id id, size_t a, size_t b, uint64_t value);
void metrics_observe(enum metric_id id, size_t a, uint64_t us); /* a histogram */

static inline void metrics_count(enum metric_id id, size_t a)
{
    metrics_add(id, a, 0, 1);
}

/* The present value; of a histogram the number of observations. */
uint64_t metrics_get(enum metric_id id, size_t a, size_t b);

/* The cells of a histogram: one for each bound, those above all bounds, and the sum in
 * microseconds. */
const uint64_t *metrics_series(enum metric_id id, size_t a, size_t b);

#define METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* Appends the page in the text format of Prometheus. */
void metrics_write(struct buf *out);

#endif
