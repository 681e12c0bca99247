/*
 * Limits of a sandbox's namespaces, set from outside (`cloister-agent limit`, on the host).
 */
#ifndef CLOISTER_WORKER_AGENT_PROCESS_LIMITS_H
#define CLOISTER_WORKER_AGENT_PROCESS_LIMITS_H

#include "common/err.h"

/* Arguments: [--user] --pid PID NAME:PATH=VALUE… Writes each value to /proc/sys/PATH as it is in
 * the IPC namespace and, with --user, in the user namespace of the process. What cannot be written
 * is told on stdout, "NAME: why", once for each name; a file that this kernel does not have is
 * passed over. Returns an exit code; fills err unless it is 0. */
int limits_run(int argc, char **argv, struct err *err) WARN_UNUSED;

#endif
