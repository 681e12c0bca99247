/*
 * The audit log: one line of JSON for each tool call, and for each thing that an operator does, in
 * a file of the operator's.
 *
 * A line tells who called what, on which sandbox, how it ended and how long it took; of code its
 * SHA-256, or by option the code as well. It never has arguments, results, tokens or environments.
 *
 * Thread: the loop thread. Nothing blocks but audit_open() and audit_close(): lines are handed to a
 * thread that writes them. A line that cannot be queued or written is missing, and is counted; a
 * call never waits for it.
 */
#ifndef CLOISTER_SUPERVISOR_AUDIT_AUDIT_H
#define CLOISTER_SUPERVISOR_AUDIT_AUDIT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/view.h"

#define AUDIT_QUEUE_LINES 4096
#define AUDIT_QUEUE_BYTES (8u << 20)
#define AUDIT_CODE_BYTES  (64u << 10) /* of the code of one call, as JSON */
#define AUDIT_CLOSE_MS    1000        /* what the end of a server waits for lines to be written */

struct audit;

/* One call or deed that has ended; all borrowed, and text in UTF-8. NULL or "" is left out. */
struct audit_call {
    const char *principal, *session;
    const char *tool;                           /* of a call, … */
    const char *action, *target;                /* … or what was done, and to whose token */
    const char *words;                          /* of the line of that token: what it allows */
    const char *sandbox, *execution, *language; /* "": none */
    struct view code;                           /* .data NULL: the call has none */
    const char *outcome;                        /* of METRIC_OUTCOME_VALUES */
    const char *error;                          /* code of a failure, or NULL */
    uint64_t duration_us;
    double run_ms, cpu_ms; /* of an execution; negative: not known */
};

/* Opens or makes the file (mode 0600). -ERR_CONFIG if it is a symbolic link or no file, is somebody
 * else's, or may be read or changed by others than its owner and group; the text says what to do.
 * `keep_code`: lines have the code as well. */
int audit_open(const char *path, bool keep_code, struct audit **ret, struct err *err) WARN_UNUSED;

/* The same for a command, without code: -ERR_CONFIG if there is no file. One that the command made
 * would be its user's, and the server, which may run as another, could not open it. */
int audit_open_made(const char *path, struct audit **ret, struct err *err) WARN_UNUSED;

/* Queues the line of a call. NULL: there is no audit log. */
void audit_call(struct audit *a, const struct audit_call *call);

/* Opens the file again by its name, after it was renamed. If that fails, the old one stays in use,
 * and the log says so. NULL is fine. */
void audit_reopen(struct audit *a);

/* Sets the figures of the audit log (metrics.def). NULL is fine. */
void audit_measure(struct audit *a);

/* Writes what is queued, for at most AUDIT_CLOSE_MS. NULL is fine. */
void audit_close(struct audit *a);

#endif
