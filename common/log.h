/*
 * Logging: one event, one line on stderr: "<ISO time> <level> <component>: text key=value ...".
 *
 * stdout belongs to the protocol, so nothing here ever writes there. Text that came from a peer
 * is passed through "%s" only; control characters are escaped and the line is cut at
 * LOG_LINE_MAX, so a peer can neither forge nor flood lines. One write(2) a line.
 *
 * Only the top layer of a process logs above debug level; lower layers return errors (err.h).
 * Thread: any. May block only as long as stderr does.
 */
#ifndef CLOISTER_COMMON_LOG_H
#define CLOISTER_COMMON_LOG_H

#include <stdbool.h>

#define LOG_LINE_MAX 2048 /* bytes of one line, newline included */

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

/* Lines above `level` are dropped. The default is LOG_INFO. */
void log_set_level(enum log_level level);
enum log_level log_get_level(void);

/* Name ("error" "warn" "info" "debug") to level; false if unknown. */
bool log_level_parse(const char *name, enum log_level *ret_level);
const char *log_level_name(enum log_level level);

/* Fixed text after the time, e.g. "worker". Borrowed for ever. */
void log_set_component(const char *name);

void log_line(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...) log_line(LOG_ERROR, __VA_ARGS__)
#define log_warn(...)  log_line(LOG_WARN, __VA_ARGS__)
#define log_info(...)  log_line(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_line(LOG_DEBUG, __VA_ARGS__)

#endif
