/*
 * Prints the table of metrics as JSON, for the pages of contrib/docs and for the lints of what
 * refers to metrics by name.
 */
#include <stdio.h>

#include "supervisor/metrics/metrics.h"

static void print_labels(const struct metric *m)
{
    const char *comma = "";
    for (size_t i = 0; i < 2 && m->labels[i] != METRIC_LABEL_NONE; i++) {
        printf("%s{\"name\": \"%s\", \"values\": [", comma, metric_label_name(m->labels[i]));
        for (size_t v = 0; v < metric_label_values(m->labels[i]); v++) {
            printf("%s\"%s\"", v > 0 ? ", " : "", metric_label_value(m->labels[i], v));
        }
        printf("]}");
        comma = ", ";
    }
}

int main(void)
{
    printf("[\n");
    for (size_t i = 0; i < METRIC_COUNT; i++) {
        const struct metric *m = &metrics_table[i];
        printf("  {\"name\": \"%s\", \"type\": \"%s\", \"help\": \"%s\", \"labels\": [", m->name,
               metric_kind_name(m->kind), m->help);
        print_labels(m);
        printf("]}%s\n", i + 1 < METRIC_COUNT ? "," : "");
    }
    printf("]\n");
    return 0;
}
