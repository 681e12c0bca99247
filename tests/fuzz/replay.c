/*
 * Runs a fuzz target without a fuzzer: every file of the corpus as it is, cut off at each length,
 * and with each byte changed in a few ways. This keeps the targets compiling, replays every input
 * that once found a bug, and finds simple mistakes of a decoder within a second.
 *
 * Then every file is run again with its allocations failing in turn (tests/lib/heap.h): all, or if
 * there are many, every n-th, which are others in files of other lengths. A requirement of the
 * target may fail then, which ends that run; but nothing may crash or leak, and the next run, with
 * memory, must succeed.
 *
 * usage: replay <corpus directory>; prints TAP.
 */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdbool.h>
#include <string.h>

#include "common/alloc.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/fd.h"
#include "tests/fuzz/fuzz.h"
#include "tests/lib/heap.h"

enum {
    SEED_MAX_BYTES = 64 << 20,
    MUTATIONS_MAX = 1500, /* per kind and file; a sanitised target takes up to a millisecond each */
    FAILURES_MAX = 100,   /* how many allocations of a file fail in turn */
};

static jmp_buf excused;
static unsigned failures;

void fuzz_excuse(void)
{
    if (heap_failed()) {
        longjmp(excused, 1);
    }
}

/* Copies to exactly `len` bytes on the heap, so that a sanitizer finds each read beyond the end. */
static void run_copy(const uint8_t *data, size_t len)
{
    uint8_t *copy = alloc_array(len > 0 ? len : 1, 1);
    if (len > 0) {
        memcpy(copy, data, len);
    }
    LLVMFuzzerTestOneInput(copy, len);
    free(copy);
}

static void run_mutations(struct buf *seed)
{
    size_t step = seed->len / MUTATIONS_MAX + 1;
    for (size_t len = 0; len < seed->len; len += step) {
        run_copy(seed->data, len);
    }
    static const uint8_t flips[] = {0x01, 0x80, 0xff};
    step = seed->len * sizeof(flips) / MUTATIONS_MAX + 1;
    for (size_t at = 0; at < seed->len; at += step) {
        for (size_t i = 0; i < sizeof(flips); i++) {
            seed->data[at] ^= flips[i];
            run_copy(seed->data, seed->len);
            seed->data[at] ^= flips[i];
        }
    }
}

static void run_short_of_memory(struct buf *seed, size_t nth)
{
    heap_fail(nth);
    if (setjmp(excused) == 0) {
        run_copy(seed->data, seed->len);
    } else {
        heap_free_rest();
    }
    heap_end();
    failures += heap_failed();
    heap_fail(HEAP_NEVER); /* from here on no allocation fails, so every requirement holds */
    run_copy(seed->data, seed->len);
    heap_end();
}

static void run_failures(struct buf *seed)
{
    heap_fail(HEAP_NEVER);
    run_copy(seed->data, seed->len);
    size_t count = heap_end();
    size_t step = count / FAILURES_MAX + 1;
    for (size_t nth = seed->len % step; nth < count; nth += step) { /* not the same in each file */
        run_short_of_memory(seed, nth);
    }
}

static int run_file(const char *path)
{
    CLEANUP_BUF struct buf seed;
    buf_init(&seed, SEED_MAX_BYTES);
    struct err err = ERR_INIT;
    if (file_read(path, &seed, &err) < 0) {
        printf("# %s\n", err.text);
        return -1;
    }
    run_copy(seed.data, seed.len);
    run_mutations(&seed);
    run_failures(&seed);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s <corpus directory>\n", argv[0]);
        return EXIT_FAILURE;
    }
    DIR *dir = opendir(argv[1]);
    if (dir == NULL) {
        fprintf(stderr, "%s: %s\n", argv[1], strerror(errno));
        return EXIT_FAILURE;
    }
    int inputs = 0;
    bool good = true;
    const struct dirent *entry;
    while ((entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] == '.') {
            continue;
        }
        CLEANUP_FREE char *path = alloc_printf("%s/%s", argv[1], entry->d_name);
        good = run_file(path) == 0 && good;
        inputs++;
    }
    closedir(dir);
    good = good && inputs > 0;
    printf("1..1\n%s 1 - replays %d inputs, their mutations, and %u failures of memory\n",
           good ? "ok" : "not ok", inputs, failures);
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
