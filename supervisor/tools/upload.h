/*
 * Copies a file of this host into the sandbox of a call.
 *
 * Thread: the loop thread. Nothing blocks: a thread of the pool reads the file.
 */
#ifndef CLOISTER_SUPERVISOR_TOOLS_UPLOAD_H
#define CLOISTER_SUPERVISOR_TOOLS_UPLOAD_H

#include <stdint.h>

#include "common/err.h"
#include "supervisor/web/http/digest.h"

struct tool_call;

/* Borrowed. */
struct upload_result {
    int rc; /* < 0: err and hint (or NULL) explain it, and nothing of the file is in the sandbox */
    const struct err *err;
    const char *hint;
    uint64_t size;
    char sha256[WEB_DIGEST_HEX_SIZE];
};
typedef void (*upload_done_fn)(struct tool_call *call, const struct upload_result *result);

/* `local` is a path for local_file_open(), below the directories of the configuration; `path` is a
 * path in call->sandbox_id. Uses call->own. `done` is called once, perhaps from within, and must
 * end the call. */
void upload_local(struct tool_call *call, const char *local, const char *path, upload_done_fn done);

#endif
