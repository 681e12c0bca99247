/*
 * Memory that runs out at the allocation that a test chooses.
 *
 * The tests assert what the code promises about memory:
 *  - common/alloc.h, and text.h, whose texts have budgets: allocations of sizes that we chose
 *    succeed, or the process ends with ALLOC_EXIT_CODE and a line of log. They never fail here (one
 *    test of its own lets one fail, in a child: tests/unit/proto/test_memory.c).
 *  - All others, above all those of common/buf.h, whose sizes come from outside: a failure is
 *    reported as -ERR_NO_MEMORY, or as the header says instead; nothing is leaked, the earlier
 *    state is unchanged, and the same call succeeds when there is memory again.
 *
 * It works by the linker (heap_dep of tests/lib/meson.build): our own calls of malloc() and its kin
 * come here, and cJSON's, which common/io/json.c makes for it; those of other libraries do not.
 * Only the thread that called heap_fail() is short of memory.
 */
#ifndef CLOISTER_TESTS_LIB_HEAP_H
#define CLOISTER_TESTS_LIB_HEAP_H

#include <stdbool.h>
#include <stddef.h>

#define HEAP_NEVER ((size_t)-1)

/* From now on allocations are counted, and the n-th one (0 is the next) fails, once. With
 * HEAP_NEVER none fails, which tells how many there are. */
void heap_fail(size_t nth);

/* The same including allocations whose failure ends the process: for a child that is expected to
 * end so. */
void heap_fail_any(size_t nth);

/* Stops failing and counting. Returns how many allocations there were. */
size_t heap_end(void);

/* Whether one has failed since the last heap_fail(). Also valid after heap_end(). */
bool heap_failed(void);

/* Bytes of the blocks that were allocated since heap_fail() and are not freed yet, of some thousand
 * blocks at most. */
size_t heap_held(void);

/* Frees everything that was allocated since heap_fail() and is not freed yet: for code whose own
 * cleanup cannot run. To be called before heap_end(). */
void heap_free_rest(void);

#endif
