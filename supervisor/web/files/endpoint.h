/*
 * Links to files: GET and HEAD of /files/SANDBOX/PATH and, as another server of this kind has it,
 * /sandbox/file?sandbox_id=…&file_path=…. Whoever has a link may read that file until the link
 * expires: it is signed, and there is no other check.
 *
 * A file goes out in pieces, each read when the one before has left, so that neither a large file
 * nor a slow client takes memory. If it changes on the way the connection is cut.
 *
 * Thread: the loop thread. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_WEB_FILES_ENDPOINT_H
#define CLOISTER_SUPERVISOR_WEB_FILES_ENDPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common/view.h"

struct files_endpoint;
struct web_exchange;

/* What a link says. Borrowed. */
struct file_link {
    const char *sandbox, *path;
    const char *expires, *signature; /* NULL: it has none */
    bool foreign;                    /* of the other form */
};

/* Some bytes of a file, or why there are none. Borrowed. */
struct file_piece {
    int status; /* 0, or of HTTP, with `why` */
    const char *why;
    struct view bytes;
    uint64_t size;    /* of the file */
    uint64_t stamp;   /* another one when it has changed */
    const char *type; /* of its name, or NULL */
};
typedef void (*file_piece_fn)(void *arg, const struct file_piece *piece);

/* Where files come from. */
struct files_source {
    void *arg;
    /* 0, or a status of HTTP and why the link is not good. */
    int (*check)(void *arg, const struct file_link *link, const char **ret_why);
    /* Calls back once, never from within. stop() makes that soon. */
    void *(*read)(void *arg, const struct file_link *link, uint64_t offset, uint64_t length,
                  file_piece_fn done, void *done_arg);
    void (*stop)(void *reading);
};

#define FILES_PATH         "/files/"
#define FILES_FOREIGN_PATH "/sandbox/file"

/* Is this path one of ours? */
static inline bool files_endpoint_has(const char *path)
{
    return strncmp(path, FILES_PATH, strlen(FILES_PATH)) == 0 ||
           strcmp(path, FILES_FOREIGN_PATH) == 0;
}

struct files_endpoint *files_endpoint_create(const struct files_source *source);

/* When the source calls back no more. NULL is fine. */
void files_endpoint_destroy(struct files_endpoint *e);

/* Takes an exchange with such a path. */
void files_endpoint_handle(struct files_endpoint *e, struct web_exchange *x);

/* Files on their way. */
size_t files_endpoint_open_requests(const struct files_endpoint *e);

#endif
