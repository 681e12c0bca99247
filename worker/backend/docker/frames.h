/*
 * Removes the framing of a hijacked stream: each piece of a container's stdout and stderr has a
 * head of 8 bytes: type, three zeros, length (big endian).
 *
 * Thread: any. Nothing blocks or allocates.
 */
#ifndef CLOISTER_WORKER_BACKEND_DOCKER_FRAMES_H
#define CLOISTER_WORKER_BACKEND_DOCKER_FRAMES_H

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/view.h"

enum docker_stream_type { DOCKER_STDIN, DOCKER_STDOUT, DOCKER_STDERR, DOCKER_SYSTEM_ERROR };

struct docker_frames {
    uint8_t head[8];
    size_t head_len;    /* bytes of the head that have come */
    uint64_t remaining; /* bytes of the piece that have not come yet */
};

#define DOCKER_FRAMES_INIT                                                                         \
    {                                                                                              \
        {0}, 0, 0                                                                                  \
    }

/* Takes the next bytes of the stream off *data. Returns 1 and a piece of *ret_type in *ret_piece
 * (borrowed from data, never empty); 0 if data is used up; -ERR_PROTOCOL if it is not such a
 * stream. */
int docker_frames_next(struct docker_frames *f, struct view *data,
                       enum docker_stream_type *ret_type, struct view *ret_piece,
                       struct err *err) WARN_UNUSED;

#endif
