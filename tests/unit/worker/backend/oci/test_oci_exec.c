/*
 * Running commands: floods of output, garbage, hangs, children that keep streams open; how a
 * runtime's messages are read; records and process identities.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/worker/backend/oci/tree.h"
#include "worker/backend/oci/exec.h"
#include "worker/backend/oci/limits.h"
#include "worker/backend/oci/net.h"
#include "worker/backend/oci/runtime.h"
#include "worker/backend/record.h"

#define OWN_MS 10000 /* a sanitized program needs a while to start */

struct bench {
    uv_loop_t loop;
    struct tasks tasks;
    struct tree tree;
    int calls;
    bool empty;
    struct oci_exec_result result;
    char out[OCI_EXEC_TEXT_MAX + 1], err[OCI_EXEC_TEXT_MAX + 1];
};

static int setup(void **state)
{
    struct bench *b = calloc(1, sizeof(*b));
    uv_loop_init(&b->loop);
    tasks_init(&b->tasks, &b->loop);
    tree_init(&b->tree);
    *state = b;
    return 0;
}

static void on_empty(void *arg)
{
    struct bench *b = arg;
    b->empty = true;
}

static int teardown(void **state)
{
    struct bench *b = *state;
    tasks_close(&b->tasks, on_empty, b);
    if (b->empty) {
        return -1;
    }
    uv_run(&b->loop, UV_RUN_DEFAULT);
    int rc = b->empty && uv_loop_close(&b->loop) == 0 ? 0 : -1;
    tree_finish(&b->tree);
    free(b);
    return rc;
}

static void on_done(void *arg, const struct oci_exec_result *result)
{
    struct bench *b = arg;
    b->calls++;
    b->result = *result;
    snprintf(b->out, sizeof(b->out), "%.*s", VIEW_ARG(result->out));
    snprintf(b->err, sizeof(b->err), "%.*s", VIEW_ARG(result->err));
}

static struct oci_exec *start(struct bench *b, const char *script, uint64_t deadline_ms,
                              bool linger)
{
    const char *argv[] = {"/bin/sh", "-c", script, NULL};
    struct oci_exec_options options = {
        .argv = argv,
        .deadline_ms = deadline_ms,
        .linger = linger,
    };
    return oci_exec_start(&b->tasks, &options, on_done, b);
}

static void until_done(struct bench *b)
{
    while (b->calls == 0) {
        uv_run(&b->loop, UV_RUN_ONCE);
    }
    assert_int_equal(b->calls, 1);
}

static void output_and_status_arrive(void **state)
{
    struct bench *b = *state;
    start(b, "echo out; echo err >&2; exit 7", 10000, false);
    assert_int_equal(b->calls, 0);
    until_done(b);
    assert_int_equal(b->result.exit_code, 7);
    assert_false(b->result.timed_out);
    assert_string_equal(b->out, "out\n");
    assert_string_equal(b->err, "err\n");
}

static void a_flood_keeps_its_end_only(void **state)
{
    struct bench *b = *state;
    start(b, "head -c 3000000 /dev/zero | tr '\\0' x >&2; echo the end >&2", 20000, false);
    until_done(b);
    assert_int_equal(b->result.exit_code, 0);
    assert_int_equal(b->result.err.len, OCI_EXEC_TEXT_MAX);
    assert_non_null(strstr(b->err, "xxxthe end\n"));
}

static void a_hang_ends_at_the_deadline(void **state)
{
    struct bench *b = *state;
    start(b, "exec sleep 60", 50, false);
    until_done(b);
    assert_true(b->result.timed_out);
    assert_int_equal(b->result.exit_code, -1);
    assert_int_equal(b->result.signal, SIGKILL);
}

/* Who waits for the end of a vfork() waits for a disk, as far as the kernel tells. */
static int wait_for_disk(const char *seconds)
{
    if (vfork() == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* it ends with who waits for it */
        sleep((unsigned)strtoul(seconds, NULL, 10));
        _exit(0);
    }
    return 0;
}

static void start_waiting(struct bench *b, const char *seconds, uint64_t most_ms)
{
    const char *argv[] = {"/proc/self/exe", "wait-for-disk", seconds, NULL};
    struct oci_exec_options options = {.argv = argv, .deadline_ms = OWN_MS, .most_ms = most_ms};
    char self[PATH_MAX] = "";
    assert_true(readlink(argv[0], self, sizeof(self) - 1) > 0);
    argv[0] = self;
    oci_exec_start(&b->tasks, &options, on_done, b);
}

