/*
 * Answers of programs in sandboxes to the handshake of WebSocket. The first line is what the client
 * offers; then comes the head. What is accepted is the answer to the key, has no extension, and
 * a subprotocol only if that was offered.
 */
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "supervisor/web/ports/handshake.h"
#include "tests/fuzz/fuzz.h"

#define KEY "dGhlIHNhbXBsZSBub25jZQ=="

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct view text = view_bytes((const char *)data, size);
    char *offered = alloc_viewdup(view_take_line(&text));
    struct http_head head;
    struct handshake_answer a;
    struct err err = ERR_INIT;
    FUZZ_REQUIRE(!handshake_is_key(offered) || strlen(offered) == HANDSHAKE_KEY_CHARS);
    if (http_head_parse(text, &head, &err) == 1) {
        if (handshake_answer(&head, KEY, offered, &a, &err) < 0) {
            FUZZ_REQUIRE(err.code == ERR_PROTOCOL && err.text[0] != '\0');
        } else {
            FUZZ_REQUIRE(http_head_count(head.fields, "Sec-WebSocket-Extensions") == 0);
            FUZZ_REQUIRE(view_is(http_head_value(head.fields, "Sec-WebSocket-Accept"), a.accept));
            FUZZ_REQUIRE(a.protocol == NULL || strstr(offered, a.protocol) != NULL);
            handshake_answer_finish(&a);
        }
    }
    free(offered);
    return 0;
}
