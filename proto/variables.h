/*
 * Variables in the environment of a sandbox that say how its agent runs code. Who opens the sandbox
 * sets them; code sees them, too. Operations on files and programs that are named themselves
 * (OP_RUN) do not heed them.
 */
#ifndef CLOISTER_PROTO_VARIABLES_H
#define CLOISTER_PROTO_VARIABLES_H

/* The directory in which code begins, instead of the workspace: an absolute path. */
#define VARIABLE_CWD "CLOISTER_CWD"

/* If it is set, what code writes to stderr is in stdout, where it was written. */
#define VARIABLE_ONE_STREAM "CLOISTER_ONE_STREAM"

#endif