static void what_waits_for_the_machine_has_time_and_a_limit(void **state)
{
    struct bench *b = *state;
    start_waiting(b, "12", 60000); /* longer than OWN_MS */
    until_done(b);
    assert_false(b->result.timed_out);
    assert_int_equal(b->result.exit_code, 0);
    assert_true(b->result.counted_ms < OWN_MS);
    b->calls = 0;
    start_waiting(b, "60", 3000);
    until_done(b);
    assert_true(b->result.timed_out);
    assert_true(b->result.was_busy);
}

/* ---- the network helper ---------------------------------------------------------------------- */

static void on_net(void *arg, int rc, const struct err *err, const char *hint)
{
    struct bench *b = arg;
    (void)hint;
    b->calls++;
    b->result.exit_code = -rc;
    snprintf(b->err, sizeof(b->err), "%s", rc < 0 ? err->text : "");
}

/* A helper that waits for a disk so long, and then says that it is ready. */
static void start_helper(struct bench *b, const char *seconds, uint64_t most_ms)
{
    char self[PATH_MAX] = "", script[2 * PATH_MAX], path[PATH_MAX];
    int ends[2];
    struct err err = ERR_INIT;
    assert_true(readlink("/proc/self/exe", self, sizeof(self) - 1) > 0);
    snprintf(script, sizeof(script),
             "#!/bin/sh\n'%s' wait-for-disk %s\nprintf 1 >&4\nexec sleep 60\n", self, seconds);
    tree_file(&b->tree, "/helper", script);
    snprintf(path, sizeof(path), "%s", tree_path(&b->tree, "/helper"));
    assert_int_equal(chmod(path, 0755), 0);
    assert_int_equal(oci_net_tether(ends, &err), 0);
    struct oci_net_options options = {
        .path = path, .dir = b->tree.root, .pid = getpid(), .tether = ends[0], .most_ms = most_ms};
    b->calls = 0;
    oci_net_start(&b->tasks, &options, on_net, b);
    until_done(b);
    close(ends[1]);
}

static void a_network_helper_that_waits_for_the_machine_has_time_and_a_limit(void **state)
{
    struct bench *b = *state;
    start_helper(b, "12", 60000); /* longer than it may take by itself */
    assert_string_equal(b->err, "");
    int pidfd = oci_net_kill(b->tree.root);
    assert_true(pidfd >= 0);
    close(pidfd);
    start_helper(b, "60", 2000);
    assert_non_null(strstr(b->err, "too busy"));
}

static void a_child_that_holds_the_streams_does_not_delay(void **state)
{
    struct bench *b = *state;
    start(b, "sleep 60 & echo $!", 10000, false);
    until_done(b);
    assert_int_equal(b->result.exit_code, 0);
    kill((pid_t)strtol(b->out, NULL, 10), SIGKILL);
}

static void stderr_of_a_container_outlives_the_command(void **state)
{
    struct bench *b = *state;
    start(b, "(sleep 0.05; head -c 200000 /dev/zero >&2; echo) </dev/null >/dev/null & exit 0",
          10000, true);
    until_done(b);
    assert_int_equal(b->result.exit_code, 0);
    /* The rest is read and dropped, and the handles close by themselves. */
    uv_run(&b->loop, UV_RUN_DEFAULT);
    assert_null(b->tasks.first);
}

static void what_cannot_run_is_reported_later(void **state)
{
    struct bench *b = *state;
    const char *argv[] = {"/no/such/program", NULL};
    struct oci_exec_options options = {.argv = argv, .deadline_ms = 1000};
    struct oci_exec *x = oci_exec_start(&b->tasks, &options, on_done, b);
    assert_int_equal(oci_exec_pid(x), 0);
    assert_int_equal(b->calls, 0);
    until_done(b);
    assert_int_equal(b->result.spawn_error, ENOENT);
    assert_int_equal(b->result.exit_code, -1);
}

static void a_descriptor_is_passed_as_number_three(void **state)
{
    struct bench *b = *state;
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    const char *argv[] = {"/bin/sh", "-c", "echo through >&3", NULL};
    struct oci_exec_options options = {
        .argv = argv, .pass_fds = &fds[1], .pass_count = 1, .deadline_ms = 10000};
    oci_exec_start(&b->tasks, &options, on_done, b);
    close(fds[1]);
    until_done(b);
    char text[16] = "";
    assert_int_equal(read(fds[0], text, sizeof(text) - 1), 8);
    assert_string_equal(text, "through\n");
    close(fds[0]);
}

