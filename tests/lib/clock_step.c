/*
 * A wall clock that jumps, to be preloaded into programs under test: every PERIOD_MS it steps from
 * one day ahead to one day behind and back. Monotonic clocks are unchanged. Statically linked
 * programs, as the agent, are not affected.
 */
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define PUBLIC      __attribute__((visibility("default")))
#define PERIOD_MS   200
#define DAY_SECONDS 86400

/* The real functions, since libc's own names are overridden here. */
static int true_clock(clockid_t id, struct timespec *t)
{
    return (int)syscall(SYS_clock_gettime, id, t);
}

static time_t step(void)
{
    struct timespec t;
    true_clock(CLOCK_MONOTONIC, &t);
    int64_t ms = (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
    return ms / PERIOD_MS % 2 == 0 ? DAY_SECONDS : -DAY_SECONDS;
}

PUBLIC int clock_gettime(clockid_t id, struct timespec *t);
int clock_gettime(clockid_t id, struct timespec *t)
{
    int rc = true_clock(id, t);
    if (rc == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) {
        t->tv_sec += step();
    }
    return rc;
}

PUBLIC int gettimeofday(struct timeval *restrict t, void *restrict zone);
int gettimeofday(struct timeval *restrict t, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    t->tv_sec = now.tv_sec;
    t->tv_usec = now.tv_nsec / 1000;
    return 0;
}

PUBLIC time_t time(time_t *ret);
time_t time(time_t *ret)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (ret != NULL) {
        *ret = now.tv_sec;
    }
    return now.tv_sec;
}
