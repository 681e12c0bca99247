/*
 * The agent's side of a door, between programs and a worker that are played here. All of it is one
 * thread: rounds of the agent's loop are made by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/buf.h"
#include "worker/agent/door/doorway.h"

#define CHANNELS_KEPT 64
#define WAIT_MS       60000

struct world {
    struct doorway doorway;
    struct poll_set set;
    uint16_t port;
    bool room; /* of the link, which there is */
    uint64_t opened;
    struct buf said[CHANNELS_KEPT]; /* DOOR_DATA of each channel */
    uint64_t credit[CHANNELS_KEPT];
    unsigned half[CHANNELS_KEPT], whole[CHANNELS_KEPT]; /* DOOR_CLOSE */
};

static bool has_room(void *arg)
{
    const struct world *w = arg;
    return w->room;
}

static void on_send(void *arg, const struct msg *m)
{
    struct world *w = arg;
    if (m->type == MSG_DOOR_OPEN) {
        assert_int_equal(m->door_open.channel, w->opened + 1);
        w->opened++;
        return;
    }
    uint64_t id = m->type == MSG_DOOR_DATA     ? m->door_data.channel
                  : m->type == MSG_DOOR_CREDIT ? m->door_credit.channel
                                               : m->door_close.channel;
    assert_in_range(id, 1, w->opened);
    if (id >= CHANNELS_KEPT) {
        return;
    }
    assert_int_equal(w->whole[id], 0);
    if (m->type == MSG_DOOR_DATA) {
        assert_in_range(m->door_data.data.len, 1, LIMIT_DOOR_CHUNK);
        assert_int_equal(w->half[id], 0);
        assert_int_equal(buf_add(&w->said[id], m->door_data.data.data, m->door_data.data.len, NULL),
                         0);
    } else if (m->type == MSG_DOOR_CREDIT) {
        w->credit[id] += m->door_credit.bytes;
    } else if (m->door_close.whole) {
        w->whole[id]++;
    } else {
        w->half[id]++;
    }
}

static int setup(void **state)
{
    struct world *w = alloc_one(struct world);
    struct err err = ERR_INIT;
    struct sockaddr_in bound;
    socklen_t size = sizeof(bound);
    int fd = -1;
    assert_int_equal(doorway_listen(0, &fd, &err), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&bound, &size), 0);
    assert_int_equal(bound.sin_addr.s_addr, htonl(INADDR_LOOPBACK));
    w->port = ntohs(bound.sin_port);
    w->room = true;
    for (size_t i = 0; i < CHANNELS_KEPT; i++) {
        buf_init(&w->said[i], 4u * LIMIT_DOOR_WINDOW);
    }
    doorway_init(&w->doorway, fd,
                 (struct doorway_link){.has_room = has_room, .send = on_send, .arg = w});
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    doorway_finish(&w->doorway);
    for (size_t i = 0; i < CHANNELS_KEPT; i++) {
        buf_finish(&w->said[i]);
    }
    free(w);
    return 0;
}

/* One round; false if nothing happened within the time. */
static bool turn(struct world *w, int wait_ms)
{
    poll_set_clear(&w->set);
    doorway_poll(&w->doorway, &w->set);
    int n = poll(w->set.fds, (nfds_t)w->set.count, wait_ms);
    assert_true(n >= 0);
    doorway_handle(&w->doorway, &w->set);
    return n > 0;
}

#define UNTIL(w, condition)                                                                        \
    while (!(condition)) {                                                                         \
        assert_true(turn(w, WAIT_MS));                                                             \
    }

static void settle(struct world *w)
{
    while (turn(w, 0)) {
    }
}

static int connect_program(const struct world *w)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(w->port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&to, sizeof(to)), 0);
    return fd;
}

