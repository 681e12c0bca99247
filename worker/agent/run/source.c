/*
 * The drivers' sources are the largest part of this program that is read, each once in the life of
 * an interpreter. After that their pages would count as the agent's memory in every sandbox, so
 * they are given back. The kernel keeps them in its page cache, so the next interpreter reads no
 * disk.
 */
#include "worker/agent/run/source.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/fd.h"

/* Whole pages only: the first and the last may hold other data that is in use. */
static void give_back(const char *text, size_t len)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t from = ((uintptr_t)text + page - 1) / page * page;
    uintptr_t to = ((uintptr_t)text + len) / page * page;
    if (from < to) {
        (void)madvise((void *)from, to - from, MADV_DONTNEED); /* read-only: nothing is lost */
    }
}

int source_write_bytes(int fd, const char *data, size_t len, struct err *err)
{
    int rc = fd_write_all(fd, data, len, err);
    give_back(data, len);
    return rc;
}

int source_write(int fd, const char *text, struct err *err)
{
    return source_write_bytes(fd, text, strlen(text), err);
}
