/* Declared state machines: legal successors, and invariants. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "checked.h"
#include "common/sm.h"

enum door { DOOR_OPEN, DOOR_SHUT, DOOR_LOCKED, DOOR_COUNT };

static const struct sm_state doors[DOOR_COUNT] = {
    [DOOR_OPEN] = {"open", SM_BIT(DOOR_SHUT)},
    [DOOR_SHUT] = {"shut", SM_BIT(DOOR_OPEN) | SM_BIT(DOOR_LOCKED)},
    [DOOR_LOCKED] = {"locked", 0},
};

struct house {
    struct sm front, back;
    int inside; /* number of people */
};

static bool nobody_inside(const void *owner)
{
    const struct house *h = owner;
    return h->inside == 0;
}

static bool back_is_shut(const void *owner)
{
    const struct house *h = owner;
    return h->back.state != DOOR_OPEN;
}

static const struct sm_invariant promises[] = {
    {"nobody is locked in", SM_BIT(DOOR_LOCKED), nobody_inside},
    {"the back door is shut first", SM_BIT(DOOR_SHUT) | SM_BIT(DOOR_LOCKED), back_is_shut},
};

static const struct sm_guard front_guard = {"front door", promises, 2};

static void house_init(struct house *h, enum door front)
{
    memset(h, 0, sizeof(*h));
    sm_init(&h->front, doors, DOOR_COUNT, front);
    sm_init(&h->back, doors, DOOR_COUNT, DOOR_SHUT);
    sm_watch(&h->front, &front_guard, h);
}

static void shut(struct house *h)
{
    sm_move(&h->front, DOOR_SHUT);
}

static void lock(struct house *h)
{
    sm_move(&h->front, DOOR_LOCKED);
}

static void look_again(struct house *h)
{
    sm_check(&h->front);
}

/* Runs `act` in a process of its own and returns the signal that ends it, 0 if none; `ret_said` is
 * what it wrote on stderr. */
static int ends_by(void (*act)(struct house *h), struct house *h, char *ret_said, size_t size)
{
    int ends[2], status;
    size_t len = 0;
    ssize_t n;
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)signal(SIGABRT, SIG_DFL);
        (void)dup2(ends[1], STDERR_FILENO);
        act(h);
        _exit(0);
    }
    close(ends[1]);
    while ((n = read(ends[0], ret_said + len, size - 1 - len)) > 0) {
        len += (size_t)n;
    }
    ret_said[len] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void moves_are_those_of_the_table(void **state)
{
    static const char *const expected[DOOR_COUNT] = {".+.", "+.+", "..."};
    char said[512];
    (void)state;
    for (unsigned from = 0; from < DOOR_COUNT; from++) {
        struct house h;
        house_init(&h, from);
        for (unsigned to = 0; to < DOOR_COUNT; to++) {
            assert_int_equal(sm_may(&h.front, to), expected[from][to] == '+');
        }
        assert_false(sm_may(&h.front, DOOR_COUNT));
    }
    struct house h;
    house_init(&h, DOOR_OPEN);
    assert_string_equal(sm_move(&h.front, DOOR_SHUT), "open");
    assert_string_equal(sm_name(&h.front), "shut");
    house_init(&h, DOOR_OPEN);
    assert_int_equal(ends_by(lock, &h, said, sizeof(said)), SIGABRT);
}

static void what_holds_is_not_noticed(void **state)
{
    struct house h;
    char said[512];
    (void)state;
    house_init(&h, DOOR_OPEN);
    assert_int_equal(ends_by(shut, &h, said, sizeof(said)), 0);
    assert_string_equal(said, "");
    sm_move(&h.front, DOOR_SHUT);
    assert_int_equal(ends_by(lock, &h, said, sizeof(said)), 0);
    h.inside = 1; /* another state's invariant does not count here */
    assert_int_equal(ends_by(look_again, &h, said, sizeof(said)), 0);
}

/* The message names the machine, both states and the invariant. */
static void a_broken_promise_ends_the_process(void **state)
{
    struct house h;
    char said[512];
    (void)state;
    house_init(&h, DOOR_SHUT);
    h.inside = 1;
    int end = ends_by(lock, &h, said, sizeof(said));
    if (!CLOISTER_CHECKED) {
        assert_int_equal(end, 0);
        return;
    }
    assert_int_equal(end, SIGABRT);
    assert_non_null(
        strstr(said, "front door: shut -> locked: it does not hold that nobody is locked in"));
}

/* The invariant relates it to another machine, and is also checked when the owner asks for it
 * without a move. */
static void a_promise_may_relate_two_machines(void **state)
{
    struct house h;
    char said[512];
    (void)state;
    house_init(&h, DOOR_OPEN);
    sm_move(&h.back, DOOR_OPEN); /* this machine has no invariants of its own */
    assert_int_equal(ends_by(shut, &h, said, sizeof(said)), CLOISTER_CHECKED ? SIGABRT : 0);
    house_init(&h, DOOR_SHUT);
    sm_move(&h.back, DOOR_OPEN);
    assert_int_equal(ends_by(look_again, &h, said, sizeof(said)), CLOISTER_CHECKED ? SIGABRT : 0);
    assert_int_equal(strstr(said, "shut -> shut: it does not hold that the back door") != NULL,
                     CLOISTER_CHECKED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(moves_are_those_of_the_table),
        cmocka_unit_test(what_holds_is_not_noticed),
        cmocka_unit_test(a_broken_promise_ends_the_process),
        cmocka_unit_test(a_promise_may_relate_two_machines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