static void say(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

static void reset_and_close(int fd)
{
    struct linger now = {.l_onoff = 1, .l_linger = 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    close(fd);
}

/* As many as there are, at most. */
static size_t hear(int fd, void *data, size_t len)
{
    ssize_t n = recv(fd, data, len, MSG_DONTWAIT);
    assert_true(n >= 0 || errno == EAGAIN);
    return n > 0 ? (size_t)n : 0;
}

static int give(struct world *w, uint64_t channel, size_t len)
{
    static const char bytes[LIMIT_DOOR_CHUNK];
    int rc = 0;
    while (len > 0 && rc == 0) {
        struct msg m = {.type = MSG_DOOR_DATA};
        struct err err = ERR_INIT;
        m.door_data.channel = channel;
        m.door_data.data = view_bytes(bytes, len < sizeof(bytes) ? len : sizeof(bytes));
        rc = doorway_take(&w->doorway, &m, &err);
        len -= m.door_data.data.len;
    }
    return rc;
}

static int give_credit_of(struct world *w, uint64_t channel, uint64_t bytes)
{
    struct msg m = {.type = MSG_DOOR_CREDIT};
    struct err err = ERR_INIT;
    m.door_credit.channel = channel;
    m.door_credit.bytes = bytes;
    return doorway_take(&w->doorway, &m, &err);
}

static int close_channel(struct world *w, uint64_t channel)
{
    struct msg m = {.type = MSG_DOOR_CLOSE};
    struct err err = ERR_INIT;
    m.door_close.channel = channel;
    m.door_close.whole = true;
    return doorway_take(&w->doorway, &m, &err);
}

/* ---- cases ----------------------------------------------------------------------------------- */

static void a_connection_is_a_channel_once_it_says_something(void **state)
{
    struct world *w = *state;
    int fd = connect_program(w);
    int silent = connect_program(w);
    settle(w);
    reset_and_close(silent);
    settle(w);
    assert_int_equal(w->opened, 0);
    say(fd, "hello");
    UNTIL(w, w->said[1].len == 5);
    assert_memory_equal(w->said[1].data, "hello", 5);
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    UNTIL(w, w->half[1] == 1);
    assert_int_equal(give(w, 1, 10), 0); /* it is still listened to */
    UNTIL(w, w->credit[1] == 10);
    char heard[32];
    assert_int_equal(recv(fd, heard, 10, MSG_WAITALL), 10);
    reset_and_close(fd);
    UNTIL(w, w->whole[1] == 1);
    assert_int_equal(give(w, 1, 10), 0); /* has crossed the end */
}

static void a_program_is_read_within_the_workers_credit(void **state)
{
    struct world *w = *state;
    int fd = connect_program(w);
    static char much[65536];
    while (w->said[1].len < LIMIT_DOOR_WINDOW) {
        (void)!send(fd, much, sizeof(much), MSG_DONTWAIT | MSG_NOSIGNAL);
        turn(w, 0);
    }
    (void)!send(fd, much, sizeof(much), MSG_DONTWAIT | MSG_NOSIGNAL);
    settle(w);
    assert_int_equal(w->said[1].len, LIMIT_DOOR_WINDOW);
    assert_int_equal(give_credit_of(w, 1, 100), 0);
    UNTIL(w, w->said[1].len == LIMIT_DOOR_WINDOW + 100);
    settle(w);
    assert_int_equal(w->said[1].len, LIMIT_DOOR_WINDOW + 100);
    assert_int_equal(give_credit_of(w, 1, LIMIT_DOOR_WINDOW), 0);
    assert_int_equal(give_credit_of(w, 1, 1), -ERR_PROTOCOL);
    close(fd);
}

static void the_worker_has_credit_for_what_the_program_takes(void **state)
{
    struct world *w = *state;
    int fd = connect_program(w);
    static char data[65536];
    say(fd, "x");
    UNTIL(w, w->opened == 1);
    uint64_t given = 0;
    while (given < 3 * (uint64_t)LIMIT_DOOR_WINDOW) {
        uint64_t more = LIMIT_DOOR_WINDOW + w->credit[1] - given;
        assert_int_equal(give(w, 1, more), 0);
        given += more;
        while (w->credit[1] < given) {
            hear(fd, data, sizeof(data));
            turn(w, 0);
        }
        assert_int_equal(w->credit[1], given);
    }
    /* when the program takes nothing more, neither does the agent, some time */
    int rc = 0;
    for (int i = 0; i < 10000 && rc == 0; i++) {
        rc = give(w, 1, LIMIT_DOOR_CHUNK);
    }
    assert_int_equal(rc, -ERR_PROTOCOL);
    assert_true(w->doorway.clients[0].out.len <= LIMIT_DOOR_WINDOW);
    close(fd);
}

static void what_the_worker_closes_is_written_to_its_end(void **state)
{
    struct world *w = *state;
    int fd = connect_program(w);
    static char data[LIMIT_DOOR_WINDOW + 1];
    say(fd, "asks, and goes on asking");
    UNTIL(w, w->opened == 1);
    assert_int_equal(give(w, 1, LIMIT_DOOR_WINDOW), 0);
    assert_int_equal(close_channel(w, 1), 0);
    say(fd, "for nobody");
    size_t heard = 0;
    while (heard < LIMIT_DOOR_WINDOW) {
        heard += hear(fd, data, sizeof(data));
        turn(w, 0);
    }
    settle(w);
    assert_int_equal(recv(fd, data, sizeof(data), 0), 0); /* an end, and no reset */
    assert_int_equal(w->said[1].len, strlen("asks, and goes on asking"));
    assert_int_equal(w->whole[1] + w->half[1], 0);
    close(fd);
    settle(w);
    assert_int_equal(w->doorway.clients[0].phase, DOORWAY_NONE);
}

static void without_room_nothing_is_read_and_nobody_is_taken(void **state)
{
    struct world *w = *state;
    int fd = connect_program(w);
    say(fd, "first");
    UNTIL(w, w->opened == 1);
    w->room = false;
    say(fd, "second");
    int other = connect_program(w);
    say(other, "third");
    settle(w);
    assert_int_equal(w->said[1].len, 5);
    assert_int_equal(w->opened, 1);
    w->room = true;
    UNTIL(w, w->said[1].len == 11 && w->opened == 2);
    close(fd);
    close(other);
}

static void who_finds_no_place_waits_and_nobody_is_cut_for_it(void **state)
{
    struct world *w = *state;
    int fds[LIMIT_DOOR_CHANNELS + 1];
    for (size_t i = 0; i < LIMIT_DOOR_CHANNELS; i++) {
        fds[i] = connect_program(w);
        say(fds[i], "x");
        UNTIL(w, w->opened == i + 1);
    }
    fds[LIMIT_DOOR_CHANNELS] = connect_program(w);
    say(fds[LIMIT_DOOR_CHANNELS], "the last");
    settle(w);
    assert_int_equal(w->opened, LIMIT_DOOR_CHANNELS);
    for (size_t i = 1; i <= LIMIT_DOOR_CHANNELS; i++) {
        assert_int_equal(w->whole[i], 0);
    }
    assert_int_equal(close_channel(w, 7), 0); /* gives way though its program stays */
    UNTIL(w, w->said[LIMIT_DOOR_CHANNELS + 1].len == 8);
    for (size_t i = 0; i <= LIMIT_DOOR_CHANNELS; i++) {
        close(fds[i]);
    }
}

static void a_flood_of_resets_does_not_cut_a_good_one(void **state)
{
    struct world *w = *state;
    int good = connect_program(w);
    say(good, "good");
    UNTIL(w, w->said[1].len == 4);
    for (int i = 0; i < 2000; i++) {
        int fd = connect_program(w);
        if (i % 2 == 0) {
            say(fd, "x");
        }
        reset_and_close(fd);
        turn(w, 0);
    }
    settle(w);
    say(good, " still");
    UNTIL(w, w->said[1].len == 10);
    assert_int_equal(w->whole[1] + w->half[1], 0);
    assert_int_equal(give(w, 1, 5), 0);
    char heard[8];
    assert_int_equal(recv(good, heard, 5, MSG_WAITALL), 5);
    close(good);
}

static void with_the_link_all_channels_end(void **state)
{
    struct world *w = *state;
    int fd = connect_program(w);
    char heard[8];
    say(fd, "x");
    UNTIL(w, w->opened == 1);
    doorway_cut(&w->doorway);
    assert_true(recv(fd, heard, sizeof(heard), 0) <= 0);
    close(fd);
    w->opened = 0; /* another link, on which numbers begin anew */
    fd = connect_program(w);
    say(fd, "y");
    UNTIL(w, w->opened == 1);
    close(fd);
}

static void what_is_nothing_for_a_door_is_malformed(void **state)
{
    struct world *w = *state;
    struct msg m = {.type = MSG_DOOR_OPEN};
    struct err err = ERR_INIT;
    assert_int_equal(doorway_take(&w->doorway, &m, &err), -ERR_PROTOCOL);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_connection_is_a_channel_once_it_says_something),
        TEST(a_program_is_read_within_the_workers_credit),
        TEST(the_worker_has_credit_for_what_the_program_takes),
        TEST(what_the_worker_closes_is_written_to_its_end),
        TEST(without_room_nothing_is_read_and_nobody_is_taken),
        TEST(who_finds_no_place_waits_and_nobody_is_cut_for_it),
        TEST(a_flood_of_resets_does_not_cut_a_good_one),
        TEST(with_the_link_all_channels_end),
        TEST(what_is_nothing_for_a_door_is_malformed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
