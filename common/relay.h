/*
 * The greeting that a relay sends first, when it is connected to the agent's socket. It shows the
 * backend that the bytes of a stream come from the agent, and not from an engine that reports a
 * failure on the same stream.
 */
#ifndef CLOISTER_COMMON_RELAY_H
#define CLOISTER_COMMON_RELAY_H

#define RELAY_GREETING "cloister relay 1\n"

#endif
