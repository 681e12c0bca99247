/*
 * Code has an id of its own, so that a share needs a mapping of ids: what the owner of the
 * directory may do, code may do there, and what it writes is the owner's.
 *
 * An ordinary user's sandboxes have granted ids, and the user's own id is root inside: runtimes
 * that run without privileges insist on that. So where a share is writable, or nobody else may
 * enter it, code has that single id together with the agent (OCI_USERNS_SINGLE). The runtime binds
 * the directory.
 *
 * Root's sandboxes have ids that nobody else has. There the mount maps ids, which this kernel and
 * the directory's file system must be able to, and which the runtime's own options for it are too
 * new for: `cloister-agent share` makes these mounts and then becomes the runtime. The directory
 * of their mount points is one for all sandboxes, stays empty on the host, and can be reached by
 * the root inside.
 */
#include "worker/backend/oci/shares.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "common/alloc.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/fd.h"
#include "worker/backend/oci/etc.h"
#include "worker/backend/oci/runtime.h"
#include "worker/backend/oci/spec.h"
#include "worker/backend/share.h"

#define AGENT_WORDS "cloister-agent: share" /* begins what `cloister-agent share` writes */

#define DEVICES_WORDS 5
#define SHARES_WORDS  (11 + 2 * BACKEND_SHARES_MAX)
_Static_assert(DEVICES_WORDS + SHARES_WORDS + OCI_ARGS_MAX <= OCI_SHARES_ARGS_MAX,
               "the longest command has room");

int oci_shares_check(const struct backend_spec *spec, char hint[BACKEND_HINT_MAX], struct err *err)
{
    for (size_t i = 0; i < spec->share_count; i++) {
        const struct backend_share *share = &spec->shares[i];
        struct stat st;
        struct statvfs fs;
        int rc = share_check(share, &st, err);
        if (rc == 0 && share->writable && statvfs(share->host_path, &fs) == 0 &&
            (fs.f_flag & ST_RDONLY) != 0) {
            rc = err_set(err, ERR_CONFIG,
                         "share %s: it cannot be writable, since %.256s is mounted read-only",
                         share->name, share->host_path);
        }
        if (rc < 0) {
            snprintf(hint, BACKEND_HINT_MAX, SHARE_HINT);
            return rc;
        }
    }
    return 0;
}

static char *base_of_shares(const struct backend_spec *spec, const struct oci_host *host)
{
    return spec->share_count > 0 && host->root ? alloc_printf("%s/shares", spec->shared_dir) : NULL;
}

int oci_shares_base(const struct backend_spec *spec, const struct oci_host *host, char **ret_base,
                    struct err *err)
{
    *ret_base = base_of_shares(spec, host);
    return *ret_base != NULL ? oci_put_dir(AT_FDCWD, *ret_base, 0755, err) : 0;
}

struct oci_mode oci_shares_mode(const struct backend_spec *spec, const struct oci_mode *mode,
                                const struct oci_host *host)
{
    struct oci_mode own = *mode;
    for (size_t i = 0; i < spec->share_count; i++) {
        struct stat st;
        bool open = stat(spec->shares[i].host_path, &st) == 0 && share_is_open(&st);
        if (!host->root && own.userns == OCI_USERNS_RANGE && (spec->shares[i].writable || !open)) {
            own.userns = OCI_USERNS_SINGLE;
        }
    }
    return own;
}

static void append_word(struct oci_shares_command *c, const char *word)
{
    if (c->count < OCI_SHARES_ARGS_MAX) { /* as it always is */
        c->items[c->count++] = word;
    }
}

static void append_text(struct oci_shares_command *c, const char *flag, char *text)
{
    if (c->text_count == OCI_SHARES_ARGS_MAX) { /* likewise, never */
        free(text);
        return;
    }
    c->texts[c->text_count++] = text;
    append_word(c, flag);
    append_word(c, text);
}

static void append_words(struct oci_shares_command *c, const char *const *argv)
{
    for (size_t i = 0; argv[i] != NULL; i++) {
        append_word(c, argv[i]);
    }
}

/* The words before those of the runtime. */
static void begin_command(const struct backend_spec *spec, const struct oci_mode *mode,
                          const struct oci_host *host, struct oci_shares_command *ret)
{
    memset(ret, 0, sizeof(*ret));
    if (oci_has_devices(mode, host)) {
        append_word(ret, spec->agent_path);
        append_word(ret, "devices");
        append_text(ret, "--at", alloc_printf("%s/" OCI_DEVICES_NAME, spec->shared_dir));
        append_word(ret, "--");
    }
}

bool oci_has_devices(const struct oci_mode *mode, const struct oci_host *host)
{
    return mode->views && host->root && mode->userns != OCI_USERNS_NONE;
}

void oci_devices_wrap(const struct backend_spec *spec, const struct oci_mode *mode,
                      const struct oci_host *host, const char *const *argv,
                      struct oci_shares_command *ret)
{
    begin_command(spec, mode, host, ret);
    append_words(ret, argv);
}

int oci_shares_wrap(const struct backend_spec *spec, const struct oci_mode *mode,
                    const struct oci_host *host, const struct oci_box *box, const char *const *argv,
                    struct oci_shares_command *ret, struct err *err)
{
    struct oci_spec_input in = {.spec = spec, .mode = mode, .host = host};
    uint32_t uid = 0, gid = 0;
    CLEANUP_FREE char *base = base_of_shares(spec, host);
    int rc = base != NULL ? oci_spec_user(&in, &uid, &gid, err) : 0;
    if (rc < 0) {
        return rc;
    }
    begin_command(spec, mode, host, ret);
    if (base != NULL) {
        append_word(ret, spec->agent_path);
        append_word(ret, "share");
        append_text(ret, "--at", STEAL_PTR(base));
        append_text(ret, "--notes", alloc_printf("%s/" OCI_NOTES_NAME, box->bundle));
        append_text(ret, "--uid", alloc_printf("%lu", (unsigned long)uid));
        append_text(ret, "--gid", alloc_printf("%lu", (unsigned long)gid));
        for (size_t i = 0; i < spec->share_count; i++) {
            const struct backend_share *share = &spec->shares[i];
            append_text(ret, share->writable ? "--rw" : "--ro",
                        alloc_printf("%s=%s", share->name, share->host_path));
        }
        append_word(ret, "--");
    }
    append_words(ret, argv);
    return 0;
}

void oci_shares_command_finish(struct oci_shares_command *command)
{
    for (size_t i = 0; i < command->text_count; i++) {
        free(command->texts[i]);
    }
}

const char *oci_shares_words(const char *words)
{
    size_t before = strlen("cloister-agent: ");
    return strncmp(words, AGENT_WORDS, strlen(AGENT_WORDS)) == 0 ? words + before : NULL;
}
