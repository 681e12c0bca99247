/*
 * What a relay says first, once it has the agent's socket: whoever opened a stream through an
 * engine knows by it that bytes come from the agent and not from an engine that explains a failure
 * on the same stream.
 */
#ifndef CLOISTER_COMMON_RELAY_H
#define CLOISTER_COMMON_RELAY_H

#define RELAY_GREETING "cloister relay 1\n"

#endif
