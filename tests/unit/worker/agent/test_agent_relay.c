/*
 * The relay, with the test at both ends: transferred bytes, backpressure, and its end.
 */
#include "tests/unit/worker/agent/relay_lab.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/fd.h"
#include "proto/exit_codes.h"

/* ---- transfer -------------------------------------------------------------------------------- */

/* Byte n of a direction, so that lost, doubled or reordered bytes are found. */
static uint8_t pattern(size_t n, uint8_t salt)
{
    return (uint8_t)(n * 31 + (n >> 8) * 7 + (n >> 16) + salt);
}

struct transfer {
    int from, to;
    uint8_t salt;
    size_t sent, got, total;
};

/* Transfers one piece in each direction, as far as it is possible without waiting. */
static void transfer_some(struct transfer *t, short can_send, short can_get)
{
    uint8_t piece[50000];
    if ((can_send & POLLOUT) != 0 && t->sent < t->total) {
        size_t len = t->total - t->sent < sizeof(piece) ? t->total - t->sent : sizeof(piece);
        for (size_t i = 0; i < len; i++) {
            piece[i] = pattern(t->sent + i, t->salt);
        }
        ssize_t n = write(t->from, piece, len);
        assert_true(n > 0 || errno == EAGAIN);
        t->sent += n > 0 ? (size_t)n : 0;
    }
    if ((can_get & (POLLIN | POLLHUP)) != 0) {
        ssize_t n = read(t->to, piece, sizeof(piece));
        assert_true(n > 0);
        for (ssize_t i = 0; i < n; i++) {
            if (piece[i] != pattern(t->got + (size_t)i, t->salt)) {
                fail_msg("byte %zu is wrong", t->got + (size_t)i);
            }
        }
        t->got += (size_t)n;
    }
}

static void transfer_all(struct transfer *t, size_t count)
{
    uint64_t until = clock_ms() + LAB_PATIENCE_MS;
    bool done = false;
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(fd_set_nonblock(t[i].from, NULL), 0);
        assert_int_equal(fd_set_nonblock(t[i].to, NULL), 0);
    }
    while (!done && clock_ms() < until) {
        struct pollfd fds[4];
        for (size_t i = 0; i < count; i++) {
            bool more = t[i].sent < t[i].total;
            fds[2 * i] = (struct pollfd){.fd = more ? t[i].from : -1, .events = POLLOUT};
            bool wanted = t[i].got < t[i].total;
            fds[2 * i + 1] = (struct pollfd){.fd = wanted ? t[i].to : -1, .events = POLLIN};
        }
        poll(fds, 2 * count, 1000);
        done = true;
        for (size_t i = 0; i < count; i++) {
            transfer_some(&t[i], fds[2 * i].revents, fds[2 * i + 1].revents);
            done = done && t[i].got == t[i].total;
        }
    }
    assert_true(done);
}

static void bytes_pass_both_ways_at_once(void **state)
{
    struct lab *lab = *state;
    lab_up(lab, false);
    struct transfer both[] = {
        {.from = lab->in, .to = lab->agent, .salt = 3, .total = 8u << 20},
        {.from = lab->agent, .to = lab->out, .salt = 99, .total = 8u << 20},
    };
    transfer_all(both, 2);
}

static void bytes_pass_over_one_socket_too(void **state)
{
    struct lab *lab = *state;
    lab_up(lab, true);
    struct transfer both[] = {
        {.from = lab->in, .to = lab->agent, .salt = 5, .total = 8u << 20},
        {.from = lab->agent, .to = lab->out, .salt = 77, .total = 8u << 20},
    };
    transfer_all(both, 2);
}

static void a_small_message_passes_at_once(void **state)
{
    struct lab *lab = *state;
    lab_up(lab, false);
    uint64_t begin = clock_us();
    for (size_t i = 0; i < 2000; i++) {
        uint8_t byte = (uint8_t)i;
        assert_int_equal(write(lab->in, &byte, 1), 1);
        assert_int_equal(read(lab->agent, &byte, 1), 1);
        byte++;
        assert_int_equal(write(lab->agent, &byte, 1), 1);
        assert_int_equal(read(lab->out, &byte, 1), 1);
        assert_int_equal(byte, (uint8_t)(i + 1));
    }
    print_message("# %u us for a round trip\n", (unsigned)((clock_us() - begin) / 2000));
}

static void who_does_not_read_holds_up_the_writer(void **state)
{
    struct lab *lab = *state;
    size_t up, down, bytes;
    lab_up(lab, false);
    lab_fill(lab->in, &up);
    lab_fill(lab->agent, &down);
    assert_in_range(up, 65536, 1u << 20); /* its buffer and those of the kernel */
    assert_in_range(down, 65536, 1u << 20);
    /* and no byte is lost */
    lab_close(&lab->in);
    assert_int_equal(fd_set_nonblock(lab->agent, NULL), 0);
    bytes = lab_drain(lab->agent);
    assert_int_equal(bytes, up);
    assert_int_equal(lab_wait(&lab->relay), EXIT_CODE_OK);
}

static void what_was_sent_before_the_client_ended_arrives(void **state)
{
    struct lab *lab = *state;
    for (int one_socket = 0; one_socket < 2; one_socket++) {
        static const uint8_t zeros[50000];
        if (one_socket == 0) {
            lab_up(lab, false);
        } else {
            lab_start(lab, true);
            lab_accept(lab);
        }
        assert_int_equal(write(lab->in, zeros, sizeof(zeros)), sizeof(zeros));
        if (one_socket != 0) {
            assert_int_equal(shutdown(lab->in, SHUT_WR), 0); /* closing one half ends the relay */
        } else {
            lab_close(&lab->in);
        }
        assert_int_equal(lab_drain(lab->agent), sizeof(zeros));
        assert_int_equal(lab_wait(&lab->relay), EXIT_CODE_OK);
        if (one_socket == 0) {
            lab_close(&lab->out);
            lab_close(&lab->agent);
        }
    }
}

