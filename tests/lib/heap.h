/*
 * Memory that runs out at the allocation that a test chooses.
 *
 * What the code promises of memory, and what is therefore asserted:
 *  - common/alloc.h, and text.h, whose texts have budgets: sizes that we chose ourselves succeed,
 * or the process ends with ALLOC_EXIT_CODE and a line. Such an allocation never fails here (one
 * test of its own lets one fail, in a child: tests/unit/proto/test_memory.c).
 *  - All others, and above all those of common/buf.h, whose sizes come from outside: they are
 *    reported as -ERR_NO_MEMORY, or whatever the header says instead; nothing is leaked, what there
 *    was before is as it was, and the same succeeds when there is memory again.
 *
 * It works by the linker (heap_dep of tests/lib/meson.build): our own calls of malloc() and its kin
 * come here, those of libraries do not. Only the thread that called heap_fail() is short of memory.
 */
#ifndef CLOISTER_TESTS_LIB_HEAP_H
#define CLOISTER_TESTS_LIB_HEAP_H

#include <stdbool.h>
#include <stddef.h>

#define HEAP_NEVER ((size_t)-1)

/* From now on allocations are counted, and that one (0 is the next) fails, once. With HEAP_NEVER
 * none does, which tells how many there are. */
void heap_fail(size_t nth);

/* The same with those that end the process instead: for a child that is meant to end so. */
void heap_fail_any(size_t nth);

/* Ends that. Returns how many there were. */
size_t heap_end(void);

/* Since the last heap_fail(): whether one failed. Also after heap_end(). */
bool heap_failed(void);

/* Frees whatever was allocated since heap_fail() and is still there: for who cannot come to his
 * own cleaning up. Before heap_end(). */
void heap_free_rest(void);

#endif
