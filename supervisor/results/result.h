/*
 * The result of a tool call before it is shaped for a revision: content blocks for people and
 * models, a structured value, and whether it is an error.
 *
 * Sizes: whatever user code wrote, a result stays below 1 MiB on the wire, because desktop clients
 * refuse more. Each text appears in it twice (content and structured), so all texts of a result
 * together cost at most half of that, and less if there are pictures.
 */
#ifndef CLOISTER_SUPERVISOR_RESULTS_RESULT_H
#define CLOISTER_SUPERVISOR_RESULTS_RESULT_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/view.h"
#include "proto/limits.h"

struct fleet_outcome;
struct links;

/* Size limit of a result on the wire, with room for its envelope. */
#define RESULT_WIRE_BYTES (1000u << 10)
/* Size limit of its texts, in bytes of escaped JSON. The parts of an execution add up to it. */
#define RESULT_TEXT_BYTES      (480u << 10)
#define RESULT_STDOUT_BYTES    (200u << 10)
#define RESULT_STDERR_BYTES    (100u << 10)
#define RESULT_VALUE_BYTES     (64u << 10)
#define RESULT_MESSAGE_BYTES   (16u << 10)
#define RESULT_TRACEBACK_BYTES (48u << 10)

/* Output in a result by default: hosts give this much to their models without cutting it. */
#define RESULT_OUTPUT_BYTES (32u << 10)

/* The fleet keeps this much of each stream of an execution: get_execution can show it, if need be
 * in several results. Agents keep as much for the next server. */
#define RESULT_KEEP_BYTES LIMIT_OP_KEPT

struct result {
    cJSON *content;    /* array of blocks */
    cJSON *structured; /* object */
    bool is_error;
    const char *status;     /* of the execution that it is about, else NULL; a string literal */
    uint64_t asked_wall_ms; /* of that execution: when its worker was asked to run it */
    int code;               /* of a failure, from ERR_LIST; else 0 */
};

void result_init(struct result *r);
void result_finish(struct result *r);

/* Append a block. Texts are valid UTF-8 without NUL. */
void result_add_text(struct result *r, const char *text);
void result_add_image(struct result *r, const char *mime_type, const char *base64);

/* Appends a link to a readable resource. Its name is also its title, which hosts show. `mime_type`
 * may be NULL; `uri` NULL: no link. */
void result_add_link(struct result *r, const char *uri, const char *name, const char *mime_type,
                     uint64_t size);

/* Add a member to r->structured or to an object in it. Integers of any size print as integers. Keys
 * are borrowed for ever. */
void result_put_text(cJSON *object, const char *key, const char *text);
void result_put_int(cJSON *object, const char *key, int64_t value);
void result_put_uint(cJSON *object, const char *key, uint64_t value);
void result_put_number(cJSON *object, const char *key, double value);
void result_put_bool(cJSON *object, const char *key, bool value);
void result_put_time(cJSON *object, const char *key, uint64_t wall_ms);
cJSON *result_put_object(cJSON *object, const char *key);
cJSON *result_put_array(cJSON *object, const char *key);
void result_put(cJSON *object, const char *key, cJSON *owned_value);

/* A text of another process, whatever bytes it sent: valid UTF-8, and cut at 2 KiB. */
cJSON *result_words(const char *words);
void result_put_words(cJSON *object, const char *key, const char *words);

/* Makes it the result of a failed call: error{code,message,hint}. `code` is from ERR_LIST, with
 * either sign; the texts may be any bytes; if hint is NULL or empty, the usual one of the code is
 * used. Replaces all that the result held. */
void result_set_failure(struct result *r, int code, const char *message, const char *hint);

/* What the result of an execution shows. */
struct result_range {
    uint64_t out, err;       /* offsets in the written output, at most its length; if ... */
    bool out_page, err_page; /* ... the part from there is wanted; else head and tail */
    size_t most;             /* approximate limit of stdout; 0: RESULT_OUTPUT_BYTES */
    bool tell;               /* the result says where its parts begin and end */
    bool gone;               /* its sandbox is about to be closed: no links into it */
    const char *hint;        /* what to do about its error, a string literal, or NULL */
    const char *workspace;   /* of its sandbox, for links to files; NULL: no links */
    struct links *links;     /* makes URLs for browsers; NULL: none */
};

/* Makes the result of a running or ended execution, of any status but OP_STATUS_FAILED. `range`
 * NULL: all zero; `notice` is a first line, or NULL. */
void result_set_execution(struct result *r, const struct fleet_outcome *outcome,
                          const struct result_range *range, const char *notice);

/* Makes the result of a failed operation that is no execution, or never became one. */
void result_set_operation_failure(struct result *r, const struct fleet_outcome *outcome);

#endif
