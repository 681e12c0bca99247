/*
 * Programs that run in sandboxes for tools of other servers: files of programs/, made into these
 * strings by embed.py.
 */
#ifndef CLOISTER_SUPERVISOR_COMPAT_PROGRAMS_H
#define CLOISTER_SUPERVISOR_COMPAT_PROGRAMS_H

extern const char program_charts[];
extern const char program_telnet[];

#endif
