/*
 * The languages of a sandbox are discovered by looking for their programs. A look that fails for
 * lack of descriptors says nothing about the program, so it is repeated. The test causes the lack
 * by the limit on open files of its own process.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/fd.h"
#include "proto/codec.h"
#include "proto/version.h"
#include "worker/agent/agent.h"

#define NOBODY 65534

struct lab {
    char dir[64];
    char *path; /* the original PATH */
    struct rlimit files;
    struct agent *agent;
    int peer; /* the worker's end of the link */
};

static void put_program(const struct lab *lab, const char *name, mode_t mode)
{
    CLEANUP_FREE char *path = alloc_printf("%s/%s", lab->dir, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

static void use_up_descriptors(struct lab *lab)
{
    struct rlimit none = {0, lab->files.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
}

static void give_them_back(struct lab *lab)
{
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &lab->files), 0);
}

static int lab_setup(void **state)
{
    struct lab *lab = alloc_one(struct lab);
    *state = lab;
    lab->peer = -1;
    lab->path = alloc_strdup(getenv("PATH") != NULL ? getenv("PATH") : SPAWN_DEFAULT_PATH);
    snprintf(lab->dir, sizeof(lab->dir), "/tmp/cloister-looks-XXXXXX");
    if (mkdtemp(lab->dir) == NULL || chmod(lab->dir, 0755) < 0) {
        return -1;
    }
    setenv("PATH", lab->dir, 1);
    return getrlimit(RLIMIT_NOFILE, &lab->files);
}

static int lab_teardown(void **state)
{
    struct lab *lab = *state;
    setrlimit(RLIMIT_NOFILE, &lab->files);
    setenv("PATH", lab->path, 1);
    if (lab->agent != NULL) {
        link_close(&lab->agent->links[0]);
        for (size_t i = 0; i < AGENT_INTERPS; i++) {
            interp_finish(&lab->agent->interps[i]);
        }
        programs_finish(&lab->agent->programs);
        op_table_finish(&lab->agent->ops);
        free(lab->agent->looked);
        free(lab->agent);
        close(lab->peer);
    }
    err_ignore(dir_remove(lab->dir, NULL));
    free(lab->path);
    free(lab);
    return 0;
}

/* ---- one program ---- */

static enum spawn_found find(const char *name)
{
    const struct spawn_config someone = {.uid = NOBODY, .gid = NOBODY};
    CLEANUP_FREE char *path = NULL;
    enum spawn_found found = spawn_find_program(&someone, name, &path);
    assert_int_equal(path != NULL, found == SPAWN_FOUND);
    return found;
}

static void what_cannot_be_looked_at_is_not_called_absent(void **state)
{
    struct lab *lab = *state;
    put_program(lab, "tool", 0755);
    use_up_descriptors(lab);
    enum spawn_found meanwhile = find("tool");
    give_them_back(lab);
    assert_int_equal(meanwhile, SPAWN_UNKNOWN);
    assert_int_equal(find("tool"), SPAWN_FOUND);
}

static void what_is_not_there_or_cannot_be_run_is_absent_for_good(void **state)
{
    struct lab *lab = *state;
    CLEANUP_FREE char *loop = alloc_printf("%s/loop", lab->dir);
    CLEANUP_FREE char *closed = alloc_printf("%s/closed", lab->dir);
    CLEANUP_FREE char *below_closed = alloc_printf("%s/closed/tool", lab->dir);
    CLEANUP_FREE char *below_file = alloc_printf("%s/text/tool", lab->dir);
    put_program(lab, "text", 0644);
    assert_int_equal(symlink("loop", loop), 0);
    assert_int_equal(mkdir(closed, 0700), 0);
    put_program(lab, "closed/tool", 0755);
    assert_int_equal(chmod(closed, 0), 0);
    assert_int_equal(find("tool"), SPAWN_NOT_THERE);
    assert_int_equal(find("text"), SPAWN_NOT_THERE);
    assert_int_equal(find("closed"), SPAWN_NOT_THERE);
    assert_int_equal(find("loop"), SPAWN_NOT_THERE);
    assert_int_equal(find(below_file), SPAWN_NOT_THERE);
    assert_int_equal(find(below_closed), SPAWN_NOT_THERE);
    assert_int_equal(chmod(closed, 0700), 0);
}

static void an_empty_PATH_is_like_none(void **state)
{
    (void)state;
    setenv("PATH", "", 1);
    assert_int_equal(find("sh"), SPAWN_FOUND);
    unsetenv("PATH");
    assert_int_equal(find("sh"), SPAWN_FOUND);
}

/* ---- an agent ---- */

/* Starts an agent while there are no descriptors, for longer than a moment. */
static void start_agent(struct lab *lab)
{
    int ends[2];
    lab->agent = alloc_one(struct agent);
    lab->agent->config.sandbox = "looks";
    lab->agent->config.spawn =
        (struct spawn_config){.single_uid = true, .workspace = lab->dir, .cwd = lab->dir};
    op_table_init(&lab->agent->ops);
    link_init(&lab->agent->links[0]);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    link_open(&lab->agent->links[0], ends[0]);
    lab->peer = ends[1];
    use_up_descriptors(lab);
    agent_set_up_languages(lab->agent);
}

/* The answer borrows from `in`. */
static struct msg ask(struct lab *lab, const struct msg *m, uint8_t *in, size_t size)
{
    struct err err = ERR_INIT;
    struct msg reply = {.type = MSG_NONE};
    assert_int_equal(agent_request(lab->agent, &lab->agent->links[0], m, &err), 0);
    ssize_t n = read(lab->peer, in, size);
    if (n > 0) {
        assert_int_equal(msg_decode(MSG_LINK_A, in + 4, (size_t)n - 4, &reply, &err), 0);
    }
    return reply;
}

/* The answer to HELLO; borrows from `in`. */
static struct msg say_hello(struct lab *lab, uint8_t *in, size_t size)
{
    struct err err = ERR_INIT;
    struct view words[] = {view_of("quack")};
    struct msg runner = {.type = MSG_RUNNER};
    runner.runner.language = view_of("quack");
    runner.runner.file = view_of("main.q");
    runner.runner.run = (struct view_list){words, 1};
    CLEANUP_BUF struct buf row;
    buf_init(&row, LIMIT_FRAME);
    assert_int_equal(msg_encode(&row, &runner, &err), 0);
    struct view rows[] = {view_bytes(row.data, row.len)};
    struct msg m = {.type = MSG_HELLO, .seq = 1};
    m.hello.protocol = view_of(PROTO_AGENT_NAME);
    m.hello.version = PROTO_VERSION;
    m.hello.build = view_of("looks");
    m.hello.sandbox = view_of("looks");
    m.hello.generation = 1;
    m.hello.runners = (struct view_list){rows, 1};
    return ask(lab, &m, in, size);
}

/* "bash quack", and what the agent says about its looks. */
static void tell_looks(struct lab *lab, char *text, size_t size, char *looked, size_t looked_size)
{
    uint8_t in[4096];
    struct msg reply = say_hello(lab, in, sizeof(in));
    assert_int_equal(reply.type, MSG_HELLO_OK);
    snprintf(looked, looked_size, "%.*s", VIEW_ARG(reply.hello_ok.looked));
    text[0] = '\0';
    for (size_t i = 0; i < reply.hello_ok.languages.count; i++) {
        size_t at = strlen(text);
        snprintf(text + at, size - at, "%s%.*s", i > 0 ? " " : "",
                 VIEW_ARG(reply.hello_ok.languages.items[i]));
    }
    msg_finish(&reply);
}

static void tell_languages(struct lab *lab, char *text, size_t size)
{
    char looked[4096];
    tell_looks(lab, text, size, looked, sizeof(looked));
}

/* True if it is running or queued. */
static bool is_taken(struct lab *lab, const char *id, const char *language)
{
    uint8_t in[4096];
    struct msg m = {.type = MSG_START, .seq = 2};
    m.start.op = view_of(id);
    m.start.kind = OP_EVAL;
    m.start.language = view_of(language);
    m.start.data = view_of("1");
    struct msg reply = ask(lab, &m, in, sizeof(in));
    if (reply.type == MSG_FAILED) {
        assert_int_equal(reply.failed.code, ERR_LANGUAGE);
    }
    bool taken = op_find(&lab->agent->ops, view_of(id)) != NULL;
    assert_int_equal(taken, reply.type == MSG_NONE);
    msg_finish(&reply);
    return taken;
}

static void a_language_that_could_not_be_looked_for_at_the_start_is_told_at_hello(void **state)
{
    struct lab *lab = *state;
    char languages[64];
    put_program(lab, "bash", 0755);
    put_program(lab, "quack", 0755);
    start_agent(lab);
    give_them_back(lab);
    assert_null(agent_find_interp(lab->agent, view_of("bash")));
    tell_languages(lab, languages, sizeof(languages));
    assert_string_equal(languages, "bash quack");
}

/* The worker opens another link and asks again. */
static void no_worker_is_told_that_nothing_is_there_before_that_is_known(void **state)
{
    struct lab *lab = *state;
    char languages[64];
    uint8_t in[4096];
    put_program(lab, "bash", 0755);
    put_program(lab, "quack", 0755);
    start_agent(lab);
    struct msg reply = say_hello(lab, in, sizeof(in));
    give_them_back(lab);
    assert_int_equal(reply.type, MSG_FAILED);
    assert_int_equal(reply.failed.code, ERR_IO);
    assert_true(view_is(reply.failed.message, "cannot look for python3: Too many open files"));
    msg_finish(&reply);
    assert_true(lab->agent->links[0].last);
    lab->agent->links[0].last = false;
    tell_languages(lab, languages, sizeof(languages));
    assert_string_equal(languages, "bash quack");
}

/* A later worker takes the sandbox over, whatever the first one was told. */
static void a_worker_that_comes_later_is_let_in_although_nothing_can_be_looked_at(void **state)
{
    struct lab *lab = *state;
    char languages[64];
    start_agent(lab);
    give_them_back(lab);
    tell_languages(lab, languages, sizeof(languages));
    assert_string_equal(languages, "");
    lab->agent->current = NULL;
    put_program(lab, "bash", 0755);
    use_up_descriptors(lab);
    tell_languages(lab, languages, sizeof(languages));
    bool at_once = is_taken(lab, "early", "bash");
    give_them_back(lab);
    assert_string_equal(languages, "");
    assert_false(at_once);
    assert_true(is_taken(lab, "a", "bash"));
    assert_false(is_taken(lab, "c", "python")); /* there is no python */
}

/* As if the root came after the agent. */
static void a_sandbox_in_which_nothing_at_all_was_found_is_looked_at_again(void **state)
{
    struct lab *lab = *state;
    char languages[64];
    uint8_t in[4096];
    setenv("PATH", "/nowhere/bin", 1);
    start_agent(lab);
    give_them_back(lab);
    tell_languages(lab, languages, sizeof(languages));
    assert_string_equal(languages, "");
    struct msg m = {.type = MSG_START, .seq = 2};
    m.start.op = view_of("told");
    m.start.kind = OP_EVAL;
    m.start.language = view_of("bash");
    m.start.data = view_of("1");
    struct msg reply = ask(lab, &m, in, sizeof(in));
    assert_int_equal(reply.type, MSG_FAILED);
    CLEANUP_FREE char *hint = alloc_viewdup(reply.failed.hint);
    assert_non_null(strstr(hint, "no interpreter at all"));
    assert_non_null(strstr(hint, "/nowhere/bin: No such file or directory"));
    msg_finish(&reply);

    setenv("PATH", lab->dir, 1);
    put_program(lab, "bash", 0755);
    put_program(lab, "quack", 0755);
    assert_true(is_taken(lab, "a", "bash"));
    assert_true(is_taken(lab, "b", "quack"));
    assert_false(is_taken(lab, "c", "python"));
    put_program(lab, "python3", 0755); /* some were found, so this is absent for good */
    assert_false(is_taken(lab, "d", "python"));
}

/* ---- why there is none ---- */

static void one_that_finds_nothing_tells_each_place_with_its_error(void **state)
{
    struct lab *lab = *state;
    char languages[64];
    char looked[4096];
    CLEANUP_FREE char *path = alloc_printf("%s:%s/absent:%s/\xff\n", lab->dir, lab->dir, lab->dir);
    setenv("PATH", path, 1);
    put_program(lab, "bash", 0640);
    start_agent(lab);
    give_them_back(lab);
    tell_looks(lab, languages, sizeof(languages), looked, sizeof(looked));
    CLEANUP_FREE char *uid = alloc_printf("uid %lu; / has type 0x", (unsigned long)geteuid());
    CLEANUP_FREE char *places = alloc_printf(
        "; %s: there (python3: No such file or directory, node: No such file or directory, "
        "bash: mode 0640), %s/absent: No such file or directory, %s/\?\?: No such file",
        lab->dir, lab->dir, lab->dir);
    assert_string_equal(languages, "");
    assert_memory_equal(looked, uid, strlen(uid));
    assert_non_null(strstr(looked, places));
    assert_non_null(strstr(looked, " names: "));
    assert_non_null(strstr(looked, "; before: ")); /* there were no descriptors */
    assert_non_null(strstr(looked, "Too many open files"));
}

static void one_that_finds_its_languages_late_tells_what_there_was_before_and_once(void **state)
{
    struct lab *lab = *state;
    char languages[64];
    char looked[4096];
    setenv("PATH", "/nowhere/bin", 1);
    start_agent(lab);
    give_them_back(lab);
    setenv("PATH", lab->dir, 1);
    put_program(lab, "bash", 0755);
    tell_looks(lab, languages, sizeof(languages), looked, sizeof(looked));
    assert_string_equal(languages, "bash");
    assert_non_null(strstr(looked, "/nowhere/bin: "));
    assert_null(strstr(looked, lab->dir));
    lab->agent->current = NULL;
    tell_looks(lab, languages, sizeof(languages), looked, sizeof(looked));
    assert_string_equal(languages, "bash");
    assert_string_equal(looked, "");
}

static void an_image_for_programs_only_tells_nothing(void **state)
{
    struct lab *lab = *state;
    char languages[64];
    char looked[4096];
    put_program(lab, "quack", 0755);
    start_agent(lab);
    give_them_back(lab);
    tell_looks(lab, languages, sizeof(languages), looked, sizeof(looked));
    assert_string_equal(languages, "quack");
    assert_string_equal(looked, "");
}

static void a_PATH_of_any_length_is_cut_off(void **state)
{
    struct lab *lab = *state;
    char languages[64];
    char looked[4096];
    CLEANUP_FREE char *path = alloc_array(64 << 10, 1);
    for (size_t i = 0; i + 8 < 64 << 10; i += 6) {
        memcpy(path + i, "/none:", 7);
    }
    setenv("PATH", path, 1);
    start_agent(lab);
    give_them_back(lab);
    tell_looks(lab, languages, sizeof(languages), looked, sizeof(looked));
    assert_string_equal(languages, "");
    assert_in_range(strlen(looked), 500, 2100);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, lab_setup, lab_teardown)
    const struct CMUnitTest tests[] = {
        T(what_cannot_be_looked_at_is_not_called_absent),
        T(what_is_not_there_or_cannot_be_run_is_absent_for_good),
        T(an_empty_PATH_is_like_none),
        T(a_language_that_could_not_be_looked_for_at_the_start_is_told_at_hello),
        T(no_worker_is_told_that_nothing_is_there_before_that_is_known),
        T(a_worker_that_comes_later_is_let_in_although_nothing_can_be_looked_at),
        T(a_sandbox_in_which_nothing_at_all_was_found_is_looked_at_again),
        T(one_that_finds_nothing_tells_each_place_with_its_error),
        T(one_that_finds_its_languages_late_tells_what_there_was_before_and_once),
        T(an_image_for_programs_only_tells_nothing),
        T(a_PATH_of_any_length_is_cut_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
