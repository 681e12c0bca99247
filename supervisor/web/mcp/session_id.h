/*
 * Session ids of legacy clients, which the next server of the instance can read.
 *
 *     NAME.TRANSPORT.REVISION.FORM.CLIENT.PROOF
 *
 * NAME is 130 random bits. The middle parts are what `initialize` and the URL have settled: "http"
 * or "sse", the revision, the form of results, and the client's name. In the name every byte but
 * letters, digits, "-" and "_" is written as ~ and two hexadecimal digits. PROOF is a MAC of these
 * parts and the principal, with the key of the instance: only this instance can make an id, and
 * only its principal can use it. An id contains no secret.
 *
 * Thread: the loop thread. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_WEB_MCP_SESSION_ID_H
#define CLOISTER_SUPERVISOR_WEB_MCP_SESSION_ID_H

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"
#include "supervisor/base/result_form.h"
#include "supervisor/mcp/wire/revision.h"

#define SESSION_NAME_CHARS   26 /* of 5 random bits each */
#define SESSION_CLIENT_BYTES 64 /* of a client's name, with its NUL; a longer one is cut */
#define SESSION_KEY_BYTES    32

struct session_id {
    char name[SESSION_NAME_CHARS + 1];
    bool old; /* of /sse */
    enum revision revision;
    enum result_form results;
    char client[SESSION_CLIENT_BYTES];
};

/* As text, to be freed; NULL if it cannot be signed. */
char *session_id_write(const struct session_id *id, const char *principal,
                       const unsigned char key[SESSION_KEY_BYTES], struct err *err);

/* False if the text was not made by session_id_write() with this principal and key. */
bool session_id_read(const char *text, const char *principal,
                     const unsigned char key[SESSION_KEY_BYTES], struct session_id *ret);

#endif