static void what_was_sent_before_the_agent_ended_arrives(void **state)
{
    struct lab *lab = *state;
    size_t bytes;
    lab_up(lab, false);
    lab_fill(lab->agent, &bytes);
    lab_close(&lab->agent);
    assert_int_equal(lab_drain(lab->out), bytes);
    assert_int_equal(lab_wait(&lab->relay), EXIT_CODE_OK);
}

static void an_agent_that_ends_half_has_ended(void **state)
{
    struct lab *lab = *state;
    lab_up(lab, false);
    assert_int_equal(write(lab->agent, "last words", 10), 10);
    assert_int_equal(shutdown(lab->agent, SHUT_WR), 0);
    assert_int_equal(lab_drain(lab->out), 10);
    assert_int_equal(lab_wait(&lab->relay), EXIT_CODE_OK);
}

static void a_client_that_does_not_read_is_not_waited_for_long(void **state)
{
    struct lab *lab = *state;
    size_t bytes;
    lab_up(lab, false);
    lab_fill(lab->agent, &bytes);
    lab_close(&lab->agent);
    uint64_t begin = clock_ms();
    assert_int_equal(lab_wait(&lab->relay), EXIT_CODE_OK); /* nobody reads it, and nobody will */
    assert_true(clock_ms() - begin >= 500);
}

static void an_agent_that_does_not_read_is_not_waited_for_long(void **state)
{
    struct lab *lab = *state;
    size_t bytes;
    lab_up(lab, false);
    lab_fill(lab->in, &bytes);
    lab_close(&lab->in);
    uint64_t begin = clock_ms();
    assert_int_equal(lab_wait(&lab->relay), EXIT_CODE_OK);
    assert_true(clock_ms() - begin >= 500);
}

static void a_client_that_is_away_is_noticed_in_silence(void **state)
{
    struct lab *lab = *state;
    lab_up(lab, false);
    lab_close(&lab->out); /* while its stdin stays open */
    assert_int_equal(lab_wait(&lab->relay), EXIT_CODE_OK);
    assert_int_equal(lab_drain(lab->agent), 0);
}

static void killing_the_relay_ends_both_streams(void **state)
{
    struct lab *lab = *state;
    lab_up(lab, false);
    assert_int_equal(kill(lab->relay, SIGKILL), 0);
    assert_int_equal(lab_drain(lab->agent), 0);
    assert_int_equal(lab_drain(lab->out), 0);
    assert_int_equal(lab_wait(&lab->relay), 137);
}

/* ---- connecting ------------------------------------------------------------------------------ */

static void a_socket_that_comes_late_is_waited_for(void **state)
{
    struct lab *lab = *state;
    lab_start(lab, false);
    lab_pauses(lab, 5); /* so its first attempts have failed */
    lab_listen(lab);
    lab_accept(lab);
    assert_int_equal(write(lab->in, "x", 1), 1);
    char c = 0;
    assert_int_equal(read(lab->agent, &c, 1), 1);
    assert_int_equal(c, 'x');
}

static void nobody_is_waited_for_when_the_client_is_away(void **state)
{
    struct lab *lab = *state;
    lab_start(lab, false);
    lab_close(&lab->in);
    /* one that waited to the end would say that there is no agent, and exit with EXIT_CODE_SETUP */
    assert_int_equal(lab_wait(&lab->relay), EXIT_CODE_OK);
}

static void a_relay_says_what_is_wrong(void **state)
{
    struct lab *lab = *state;
    int in[2];
    char endless[300];
    memset(endless, 'x', sizeof(endless) - 1);
    endless[sizeof(endless) - 1] = '\0';
    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    const char *absent[] = {"relay", "--socket", lab->path, NULL};
    const char *too_long[] = {"relay", "--socket", endless, NULL};
    const char *odd[] = {"relay", "--sockets", lab->path, NULL};
    const char *bare[] = {"relay", "--socket", NULL};
    uint64_t begin = clock_ms();
    lab_expect_complaint(lab, absent, in[0], EXIT_CODE_SETUP, lab->path);
    assert_true(clock_ms() - begin >= 1500);
    lab_expect_complaint(lab, too_long, in[0], EXIT_CODE_SETUP, "299");
    lab_expect_complaint(lab, absent, -1, EXIT_CODE_SETUP, "closed");
    lab_expect_complaint(lab, odd, in[0], EXIT_CODE_USAGE, "--sockets");
    lab_expect_complaint(lab, bare, in[0], EXIT_CODE_USAGE, "needs a value");
    close(in[0]);
    close(in[1]);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, lab_setup, lab_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(bytes_pass_both_ways_at_once),
        CASE(bytes_pass_over_one_socket_too),
        CASE(a_small_message_passes_at_once),
        CASE(who_does_not_read_holds_up_the_writer),
        CASE(what_was_sent_before_the_client_ended_arrives),
        CASE(what_was_sent_before_the_agent_ended_arrives),
        CASE(an_agent_that_ends_half_has_ended),
        CASE(a_client_that_does_not_read_is_not_waited_for_long),
        CASE(an_agent_that_does_not_read_is_not_waited_for_long),
        CASE(a_client_that_is_away_is_noticed_in_silence),
        CASE(killing_the_relay_ends_both_streams),
        CASE(a_socket_that_comes_late_is_waited_for),
        CASE(nobody_is_waited_for_when_the_client_is_away),
        CASE(a_relay_says_what_is_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
