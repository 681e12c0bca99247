/*
 * An agent that makes its socket itself and is reached by relays only, including its own one.
 */
#include "tests/unit/worker/agent/fixture.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/fd.h"
#include "common/str.h"
#include "proto/codec.h"
#include "proto/exit_codes.h"
#include "tests/unit/worker/agent/relay_lab.h"

static void an_agent_says_why_it_cannot_listen(void **state)
{
    struct lab *lab = *state;
    char nowhere[128], file[128];
    char endless[300];
    memset(endless, 'x', sizeof(endless) - 1);
    endless[sizeof(endless) - 1] = '\0';
    snprintf(nowhere, sizeof(nowhere), "%s/none/agent.sock", lab->dir);
    snprintf(file, sizeof(file), "%s/file", lab->dir);
    assert_int_equal(file_replace(file, "x", 1, 0600, NULL), 0);
    lab_listen(lab);
    const char *paths[] = {nowhere, file, endless, lab->path, ""};
    const char *words[] = {nowhere, "no socket", "299", "runs", "0:"};
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        const char *args[] = {"serve", "--listen", paths[i], "--sandbox", "x", NULL};
        lab_expect_complaint(lab, args, STDIN_FILENO, EXIT_CODE_SETUP, words[i]);
    }
    assert_int_equal(access(file, F_OK), 0);
    const char *both[] = {"serve", "--listen", file, "--fd", "5", "--sandbox", "x", NULL};
    const char *neither[] = {"serve", "--sandbox", "x", NULL};
    const char *no_path[] = {"serve", "--fd", "5", "--relay-stdio", "--sandbox", "x", NULL};
    lab_expect_complaint(lab, both, STDIN_FILENO, EXIT_CODE_USAGE, "one of --fd and --listen");
    lab_expect_complaint(lab, neither, STDIN_FILENO, EXIT_CODE_USAGE, "one of --fd and --listen");
    lab_expect_complaint(lab, no_path, STDIN_FILENO, EXIT_CODE_USAGE, "--relay-stdio");
}

/* As in a container whose file system is not mounted. */
static void an_agent_whose_root_is_closed_to_user_code_says_so_and_ends(void **state)
{
    struct lab *lab = *state;
    static const char *const args[] = {"agent",      "serve", "--listen", "/sock", "--sandbox",
                                       "x",          "--uid", "12345",    "--gid", "12345",
                                       "--grace-ms", "1",     NULL};
    char root[128];
    char said[1024] = "";
    int pipe_fds[2];
    int status = 0;
    if (geteuid() != 0) {
        skip(); /* only root may change its root */
    }
    snprintf(root, sizeof(root), "%s/root", lab->dir);
    int agent = open(getenv("CLOISTER_AGENT"), O_RDONLY | O_CLOEXEC);
    assert_true(agent >= 0);
    assert_int_equal(mkdir(root, 0700), 0);
    assert_int_equal(pipe(pipe_fds), 0);
    pid_t pid = fork();
    if (pid == 0) {
        if (dup2(pipe_fds[1], STDERR_FILENO) >= 0 && chroot(root) == 0 && chdir("/") == 0) {
            fexecve(agent, (char *const *)(uintptr_t)args, environ);
        }
        _exit(127);
    }
    close(pipe_fds[1]);
    close(agent);
    size_t len = 0;
    ssize_t n;
    while ((n = read(pipe_fds[0], said + len, sizeof(said) - 1 - len)) > 0) {
        len += (size_t)n;
    }
    close(pipe_fds[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), EXIT_CODE_SETUP);
    assert_non_null(strstr(said, "user code may not enter the root"));
    assert_non_null(strstr(said, "uid 12345; / has type 0x"));
    assert_non_null(strstr(said, ", mode 0700 and 0 names"));
}

/* ---- a whole agent --------------------------------------------------------------------------- */

/* A client over a new relay, whose pid is *ret_pid. */
static void connect_by_relay(struct fixture *f, pid_t *ret_pid)
{
    int pair[2];
    agent_disconnect(&f->link);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    *ret_pid = lab_relay(f->agent.socket, pair[1], pair[1]);
    close(pair[1]);
    lab_read_greeting(pair[0]);
    agent_adopt(&f->link, pair[0]);
}

