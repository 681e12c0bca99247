/*
 * Prints the table of options as JSON for contrib/docs/generate, which makes the manual page and
 * the tables of contrib/docs, and for contrib/docs/completions, which makes those of shells. It is
 * built, but not installed.
 */
#include <stdio.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/io/json.h"
#include "supervisor/base/options.h"

/* How many values it takes: "flag" (none, or yes and no), "list" (with commas between) or "one". */
static const char *kind_of_option(const struct option *o)
{
    switch (o->type) {
    case OPTION_FLAG:
        return "flag";
    case OPTION_LIST:
    case OPTION_TEXTS:
    case OPTION_PATTERNS:
        return "list";
    default:
        return "one";
    }
}

static cJSON *describe_option(const struct option *o)
{
    CLEANUP_FREE char *flag = option_flag(o);
    CLEANUP_FREE char *env = option_env_name(o);
    CLEANUP_FREE char *help = option_help(o);
    cJSON *row = cJSON_CreateObject();
    cJSON_AddStringToObject(row, "name", o->name);
    cJSON_AddStringToObject(row, "topic", option_topic_name(o->topic));
    cJSON_AddStringToObject(row, "flag", flag);
    cJSON_AddStringToObject(row, "env", env);
    cJSON_AddStringToObject(row, "default", o->value);
    cJSON_AddStringToObject(row, "help", help);
    cJSON_AddStringToObject(row, "kind", kind_of_option(o));
    cJSON_AddStringToObject(row, "choices", o->choices != NULL ? o->choices : "");
    return row;
}

int main(void)
{
    cJSON *all = cJSON_CreateObject();
    cJSON *titles = cJSON_AddObjectToObject(all, "topics");
    for (int topic = 0; topic < OPTION_TOPIC_COUNT; topic++) {
        cJSON_AddStringToObject(titles, option_topic_name((enum option_topic)topic),
                                option_topic_title((enum option_topic)topic));
    }
    cJSON *rows = cJSON_AddArrayToObject(all, "options");
    for (size_t i = 0; i < option_count; i++) {
        cJSON_AddItemToArray(rows, describe_option(&options[i]));
    }
    char *text = cJSON_Print(all);
    printf("%s\n", text);
    cJSON_free(text);
    cJSON_Delete(all);
    return 0;
}
