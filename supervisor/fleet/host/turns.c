/*
 * Removing a sandbox is mostly work of the kernel, and its capacity is fixed. If a thousand
 * removals start at once, each takes as long as all together, and misses every deadline that it
 * would meet alone. One after another each is quick, and those that were finished in time count.
 */
#include "supervisor/fleet/host/turns.h"

static void on_room(void *arg)
{
    struct turns *t = arg;
    struct turn *turn;
    while (t->running < t->at_once && (turn = TAILQ_FIRST(&t->waiting)) != NULL) {
        TAILQ_REMOVE(&t->waiting, turn, node);
        turn->waits = false;
        turn->has = true;
        t->running++;
        turn->begin(turn->arg);
    }
}

void turns_init(struct turns *t, struct deferred *deferred, size_t at_once)
{
    *t = (struct turns){.deferred = deferred, .at_once = at_once};
    TAILQ_INIT(&t->waiting);
}

void turns_take(struct turns *t, struct turn *turn, void (*begin)(void *arg), void *arg)
{
    turn->begin = begin;
    turn->arg = arg;
    turn->waits = true;
    TAILQ_INSERT_TAIL(&t->waiting, turn, node);
    deferred_post(t->deferred, &t->task, on_room, t);
}

void turns_give(struct turns *t, struct turn *turn)
{
    if (turn->waits) {
        TAILQ_REMOVE(&t->waiting, turn, node);
        turn->waits = false;
    } else if (turn->has) {
        turn->has = false;
        t->running--;
    }
    if (!TAILQ_EMPTY(&t->waiting)) {
        deferred_post(t->deferred, &t->task, on_room, t);
    }
}
