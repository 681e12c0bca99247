/*
 * A server for tests that is a Python script: it gets a directory of its own as argument, says on
 * its standard output when it is ready, and ends when its standard input does.
 */
#ifndef CLOISTER_TESTS_LIB_SCRIPT_SERVER_H
#define CLOISTER_TESTS_LIB_SCRIPT_SERVER_H

#include <stdio.h>
#include <sys/types.h>

struct script_server {
    char top[64]; /* the directory, also for files of the test; removed at the end */
    pid_t pid;
    int in;
};

/* Returns what it writes; the caller reads its first line and closes it. */
FILE *script_server_start(struct script_server *s, const char *script);
void script_server_stop(struct script_server *s);

#endif
