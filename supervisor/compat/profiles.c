/*
 * The table of profiles. Two that have a tool of one name cannot be on together.
 */
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "supervisor/base/config.h"
#include "supervisor/compat/profile.h"
#include "supervisor/tools/tool.h"

const struct profile *const profiles[PROFILE_COUNT] = {
    &profile_code_sandbox,     &profile_docker_interpreter, &profile_python_env,
    &profile_python_env_later, &profile_python_sandbox,
};

/* The name of a tool that both profiles have; NULL: there is none. */
static const char *shared_tool(const struct profile *a, const struct profile *b)
{
    for (size_t i = 0; i < a->tool_count; i++) {
        for (size_t j = 0; j < b->tool_count; j++) {
            if (strcmp(a->tools[i]->name, b->tools[j]->name) == 0) {
                return a->tools[i]->name;
            }
        }
    }
    return NULL;
}

int profiles_check(const struct config *config, struct err *err)
{
    for (size_t i = 0; i < PROFILE_COUNT; i++) {
        for (size_t j = i + 1; j < PROFILE_COUNT; j++) {
            const char *tool = config_lists(config->compat, profiles[i]->name) &&
                                       config_lists(config->compat, profiles[j]->name)
                                   ? shared_tool(profiles[i], profiles[j])
                                   : NULL;
            if (tool != NULL) {
                return err_set(err, ERR_CONFIG,
                               "--compat: %s and %s both have the tool %s, of which clients would "
                               "see one only: start a server for each",
                               profiles[i]->name, profiles[j]->name, tool);
            }
        }
    }
    return 0;
}

char *profiles_instructions(const struct config *config)
{
    char *all = alloc_strdup("");
    for (size_t i = 0; i < PROFILE_COUNT; i++) {
        if (config_lists(config->compat, profiles[i]->name)) {
            char *longer = alloc_printf("%s%s ", all, profiles[i]->instructions);
            free(all);
            all = longer;
        }
    }
    return all;
}

const char *profiles_server_name(const struct config *config)
{
    const char *name = "cloister";
    size_t on = 0;
    for (size_t i = 0; i < PROFILE_COUNT; i++) {
        if (config_lists(config->compat, profiles[i]->name)) {
            name = profiles[i]->server_name;
            on++;
        }
    }
    return on == 1 ? name : "cloister";
}
