/*
 * The result of one tool call before any revision has shaped it: content blocks for people and
 * models, a structured value, and whether it is an error.
 *
 * Sizes: whatever user code wrote, one result stays below 1 MiB on the wire, because desktop
 * clients refuse more. Every text appears in it twice (content and structured), so the texts
 * of one result together cost at most half of that, and less when there are pictures.
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

/* What one result may cost on the wire, with room for what is around it, */
#define RESULT_WIRE_BYTES (1000u << 10)
/* and its texts, in bytes of escaped JSON. The parts of an execution add up to it. */
#define RESULT_TEXT_BYTES      (480u << 10)
#define RESULT_STDOUT_BYTES    (200u << 10)
#define RESULT_STDERR_BYTES    (100u << 10)
#define RESULT_VALUE_BYTES     (64u << 10)
#define RESULT_MESSAGE_BYTES   (16u << 10)
#define RESULT_TRACEBACK_BYTES (48u << 10)

/* Of its output a result shows so much unless more is asked for: what hosts put before their models
 * without cutting it. */
#define RESULT_OUTPUT_BYTES (32u << 10)

/* Of each stream of an execution the fleet is asked to keep this much: what get_execution can show,
 * in more than one result if need be. The same as agents keep for the next server. */
#define RESULT_KEEP_BYTES LIMIT_OP_KEPT

struct result {
    cJSON *content;    /* array of blocks */
    cJSON *structured; /* object */
    bool is_error;
};

void result_init(struct result *r);
void result_finish(struct result *r);

/* Appends a block. Texts are valid UTF-8 without NUL. */
void result_add_text(struct result *r, const char *text);
void result_add_image(struct result *r, const char *mime_type, const char *base64);

/* To a resource that can be read; its name is its title as well, which is what hosts show.
 * `mime_type` may be NULL; `uri` NULL: no link. */
void result_add_link(struct result *r, const char *uri, const char *name, const char *mime_type,
                     uint64_t size);

/* Members of r->structured or of an object in it. Integers print as integers whatever their size;
 * keys are borrowed for ever. */
void result_put_text(cJSON *object, const char *key, const char *text);
void result_put_int(cJSON *object, const char *key, int64_t value);
void result_put_uint(cJSON *object, const char *key, uint64_t value);
void result_put_number(cJSON *object, const char *key, double value);
void result_put_bool(cJSON *object, const char *key, bool value);
void result_put_time(cJSON *object, const char *key, uint64_t wall_ms);
cJSON *result_put_object(cJSON *object, const char *key);
cJSON *result_put_array(cJSON *object, const char *key);
void result_put(cJSON *object, const char *key, cJSON *owned_value);

/* A call that could not be done: error{code,message,hint}. `code` is of ERR_LIST, either sign; the
 * texts may be any bytes; a hint that is NULL or empty becomes the usual one for the code. Replaces
 * whatever the result held. */
void result_set_failure(struct result *r, int code, const char *message, const char *hint);

/* What an execution's result shows, and how. */
struct result_range {
    uint64_t out, err;       /* offsets in what was written, at most what was; if ... */
    bool out_page, err_page; /* ... the part from there on is wanted; else head and tail */
    size_t most;             /* of stdout, about; 0: RESULT_OUTPUT_BYTES */
    bool tell;               /* the result says where its parts begin and end */
    bool gone;               /* its sandbox is about to be closed: nothing in there can be linked */
    const char *hint;        /* what to do about its error, a literal; NULL: nothing to say */
    const char *workspace;   /* of its sandbox, for links to files; NULL: none */
    struct links *links;     /* makes links for browsers; NULL: there are none */
};

/* How a run of code stands or ended, any status but OP_STATUS_FAILED. A `range` of NULL is one of
 * zeros; `notice` is a line in front of the rest, or NULL. */
void result_set_execution(struct result *r, const struct fleet_outcome *outcome,
                          const struct result_range *range, const char *notice);

/* An operation that is no run of code (or never became one) and did not end well. */
void result_set_operation_failure(struct result *r, const struct fleet_outcome *outcome);

#endif
