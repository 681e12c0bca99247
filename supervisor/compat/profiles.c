/*
 * The table of profiles. If two have a tool of one name, the earlier profile wins.
 */
#include "supervisor/base/config.h"
#include "supervisor/compat/profile.h"

const struct profile *const profiles[PROFILE_COUNT] = {
    &profile_code_sandbox,     &profile_docker_interpreter, &profile_python_env,
    &profile_python_env_later, &profile_python_sandbox,
};

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