static void the_environment_stays_behind(void **state)
{
    struct bench *b = *state;
    setenv("CLOISTER_TEST_SECRET", "s3cret", 1);
    start(b, "env; pwd", 10000, false);
    until_done(b);
    unsetenv("CLOISTER_TEST_SECRET");
    assert_null(strstr(b->out, "s3cret"));
    assert_non_null(strstr(b->out, "PATH="));
    assert_non_null(strstr(b->out, "\n/\n"));
}

static void closing_drops_a_running_command(void **state)
{
    struct bench *b = *state;
    start(b, "exec sleep 60", 60000, false);
    uv_run(&b->loop, UV_RUN_NOWAIT);
    /* teardown() closes everything; it would hang if it waited for the command. */
}

static void expect_words(const char *text, const char *words)
{
    char out[OCI_WORDS_MAX];
    oci_runtime_words(view_of(text), out);
    assert_string_equal(out, words);
}

static void words_are_picked_from_any_decoration(void **state)
{
    (void)state;
    expect_words("", "");
    expect_words("\n \n\t\n", "");
    expect_words("one\ntwo\n", "two");
    expect_words("runc run failed: no mounts\n", "runc run failed: no mounts");
    expect_words("time=\"2025\" level=warning msg=\"careful\"\n"
                 "time=\"2025\" level=error msg=\"runc run failed: \\\"x\\\" is bad\"\n"
                 "time=\"2025\" level=warning msg=\"after\"\n",
                 "runc run failed: \"x\" is bad");
    expect_words("newuidmap: Cannot determine your user name.\nsome error\nbye\n", "some error");
    expect_words("an error \x1b[31m\x07 with controls\n", "an error  [31m  with controls");
    expect_words("msg=\"never closed", "never closed");
}

static void garbage_gives_short_valid_words(void **state)
{
    (void)state;
    char noise[20000], out[OCI_WORDS_MAX];
    unsigned seed = 1;
    for (int round = 0; round < 200; round++) {
        for (size_t i = 0; i < sizeof(noise); i++) {
            seed = seed * 1103515245u + 12345u;
            noise[i] = (char)(seed >> 16);
        }
        oci_runtime_words(view_bytes(noise, sizeof(noise) - (size_t)round), out);
        assert_true(strlen(out) < OCI_WORDS_MAX);
        for (const char *p = out; *p != '\0'; p++) {
            assert_true((unsigned char)*p >= 0x20);
        }
    }
    memset(noise, 'x', sizeof(noise));
    oci_runtime_words(view_bytes(noise, sizeof(noise)), out);
    assert_int_equal(strlen(out), OCI_WORDS_MAX - 1);
}

static void expect_flaws(const char *version, bool certain, const char *flaws)
{
    char out[OCI_WORDS_MAX];
    assert_int_equal(oci_runtime_flaws(version, out), certain);
    assert_string_equal(out, flaws);
}

static void versions_with_known_ways_out_are_told_apart(void **state)
{
    (void)state;
    expect_flaws("runc version 1.1.11", true,
                 "runc version 1.1.11 lets code out: CVE-2024-21626; CVE-2025-31133, "
                 "CVE-2025-52565 and CVE-2025-52881");
    expect_flaws("runc version 1.0.0-rc9", true,
                 "runc version 1.0.0-rc9 lets code out: CVE-2024-21626; CVE-2025-31133, "
                 "CVE-2025-52565 and CVE-2025-52881");
    expect_flaws("runc version 1.1.12", true,
                 "runc version 1.1.12 lets code out: CVE-2025-31133, CVE-2025-52565 and "
                 "CVE-2025-52881");
    expect_flaws("runc version 1.1.5+ds1", false,
                 "runc version 1.1.5+ds1 lets code out, unless its distribution has mended: "
                 "CVE-2024-21626; CVE-2025-31133, CVE-2025-52565 and CVE-2025-52881");
    expect_flaws("runc version 1.2.7", true,
                 "runc version 1.2.7 lets code out: CVE-2025-31133, CVE-2025-52565 and "
                 "CVE-2025-52881");
    expect_flaws("runc version 1.3.2", true,
                 "runc version 1.3.2 lets code out: CVE-2025-31133, CVE-2025-52565 and "
                 "CVE-2025-52881");
    const char *const good[] = {"runc version 1.2.8",
                                "runc version 1.3.3",
                                "runc version 1.4.0",
                                "runc version 2.0.0",
                                "crun version 1.8.1",
                                "runc version x",
                                "runsc version release-20221212.0",
                                ""};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        expect_flaws(good[i], false, "");
    }
}

