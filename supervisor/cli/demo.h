/*
 * `cloister demo`: an MCP client that starts this program as its server, uses a sandbox through MCP
 * step by step, and prints what happened and how long it took.
 */
#ifndef CLOISTER_SUPERVISOR_CLI_DEMO_H
#define CLOISTER_SUPERVISOR_CLI_DEMO_H

/* `self` is the path of this executable; argv are options for the server. Prints to stdout, and
 * blocks until the server has ended. Returns the exit status of the process: 0 if every step
 * succeeded. */
int demo_run(const char *self, int argc, char **argv);

#endif
