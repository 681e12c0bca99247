/*
 * `cloister token NAME`: makes a token for a principal.
 */
#ifndef CLOISTER_SUPERVISOR_CLI_TOKEN_H
#define CLOISTER_SUPERVISOR_CLI_TOKEN_H

/* Prints the line for the token file to stdout, and the token to stderr. Returns the exit code. */
int token_command(const char *name);

#endif
