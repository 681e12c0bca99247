/*
 * A sandbox may start without any language although its image has some: perhaps its root is empty,
 * or its files could not be read at that moment. It would be useless, and its client would be told
 * that there is no interpreter, which is not true of the image. So it is removed and created once
 * more, by the next worker, while the client waits. If the second one is no better, the creation
 * fails if other sandboxes of the image have had languages.
 *
 * Each time the log has what the agent has looked at, because nothing else remains of such a
 * sandbox that could tell the cause; so it has when the agent found its languages at a second look
 * only.
 *
 * If none has, the image is taken to be for programs only, and its later sandboxes are accepted at
 * once. So the first sandboxes of an image are checked, too, and an image without interpreters
 * costs one more creation, once in a server's life.
 */
#include "common/cleanup.h"
#include "common/log.h"
#include "supervisor/fleet/sandbox/sandbox.h"

#define EXIT_MS    1000 /* from the answer to CLOSE to the exit */
#define LOOKED_MAX 1400 /* bytes of a log line, so that the sandbox's id fits as well */
#define HINT_MUTE                                                                                  \
    "try again; if the image was changed and has no interpreter any more, restart the server; "    \
    "else the engine or its storage is in trouble, see its log"

static void fail_mute(struct sandbox *s, const char *what)
{
    struct err failed = ERR_INIT;
    err_set(&failed, ERR_ENGINE, "the sandbox came up without any interpreter%s%s (%.100s)", what,
            engine_has_heard(s->engine, s->backend, s->image)
                ? ", though sandboxes of the same image have had some"
                : "",
            s->image[0] != '\0' ? s->image : "the programs of this host");
    engine_doubt(s->engine);
    sandbox_create_failed(s, &failed, HINT_MUTE);
}

static void on_mute_removed(void *arg, int rc, const struct msg *reply, const struct err *err,
                            const char *hint)
{
    struct sandbox *s = arg;
    (void)reply, (void)hint;
    if (rc == 0) {
        if (s->made.state == MADE_MUTE) { /* else it is being closed, and nothing is left either */
            sm_move(&s->made, MADE_UNMADE);
        }
        worker_link_retire(s->link, EXIT_MS);
    } else if (err != NULL && sandbox_state(s) == SANDBOX_CREATING) {
        log_warn("sandbox: cannot be removed: %s sandbox=%s", err->text, s->id);
        fail_mute(s, ", and could not be removed");
    } /* else it is dying: on_worker_dead() follows */
}

bool sandbox_is_mute(struct sandbox *s)
{
    if (s->languages.count > 0) {
        engine_heard(s->engine, s->backend, s->image);
        return false;
    }
    if (engine_has_heard(s->engine, s->backend, s->image)) {
        return true;
    }
    if (s->made.state == MADE_AGAIN) {
        log_info("image has no interpreter: it is for programs only image=%s sandbox=%s", s->image,
                 s->id);
        engine_heard_nothing(s->engine, s->backend, s->image);
    }
    return !engine_is_silent(s->engine, s->backend, s->image);
}

/* The part of it that is logged. */
static struct view cut_looked(struct view looked)
{
    return view_bytes(looked.data, looked.len < LOOKED_MAX ? looked.len : LOOKED_MAX);
}

void sandbox_note_late(const struct sandbox *s, struct view looked)
{
    struct view said = cut_looked(looked);
    if (said.len > 0 && s->languages.count > 0) {
        log_warn("sandbox had no language at first: %.*s image=%s sandbox=%s", VIEW_ARG(said),
                 s->image, s->id);
    }
}

void sandbox_make_again(struct sandbox *s, struct view looked)
{
    struct msg m = {.type = MSG_CLOSE};
    struct err err = ERR_INIT;
    struct view said = cut_looked(looked);
    bool again = s->made.state == MADE_AGAIN;
    log_warn("sandbox started without any language%s: %.*s image=%s sandbox=%s",
             again ? " once more" : " and is created again", VIEW_ARG(said), s->image, s->id);
    if (again) {
        fail_mute(s, " twice");
        return;
    }
    sm_move(&s->made, MADE_MUTE);
    uv_timer_stop(&s->opening.poll_timer);
    if (worker_link_ask(s->link, &m, TIME_CLOSE_MS, on_mute_removed, s, &err) < 0) {
        worker_link_kill(s->link, "%s", err.text);
    }
}
