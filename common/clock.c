/*
 * Clocks. Deadlines use CLOCK_MONOTONIC, so stepping the wall clock moves none of them.
 */
#include "common/clock.h"

#include <stdio.h>
#include <time.h>

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
    time_t seconds = (time_t)(wall_ms / 1000u);
    struct tm t;
    gmtime_r(&seconds, &t);
    snprintf(out, size, "%04d-%02d-%02dT%02d:%02d:%02d.%03uZ", t.tm_year + 1900, t.tm_mon + 1,
             t.tm_mday, t.tm_hour, t.tm_min, t.tm_sec, (unsigned)(wall_ms % 1000u));
}
