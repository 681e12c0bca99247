/*
 * Prints the table of commands as JSON for contrib/docs/generate, which makes their section of the
 * manual page, and for contrib/docs/completions. It is built, but not installed.
 */
#include <stdio.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "supervisor/commands/commands.h"
#include "supervisor/commands/internal.h"

static const char *text_or_none(const char *text)
{
    return text != NULL ? text : "";
}

static void describe_lines(cJSON *row, const char *name, const char *lines)
{
    cJSON *list = cJSON_AddArrayToObject(row, name);
    do {
        size_t len = strcspn(lines, "\n");
        CLEANUP_FREE char *line = alloc_viewdup(view_bytes(lines, len));
        cJSON_AddItemToArray(list, cJSON_CreateString(line));
        lines += len + (lines[len] == '\n');
    } while (*lines != '\0');
}

static cJSON *describe_flag(const struct command_flag *flag)
{
    const char letter[] = {flag->letter, '\0'};
    cJSON *row = cJSON_CreateObject();
    cJSON_AddStringToObject(row, "name", flag->name);
    cJSON_AddStringToObject(row, "letter", letter);
    cJSON_AddStringToObject(row, "value", text_or_none(flag->value_name));
    cJSON_AddStringToObject(row, "about", flag->about);
    cJSON_AddStringToObject(row, "default", text_or_none(flag->value));
    cJSON_AddStringToObject(row, "choices", text_or_none(flag->choices));
    return row;
}

static cJSON *describe_command(const struct command *c)
{
    const struct command_flag *flag;
    cJSON *row = cJSON_CreateObject();
    cJSON_AddStringToObject(row, "name", c->name);
    cJSON_AddBoolToObject(row, "steers", command_steers(c));
    cJSON_AddBoolToObject(row, "starts_server", c->starts_server);
    cJSON_AddStringToObject(row, "about", c->about);
    cJSON_AddStringToObject(row, "more", text_or_none(c->more));
    describe_lines(row, "words", c->words);
    describe_lines(row, "examples", c->examples);
    cJSON *flags = cJSON_AddArrayToObject(row, "flags");
    for (size_t i = 0; (flag = command_flag_at(c, i)) != NULL; i++) {
        cJSON_AddItemToArray(flags, describe_flag(flag));
    }
    return row;
}

int main(void)
{
    cJSON *rows = cJSON_CreateArray();
    for (size_t i = 0; i < command_count; i++) {
        cJSON_AddItemToArray(rows, describe_command(&command_rows[i]));
    }
    CLEANUP_FREE char *text = alloc_check(cJSON_Print(rows));
    cJSON_Delete(rows);
    printf("%s\n", text);
    return 0;
}