static void say_hello(struct fixture *f, uint64_t generation)
{
    struct err err = ERR_INIT;
    struct msg reply;
    int rc = agent_hello(&f->link, generation, &reply, &err);
    if (rc < 0 || reply.type != MSG_HELLO_OK) {
        fail_msg("%s", rc < 0 ? err.text : "refused");
    }
    msg_finish(&reply);
}

static void assert_alive(struct fixture *f)
{
    struct agent_result *r = run(f, "python", "'alive'");
    assert_status(r, OP_STATUS_OK);
    assert_string_equal(r->result, "'alive'");
}

static bool is_closed(struct agent_client *c)
{
    struct err err = ERR_INIT;
    struct msg m;
    return agent_receive(c, &m, LAB_PATIENCE_MS, &err) == -ERR_GONE;
}

static struct fixture *start_agent(struct agent_options o)
{
    struct err err = ERR_INIT;
    struct fixture *f = alloc_one(struct fixture);
    f->link.fd = -1;
    o.program = getenv("CLOISTER_AGENT");
    o.listens = true;
    assert_int_equal(agent_start(&f->agent, &o, &err), 0);
    return f;
}

static void shut_down(struct fixture *f)
{
    struct err err = ERR_INIT;
    struct msg m = {.type = MSG_SHUTDOWN};
    assert_int_equal(agent_send_msg(&f->link, &m, &err), 0);
    assert_true(is_closed(&f->link));
    assert_int_equal(agent_wait(&f->agent), EXIT_CODE_OK);
}

static void end(struct fixture *f)
{
    void *state = f;
    fixture_stop(&state);
}

