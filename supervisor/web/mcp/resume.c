/*
 * Resumed sessions: a session of an older revision outlives its server.
 *
 * Older revisions want a client to initialize again after a 404, but many clients never do: every
 * later call of theirs fails. So a session id contains all that `initialize` has settled, signed
 * with the key of the instance (session_id.h). When a client names a session that is not open, the
 * server checks the signature and opens the session in the state that the id tells. Subscriptions,
 * the log level and the client's capabilities are lost; the sandbox is found by the session's name.
 *
 * A session that ended because it was idle is resumed in the same way. A session that its client
 * ended by DELETE is not, nor one that was evicted, because it would evict another in turn: the
 * server remembers the latest of these. The next server does not know them, which harms nobody: a
 * session gives no right that its principal does not have.
 *
 * Clients of /sse get the signed id as the id of the event with the answer to `initialize`. They
 * send it as Last-Event-ID when they open the stream again, and do not initialize again.
 */
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/str.h"
#include "supervisor/base/principal.h"
#include "supervisor/web/mcp/internal.h"

static bool get_session_key(struct mcp_endpoint *e, unsigned char ret[SESSION_KEY_BYTES])
{
    struct err err = ERR_INIT;
    if (e->config.key == NULL) {
        return false;
    }
    if (e->config.key(e->config.key_arg, ret, &err) < 0) {
        log_line(e->key_failed ? LOG_DEBUG : LOG_WARN, "sessions will not outlive this server: %s",
                 err.text);
        e->key_failed = true;
        return false;
    }
    e->key_failed = false;
    return true;
}

const char *mcp_client_tell_id(struct mcp_client *c)
{
    unsigned char key[SESSION_KEY_BYTES];
    struct err err = ERR_INIT;
    if (c->told != NULL || !mcp_session_is_initialized(c->session) ||
        !get_session_key(c->endpoint, key)) {
        return c->told != NULL ? c->told : c->id;
    }
    struct session_id id = {
        .old = c->old,
        .revision = mcp_session_revision(c->session),
        .results = c->results,
    };
    memcpy(id.name, c->id, sizeof(id.name));
    snprintf(id.client, sizeof(id.client), "%s", mcp_session_client(c->session));
    c->told = session_id_write(&id, mcp_session_principal(c->session)->name, key, &err);
    if (c->told == NULL) {
        log_warn("session %.8s will not outlive this server: %s", c->id, err.text);
    }
    explicit_bzero(key, sizeof(key));
    return c->told != NULL ? c->told : c->id;
}

/* ---- sessions that are not resumed ---------------------------------------------------------- */

static bool is_forgotten(const struct mcp_endpoint *e, const char *name)
{
    uint64_t hash = hash_text(name);
    for (size_t i = 0; i < FORGOTTEN_KEPT; i++) {
        if (e->forgotten[i] == hash) {
            return true;
        }
    }
    return false;
}

void mcp_client_forget(struct mcp_client *c)
{
    struct mcp_endpoint *e = c->endpoint;
    e->forgotten[e->forgotten_count++ % FORGOTTEN_KEPT] = hash_text(c->id);
}

/* ---- resuming ------------------------------------------------------------------------------- */

struct mcp_client *mcp_client_resume(struct mcp_endpoint *e, const char *text, bool old,
                                     struct principal *p)
{
    unsigned char key[SESSION_KEY_BYTES];
    struct session_id id;
    if (!get_session_key(e, key)) {
        return NULL;
    }
    bool ours = session_id_read(text, p->name, key, &id);
    explicit_bzero(key, sizeof(key));
    if (!ours || id.old != old || is_forgotten(e, id.name)) {
        return NULL;
    }
    const struct mcp_agreed agreed = {id.revision, id.client};
    struct mcp_client *c = mcp_client_add(e, p, id.name, old, id.results, &agreed);
    if (c != NULL) {
        log_info("session %.8s of %s is resumed", c->id, p->name);
        (void)mcp_client_tell_id(c);
    }
    return c;
}
