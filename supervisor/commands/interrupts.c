/*
 * Signals that would end us, while something runs that is to be stopped first and a terminal that
 * is to be given back. A handler writes into a pipe, which loops and waits look at, also
 * that for a reader who does not read (follow.c); it does not restart what it interrupts. In the
 * end we die by the signal, so that whoever waits for us, such as a shell, knows why we have ended.
 *
 * One that was ignored when we began stays so, as nohup wants it. SIGPIPE is ignored: a write that
 * fails says the same (interrupts_note()), and the pipe to a server has errors of its own.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <unistd.h>

#include "supervisor/commands/internal.h"

static const int ending[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM};

#define ENDING_COUNT (sizeof(ending) / sizeof(ending[0]))

/* Of the process, as signals are. */
static volatile sig_atomic_t wake_in = -1, wake_out = -1; /* the pipe's ends */
static volatile sig_atomic_t first;                       /* 0: none has come */
static volatile sig_atomic_t again;                       /* one has come after it */

static void wake_for(int number)
{
    first = first != 0 ? first : number;
    ssize_t n = write(wake_in, "", 1); /* a full pipe wakes as well */
    (void)n;
}

static void on_ending_signal(int number)
{
    again = first != 0;
    wake_for(number);
}

void interrupts_begin(void)
{
    struct sigaction action = {.sa_handler = on_ending_signal}, ignore = {.sa_handler = SIG_IGN};
    struct sigaction old;
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
        return; /* signals end us as ever */
    }
    wake_out = ends[0];
    wake_in = ends[1];
    for (size_t i = 0; i < ENDING_COUNT; i++) {
        if (sigaction(ending[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL) {
            (void)sigaction(ending[i], &action, NULL);
        }
    }
    (void)sigaction(SIGPIPE, &ignore, NULL);
}

int interrupts_fd(void)
{
    return wake_out;
}

bool interrupts_came(void)
{
    return first != 0;
}

bool interrupts_insist(void)
{
    return again != 0;
}

void interrupts_note(int number)
{
    wake_for(number);
}

void interrupts_take(void)
{
    char bytes[64];
    while (wake_out >= 0 && read(wake_out, bytes, sizeof(bytes)) > 0) {
    }
}

void interrupts_end(void)
{
    struct sigaction plain = {.sa_handler = SIG_DFL};
    if (first != 0) {
        (void)sigaction(first, &plain, NULL);
        (void)raise(first);
    }
}
