/*
 * A line is made on the loop thread, where the call's arguments still are. Code is hashed there,
 * too: that takes a few microseconds for what models write, and some milliseconds for the largest
 * code that is taken, as reading it did.
 */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/text.h"
#include "supervisor/audit/internal.h"
#include "supervisor/web/http/digest.h"

#define US_PER_MS   1000.0
#define MS_MAX      1e15
#define NUMBER_SIZE 32

static void put_word(cJSON *line, const char *key, const char *text)
{
    if (text != NULL && text[0] != '\0') {
        cJSON_AddItemToObjectCS(line, key, cJSON_CreateString(text));
    }
}

/* cJSON looks for the shortest text of a number, which takes longer than all else here. */
static void put_ms(cJSON *line, const char *key, double ms)
{
    char text[NUMBER_SIZE];
    if (ms >= 0) {
        snprintf(text, sizeof(text), "%.3f", ms < MS_MAX ? ms : MS_MAX);
        cJSON_AddItemToObjectCS(line, key, cJSON_CreateRaw(text));
    }
}

static void put_code(cJSON *line, struct view code, bool keep_code)
{
    unsigned char digest[WEB_DIGEST_BYTES];
    char hex[WEB_DIGEST_HEX_SIZE];
    if (web_digest_sha256(code, digest, NULL) == 0) {
        web_digest_hex(digest, hex);
        put_word(line, "code_sha256", hex);
    }
    cJSON_AddItemToObjectCS(line, "code_bytes", cJSON_CreateNumber((double)code.len));
    if (keep_code) {
        size_t fit = text_fit(code, AUDIT_CODE_BYTES);
        CLEANUP_FREE char *text = alloc_viewdup(view_bytes(code.data, fit));
        cJSON_AddItemToObjectCS(line, "code", cJSON_CreateString(text));
        if (fit < code.len) {
            cJSON_AddItemToObjectCS(line, "code_cut", cJSON_CreateTrue());
        }
    }
}

char *audit_line(const struct audit_call *call, uint64_t wall_ms, bool keep_code, size_t *ret_len)
{
    char iso[CLOCK_ISO_SIZE];
    cJSON *line = alloc_check(cJSON_CreateObject());
    clock_iso(wall_ms, iso, sizeof(iso));
    put_word(line, "time", iso);
    put_word(line, "principal", call->principal);
    put_word(line, "session", call->session);
    put_word(line, "tool", call->tool);
    put_word(line, "action", call->action);
    put_word(line, "target", call->target);
    put_word(line, "words", call->words);
    put_word(line, "sandbox", call->sandbox);
    put_word(line, "execution", call->execution);
    put_word(line, "language", call->language);
    if (call->code.data != NULL) {
        put_code(line, call->code, keep_code);
    }
    put_word(line, "outcome", call->outcome);
    put_word(line, "error", call->error);
    put_ms(line, "duration_ms", (double)call->duration_us / US_PER_MS);
    put_ms(line, "run_ms", call->run_ms);
    put_ms(line, "cpu_ms", call->cpu_ms);
    char *text = alloc_check(cJSON_PrintUnformatted(line));
    cJSON_Delete(line);
    size_t len = strlen(text);
    char *whole = alloc_block(len + 1);
    memcpy(whole, text, len);
    whole[len] = '\n';
    free(text);
    *ret_len = len + 1;
    return whole;
}
