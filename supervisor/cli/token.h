/*
 * `cloister token`: makes tokens for principals, lists whom there are tokens for, and revokes them.
 */
#ifndef CLOISTER_SUPERVISOR_CLI_TOKEN_H
#define CLOISTER_SUPERVISOR_CLI_TOKEN_H

struct config;

/* The words behind `token`:
 *
 *   NAME            prints a line for the token file to stdout, and the token to stderr
 *   add NAME [...]  adds that line to the file of --tokens, with the words behind it, and prints
 * the token to stdout list            prints the names in that file, with what their lines say
 * beside tokens revoke NAME     removes the lines of the name
 *
 * Returns the exit code. */
int token_command(const struct config *config, int count, char **words);

#endif
