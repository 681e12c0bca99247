/*
 * To the worker, the engine and close.c, an installer is a sandbox like any other. But it writes
 * where another sandbox reads. So that sandbox is not removed while the installer can still write,
 * because files might be left behind or, if an engine counts the users of a volume, the removal
 * would fail.
 *
 * The next server takes no installer over: nobody waits for it any more, and its work is repeated
 * if it is requested again.
 */
#include "supervisor/fleet/sandbox/sandbox.h"

void sandbox_install_for(struct sandbox *installer, struct sandbox *target)
{
    installer->installing.target = target;
    TAILQ_INSERT_TAIL(&target->installing.installers, installer, installing.node);
}

bool sandbox_close_installers(struct sandbox *s)
{
    struct sandbox *installer;
    TAILQ_FOREACH(installer, &s->installing.installers, installing.node)
    {
        sandbox_close(installer, "the sandbox it installs for was closed", NULL, NULL);
    }
    return !TAILQ_EMPTY(&s->installing.installers);
}

void sandbox_installer_gone(struct sandbox *s)
{
    struct sandbox *target = s->installing.target;
    if (target == NULL) {
        return;
    }
    s->installing.target = NULL;
    TAILQ_REMOVE(&target->installing.installers, s, installing.node);
    sandbox_touch(target); /* an installation counts as use of the sandbox */
    if (TAILQ_EMPTY(&target->installing.installers) && target->end.sm.state == CLEANUP_INSTALLERS) {
        sandbox_cleanup(target);
    }
}

void sandbox_installers_forget(struct sandbox *s)
{
    struct sandbox *installer;
    sandbox_installer_gone(s);
    while ((installer = TAILQ_FIRST(&s->installing.installers)) != NULL) {
        installer->installing.target = NULL;
        TAILQ_REMOVE(&s->installing.installers, installer, installing.node);
    }
}
