/*
 * Finds the id of a message that is not parsed: one that is too large, or too deep. Its client
 * waits for an answer, and knows it by its id.
 *
 * The text comes in pieces of any size, of which only the id is kept. An id counts only if the text
 * is one object that is closed at its end, since anything else is no message. It must be a request,
 * too: an answer has the number of a question of ours, by which its client knows a request of its
 * own. Thread: any. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_MCP_WIRE_RAW_ID_H
#define CLOISTER_SUPERVISOR_MCP_WIRE_RAW_ID_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>

#define RAW_ID_BYTES     1024 /* of the text of an id; a longer one is not found */
#define RAW_ID_KEY_BYTES 6    /* of the longest key that is looked for */

enum raw_id_place {
    RAW_ID_BEFORE,
    RAW_ID_KEY,
    RAW_ID_COLON,
    RAW_ID_VALUE,
    RAW_ID_END,
    RAW_ID_LOST
};

/* Zeroed: nothing has been read. */
struct raw_id {
    enum raw_id_place place; /* in the outermost object */
    size_t depth;
    bool in_string, escaped;
    char key[RAW_ID_KEY_BYTES];
    size_t key_len;
    bool has_method, has_answer; /* a key "method"; "result" or "error" */
    bool reading;                /* the value is the id */
    bool found, broken;
    char text[RAW_ID_BYTES];
    size_t len;
};

void raw_id_take(struct raw_id *r, const char *piece, size_t len);

/* The id of a request as JSON text, as of jsonrpc_id_text(); NULL: there is none. The caller frees
 * it. */
char *raw_id_end(const struct raw_id *r);

/* The same for a text as a whole, which must be UTF-8. */
char *raw_id_of(const char *text, size_t len);

/* The id as it was written, if json_parse() had to put U+FFFD into it for half a surrogate pair:
 * the client would not know it again. NULL: the id of this message is what its text says, or it is
 * an answer. */
char *raw_id_mended(const cJSON *message, const char *text, size_t len);
#define RAW_ID_MENDED "the id has half a surrogate pair, which is no character"

#endif
