/*
 * The headers under which a file is served. They let a browser show pictures and plain text, and
 * make it save everything else. Also parses the ranges that clients ask for.
 *
 * Thread: the loop thread. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_WEB_FILES_HEADERS_H
#define CLOISTER_SUPERVISOR_WEB_FILES_HEADERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct web_exchange;

#define FILE_ETAG_SIZE 24

/* Sets all headers but the type and the length. `type` follows from the file's name, NULL: unknown;
 * file_etag() makes `etag`. */
void file_headers_set(struct web_exchange *x, const char *path, const char *type, const char *etag);

/* Returns the Content-Type; it may be stored in `scratch`. */
const char *file_content_type(const char *type, char *scratch, size_t size);

/* Makes the etag of a version of a file (struct file_piece). */
void file_etag(uint64_t stamp, char ret[FILE_ETAG_SIZE]);

/* Whether If-None-Match names this etag. */
bool file_is_known(const struct web_exchange *x, const char *etag);

/* One range of bytes. With `suffix`, it is the last `from` bytes. */
struct file_range {
    bool asked, suffix;
    uint64_t from, to; /* both inclusive; `to` UINT64_MAX: to the end */
};

/* Parses a Range header (NULL: none). A header that cannot be parsed, or that has several ranges,
 * is ignored. */
struct file_range file_range_parse(const char *header);

/* Converts it to [*ret_at, *ret_end) of a file of this size; false if nothing of it exists. */
bool file_range_fit(const struct file_range *range, uint64_t size, uint64_t *ret_at,
                    uint64_t *ret_end);

#endif
