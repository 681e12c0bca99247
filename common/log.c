/*
 * Each event is one line and one write(2), so lines of several processes on one stderr do not mix,
 * and a crash loses nothing. The format is "<ISO time> <level> <component>: <text>".
 *
 * Level and component are process-wide state, because any code may log; both are set once at start.
 */
#include "common/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"

static _Atomic int current_level = LOG_INFO;
static _Atomic(const char *) component = "cloister";

static const char *const level_names[] = {"error", "warn", "info", "debug"};

void log_set_level(enum log_level level)
{
    atomic_store(&current_level, (int)level);
}

enum log_level log_get_level(void)
{
    return (enum log_level)atomic_load(&current_level);
}

bool log_level_parse(const char *name, enum log_level *ret_level)
{
    for (int i = LOG_ERROR; i <= LOG_DEBUG; i++) {
        if (strcmp(name, level_names[i]) == 0) {
            *ret_level = (enum log_level)i;
            return true;
        }
    }
    return false;
}

const char *log_level_name(enum log_level level)
{
    return level_names[level];
}

void log_set_component(const char *name)
{
    atomic_store(&component, name);
}

void log_line(enum log_level level, const char *fmt, ...)
{
    if ((int)level > atomic_load(&current_level)) {
        return;
    }
    int saved_errno = errno;
    char line[LOG_LINE_MAX];
    char iso[CLOCK_ISO_SIZE];
    clock_iso(clock_wall_ms(), iso, sizeof(iso));
    int head = snprintf(line, sizeof(line), "%s %-5s %s: ", iso, level_names[level],
                        atomic_load(&component));
    size_t used = head > 0 ? (size_t)head : 0;

    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(line + used, sizeof(line) - used - 1, fmt, args);
    va_end(args);
    size_t end = used + (n > 0 ? (size_t)n : 0);
    if (end > sizeof(line) - 2) {
        end = sizeof(line) - 2;
    }
    /* the text may quote a peer, which must neither end the line nor control the terminal */
    for (size_t i = used; i < end; i++) {
        unsigned char c = (unsigned char)line[i];
        if (c < 0x20 || c == 0x7f) {
            line[i] = ' ';
        }
    }
    line[end++] = '\n';
    ssize_t written = write(STDERR_FILENO, line, end);
    (void)written; /* nowhere to report it */
    errno = saved_errno;
}
