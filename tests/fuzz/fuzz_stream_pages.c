/*
 * Output of any bytes, cut for a result: it stays within its budget, is always UTF-8, and the pages
 * reach the end of the output without leaving out anything that is kept.
 *
 * The first three bytes of an input are the budget, the position that divides head and tail, and
 * two flags: a gap between them (1), and more output to come (2).
 */
#include "common/str.h"
#include "common/text.h"
#include "supervisor/results/stream.h"
#include "tests/fuzz/fuzz.h"

static void check(struct result_part *p, size_t cost, size_t line)
{
    FUZZ_REQUIRE(p->text.len == 0 || utf8_valid((const char *)p->text.data, p->text.len));
    FUZZ_REQUIRE(text_cost(view_bytes(p->text.data, p->text.len)) <= cost + line);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 3) {
        return 0;
    }
    size_t cost = 12u + data[0];
    bool gap = data[2] % 2 == 1;
    bool over = data[2] / 2 % 2 == 0;
    const char *text = (const char *)data + 3;
    size -= 3;
    size_t head = gap ? size * data[1] / 256 : size;
    struct result_stream s = {
        .execution = "abcdefghijklmnop",
        .argument = "stderr_offset",
        .head = view_bytes(text, head),
        .tail = view_bytes(text + head, size - head),
        .total = size + (gap && size > head ? 1000 : 0),
        .over = over,
    };
    struct result_part p;
    result_stream_summary(&p, &s, cost);
    check(&p, cost, RESULT_STREAM_LINE);
    FUZZ_REQUIRE(p.next <= s.total && (!over || p.cut || p.next == s.total));
    result_part_finish(&p);
    uint64_t next = 0;
    uint64_t shown = 0;
    bool more = true;
    while (more) {
        result_stream_page(&p, &s, next, cost);
        check(&p, cost, 0);
        more = p.cut;
        FUZZ_REQUIRE(p.next <= s.total && (!more || p.next > next));
        shown += p.next - p.from;
        next = p.next;
        result_part_finish(&p);
    }
    FUZZ_REQUIRE(!over || next == s.total);
    /* characters may be missing that the gap cuts, or that are incomplete so far */
    FUZZ_REQUIRE(shown + 9 >= size);
    return 0;
}
