/*
 * --help: the rows of the table of options, with a chapter for each topic.
 */
#include <stdio.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "supervisor/base/config.h"
#include "supervisor/base/options.h"

#define HELP_INDENT 29
#define HELP_WIDTH  (size_t)70

/* Prints one option, broken at blanks, with aligned continuation lines. */
static void print_option(const char *flag, const char *text)
{
    printf("  %-*s", HELP_INDENT - 3, flag);
    while (*text != '\0') {
        size_t len = strlen(text);
        size_t n = len;
        if (len > HELP_WIDTH) {
            for (n = HELP_WIDTH; n > 0 && text[n] != ' '; n--) {
            }
            n = n > 0 ? n : strcspn(text, " ");
        }
        printf(" %.*s\n", (int)n, text);
        text += n;
        text += strspn(text, " ");
        if (*text != '\0') {
            printf("%*s", HELP_INDENT - 1, "");
        }
    }
}

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
        print_option(flag, text);
    }
    printf(
        "\nEach option is also read from the files that --config tells of, --memory-mb for "
        "example\n"
        "from \"memory-mb: 1024\", and from the environment, there from CLOISTER_MEMORY_MB. The\n"
        "environment wins over files, the command line over both. INTERPRETER_TYPE stands for "
        "CLOISTER_BACKEND\n"
        "where that is not set.\n");
}
