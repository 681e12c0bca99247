/*
 * What a row of the table says to people.
 */
#include <stdio.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "supervisor/base/help_text.h"
#include "supervisor/commands/commands.h"
#include "supervisor/commands/internal.h"

#define LIST_COLUMN 13
#define FLAG_COLUMN 28

static void print_flag(const struct command_flag *flag)
{
    CLEANUP_FREE char *letter =
        flag->letter != '\0' ? alloc_printf("-%c, ", flag->letter) : alloc_strdup("    ");
    CLEANUP_FREE char *left =
        alloc_printf("%s--%s%s%s", letter, flag->name, flag->value_name != NULL ? " " : "",
                     flag->value_name != NULL ? flag->value_name : "");
    CLEANUP_FREE char *text =
        alloc_printf("%s%s%s%s", flag->about, flag->value != NULL ? " [" : "",
                     flag->value != NULL ? flag->value : "", flag->value != NULL ? "]" : "");
    help_row(left, FLAG_COLUMN, text);
}

/* Prints each line of `lines` behind `start`, unless it is whole already ("... | cloister ..."). */
static void print_lines(const char *start, const char *lines)
{
    do {
        size_t len = strcspn(lines, "\n");
        CLEANUP_FREE char *line = alloc_viewdup(view_bytes(lines, len));
        bool is_whole = strstr(line, "cloister ") != NULL;
        printf("  %s%s%s\n", is_whole ? "" : start, len > 0 && !is_whole ? " " : "", line);
        lines += len + (lines[len] == '\n');
    } while (*lines != '\0');
}

void command_print_help(const struct command *c)
{
    const struct command_flag *flag;
    CLEANUP_FREE char *title = alloc_printf("cloister %s: %s", c->name, c->about);
    CLEANUP_FREE char *start = alloc_printf("cloister %s [OPTIONS]", c->name);
    help_paragraph(title);
    printf("\nusage:\n");
    print_lines(start, c->words);
    printf("\noptions, with their defaults in brackets:\n");
    for (size_t i = 0; (flag = command_flag_at(c, i)) != NULL; i++) {
        print_flag(flag);
    }
    printf("\n");
    if (c->more != NULL) {
        help_paragraph(c->more);
        printf("\n");
    }
    help_paragraph(c->run != NULL
                       ? "NAME is the id of a sandbox or an execution, or the name of a sandbox. "
                         "Servers are those of this user: --instance NAME means one of them, and "
                         "--runtime-dir DIR those that have another place."
                       : "Options of servers may stand beside these; cloister --help lists them.");
    printf("\n%s:\n", strchr(c->examples, '\n') != NULL ? "examples" : "example");
    print_lines("cloister", c->examples);
}

static void print_part(const char *title, bool steers)
{
    printf("\n%s:\n", title);
    for (size_t i = 0; i < command_count; i++) {
        if (command_steers(&command_rows[i]) == steers) {
            help_row(command_rows[i].name, LIST_COLUMN, command_rows[i].about);
        }
    }
}

void commands_print_list(void)
{
    print_part("Commands", false);
    print_part("Commands for running servers of this user, or that of --instance", true);
}

void command_print_version(void)
{
    printf("cloister %s\n", CLOISTER_VERSION);
}
