/*
 * `cloister doctor`: what was looked for on this host, what was found, and what to do.
 */
#ifndef CLOISTER_SUPERVISOR_CLI_DOCTOR_H
#define CLOISTER_SUPERVISOR_CLI_DOCTOR_H

struct config;

/* Runs its own loop and prints to stdout. Returns the exit status: 0 if sandboxes can be created
 * here that run code. Blocks while the probes run (seconds). */
int doctor_run(struct config *config);

#endif
