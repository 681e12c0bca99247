/*
 * What a file's bytes are served under: headers that let a browser show pictures and plain text,
 * and make it save everything else; and the ranges that clients ask for.
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

/* Everything but the type and the length. `type` is by the file's name, NULL: unknown; `etag` as
 * file_etag() made it. */
void file_headers_set(struct web_exchange *x, const char *path, const char *type, const char *etag);

/* The Content-Type. */
const char *file_content_type(const char *type, char *scratch, size_t size);

void file_etag(uint64_t stamp, char ret[FILE_ETAG_SIZE]);

/* If-None-Match names it. */
bool file_is_known(const struct web_exchange *x, const char *etag);

/* One range of bytes. With `suffix` the last `from` bytes are meant. */
struct file_range {
    bool asked, suffix;
    uint64_t from, to; /* both inclusive; `to` UINT64_MAX: to the end */
};

/* A Range header (NULL: none). What cannot be read, or names several, is as if it were not there.
 */
struct file_range file_range_parse(const char *header);

/* Makes it [*ret_at, *ret_end) of a file of this size; false: nothing of it is there. */
bool file_range_fit(const struct file_range *range, uint64_t size, uint64_t *ret_at,
                    uint64_t *ret_end);

#endif
