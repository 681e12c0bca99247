/*
 * Programs that tools of other servers run in sandboxes: embed.py turns files of programs/ into
 * these strings.
 */
#ifndef CLOISTER_SUPERVISOR_COMPAT_PROGRAMS_H
#define CLOISTER_SUPERVISOR_COMPAT_PROGRAMS_H

extern const char program_charts[];
extern const char program_telnet[];

#endif
