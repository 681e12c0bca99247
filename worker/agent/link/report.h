/*
 * Records that drivers and file workers send to the agent, read as hostile.
 *
 * A record is a kind byte, a length (8 hexadecimal digits) and that many bytes; a few newlines may
 * stand between records. A shell can write one, too, and in one write (worker/agent/interp/bash.c).
 * Each kind has a cap and comes at most once before DONE, V up to LIMIT_DISPLAYS times:
 *
 *   R result text      N error name        M error or failure message    T traceback
 *   X exit code        F number of ERR_LIST   Y file type   S file size   U 1 if truncated
 *   V a representation of something displayed: number, type, size and path, a newline between each
 *   W of a scan for changed files: highest number of a watch, 0 if not everything is watched
 *   H stamp of a file, by which a change of it shows
 *   D done, with the number of the run that it ends
 *   I an interrupt came while no user code ran (empty)
 *
 * Numbers are decimal text. Anything else is an error, after which the caller ends the sender.
 * Thread: none of its own. Nothing blocks.
 */
#ifndef CLOISTER_WORKER_AGENT_LINK_REPORT_H
#define CLOISTER_WORKER_AGENT_LINK_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/err.h"
#include "worker/agent/link/framed.h"

#define REPORT_HEAD_BYTES 9

struct report_kind;

struct report {
    /* what has arrived since the last reset */
    bool has_result;
    struct buf result;
    struct buf error_name;
    struct buf message;
    struct buf traceback;
    bool has_exit;
    int64_t exit_code;
    struct framed displays; /* DISPLAY messages */
    uint64_t fail_code;
    uint64_t file_type;
    uint64_t file_size;
    uint64_t file_stamp;
    bool truncated;
    uint64_t watches;
    bool missed_interrupt;
    bool done;
    uint64_t run; /* of DONE */

    /* parsing */
    const char *allowed; /* letters of the kinds that this sender may use; borrowed for ever */
    unsigned seen;       /* kinds so far, one bit each */
    uint8_t head[REPORT_HEAD_BYTES];
    size_t head_len;
    unsigned gap;                   /* newlines since the last record */
    const struct report_kind *kind; /* of the record under way */
    size_t left;                    /* payload bytes still to come */
    struct buf display;             /* payload of the V that is being received */
    uint64_t shown;                 /* number of the last V */
    char number[24];
    size_t number_len;
};

#define REPORT_OF_RUN  "RNMTXVDI" /* what drivers say */
#define REPORT_OF_FILE "FMYSUHD"  /* what file workers say */
#define REPORT_OF_SCAN "FMUWD"    /* kinds that a scan for changed files may send */

void report_init(struct report *r, const char *allowed);
void report_finish(struct report *r);

/* Forgets everything, for the next run. */
void report_reset(struct report *r);

/* Takes bytes up to and including a DONE record; *ret_used says how many. -ERR_PROTOCOL for
 * anything that is not a record. Must not be called again after `done` before a reset. */
int report_feed(struct report *r, const void *data, size_t len, size_t *ret_used,
                struct err *err) WARN_UNUSED;

/* Appends one record; for the side that reports. */
int report_put(struct buf *out, char kind, const void *data, size_t len,
               struct err *err) WARN_UNUSED;
int report_put_number(struct buf *out, char kind, uint64_t value, struct err *err) WARN_UNUSED;

#endif
