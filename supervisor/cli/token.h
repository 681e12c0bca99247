/*
 * `cloister token NAME`: makes a token for somebody.
 */
#ifndef CLOISTER_SUPERVISOR_CLI_TOKEN_H
#define CLOISTER_SUPERVISOR_CLI_TOKEN_H

/* Prints the line for the file of tokens to stdout, the token itself to stderr. Returns the exit
 * code. */
int token_command(const char *name);

#endif
