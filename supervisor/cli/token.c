/*
 * Without a file the line goes to stdout and the token to stderr, so that
 *
 *   cloister token alice >>tokens
 *
 * keeps the line, and shows the token once to the person who passes it to alice. `token add` writes
 * the line itself, so there the token is what stdout is for. The file gets only
 * the digest, so its readers cannot use the token. A slow hash is not needed, since 200 random bits
 * cannot be guessed.
 *
 * A change of the file has its line in the audit log, if there is one. That of a server which runs
 * as another user cannot be written, and one that no server has made yet is not made here, since it
 * would be ours: then the change is made, and stderr says what is missing.
 */
#include "supervisor/cli/token.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <unistd.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/err.h"
#include "common/str.h"
#include "proto/exit_codes.h"
#include "supervisor/audit/audit.h"
#include "supervisor/base/config.h"
#include "supervisor/base/near.h"
#include "supervisor/cli/token_file.h"
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

struct made {
    char token[sizeof(TOKENS_PREFIX) + RANDOM_CHARS];
    char digest[WEB_DIGEST_HEX_SIZE];
};

static int usage(const char *text)
{
    fprintf(stderr, "cloister: token: %s\n", text);
    return EXIT_CODE_USAGE;
}

static int setup_error(const struct err *err)
{
    fprintf(stderr, "cloister: token: %s\n", err->text);
    return EXIT_CODE_SETUP;
}

static int make_both(struct made *ret, struct err *err)
{
    unsigned char digest[WEB_DIGEST_BYTES];
    int rc = make_token(ret->token, sizeof(ret->token), err);
    rc = rc == 0 ? web_digest_sha256(view_of(ret->token), digest, err) : rc;
    if (rc == 0) {
        web_digest_hex(digest, ret->digest);
    }
    return rc;
}

static int print_line(const char *name)
{
    struct made made;
    struct err err = ERR_INIT;
    if (make_both(&made, &err) < 0) {
        return setup_error(&err);
    }
    printf("%s sha256:%s\n", name, made.digest);
    if (fflush(stdout) != 0) {
        err_set(&err, ERR_IO, "cannot write the line for the file of tokens");
        return setup_error(&err);
    }
    fprintf(stderr,
            "Above is the line for the file that --tokens names. The token of %s is shown "
            "only now:\n%s\n",
            name, made.token);
    return EXIT_CODE_OK;
}

/* `rc` is how it went, `name` whose token it is about, `words` what stands behind it; NULL:
 * nothing. Words that were refused may be anything, a secret too, and are not noted. */
static void audit_change(const struct config *config, const char *action, const char *name,
                         const char *words, int rc)
{
    struct audit *audit = NULL;
    struct err err = ERR_INIT;
    if (config->audit_log[0] == '\0') {
        return;
    }
    if (audit_open_made(config->audit_log, &audit, &err) < 0) {
        fprintf(stderr, "cloister: token: this is not in the audit log: %s\n", err.text);
        return;
    }
    CLEANUP_FREE char *who = alloc_printf("user %u", (unsigned)getuid());
    const struct audit_call line = {
        .principal = who,
        .session = "command",
        .action = action,
        .target = name,
        .words = rc == 0 ? words : NULL,
        .outcome = rc == 0 ? "ok" : "failed",
        .error = rc == 0 ? NULL : err_wire_name(rc),
        .run_ms = -1,
        .cpu_ms = -1,
    };
    audit_call(audit, &line);
    audit_close(audit);
}

static int add_token_line(const struct config *config, const char *name, int count, char **words)
{
    struct made made;
    struct err err = ERR_INIT;
    int rc = make_both(&made, &err);
    CLEANUP_FREE char *allowed = alloc_strdup("");
    for (int i = 0; i < count; i++) {
        char *longer = alloc_printf("%s%s%s", allowed, i > 0 ? " " : "", words[i]);
        free(allowed);
        allowed = longer;
    }
    if (rc == 0) {
        CLEANUP_FREE char *line =
            alloc_printf("%s sha256:%s%s%s", name, made.digest, count > 0 ? " " : "", allowed);
        rc = token_file_add(config->tokens, line, &err);
    }
    audit_change(config, "token.add", name, allowed, rc);
    if (rc < 0) {
        return setup_error(&err);
    }
    printf("%s\n", made.token);
    fprintf(stderr,
            "The token of %s is shown only now. Servers that run take it after `cloister "
            "reload`.\n",
            name);
    return EXIT_CODE_OK;
}

static void print_entry(const char *name, const char *words)
{
    printf("%s%s%s\n", name, words[0] != '\0' ? " " : "", words);
}

static int list_tokens(const struct config *config)
{
    struct err err = ERR_INIT;
    return token_file_list(config->tokens, print_entry, &err) < 0 ? setup_error(&err)
                                                                  : EXIT_CODE_OK;
}

static int revoke_tokens(const struct config *config, const char *name)
{
    struct err err = ERR_INIT;
    size_t count = 0;
    int rc = token_file_remove(config->tokens, name, &count, &err);
    if (rc == 0 && count == 0) {
        rc = err_set(&err, ERR_INVALID, "%s has no token in %s", name, config->tokens);
    }
    audit_change(config, "token.revoke", name, NULL, rc);
    if (rc < 0) {
        return setup_error(&err);
    }
    fprintf(stderr,
            "%zu token%s of %s removed. Servers that run refuse them after `cloister "
            "reload`.\n",
            count, count == 1 ? "" : "s", name);
    return EXIT_CODE_OK;
}

/* A name that resembles a command is more likely a mistyped one, if words follow. */
static int name_alone(int count, char **words)
{
    struct near_word near;
    static const char *const commands[] = {"add", "list", "revoke"};
    near_begin(&near, view_of(words[0]));
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        near_try(&near, commands[i]);
    }
    if (count > 1) {
        fprintf(stderr, "cloister: token: unexpected argument %.64s%s%s%s\n", words[1],
                near.best != NULL ? "; did you mean token " : "",
                near.best != NULL ? near.best : "", near.best != NULL ? "?" : "");
        return EXIT_CODE_USAGE;
    }
    return print_line(words[0]);
}

int token_command(const struct config *config, int count, char **words)
{
    if (count == 0) {
        return usage("expected a name behind it, or add, list or revoke");
    }
    bool adds = strcmp(words[0], "add") == 0, revokes = strcmp(words[0], "revoke") == 0;
    bool lists = strcmp(words[0], "list") == 0;
    bool is_command = adds || revokes || lists;
    if (is_command && config->tokens[0] == '\0') {
        return usage("name the file of tokens with --tokens FILE");
    }
    if ((lists && count > 1) || ((adds || revokes) && count < 2) || (revokes && count > 2)) {
        return usage(lists ? "list: nothing is expected behind it" : "expected one name behind it");
    }
    const char *name = is_command ? words[count > 1 ? 1 : 0] : words[0];
    if (!lists && !tokens_name_ok(name)) {
        fprintf(stderr,
                "cloister: token: expected a name of at most %d letters, digits, - . _ "
                "that is not \"local\" or \"stdio\"\n",
                TOKENS_NAME_MAX);
        return EXIT_CODE_USAGE;
    }
    if (adds) {
        return add_token_line(config, name, count - 2, words + 2);
    }
    return lists     ? list_tokens(config)
           : revokes ? revoke_tokens(config, name)
                     : name_alone(count, words);
}
