/*
 * Releases heap memory, descriptors and buffers at the end of their scope. A value leaves its scope
 * only through STEAL_PTR() or steal_fd(), so every transfer of ownership is easy to find.
 */
#ifndef CLOISTER_COMMON_CLEANUP_H
#define CLOISTER_COMMON_CLEANUP_H

#include <stdlib.h>
#include <unistd.h>

#include "common/buf.h"

static inline void cleanup_free_ptr(void *p)
{
    free(*(void **)p);
}

static inline void cleanup_close_fd(const int *fd)
{
    if (*fd >= 0) {
        close(*fd);
    }
}

#define CLEANUP_FREE __attribute__((cleanup(cleanup_free_ptr)))
#define CLEANUP_FD   __attribute__((cleanup(cleanup_close_fd)))
#define CLEANUP_BUF  __attribute__((cleanup(buf_finish)))

#define STEAL_PTR(p)                                                                               \
    __extension__({                                                                                \
        __typeof__(p) stolen_ = (p);                                                               \
        (p) = NULL;                                                                                \
        stolen_;                                                                                   \
    })

static inline int steal_fd(int *fd)
{
    int stolen = *fd;
    *fd = -1;
    return stolen;
}

#endif
