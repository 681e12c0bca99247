/*
 * Every series has its own cell from the start, in one array for each metric: the sizes follow from
 * the closed sets of the labels, so the compiler knows them. A histogram has a cell for each of its
 * buckets, not cumulated, then one for +Inf and one for the sum; cumulating is left to the page,
 * which is asked for rarely.
 *
 * Cells are plain numbers, since all state belongs to the loop thread. What other threads count
 * they keep themselves, and the page collects it.
 */
#include "supervisor/metrics/metrics.h"

#include <assert.h>
#include <string.h>

/* Fine enough for a warm call, which takes less than a millisecond, and for code. */
static const uint64_t bounds_fine[] = {500,     1000,     2500,     5000,    10000,   25000,
                                       50000,   100000,   250000,   500000,  1000000, 2500000,
                                       5000000, 10000000, 30000000, 60000000};
/* What makes containers and processes. */
static const uint64_t bounds_coarse[] = {10000,   25000,   50000,   100000,   250000,   500000,
                                         1000000, 2500000, 5000000, 10000000, 30000000, 60000000};

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

enum {
    SLOTS_NONE = 1,
    SLOTS_FINE = COUNT_OF(bounds_fine) + 2,
    SLOTS_COARSE = COUNT_OF(bounds_coarse) + 2,
};

#define BOUNDS_NONE   NULL, 0
#define BOUNDS_FINE   bounds_fine, COUNT_OF(bounds_fine)
#define BOUNDS_COARSE bounds_coarse, COUNT_OF(bounds_coarse)

static struct {
#define METRIC(id, kind, name, unit, a, b, buckets, help)                                          \
    uint64_t id[METRIC_##a##_COUNT * METRIC_##b##_COUNT * SLOTS_##buckets];
#include "supervisor/metrics/metrics.def"
#undef METRIC
} cells;

static uint64_t *const cells_of[METRIC_COUNT] = {
#define METRIC(id, ...) [METRIC_##id] = cells.id,
#include "supervisor/metrics/metrics.def"
#undef METRIC
};

const struct metric metrics_table[METRIC_COUNT] = {
#define METRIC(id, kind, name, unit, a, b, buckets, help)                                          \
    [METRIC_##id] = {name,                                                                         \
                     help,                                                                         \
                     METRIC_KIND_##kind,                                                           \
                     METRIC_UNIT_##unit,                                                           \
                     {METRIC_LABEL_##a, METRIC_LABEL_##b},                                         \
                     BOUNDS_##buckets},
#include "supervisor/metrics/metrics.def"
#undef METRIC
};

/* ---- labels --------------------------------------------------------------------------------- */

#define TEXT(label, id, text) text,
#define TEXTS(label, name)                                                                         \
    static const char *const texts_of_##label[] = {METRIC_##label##_VALUES(TEXT)};
METRIC_LABELS(TEXTS)
#undef TEXTS
#undef TEXT

static const struct {
    const char *name;
    const char *const *texts;
    size_t count;
} labels[METRIC_LABEL_COUNT] = {
#define ROW(label, name)                                                                           \
    [METRIC_LABEL_##label] = {name, texts_of_##label, COUNT_OF(texts_of_##label)},
    METRIC_LABELS(ROW)
#undef ROW
};

const char *metric_kind_name(enum metric_kind kind)
{
    static const char *const names[] = {"counter", "gauge", "histogram"};
    return names[kind];
}

const char *metric_label_name(enum metric_label label)
{
    return labels[label].name;
}

size_t metric_label_values(enum metric_label label)
{
    return labels[label].count;
}

const char *metric_label_value(enum metric_label label, size_t value)
{
    assert(value < labels[label].count);
    return labels[label].texts[value];
}

size_t metric_label_find(enum metric_label label, const char *text, size_t otherwise)
{
    for (size_t i = 0; i < labels[label].count; i++) {
        if (strcmp(labels[label].texts[i], text) == 0) {
            return i;
        }
    }
    return otherwise;
}

/* ---- cells ---------------------------------------------------------------------------------- */

/* The first cell of a series. */
static uint64_t *series_of(enum metric_id id, size_t a, size_t b)
{
    const struct metric *m = &metrics_table[id];
    size_t columns = labels[m->labels[1]].count;
    size_t slots = m->kind == METRIC_KIND_HISTOGRAM ? m->bound_count + 2 : 1;
    assert(a < labels[m->labels[0]].count && b < columns);
    return cells_of[id] + (a * columns + b) * slots;
}

void metrics_add(enum metric_id id, size_t a, size_t b, uint64_t by)
{
    *series_of(id, a, b) += by;
}

void metrics_lower(enum metric_id id, size_t a, size_t b)
{
    uint64_t *cell = series_of(id, a, b);
    assert(*cell > 0);
    (*cell)--;
}

void metrics_set(enum metric_id id, size_t a, size_t b, uint64_t value)
{
    *series_of(id, a, b) = value;
}

void metrics_observe(enum metric_id id, size_t a, uint64_t us)
{
    const struct metric *m = &metrics_table[id];
    uint64_t *series = series_of(id, a, 0);
    size_t i = 0;
    while (i < m->bound_count && us > m->bounds_us[i]) {
        i++;
    }
    series[i]++;
    series[m->bound_count + 1] += us;
}

uint64_t metrics_get(enum metric_id id, size_t a, size_t b)
{
    const struct metric *m = &metrics_table[id];
    const uint64_t *series = series_of(id, a, b);
    uint64_t value = series[0];
    for (size_t i = 1; m->kind == METRIC_KIND_HISTOGRAM && i <= m->bound_count; i++) {
        value += series[i];
    }
    return value;
}

const uint64_t *metrics_series(enum metric_id id, size_t a, size_t b)
{
    return series_of(id, a, b);
}