static void runtimes_are_found_by_name_or_path(void **state)
{
    struct bench *b = *state;
    struct err err;
    char *path = NULL;
    assert_int_equal(oci_runtime_find("sh", &path, &err), 0);
    assert_int_equal(path[0], '/');
    free(path);
    assert_int_equal(oci_runtime_find("/bin/sh", &path, &err), 0);
    assert_string_equal(path, "/bin/sh");
    free(path);
    assert_int_equal(oci_runtime_find("no-such-runtime", &path, &err), -ERR_ENGINE);
    assert_int_equal(oci_runtime_find("", &path, &err), -ERR_ENGINE);
    assert_int_equal(oci_runtime_find("/etc", &path, &err), -ERR_ENGINE);
    assert_int_equal(oci_runtime_find(b->tree.root, &path, &err), -ERR_ENGINE);
}

static void hints_name_the_cure(void **state)
{
    (void)state;
    struct oci_host host = {0};
    char hint[BACKEND_HINT_MAX];
    oci_runtime_hint("exec: \"newuidmap\": executable file not found", &host, hint);
    assert_non_null(strstr(hint, "apt install uidmap"));
    oci_runtime_hint("something new", &host, hint);
    assert_string_equal(hint, "");
    snprintf(host.userns_off, sizeof(host.userns_off), "sysctl x is 0");
    oci_runtime_hint("something new", &host, hint);
    assert_non_null(strstr(hint, "sysctl x is 0"));
}

static void records_come_back_as_written(void **state)
{
    struct bench *b = *state;
    struct err err;
    const char *path = tree_path(&b->tree, "/oci.record");
    struct oci_record in = {
        .state = OCI_RECORD_STARTING, .pid = 4711, .start = 123456789, .mode = 0x10001f15};
    snprintf(in.runtime, sizeof(in.runtime), "/opt/my runtimes/runc");
    snprintf(in.image, sizeof(in.image), "host:/usr");
    struct oci_record out;
    assert_int_equal(oci_record_write(path, &in, &err), 0);
    assert_int_equal(oci_record_read(path, &out, &err), 0);
    assert_int_equal(out.state, OCI_RECORD_STARTING);
    assert_true(out.pid == 4711 && out.start == 123456789 && out.mode == in.mode);
    assert_string_equal(out.runtime, in.runtime);
    assert_string_equal(out.image, in.image);

    snprintf(in.image, sizeof(in.image), "/a\nimage /b");
    assert_int_equal(oci_record_write(path, &in, &err), -ERR_INVALID);
}

/* The words are in files that another build reads. */
static void a_record_says_how_far_the_creation_is(void **state)
{
    static const struct {
        enum oci_record_state state;
        const char *line;
    } rows[] = {
        {OCI_RECORD_RUNNING, "\nstate running\n"},
        {OCI_RECORD_STARTING, "\nstate starting\n"},
        {OCI_RECORD_UNFINISHED, "\nstate unfinished\n"},
    };
    struct bench *b = *state;
    struct err err;
    const char *path = tree_path(&b->tree, "/oci.record");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct oci_record out, in = {.state = rows[i].state, .pid = 4711};
        assert_int_equal(oci_record_write(path, &in, &err), 0);
        char *text = tree_read(path);
        char *line = strstr(text, rows[i].line);
        assert_non_null(line);
        assert_int_equal(oci_record_read(path, &out, &err), 0);
        assert_int_equal(out.state, rows[i].state);
        memcpy(line, "\nstate \1", strlen("\nstate \1"));
        tree_file(&b->tree, "/oci.record", text);
        assert_int_equal(oci_record_read(path, &out, &err), -ERR_INVALID);
        free(text);
    }
}

static void damaged_records_are_refused(void **state)
{
    struct bench *b = *state;
    struct err err;
    struct oci_record out, in = {.pid = 4711, .start = 1, .mode = 1, .runtime = "/r", .image = "i"};
    const char *path = tree_path(&b->tree, "/oci.record");
    assert_int_equal(oci_record_read(path, &out, &err), -ERR_FILE_NOT_FOUND);
    assert_int_equal(oci_record_write(path, &in, &err), 0);
    char *good = tree_read(path);
    size_t len = strlen(good);
    for (size_t cut = 0; cut < len; cut++) {
        char *bad = strdup(good);
        bad[cut] = '\0';
        tree_file(&b->tree, "/oci.record", bad);
        assert_int_equal(oci_record_read(path, &out, &err), -ERR_INVALID);
        free(bad);
    }
    char *boot = strstr(good, "boot ");
    boot[5] = boot[5] == 'a' ? 'b' : 'a';
    tree_file(&b->tree, "/oci.record", good);
    assert_int_equal(oci_record_read(path, &out, &err), -ERR_GONE);
    free(good);
}

