/*
 * Links to files: GET and HEAD of /files/SANDBOX/PATH and, as another server of this kind has it,
 * /sandbox/file?sandbox_id=…&file_path=…. A link is signed, and anybody who has it may read its
 * file until it expires; there is no other check.
 *
 * A file is sent in pieces. Each is read when the piece before it has been sent, so neither a large
 * file nor a slow client takes memory. If the file changes meanwhile, the connection is cut.
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

/* The parts of a link. Borrowed. */
struct file_link {
    const char *sandbox, *path;
    const char *expires, *signature; /* NULL: absent */
    bool foreign;                    /* /sandbox/file?… */
};

/* Some bytes of a file, or why there are none. Borrowed. */
struct file_piece {
    int status; /* 0, or an HTTP status whose reason is `why` */
    const char *why;
    struct view bytes;
    uint64_t size;    /* of the whole file */
    uint64_t stamp;   /* differs after the file has changed */
    const char *type; /* by the file's name; may be NULL */
};
typedef void (*file_piece_fn)(void *arg, const struct file_piece *piece);

/* Where files are read from. */
struct files_source {
    void *arg;
    /* Returns 0, or an HTTP status and why the link is refused. */
    int (*check)(void *arg, const struct file_link *link, const char **ret_why);
    /* Calls back once, never from within read(). stop() makes the callback come soon. */
    void *(*read)(void *arg, const struct file_link *link, uint64_t offset, uint64_t length,
                  file_piece_fn done, void *done_arg);
    void (*stop)(void *reading);
};

#define FILES_PATH         "/files/"
#define FILES_FOREIGN_PATH "/sandbox/file"
#define FILES_STATIC_PATH  "/static/"

/* Whether this path belongs to the endpoint. */
static inline bool files_endpoint_has(const char *path)
{
    return strncmp(path, FILES_PATH, strlen(FILES_PATH)) == 0 ||
           strcmp(path, FILES_FOREIGN_PATH) == 0 ||
           strncmp(path, FILES_STATIC_PATH, strlen(FILES_STATIC_PATH)) == 0;
}

/* Copies the table. */
struct files_endpoint *files_endpoint_create(const struct files_source *source);

/* Call this after the source's last callback. NULL is fine. */
void files_endpoint_destroy(struct files_endpoint *e);

/* Handles an exchange with such a path. */
void files_endpoint_handle(struct files_endpoint *e, struct web_exchange *x);

/* The number of downloads in progress. */
size_t files_endpoint_open_requests(const struct files_endpoint *e);

#endif
