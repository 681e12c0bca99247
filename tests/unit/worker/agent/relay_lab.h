/*
 * A real relay with both of its ends in the test: the client's streams, and the socket on which an
 * agent would listen. And the agent's command line, for errors in it.
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
    int in, out;    /* the client's ends: of the relay's stdin, of its stdout */
    int agent;      /* the agent's end of its connection */
    char said[512]; /* its stderr */
};

int lab_setup(void **state);
int lab_teardown(void **state);
void lab_close(int *fd);

/* Listens as an agent does. */
void lab_listen(struct lab *lab);

/* Starts a relay on two pipes, or on one socket for both, as some engines do it. */
void lab_start(struct lab *lab, bool one_socket);
/* Accepts as the agent, and reads the relay's greeting to the client. */
void lab_accept(struct lab *lab);
/* All three of these. */
void lab_up(struct lab *lab, bool one_socket);

/* Starts a relay from any socket to any streams. */
pid_t lab_relay(const char *path, int in, int out);

/* Reads the first message of a relay; any other message is a failure. */
void lab_read_greeting(int fd);

/* Waits for the end of a child, and sets *pid to 0: its exit code, 128 + n for a signal, -1 if it
 * does not end. */
int lab_wait(pid_t *pid);
/* Waits until the relay, which has nothing to wait for but its agent, has slept so often. */
void lab_pauses(const struct lab *lab, unsigned times);

/* Writes until writing has been impossible for a while. */
void lab_fill(int fd, size_t *ret_bytes);

/* Reads to the end; returns the number of bytes. */
size_t lab_drain(int fd);

/* Runs the agent with these arguments and this stdin (-1: closed): it must end with that exit code
 * and one line that contains the text. */
void lab_expect_complaint(struct lab *lab, const char *const *args, int in, int code,
                          const char *text);

#endif
