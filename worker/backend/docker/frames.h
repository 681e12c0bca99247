/*
 * Takes the framing off a hijacked stream: the engine puts 8 bytes in front of each piece of a
 * container's stdout and stderr, type, three zeros, length (big endian).
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
    size_t head_len;    /* bytes of it that are here */
    uint64_t remaining; /* bytes of the piece that are still to come */
};

#define DOCKER_FRAMES_INIT                                                                         \
    {                                                                                              \
        {0}, 0, 0                                                                                  \
    }

/* Looks at the next bytes of the stream, *data, and drops from its front what it has used. 1:
 * *ret_piece (borrowed from data, never empty) belongs to *ret_type; 0: data is used up;
 * -ERR_PROTOCOL: not such a stream. */
int docker_frames_next(struct docker_frames *f, struct view *data,
                       enum docker_stream_type *ret_type, struct view *ret_piece,
                       struct err *err) WARN_UNUSED;

#endif
