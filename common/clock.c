/*
 * Deadlines use CLOCK_MONOTONIC, so a step of the wall clock does not move them.
 *
 * Dates are computed here and not by gmtime_r(), which would link libc's time zones and number
 * scanning: a tenth of the agent, which is in memory once for each sandbox.
 */
#include "common/clock.h"

#include <stdio.h>
#include <time.h>

#define DAY_MS   86400000u
#define ERA_DAYS 146097u

static uint64_t read_us(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}

uint64_t clock_us(void)
{
    return read_us(CLOCK_MONOTONIC);
}

uint64_t clock_ms(void)
{
    return read_us(CLOCK_MONOTONIC) / 1000u;
}

uint64_t clock_wall_ms(void)
{
    return read_us(CLOCK_REALTIME) / 1000u;
}

void clock_iso(uint64_t wall_ms, char *out, size_t size)
{
    uint64_t days = wall_ms / DAY_MS;
    unsigned ms = (unsigned)(wall_ms % DAY_MS);
    /* Years are taken to begin in March, so the leap day is their last. Days count from March 1 of
     * the year 0, in eras of 400 years, which all have the same length. */
    uint64_t since_0 = days + 719468;
    uint64_t era = since_0 / ERA_DAYS;
    uint64_t day = since_0 % ERA_DAYS; /* of the era */
    uint64_t year = (day - day / 1460 + day / 36524 - day / 146096) / 365;
    day -= 365 * year + year / 4 - year / 100;
    uint64_t month = (5 * day + 2) / 153; /* any five months from March on have 153 days */
    day -= (153 * month + 2) / 5;
    unsigned calendar_month = (unsigned)(month < 10 ? month + 3 : month - 9);
    year += era * 400 + (calendar_month <= 2);
    snprintf(out, size, "%04u-%02u-%02uT%02u:%02u:%02u.%03uZ", (unsigned)year, calendar_month,
             (unsigned)day + 1, ms / 3600000, ms / 60000 % 60, ms / 1000 % 60, ms % 1000);
}