static void a_process_is_known_by_its_start(void **state)
{
    (void)state;
    uint64_t start = 0, later = 0;
    assert_true(oci_process_start(getpid(), &start) && start > 0);
    int fd = oci_process_open(getpid(), start);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(oci_process_open(getpid(), start + 1), -1);

    pid_t pid = fork();
    if (pid == 0) {
        pause();
        _exit(0);
    }
    assert_true(oci_process_start(pid, &later) && later >= start);
    fd = oci_process_open(pid, later);
    oci_process_kill(fd);
    siginfo_t info;
    waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT); /* waits until it is a zombie */
    assert_false(oci_process_start(pid, &later));
    assert_int_equal(oci_process_open(pid, later), -1);
    waitpid(pid, NULL, 0);
    oci_process_kill(fd); /* it has ended: no error */
    close(fd);
}

/* What the program that sets limits is told about inotify on such a host. */
static const char *told_limits(struct bench *b, uint64_t instances, uint64_t watches)
{
    const struct backend_spec spec = {.agent_path = tree_agent(&b->tree)};
    const struct oci_mode mode = {.userns = OCI_USERNS_RANGE};
    const struct oci_host host = {.inotify_instances = instances, .inotify_watches = watches};
    b->calls = 0;
    oci_limits_start(&b->tasks, &spec, &mode, &host, 4711, 30000, on_done, b);
    until_done(b);
    return b->out;
}

static void a_sandbox_gets_its_share_of_what_the_kernel_gives(void **state)
{
    struct bench *b = *state;
    tree_file(&b->tree, "/agent",
              "#!/bin/sh\nfor word; do case $word in *inotify*) echo ${word#*/};; esac; done\n");
    assert_string_equal(told_limits(b, 8192, 65536),
                        "max_inotify_instances=512\nmax_inotify_watches=4096\n");
    assert_string_equal(told_limits(b, 128, 1600),
                        "max_inotify_instances=8\nmax_inotify_watches=128\n");
    assert_string_equal(told_limits(b, 1, 1), "max_inotify_instances=8\nmax_inotify_watches=128\n");
    assert_string_equal(told_limits(b, 0, 65536),
                        "max_inotify_watches=4096\n"); /* it does not say */
    assert_string_equal(told_limits(b, 0, 0), "");
}

/* What creates the sandbox has a limit of its own, of which this gets the rest. */
static void who_sets_limits_has_no_longer_than_it_is_given(void **state)
{
    struct bench *b = *state;
    char self[PATH_MAX] = "", agent[PATH_MAX + 64];
    assert_true(readlink("/proc/self/exe", self, sizeof(self) - 1) > 0);
    snprintf(agent, sizeof(agent), "#!/bin/sh\nexec '%s' wait-for-disk 60\n", self);
    tree_file(&b->tree, "/agent", agent);
    const struct backend_spec spec = {.agent_path = tree_agent(&b->tree)};
    const struct oci_mode mode = {.userns = OCI_USERNS_RANGE};
    const struct oci_host host = {.inotify_instances = 0};
    oci_limits_start(&b->tasks, &spec, &mode, &host, 4711, 500, on_done, b);
    until_done(b);
    assert_true(b->result.timed_out);
    assert_true(b->result.was_busy);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "wait-for-disk") == 0) {
        return wait_for_disk(argv[2]);
    }
    const struct CMUnitTest tests[] = {
        TEST(output_and_status_arrive),
        TEST(a_flood_keeps_its_end_only),
        TEST(a_hang_ends_at_the_deadline),
        TEST(what_waits_for_the_machine_has_time_and_a_limit),
        TEST(a_network_helper_that_waits_for_the_machine_has_time_and_a_limit),
        TEST(a_child_that_holds_the_streams_does_not_delay),
        TEST(stderr_of_a_container_outlives_the_command),
        TEST(what_cannot_run_is_reported_later),
        TEST(a_descriptor_is_passed_as_number_three),
        TEST(the_environment_stays_behind),
        TEST(closing_drops_a_running_command),
        TEST(words_are_picked_from_any_decoration),
        TEST(garbage_gives_short_valid_words),
        TEST(versions_with_known_ways_out_are_told_apart),
        TEST(runtimes_are_found_by_name_or_path),
        TEST(hints_name_the_cure),
        TEST(records_come_back_as_written),
        TEST(a_record_says_how_far_the_creation_is),
        TEST(damaged_records_are_refused),
        TEST(a_process_is_known_by_its_start),
        TEST(a_sandbox_gets_its_share_of_what_the_kernel_gives),
        TEST(who_sets_limits_has_no_longer_than_it_is_given),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
