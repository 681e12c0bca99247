/*
 * Whatever the service, a daemon or the agent says may get into an error or a log, and may repeat
 * the key or a token. What is said may have been cut in the middle of one, so the beginning of a
 * secret at the end counts as one, if it is more than a few characters.
 */
#include "worker/backend/e2b/words.h"

#include <string.h>

#include "common/str.h"

#define HIDDEN     "(key)"
#define HIDDEN_LEN (sizeof(HIDDEN) - 1)
#define PART_MIN   4

/* How many bytes of `said` are this secret. */
static size_t secret_length(const char *secret, struct view said)
{
    size_t len = 0;
    if (secret == NULL) {
        return 0;
    }
    while (len < said.len && secret[len] != '\0' && secret[len] == said.data[len]) {
        len++;
    }
    return secret[len] == '\0' || (len == said.len && len >= PART_MIN) ? len : 0;
}

void e2b_words(const struct e2b_secrets *secrets, struct view said, char *ret, size_t size)
{
    size_t len = 0;
    while (said.len > 0 && len + HIDDEN_LEN < size) {
        size_t used = secret_length(secrets->key, said);
        used = used > 0 ? used : secret_length(secrets->token, said);
        if (used > 0) {
            memcpy(ret + len, HIDDEN, HIDDEN_LEN);
            len += HIDDEN_LEN;
        } else {
            used = 1;
            ret[len++] =
                (unsigned char)said.data[0] < ' ' || said.data[0] == 0x7f ? ' ' : said.data[0];
        }
        said = view_bytes(said.data + used, said.len - used);
    }
    len = utf8_valid_prefix(ret, len);
    while (len > 0 && ret[len - 1] == ' ') {
        len--;
    }
    ret[len] = '\0';
}
