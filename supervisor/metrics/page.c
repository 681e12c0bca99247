/*
 * The page in the text format of Prometheus, version 0.0.4. Series that nothing was counted in yet
 * are shown as 0, because a rate needs a value before the first event; only histograms of a label
 * leave out values that were never observed, since each has a dozen and a half of lines.
 *
 * Numbers are kept whole and printed whole: time as seconds with at most six decimals.
 */
#include <inttypes.h>
#include <stdio.h>

#include "common/text.h"
#include "supervisor/metrics/metrics.h"

#define NUMBER_SIZE 32
#define LABELS_SIZE 160
#define US_PER_S    UINT64_C(1000000)

/* Seconds without zeros at the end: "0.0005", "60". */
static const char *shown_seconds(uint64_t us, char out[NUMBER_SIZE])
{
    int len = snprintf(out, NUMBER_SIZE, "%" PRIu64 ".%06" PRIu64, us / US_PER_S, us % US_PER_S);
    while (out[len - 1] == '0') {
        len--;
    }
    if (out[len - 1] == '.') {
        len--;
    }
    out[len] = '\0';
    return out;
}

static const char *shown_value(const struct metric *m, uint64_t value, char out[NUMBER_SIZE])
{
    if (m->unit == METRIC_UNIT_SECONDS) {
        return shown_seconds(value, out);
    }
    snprintf(out, NUMBER_SIZE, "%" PRIu64, value);
    return out;
}

/* `tool="execute_code",outcome="ok"`, or nothing. */
static void label_texts(const struct metric *m, size_t a, size_t b, char out[LABELS_SIZE])
{
    out[0] = '\0';
    if (m->labels[1] != METRIC_LABEL_NONE) {
        snprintf(out, LABELS_SIZE, "%s=\"%s\",%s=\"%s\"", metric_label_name(m->labels[0]),
                 metric_label_value(m->labels[0], a), metric_label_name(m->labels[1]),
                 metric_label_value(m->labels[1], b));
    } else if (m->labels[0] != METRIC_LABEL_NONE) {
        snprintf(out, LABELS_SIZE, "%s=\"%s\"", metric_label_name(m->labels[0]),
                 metric_label_value(m->labels[0], a));
    }
}

static void write_histogram(struct buf *out, const struct metric *m, const uint64_t *series,
                            const char *labels)
{
    char text[NUMBER_SIZE];
    uint64_t count = 0;
    const char *comma = labels[0] != '\0' ? "," : "";
    for (size_t i = 0; i < m->bound_count; i++) {
        count += series[i];
        text_printf(out, "%s_bucket{%s%sle=\"%s\"} %" PRIu64 "\n", m->name, labels, comma,
                    shown_seconds(m->bounds_us[i], text), count);
    }
    count += series[m->bound_count];
    text_printf(out, "%s_bucket{%s%sle=\"+Inf\"} %" PRIu64 "\n", m->name, labels, comma, count);
    const char *open = labels[0] != '\0' ? "{" : "";
    const char *close = labels[0] != '\0' ? "}" : "";
    text_printf(out, "%s_sum%s%s%s %s\n", m->name, open, labels, close,
                shown_seconds(series[m->bound_count + 1], text));
    text_printf(out, "%s_count%s%s%s %" PRIu64 "\n", m->name, open, labels, close, count);
}

static void write_series(struct buf *out, enum metric_id id, size_t a, size_t b)
{
    const struct metric *m = &metrics_table[id];
    char labels[LABELS_SIZE];
    char text[NUMBER_SIZE];
    label_texts(m, a, b, labels);
    if (m->kind != METRIC_KIND_HISTOGRAM) {
        text_printf(out, "%s%s%s%s %s\n", m->name, labels[0] != '\0' ? "{" : "", labels,
                    labels[0] != '\0' ? "}" : "", shown_value(m, metrics_get(id, a, b), text));
    } else if (labels[0] == '\0' || metrics_get(id, a, b) > 0) {
        write_histogram(out, m, metrics_series(id, a, b), labels);
    }
}

void metrics_write(struct buf *out)
{
    for (int id = 0; id < METRIC_COUNT; id++) {
        const struct metric *m = &metrics_table[id];
        text_printf(out, "# HELP %s %s.\n# TYPE %s %s\n", m->name, m->help, m->name,
                    metric_kind_name(m->kind));
        for (size_t a = 0; a < metric_label_values(m->labels[0]); a++) {
            for (size_t b = 0; b < metric_label_values(m->labels[1]); b++) {
                write_series(out, (enum metric_id)id, a, b);
            }
        }
    }
}
