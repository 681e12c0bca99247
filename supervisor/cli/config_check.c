/*
 * Whoever changes the file of a service wants to know before the service is restarted. All that
 * serving would refuse is refused here by the same words: every command loads the configuration, so
 * what is wrong with the usual files was told before we are called. A file that is named is loaded
 * as --config would.
 */
#include "supervisor/cli/config_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/err.h"
#include "proto/exit_codes.h"
#include "supervisor/base/asked.h"
#include "supervisor/base/config.h"
#include "supervisor/base/config_file.h"

static int refuse_check(const char *text)
{
    fprintf(stderr, "cloister: config: %s\n", text);
    return EXIT_CODE_USAGE;
}

static int check_loaded(const struct config *config)
{
    struct err err = ERR_INIT;
    char *paths[CONFIG_FILES_MAX];
    if (asked_check_http(config, &err) < 0) {
        return refuse_check(err.text);
    }
    size_t count = config_files(config->config_file, paths);
    for (size_t i = 0; i < count; i++) {
        printf("%s: good\n", paths[i]);
        free(paths[i]);
    }
    if (count == 0) {
        printf("there is no configuration file\n");
    }
    return EXIT_CODE_OK;
}

static int check_named(char *path)
{
    char flag[] = "--" CONFIG_FILE_OPTION;
    char *words[] = {flag, path};
    struct config config;
    struct err err = ERR_INIT;
    int used;
    if (config_load(&config, 2, words, &used, &err) < 0) {
        return refuse_check(err.text);
    }
    int status = check_loaded(&config);
    config_finish(&config);
    return status;
}

int config_command(const struct config *config, int count, char **words)
{
    if (count == 0 || strcmp(words[0], "check") != 0 || count > 2) {
        return refuse_check("expected check, and perhaps a FILE behind it");
    }
    return count == 2 ? check_named(words[1]) : check_loaded(config);
}
