/*
 * Time. Decisions use the monotonic clock only; the wall clock is for people. Thread: any.
 */
#ifndef CLOISTER_COMMON_CLOCK_H
#define CLOISTER_COMMON_CLOCK_H

#include <stddef.h>
#include <stdint.h>

uint64_t clock_ms(void); /* monotonic milliseconds */
uint64_t clock_us(void); /* monotonic microseconds */

/* Wall clock, milliseconds since 1970. */
uint64_t clock_wall_ms(void);

/* "2026-01-31T12:00:00.000Z" into out (at least CLOCK_ISO_SIZE bytes). */
#define CLOCK_ISO_SIZE 32
void clock_iso(uint64_t wall_ms, char *out, size_t size);

#endif
