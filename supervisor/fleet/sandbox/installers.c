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
    installer->target = target;
    TAILQ_INSERT_TAIL(&target->installers, installer, installer_node);
}

bool sandbox_close_installers(struct sandbox *s)
{
    struct sandbox *installer;
    TAILQ_FOREACH(installer, &s->installers, installer_node)
    {
        sandbox_close(installer, "the sandbox it installs for was closed", NULL, NULL);
    }
    return !TAILQ_EMPTY(&s->installers);
}

void sandbox_installer_gone(struct sandbox *s)
{
    struct sandbox *target = s->target;
    if (target == NULL) {
        return;
    }
    s->target = NULL;
    TAILQ_REMOVE(&target->installers, s, installer_node);
    sandbox_touch(target); /* an installation counts as use of the sandbox */
    if (TAILQ_EMPTY(&target->installers) && target->cleanup == CLEANUP_INSTALLERS) {
        sandbox_cleanup(target);
    }
}

void sandbox_installers_forget(struct sandbox *s)
{
    struct sandbox *installer;
    sandbox_installer_gone(s);
    while ((installer = TAILQ_FIRST(&s->installers)) != NULL) {
        installer->target = NULL;
        TAILQ_REMOVE(&s->installers, installer, installer_node);
    }
}
