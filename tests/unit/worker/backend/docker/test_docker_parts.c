/*
 * The small parts of the docker backend that need no engine: framing, progress of a pull, an
 * engine's features, owners, references, the archive with the agent, whose turn it is to bring it.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/cleanup.h"
#include "common/fd.h"
#include "common/io/json.h"
#include "worker/backend/docker/copy.h"
#include "worker/backend/docker/engine.h"
#include "worker/backend/docker/frames.h"
#include "worker/backend/docker/image.h"
#include "worker/backend/docker/pull.h"
#include "worker/backend/docker/tar.h"
#include "worker/backend/docker/volume.h"
#include "worker/backend/owner.h"

/* ---- frames --------------------------------------------------------------------------------- */

/* Feeds a stream in pieces of `step` bytes and collects what came on stdout and stderr. */
static int unframe(const char *data, size_t len, size_t step, char *out, char *other)
{
    struct docker_frames frames = DOCKER_FRAMES_INIT;
    struct err err = ERR_INIT;
    out[0] = '\0';
    other[0] = '\0';
    for (size_t at = 0; at < len; at += step) {
        struct view rest = view_bytes(data + at, len - at < step ? len - at : step);
        struct view piece;
        enum docker_stream_type type;
        int rc;
        while ((rc = docker_frames_next(&frames, &rest, &type, &piece, &err)) > 0) {
            assert_true(piece.len > 0);
            strncat(type == DOCKER_STDOUT ? out : other, piece.data, piece.len);
        }
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

static void frames_are_parted_in_any_pieces(void **state)
{
    static const char stream[] = "\1\0\0\0\0\0\0\5hello\2\0\0\0\0\0\0\4oops\1\0\0\0\0\0\0\0"
                                 "\1\0\0\0\0\0\0\6 world";
    char out[64], other[64];
    (void)state;
    for (size_t step = 1; step <= sizeof(stream); step++) {
        assert_int_equal(unframe(stream, sizeof(stream) - 1, step, out, other), 0);
        assert_string_equal(out, "hello world");
        assert_string_equal(other, "oops");
    }
}

static void what_is_no_frame_is_refused(void **state)
{
    char out[64], other[64];
    (void)state;
    assert_int_equal(unframe("HTTP/1.1 ", 9, 9, out, other), -ERR_PROTOCOL);
    assert_int_equal(unframe("\7\0\0\0\0\0\0\1x", 9, 2, out, other), -ERR_PROTOCOL);
    assert_int_equal(unframe("\1\0\1\0\0\0\0\1x", 9, 9, out, other), -ERR_PROTOCOL);
}

/* ---- pull ----------------------------------------------------------------------------------- */

static const char pull_report[] =
    "{\"status\":\"Pulling from library/python\",\"id\":\"3\"}\r\n"
    "{\"status\":\"Downloading\",\"progressDetail\":{\"current\":10,\"total\":100},\"id\":\"aaaa\"}"
    "\r\n"
    "{\"status\":\"Downloading\",\"progressDetail\":{\"current\":5,\"total\":50},\"id\":\"bbbb\"}\n"
    "{\"status\":\"Downloading\",\"progressDetail\":{\"current\":60,\"total\":100},\"id\":\"aaaa\"}"
    "\n"
    "not json\n"
    "{\"status\":\"Extracting\",\"progressDetail\":{\"current\":1,\"total\":100},\"id\":\"aaaa\"}"
    "\n";

static void the_progress_of_a_pull_is_added_up(void **state)
{
    (void)state;
    for (size_t step = 1; step < sizeof(pull_report); step += 7) {
        struct docker_pull p;
        struct err err = ERR_INIT;
        docker_pull_init(&p);
        for (size_t at = 0; at < sizeof(pull_report) - 1; at += step) {
            size_t left = sizeof(pull_report) - 1 - at;
            struct view piece = view_bytes(pull_report + at, left < step ? left : step);
            assert_int_equal(docker_pull_feed(&p, piece, &err), 0);
        }
        assert_int_equal(p.done, 65);
        assert_int_equal(p.total, 150);
        assert_string_equal(p.status, "Extracting");
        assert_string_equal(p.error, "");
        docker_pull_finish(&p);
    }
}

static void the_error_of_a_pull_is_kept(void **state)
{
    static const char *const reports[] = {
        "{\"errorDetail\":{\"code\":1,\"message\":\"no\\nroute\"},\"error\":\"old form\"}\n",
        "{\"error\":\"no route\"}\n",
    };
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct docker_pull p;
        struct err err = ERR_INIT;
        docker_pull_init(&p);
        assert_int_equal(docker_pull_feed(&p, view_of(reports[i]), &err), 0);
        assert_string_equal(p.error, "no route");
        docker_pull_finish(&p);
    }
}

static void a_pull_that_says_much_is_bounded(void **state)
{
    struct docker_pull p;
    struct err err = ERR_INIT;
    char line[128];
    (void)state;
    docker_pull_init(&p);
    for (int i = 0; i < 1000; i++) { /* more layers than are counted */
        snprintf(line, sizeof(line),
                 "{\"status\":\"Downloading\",\"progressDetail\":{\"current\":1,\"total\":2},"
                 "\"id\":\"%d\"}\n",
                 i);
        assert_int_equal(docker_pull_feed(&p, view_of(line), &err), 0);
    }
    assert_int_equal(p.total, 2 * DOCKER_PULL_LAYERS);
    memset(line, 'x', sizeof(line));
    int rc = 0;
    for (int i = 0; i < 10000 && rc == 0; i++) { /* a line without end */
        rc = docker_pull_feed(&p, view_bytes(line, sizeof(line)), &err);
    }
    assert_int_equal(rc, -ERR_TOO_BIG);
    docker_pull_finish(&p);
}

/* ---- the engine's features ------------------------------------------------------------------- */

static void the_highest_version_that_both_know_is_spoken(void **state)
{
    struct docker_engine e = {0};
    struct err err = ERR_INIT;
    (void)state;
    assert_int_equal(docker_engine_negotiate(&e, view_of("1.43"), view_of("linux"), NULL, &err), 0);
    assert_int_equal(e.api_minor, 43);
    assert_int_equal(docker_engine_negotiate(&e, view_of("1.99"), view_of(""), "", &err), 0);
    assert_int_equal(e.api_minor, DOCKER_API_MINOR_MAX);
    assert_int_equal(docker_engine_negotiate(&e, view_of("1.47"), view_of("linux"), "1.45", &err),
                     0);
    assert_int_equal(e.api_minor, 45);

    assert_int_equal(docker_engine_negotiate(&e, view_of("1.40"), view_of("linux"), NULL, &err),
                     -ERR_ENGINE);
    assert_non_null(strstr(err.text, "too old"));
    assert_int_equal(docker_engine_negotiate(&e, view_of("1.43"), view_of("windows"), NULL, &err),
                     -ERR_ENGINE);
    assert_non_null(strstr(err.text, "Linux containers"));
    assert_int_equal(docker_engine_negotiate(&e, view_of(""), view_of(""), NULL, &err),
                     -ERR_ENGINE);
    assert_int_equal(docker_engine_negotiate(&e, view_of("2.1"), view_of(""), NULL, &err),
                     -ERR_ENGINE);
    assert_int_equal(docker_engine_negotiate(&e, view_of("1.43"), view_of(""), "latest", &err),
                     -ERR_CONFIG);
}

static cJSON *parsed(const char *text)
{
    cJSON *json;
    struct err err = ERR_INIT;
    assert_int_equal(json_parse(text, strlen(text), 1 << 20, 16, &json, NULL, &err), 0);
    return json;
}

static void what_an_engine_can_do_is_read(void **state)
{
    struct docker_engine e = {.api_minor = 43};
    struct docker_engine back;
    struct err err = ERR_INIT;
    (void)state;
    cJSON *info =
        parsed("{\"OSType\":\"linux\",\"NCPU\":8,\"MemoryLimit\":true,\"SwapLimit\":false,"
               "\"PidsLimit\":true,\"CpuCfsQuota\":true,\"CgroupDriver\":\"systemd\","
               "\"CgroupVersion\":\"1\",\"KernelVersion\":\"5.4.0-42-generic\","
               "\"SecurityOptions\":[\"name=seccomp,profile=builtin\","
               "\"name=rootless\","
               "\"name=usernsx\"],\"Runtimes\":{\"runc\":{},\"runsc\":{}}}");
    assert_int_equal(docker_engine_read(&e, info, &err), 0);
    assert_true(e.memory_limit && e.pids_limit && e.cpu_quota && e.seccomp && e.rootless);
    assert_false(e.swap_limit || e.userns || e.cgroup_none);
    assert_int_equal(e.cpu_milli_max, 8000);
    assert_true(docker_engine_has_runtime(info, "runsc"));
    assert_false(docker_engine_has_runtime(info, "kata"));
    cJSON_Delete(info);

    assert_true(docker_engine_unpack(docker_engine_pack(&e), &back));
    assert_true(back.memory_limit && back.pids_limit && back.cpu_quota && back.seccomp);
    assert_true(back.rootless && back.cgroup_v1 && back.old_kernel);
    assert_false(back.swap_limit || back.userns || back.cgroup_none || back.podman);
    assert_int_equal(back.api_minor, e.api_minor);
    assert_int_equal(back.cpu_milli_max, e.cpu_milli_max);
    assert_false(docker_engine_unpack(0, &back));

    info = parsed("{\"message\":\"page not found\"}");
    assert_int_equal(docker_engine_read(&e, info, &err), -ERR_ENGINE);
    cJSON_Delete(info);
    info = parsed("{\"OSType\":\"windows\"}");
    assert_int_equal(docker_engine_read(&e, info, &err), -ERR_ENGINE);
    cJSON_Delete(info);
    assert_int_equal(docker_engine_read(&e, NULL, &err), -ERR_ENGINE);
}

/* ---- owners --------------------------------------------------------------------------------- */

static void set(cJSON *labels, const char *name, const char *value)
{
    char key[64];
    snprintf(key, sizeof(key), "%s%s", OWNER_LABEL, name);
    cJSON_DeleteItemFromObject(labels, key);
    cJSON_AddStringToObject(labels, key, value);
}

static void what_an_engine_lacks_has_a_remedy(void **state)
{
    struct docker_engine e = {.cgroup_none = true, .rootless = true};
    (void)state;
    assert_non_null(strstr(docker_engine_remedy(&e, "memory: none"), "Delegate="));
    e.rootless = false;
    assert_non_null(strstr(docker_engine_remedy(&e, "pids: none"), "/sys/fs/cgroup"));
    e.cgroup_none = false;
    assert_non_null(strstr(docker_engine_remedy(&e, "cpus: none"), "cgroup_enable=memory"));
    assert_non_null(strstr(docker_engine_remedy(&e, "ptys: none"), "--backend oci"));
    assert_null(docker_engine_remedy(&e, "engine: its own words"));
    assert_null(docker_engine_remedy(&e, "pty"));
}

static void only_what_is_provably_dead_is_gone(void **state)
{
    char host[OWNER_HOST_SIZE];
    char dir[] = "/tmp/cloister-owner-XXXXXX";
    (void)state;
    owner_host(host);
    assert_non_null(mkdtemp(dir));
    cJSON *labels = cJSON_CreateObject();
    owner_label(labels, "abc", dir);
    assert_false(owner_is_gone(labels)); /* its directory exists */
    assert_int_equal(rmdir(dir), 0);
    bool provable = host[0] != '\0'; /* on a host without an identity nothing can be proved */
    assert_true(owner_is_gone(labels) == provable);
    set(labels, "host", "elsewhere 0123456789abcdef");
    assert_false(owner_is_gone(labels)); /* another host's owner cannot be judged here */
    cJSON_Delete(labels);

    labels = cJSON_CreateObject();
    owner_label(labels, "abc", "/");
    assert_false(owner_is_gone(labels));
    set(labels, "boot", "another boot");
    assert_true(owner_is_gone(labels) == provable);
    set(labels, "boot", "");
    assert_false(owner_is_gone(labels));
    cJSON_Delete(labels);

    labels = cJSON_CreateObject(); /* a helper process lives as long as its creator */
    owner_label(labels, "", "");
    assert_false(owner_is_gone(labels));
    set(labels, "process", "1 999999999999");
    assert_true(owner_is_gone(labels) == provable);
    set(labels, "process", "nonsense");
    assert_false(owner_is_gone(labels));
    cJSON_Delete(labels);
    labels = cJSON_CreateObject();
    assert_false(owner_is_gone(labels)); /* not a container of ours */
    cJSON_Delete(labels);
}

/* ---- references, archive -------------------------------------------------------------------- */

static void references_are_parted_into_name_and_tag(void **state)
{
    static const struct {
        const char *reference, *name, *tag;
    } rows[] = {
        {"python", "python", "latest"},
        {"python:3.13-slim", "python", "3.13-slim"},
        {"host:5000/team/python", "host:5000/team/python", "latest"},
        {"host:5000/team/python:3", "host:5000/team/python", "3"},
        {"python@sha256:00ff", "python", "sha256:00ff"},
        {"host:5000/python:3@sha256:00ff", "host:5000/python", "sha256:00ff"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        CLEANUP_FREE char *name = NULL;
        CLEANUP_FREE char *tag = NULL;
        docker_image_split(rows[i].reference, &name, &tag);
        assert_string_equal(name, rows[i].name);
        assert_string_equal(tag, rows[i].tag);
    }
}

static void the_agents_architecture_is_read_from_it(void **state)
{
    const char *arch = NULL;
    struct err err = ERR_INIT;
    (void)state;
    assert_int_equal(docker_image_agent_arch("/proc/self/exe", &arch, &err), 0);
#if defined(__x86_64__)
    assert_string_equal(arch, "amd64");
#elif defined(__aarch64__)
    assert_string_equal(arch, "arm64");
#endif
    assert_int_equal(docker_image_agent_arch("/etc/passwd", &arch, &err), -ERR_CONFIG);
    assert_int_equal(docker_image_agent_arch("/nowhere", &arch, &err), -ERR_CONFIG);
}

/* Podman fails if more follows: its reader stops at the end while its writer still writes. */
static void nothing_follows_the_end_of_an_archive(void **state)
{
    struct docker_tar_file files[] = {{"cloister-agent", view_of("#!/bin/true\n")},
                                      {"complete", view_of("")}};
    struct err err = ERR_INIT;
    CLEANUP_BUF struct buf out;
    (void)state;
    buf_init(&out, 1 << 20);
    assert_int_equal(docker_tar_write(files, 2, &out, &err), 0);
    size_t entries = 512 + 512 + 512; /* a head and its content, a head */
    assert_int_equal(out.len, entries + 1024);
}

/* Compares with what `tar` itself unpacks. */
static void an_archive_is_what_tar_unpacks(void **state)
{
    char dir[] = "/tmp/cloister-tar-XXXXXX";
    char path[64], command[256], line[128];
    struct docker_tar_file files[] = {{"cloister-agent", view_of("#!/bin/true\n")},
                                      {"complete", view_of("")}};
    struct err err = ERR_INIT;
    CLEANUP_BUF struct buf out;
    (void)state;
    buf_init(&out, 1 << 20);
    assert_int_equal(docker_tar_write(files, 2, &out, &err), 0);
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/a.tar", dir);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(out.data, 1, out.len, f), out.len);
    fclose(f);
    snprintf(command, sizeof(command), "tar --numeric-owner -tvf %s", path);
    FILE *list = popen(command, "r");
    assert_non_null(list);
    assert_non_null(fgets(line, sizeof(line), list));
    assert_int_equal(strncmp(line, "-r-xr-xr-x 0/0", 14), 0);
    assert_non_null(strstr(line, " cloister-agent"));
    assert_non_null(fgets(line, sizeof(line), list));
    assert_non_null(strstr(line, " complete"));
    assert_int_equal(pclose(list), 0);
    unlink(path);
    rmdir(dir);

    /* The archive is the same when it is made in pieces. */
    CLEANUP_BUF struct buf pieces;
    struct docker_tar *tar;
    buf_init(&pieces, 1 << 20);
    assert_int_equal(docker_tar_open(&pieces, &tar, &err), 0);
    assert_int_equal(docker_tar_entry(tar, "cloister-agent", false, 12, &err), 0);
    assert_int_equal(docker_tar_content(tar, view_of("#!/bin"), &err), 0);
    assert_int_equal(docker_tar_content(tar, view_of("/true\n"), &err), 0);
    assert_int_equal(docker_tar_entry(tar, "complete", false, 0, &err), 0);
    assert_int_equal(docker_tar_finish(tar, &err), 0);
    docker_tar_close(tar);
    assert_int_equal(pieces.len, out.len);
    assert_memory_equal(pieces.data, out.data, out.len);
    assert_int_equal(docker_tar_open(&pieces, &tar, &err), 0);
    assert_int_equal(docker_tar_entry(tar, "cut off", false, 100, &err), 0);
    docker_tar_close(tar);

    CLEANUP_BUF struct buf small;
    buf_init(&small, 600);
    assert_int_equal(docker_tar_write(files, 2, &small, &err), -ERR_TOO_BIG);
}

static int target_of(const char *host_path, const char *inside_path, char **ret, struct err *err)
{
    struct backend_mount mount = {host_path, inside_path};
    *ret = NULL;
    return docker_copy_target(&mount, ret, err);
}

static void a_copy_goes_to_where_its_name_says(void **state)
{
    struct err err = ERR_INIT;
    char *target;
    (void)state;
    assert_int_equal(target_of("/tmp", "/wheels", &target, &err), 0);
    assert_string_equal(target, "/wheels");
    free(target);
    assert_int_equal(target_of("/etc/passwd", "/a/b/passwd", &target, &err), 0);
    assert_string_equal(target, "/a/b");
    free(target);
    assert_int_equal(target_of("/etc/passwd", "/passwd", &target, &err), -ERR_CONFIG);
    assert_int_equal(target_of("/nowhere/at/all", "/wheels", &target, &err), -ERR_CONFIG);
    assert_non_null(strstr(err.text, "/nowhere/at/all"));
    assert_null(target);
}

/* ---- the agent's volume --------------------------------------------------------------------- */

struct filling {
    int calls, rc;
};

static void on_filled(void *arg, int rc, bool by_others, const struct err *err)
{
    struct filling *f = arg;
    (void)by_others;
    (void)err;
    f->calls++;
    f->rc = rc;
}

static void on_tasks_closed(void *arg)
{
    *(bool *)arg = true;
}

static void on_pause_over(uv_timer_t *timer)
{
    uv_stop(timer->loop);
}

static void run_for(uv_loop_t *loop, uint64_t ms)
{
    uv_timer_t timer;
    uv_timer_init(loop, &timer);
    uv_timer_start(&timer, on_pause_over, ms, 0);
    uv_run(loop, UV_RUN_DEFAULT);
    uv_close((uv_handle_t *)&timer, NULL);
    uv_run(loop, UV_RUN_NOWAIT);
}

static void who_is_stopped_while_waiting_for_a_turn_fills_nothing(void **state)
{
    (void)state;
    char dir[] = "/tmp/cloister-turn-XXXXXX", path[64];
    uv_loop_t loop;
    struct tasks tasks;
    struct filling f = {.calls = 0};
    bool closed = false;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/agent-volume.lock", dir);
    int others = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(flock(others, LOCK_EX), 0);
    uv_loop_init(&loop);
    tasks_init(&tasks, &loop);

    const struct backend_spec spec = {.shared_dir = dir, .agent_path = "/no/agent"};
    struct docker_volume *v = docker_volume_fill(&tasks, NULL, &spec, 0, "v", "i", on_filled, &f);
    run_for(&loop, 120);
    assert_int_equal(f.calls, 0); /* it is the others' turn */
    docker_volume_stop(v);
    assert_int_equal(flock(others, LOCK_UN), 0);
    run_for(&loop, 120);
    assert_int_equal(f.calls, 1);
    assert_int_equal(f.rc, -ERR_SHUTTING_DOWN); /* and not that there is no such agent */

    tasks_close(&tasks, on_tasks_closed, &closed);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_true(closed);
    assert_int_equal(uv_loop_close(&loop), 0);
    close(others);
    assert_int_equal(dir_remove(dir, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_are_parted_in_any_pieces),
        cmocka_unit_test(what_is_no_frame_is_refused),
        cmocka_unit_test(the_progress_of_a_pull_is_added_up),
        cmocka_unit_test(the_error_of_a_pull_is_kept),
        cmocka_unit_test(a_pull_that_says_much_is_bounded),
        cmocka_unit_test(the_highest_version_that_both_know_is_spoken),
        cmocka_unit_test(what_an_engine_can_do_is_read),
        cmocka_unit_test(what_an_engine_lacks_has_a_remedy),
        cmocka_unit_test(only_what_is_provably_dead_is_gone),
        cmocka_unit_test(a_copy_goes_to_where_its_name_says),
        cmocka_unit_test(references_are_parted_into_name_and_tag),
        cmocka_unit_test(the_agents_architecture_is_read_from_it),
        cmocka_unit_test(an_archive_is_what_tar_unpacks),
        cmocka_unit_test(nothing_follows_the_end_of_an_archive),
        cmocka_unit_test(who_is_stopped_while_waiting_for_a_turn_fills_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
