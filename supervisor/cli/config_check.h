/*
 * `cloister config check [FILE]`: what the configuration files say, before a server is started.
 */
#ifndef CLOISTER_SUPERVISOR_CLI_CONFIG_CHECK_H
#define CLOISTER_SUPERVISOR_CLI_CONFIG_CHECK_H

struct config;

/* `config` was loaded without an error; the words are those behind `config`. Prints the files that
 * were read, or with FILE what is wrong with that one. Returns the exit code. */
int config_command(const struct config *config, int count, char **words);

#endif
