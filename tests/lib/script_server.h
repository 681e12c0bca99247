/*
 * A server for tests that is a Python script. It gets a directory of its own as argument, reports
 * on its standard output when it is ready, and ends when its standard input is closed.
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

/* Returns the script's standard output; the caller reads the first line and closes it. */
FILE *script_server_start(struct script_server *s, const char *script);
void script_server_stop(struct script_server *s);

#endif
