/*
 * --help: the rows of the table of options, with a chapter for each topic.
 */
#include <stdio.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "supervisor/base/help_text.h"
#include "supervisor/base/options.h"

#define HELP_COLUMN 28

void options_print_help(void)
{
    for (size_t i = 0; i < option_count; i++) {
        const struct option *o = &options[i];
        if (i == 0 || options[i - 1].topic != o->topic) {
            printf("\n%s:\n", option_topic_title(o->topic));
        }
        CLEANUP_FREE char *flag = option_flag(o);
        bool has_default = o->value[0] != '\0';
        CLEANUP_FREE char *help = option_help(o);
        CLEANUP_FREE char *text = alloc_printf("%s%s%s%s", help, has_default ? " [" : "", o->value,
                                               has_default ? "]" : "");
        help_row(flag, HELP_COLUMN, text);
    }
    printf("\n");
    help_paragraph(
        "Each option is also read from the files that --config tells of, --memory-mb for "
        "example from \"memory-mb: 1024\", and from the environment, there from "
        "CLOISTER_MEMORY_MB. The environment wins over files, the command line over "
        "both. INTERPRETER_TYPE stands for CLOISTER_BACKEND where that is not set.");
}