static void an_agent_listens_and_serves_relays(void **state)
{
    struct fixture *f = start_agent((struct agent_options){0});
    pid_t relay;
    connect_by_relay(f, &relay);
    say_hello(f, 1);
    assert_alive(f);
    struct stat st;
    assert_int_equal(stat(f->agent.socket, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    struct agent_result *r = run(f, "python", "print('x' * 3000000)");
    assert_status(r, OP_STATUS_OK);
    assert_int_equal(r->out_len, 3000001);
    shut_down(f);
    assert_int_equal(lab_wait(&relay), EXIT_CODE_OK);
    assert_int_equal(access(f->agent.socket, F_OK), -1);
    end(f);
}

static void the_link_comes_again_after_a_relay_was_killed(void **state)
{
    struct fixture *f = start_agent((struct agent_options){0});
    pid_t relay;
    connect_by_relay(f, &relay);
    say_hello(f, 1);
    struct msg_start s = agent_code(&f->link, "python", "import time\ntime.sleep(0.5)\n'done'");
    char *op = alloc_viewdup(s.op);
    start_only(f, &s, 0);
    assert_int_equal(kill(relay, SIGKILL), 0);
    assert_true(is_closed(&f->link));
    assert_int_equal(lab_wait(&relay), 137);
    connect_by_relay(f, &relay);
    say_hello(f, 1);
    assert_string_equal(follow(f, op)->result, "'done'");
    free(op);
    shut_down(f);
    assert_int_equal(lab_wait(&relay), EXIT_CODE_OK);
    end(f);
}

static void a_killed_agent_ends_its_relay_and_leaves_a_socket_that_is_replaced(void **state)
{
    struct fixture *f = start_agent((struct agent_options){0});
    struct err err = ERR_INIT;
    pid_t relay;
    connect_by_relay(f, &relay);
    say_hello(f, 1);
    assert_int_equal(kill(f->agent.pid, SIGKILL), 0);
    assert_true(is_closed(&f->link));
    assert_int_equal(lab_wait(&relay), EXIT_CODE_OK);
    assert_int_equal(agent_wait(&f->agent), 137);
    assert_int_equal(access(f->agent.socket, F_OK), 0); /* the stale one */
    struct agent_options o = {.program = getenv("CLOISTER_AGENT"), .listens = true};
    assert_int_equal(agent_start_again(&f->agent, &o, &err), 0);
    connect_by_relay(f, &relay);
    say_hello(f, 1);
    assert_alive(f);
    shut_down(f);
    assert_int_equal(lab_wait(&relay), EXIT_CODE_OK);
    end(f);
}

/* ---- the agent's own relay ------------------------------------------------------------------- */

/* Starts an agent with its own relay on one socket, or two pipes; the client's ends are *ret_in and
 * *ret_out. */
static struct fixture *start_with_stdio(int *ret_in, int *ret_out)
{
    int in[2], out[2];
    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    struct fixture *f = start_agent(
        (struct agent_options){.relays_stdio = true, .stdin_fd = in[0], .stdout_fd = out[1]});
    close(in[0]);
    close(out[1]);
    *ret_in = in[1];
    *ret_out = out[0];
    return f;
}

/* The same, on a socket that the fixture's client takes over. */
static struct fixture *start_with_socket(void)
{
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    struct fixture *f = start_agent(
        (struct agent_options){.relays_stdio = true, .stdin_fd = pair[1], .stdout_fd = pair[1]});
    close(pair[1]);
    lab_read_greeting(pair[0]);
    agent_adopt(&f->link, pair[0]);
    say_hello(f, 1);
    return f;
}

static void the_first_stream_needs_no_other_program(void **state)
{
    struct err err = ERR_INIT;
    int in, out;
    struct fixture *f = start_with_stdio(&in, &out);
    lab_read_greeting(out);
    struct msg m = agent_hello_message(1);
    struct buf frame;
    uint8_t head[4];
    buf_init(&frame, 4096);
    m.seq = 7;
    assert_int_equal(msg_encode_frame(&frame, &m, &err), 0);
    assert_int_equal(write(in, frame.data, frame.len), frame.len);
    struct pollfd p = {.fd = out, .events = POLLIN};
    assert_int_equal(poll(&p, 1, LAB_PATIENCE_MS), 1);
    assert_int_equal(read(out, head, sizeof(head)), sizeof(head));
    size_t len = (size_t)head[2] << 8 | head[3];
    assert_true(head[0] == 0 && head[1] == 0 && buf_reserve(&frame, len, &err) == 0);
    assert_int_equal(read(out, frame.data, len), len);
    assert_int_equal(msg_decode(MSG_LINK_A, frame.data, len, &m, &err), 0);
    assert_int_equal(m.type, MSG_HELLO_OK);
    assert_int_equal(m.seq, 7);
    msg_finish(&m);
    buf_finish(&frame);
    close(in);
    assert_int_equal(lab_drain(out), 0); /* no other process has the client's stdout open */
    close(out);
    pid_t relay;
    connect_by_relay(f, &relay); /* the agent goes on, and accepts others */
    say_hello(f, 1);
    assert_alive(f);
    shut_down(f);
    assert_int_equal(lab_wait(&relay), EXIT_CODE_OK);
    end(f);
}

/* The child of the agent whose only descriptors are the three standard streams and one socket; 0 if
 * there is none. Only root can read that. */
static pid_t find_relay(pid_t agent)
{
    char path[96], text[4096];
    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)agent, (int)agent);
    FILE *f = fopen(path, "r");
    if (f == NULL) {
        return 0;
    }
    size_t len = fread(text, 1, sizeof(text) - 1, f);
    text[len] = '\0';
    fclose(f);
    char *rest = NULL;
    for (char *t = strtok_r(text, " ", &rest); t != NULL; t = strtok_r(NULL, " ", &rest)) {
        char target[64] = "";
        snprintf(path, sizeof(path), "/proc/%s/fd/0", t);
        if (readlink(path, target, sizeof(target) - 1) > 0 && strncmp(target, "socket:", 7) == 0) {
            uint64_t pid = 0;
            assert_int_equal(str_to_u64(t, 1, INT32_MAX, &pid, NULL), 0);
            return (pid_t)pid;
        }
    }
    return 0;
}

static size_t count_entries(const char *path)
{
    size_t n = 0;
    DIR *dir = opendir(path);
    assert_non_null(dir);
    for (struct dirent *e = readdir(dir); e != NULL; e = readdir(dir)) {
        n += e->d_name[0] != '.';
    }
    closedir(dir);
    return n;
}

