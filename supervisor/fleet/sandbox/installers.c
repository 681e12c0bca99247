/*
 * An installer is a sandbox like any other to the worker, the engine and the way out. What is
 * special is that it writes where another sandbox reads: so that one is not removed while the
 * installer can still write, which would leave files behind or, where an engine counts who uses
 * what, could not be done at all.
 *
 * The next server takes no installer over: whoever waited for it is gone, and its work is done
 * again if it is asked for again.
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
    sandbox_touch(target); /* being installed for is not being idle */
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
