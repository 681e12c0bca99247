/*
 * What the agent says to a backend in words.
 *
 * The greeting is what a relay sends first, when it is connected to the agent's socket. It shows
 * the backend that the bytes of a stream come from the agent, and not from an engine that reports a
 * failure on the same stream.
 *
 * In a trial sandbox `cloister-agent check` tells what it finds, a line each on stdout: what a
 * runtime leaves out silently, or what a kernel of the sandbox's own does otherwise, shows only
 * inside.
 */
#ifndef CLOISTER_COMMON_RELAY_H
#define CLOISTER_COMMON_RELAY_H

#define RELAY_GREETING "cloister relay 1\n"

#define TRIAL_BEGIN   "kernel "             /* an agent runs */
#define TRIAL_KERNEL  TRIAL_BEGIN "%s %s\n" /* release and version of uname(2) */
#define TRIAL_PASSED  "socket passed\n"     /* the listening socket is there */
#define TRIAL_HIDDEN  "processes hidden\n"  /* the user sees no process of the agent's */
#define TRIAL_COUNTED "processes counted\n" /* RLIMIT_NPROC holds */

#endif