static void the_relay_holds_nothing_of_the_agents(void **state)
{
    struct fixture *f = start_with_socket();
    pid_t relay = find_relay(f->agent.pid);
    char path[96], target[64] = "";
    assert_true(relay > 0);
    snprintf(path, sizeof(path), "/proc/%d/fd", (int)relay);
    assert_int_equal(count_entries(path), 4);
    for (int fd = 0; fd < 2; fd++) {
        snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)f->agent.pid, fd);
        memset(target, 0, sizeof(target));
        assert_true(readlink(path, target, sizeof(target) - 1) > 0);
        assert_string_equal(target, "/dev/null");
    }
    /* and user code cannot affect it */
    char code[256];
    snprintf(
        code, sizeof(code),
        "import os\nr = []\nfor act in (lambda: os.kill(%d, 9), lambda: open('/proc/%d/mem'),\n"
        "            lambda: os.readlink('/proc/%d/fd/3')):\n"
        "    try: act()\n    except PermissionError: r.append('no')\nr",
        (int)relay, (int)relay, (int)relay);
    struct agent_result *r = run(f, "python", code);
    assert_status(r, OP_STATUS_OK);
    assert_string_equal(r->result, "['no', 'no', 'no']");
    shut_down(f);
    end(f);
}

/* When a keeper was killed, the agent kills every child that it does not know. */
static void the_relay_outlives_the_kill_of_strays(void **state)
{
    struct fixture *f = start_with_socket();
    pid_t relay = find_relay(f->agent.pid);
    assert_true(relay > 0);
    run(f, "bash", "echo $PPID; sleep 300 & disown");
    uint64_t keeper = 0;
    f->r.out[strcspn(f->r.out, "\n")] = '\0';
    assert_int_equal(str_to_u64(f->r.out, 1, INT32_MAX, &keeper, NULL), 0);
    assert_int_equal(kill((pid_t)keeper, SIGKILL), 0);
    assert_alive(f); /* over the same link */
    struct agent_result *r = run(f, "bash", "echo again");
    assert_string_equal(r->out, "again\n");
    assert_int_equal(find_relay(f->agent.pid), relay);
    shut_down(f);
    end(f);
}

/* Whether it was killed or ended by itself, it is reaped, and the agent is not affected. */
static void the_end_of_the_relay_is_no_error(void **state)
{
    struct fixture *f = start_with_socket();
    pid_t relay = find_relay(f->agent.pid);
    char path[64];
    assert_true(relay > 0);
    run(f, "python", "x = 5");
    assert_int_equal(kill(relay, SIGKILL), 0);
    assert_true(is_closed(&f->link));
    pid_t other;
    connect_by_relay(f, &other);
    say_hello(f, 1);
    struct agent_result *r = run(f, "python", "x");
    assert_string_equal(r->result, "5"); /* no other process was killed */
    snprintf(path, sizeof(path), "/proc/%d", (int)relay);
    assert_int_equal(access(path, F_OK), -1);
    shut_down(f);
    assert_int_equal(lab_wait(&other), EXIT_CODE_OK);
    end(f);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, lab_setup, lab_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(an_agent_says_why_it_cannot_listen),
        CASE(an_agent_whose_root_is_closed_to_user_code_says_so_and_ends),
        cmocka_unit_test(an_agent_listens_and_serves_relays),
        cmocka_unit_test(the_link_comes_again_after_a_relay_was_killed),
        cmocka_unit_test(a_killed_agent_ends_its_relay_and_leaves_a_socket_that_is_replaced),
        cmocka_unit_test(the_first_stream_needs_no_other_program),
        /* the other cases read descriptors of other processes, which takes root */
        cmocka_unit_test(the_relay_holds_nothing_of_the_agents),
        cmocka_unit_test(the_relay_outlives_the_kill_of_strays),
        cmocka_unit_test(the_end_of_the_relay_is_no_error),
    };
    size_t left_out = geteuid() == 0 ? 0 : 3;
    if (left_out > 0) {
        fprintf(stderr, "%zu cases left out: they need root\n", left_out);
    }
    const size_t count = sizeof(tests) / sizeof(tests[0]) - left_out;
    return _cmocka_run_group_tests("agent_listen", tests, count, NULL, NULL);
}
