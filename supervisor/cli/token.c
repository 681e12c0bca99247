/*
 * The line goes to stdout and the token to stderr, so that
 *
 *   cloister token alice >>tokens
 *
 * keeps the line, and shows the token once to the person who passes it to alice. The file gets only
 * the digest, so its readers cannot use the token. A slow hash is not needed, since 200 random bits
 * cannot be guessed.
 */
#include "supervisor/cli/token.h"

#include <stdio.h>
#include <string.h>

#include "common/err.h"
#include "common/str.h"
#include "proto/exit_codes.h"
#include "supervisor/web/auth/tokens.h"
#include "supervisor/web/http/digest.h"

#define RANDOM_CHARS 40 /* of 5 bits each */

static int make_token(char *out, size_t size, struct err *err)
{
    char random[RANDOM_CHARS + 1];
    int rc = random_id(random, RANDOM_CHARS, err);
    if (rc == 0) {
        snprintf(out, size, "%s%s", TOKENS_PREFIX, random);
    }
    return rc;
}

int token_command(const char *name)
{
    char token[sizeof(TOKENS_PREFIX) + RANDOM_CHARS];
    unsigned char digest[WEB_DIGEST_BYTES];
    struct err err = ERR_INIT;
    if (strcmp(name, "list") == 0 || strcmp(name, "add") == 0 || strcmp(name, "revoke") == 0) {
        fprintf(
            stderr,
            "cloister: token: there is no command %s: `cloister token NAME` makes a token for "
            "NAME, the file of --tokens lists whom there are tokens for, and without their line "
            "(and a SIGHUP) they are revoked\n",
            name);
        return EXIT_CODE_USAGE;
    }
    if (!tokens_name_ok(name)) {
        fprintf(stderr,
                "cloister: token: expected a name of at most %d letters, digits, - . _ "
                "that is not \"local\" or \"stdio\"\n",
                TOKENS_NAME_MAX);
        return EXIT_CODE_USAGE;
    }
    if (make_token(token, sizeof(token), &err) < 0 ||
        web_digest_sha256(view_of(token), digest, &err) < 0) {
        fprintf(stderr, "cloister: token: %s\n", err.text);
        return EXIT_CODE_SETUP;
    }
    printf("%s sha256:", name);
    for (size_t i = 0; i < WEB_DIGEST_BYTES; i++) {
        printf("%02x", digest[i]);
    }
    printf("\n");
    if (fflush(stdout) != 0) {
        fprintf(stderr, "cloister: token: cannot write the line for the file of tokens\n");
        return EXIT_CODE_SETUP;
    }
    fprintf(stderr,
            "Above is the line for the file that --tokens names. The token of %s is shown "
            "only now:\n%s\n",
            name, token);
    return EXIT_CODE_OK;
}
