/*
 * A real relay with both of its ends in the test: the client's streams, and the socket where an
 * agent would listen. And the command line of the agent, for what it refuses.
 */
#ifndef CLOISTER_TESTS_UNIT_AGENT_RELAY_LAB_H
#define CLOISTER_TESTS_UNIT_AGENT_RELAY_LAB_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <cmocka.h>

#define LAB_PATIENCE_MS 20000

struct lab {
    char dir[64];
    char path[96];
    int listen_fd;
    pid_t relay;
    int in, out;    /* the client's: written to its stdin, read from its stdout */
    int agent;      /* the far end of its connection */
    char said[512]; /* what it wrote to stderr */
};

int lab_setup(void **state);
int lab_teardown(void **state);
void lab_close(int *fd);

/* As an agent would. */
void lab_listen(struct lab *lab);

/* Starts a relay on two pipes, or one socket for both as some engines have it. */
void lab_start(struct lab *lab, bool one_socket);
/* The agent's end, and what the relay says to the client then. */
void lab_accept(struct lab *lab);
/* All of it. */
void lab_up(struct lab *lab, bool one_socket);

/* A relay to any socket on any streams. */
pid_t lab_relay(const char *path, int in, int out);

/* Reads what a relay says first; anything else is a failure. */
void lab_read_greeting(int fd);

/* Waits for a child to end, and sets *pid to 0: its exit code, 128 + n for a signal, -1 if it does
 * not. */
int lab_wait(pid_t *pid);

/* Writes until it has not been possible for a while. */
void lab_fill(int fd, size_t *ret_bytes);

/* Reads to the end; how many bytes. */
size_t lab_drain(int fd);

/* The agent with these arguments and this stdin (-1: closed) ends with that exit code, and says one
 * line with that text in it. */
void lab_expect_complaint(struct lab *lab, const char *const *args, int in, int code,
                          const char *text);

#endif
