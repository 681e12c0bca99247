/*
 * A principal: a name that owns sandboxes, and its limits.
 *
 * stdio has one principal. HTTP has one for each name in the token file or subject of an
 * authorization server; if neither is configured, one for all. Sandboxes, executions, sessions and
 * tasks belong to the name; the fleet calls it an owner.
 *
 * Principals are reference-counted: code that keeps one beyond a call must hold it. Thread: the
 * loop thread.
 */
#ifndef CLOISTER_SUPERVISOR_BASE_PRINCIPAL_H
#define CLOISTER_SUPERVISOR_BASE_PRINCIPAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct principal_limits {
    uint64_t sandboxes; /* at the same time; 0: a fair share of the server's */
    uint64_t memory_mb; /* of all its sandboxes together; 0: likewise */
    uint64_t calls;     /* requests in flight, of all its sessions; 0: no limit */
};

/* Whether it may read /metrics, and tools beside that. */
enum principal_metrics { PRINCIPAL_METRICS_NO, PRINCIPAL_METRICS_YES, PRINCIPAL_METRICS_ONLY };

struct principal {
    char *name;
    uint64_t number; /* the same for the same name, else almost certainly another one; never 0 */
    struct principal_limits limits;
    enum principal_metrics metrics; /* NO at first */
    bool admin;                     /* it may use the control API, which is about everybody */
    size_t calls;                   /* in flight */
    size_t kept;                    /* bytes of its requests that have not ended */
    bool revoked; /* its token was removed from the file: its requests are refused */
    unsigned refs;
};

/* Copies the name. The caller gets the first reference; the last release frees it. */
struct principal *principal_create(const char *name, const struct principal_limits *limits);
struct principal *principal_hold(struct principal *p);
void principal_release(struct principal *p); /* NULL is fine */

#endif
