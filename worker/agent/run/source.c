/*
 * Sources are the largest part of this program that is read, each once in the life of an
 * interpreter. The pages of them count as ours from then on, in every sandbox; so they are given
 * back. The kernel has them still, as a part of our file, and reads no disk when the next
 * interpreter needs them.
 */
#include "worker/agent/run/source.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/fd.h"

/* Whole pages only: what shares one with the text is in use. */
static void give_back(const char *text, size_t len)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t from = ((uintptr_t)text + page - 1) / page * page;
    uintptr_t to = ((uintptr_t)text + len) / page * page;
    if (from < to) {
        (void)madvise((void *)from, to - from, MADV_DONTNEED); /* read-only: nothing is lost */
    }
}

int source_write(int fd, const char *text, struct err *err)
{
    size_t len = strlen(text);
    int rc = fd_write_all(fd, text, len, err);
    give_back(text, len);
    return rc;
}
