/*
 * The body of a create request with each of its defaults, for Docker and for Podman; the ids of
 * user code; and the limits that are reported as not enforced.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/cleanup.h"
#include "common/io/json.h"
#include "tests/unit/worker/backend/docker/spec_lab.h"

/* The value of a variable; NULL if it is not in the request. It must not be there twice. */
static const char *variable(const struct fixture *f, const char *name)
{
    const char *found = NULL;
    const cJSON *item;
    size_t len = strlen(name);
    cJSON_ArrayForEach(item, spec_at(f, "Env"))
    {
        if (strncmp(item->valuestring, name, len) == 0 && item->valuestring[len] == '=') {
            assert_null(found);
            found = item->valuestring + len + 1;
        }
    }
    return found;
}

static const char *tmpfs(const struct fixture *f, const char *target)
{
    const char *options = json_get_str(spec_at(f, "HostConfig.Tmpfs"), target);
    if (options == NULL) {
        fail_msg("no tmpfs at %s", target);
    }
    return options;
}

/* ---- process --------------------------------------------------------------------------------- */

static void the_agent_is_what_runs(void **state)
{
    struct fixture f = make();
    (void)state;
    build(&f);
    expect_text(&f, "Image", "sha256:123");
    expect_list(&f, "Entrypoint", DOCKER_AGENT_PATH);
    char cmd[512];
    unsigned uid = docker_spec_uid(&f.engine, "abc");
    snprintf(cmd, sizeof(cmd),
             "serve --listen /run/cloister/agent.sock --relay-stdio --sandbox abc --grace-ms 7000 "
             "--uid %u --gid %u --nproc 256 --nofile 1024 --data-bytes 0 "
             "--memory-bytes 536870912 --workspace /workspace --home /home/user "
             "--installs /run/installs --filter",
             uid, uid);
    expect_list(&f, "Cmd", cmd);
    expect_text(&f, "User", "0:0");
    expect_text(&f, "WorkingDir", "/");
    expect_text(&f, "Hostname", "sandbox");
    expect_bool(&f, "HostConfig.Init", false);
    cJSON_Delete(f.body);
}

static void the_first_stream_ends_with_its_connection(void **state)
{
    struct fixture f = make();
    (void)state;
    build(&f);
    expect_bool(&f, "OpenStdin", true);
    expect_bool(&f, "StdinOnce", true);
    expect_bool(&f, "AttachStdin", true);
    expect_bool(&f, "AttachStdout", true);
    expect_bool(&f, "AttachStderr", true);
    expect_bool(&f, "Tty", false);
    expect_text(&f, "HostConfig.LogConfig.Type", "none");
    cJSON_Delete(f.body);
}

static void nothing_of_the_image_runs_beside_the_agent(void **state)
{
    struct fixture f = make();
    (void)state;
    build(&f);
    expect_list(&f, "Healthcheck.Test", "NONE");
    expect_text(&f, "StopSignal", "SIGKILL");
    expect_text(&f, "HostConfig.RestartPolicy.Name", "no");
    expect_bool(&f, "HostConfig.AutoRemove", false);
    cJSON_Delete(f.body);
}

static void labels_are_kept_as_they_are(void **state)
{
    struct fixture f = make();
    (void)state;
    build(&f);
    const cJSON *labels = spec_at(&f, "Labels");
    assert_int_equal(cJSON_GetArraySize(labels), 2);
    assert_string_equal(json_get_str(labels, "io.cloister.id"), "abc");
    assert_string_equal(json_get_str(labels, "io.cloister.odd"), "\"\n");
    cJSON_Delete(f.body);
}

/* ---- environment ----------------------------------------------------------------------------- */

static void the_image_says_what_path_is(void **state)
{
    struct fixture f = make();
    (void)state;
    build(&f);
    assert_null(variable(&f, "PATH"));
    assert_string_equal(variable(&f, "HOME"), "/home/user");
    assert_string_equal(variable(&f, "USER"), "user");
    assert_string_equal(variable(&f, "LANG"), "C.UTF-8");
    assert_string_equal(variable(&f, "TMPDIR"), "/tmp");
    assert_string_equal(variable(&f, "TERM"), "dumb");
    cJSON_Delete(f.body);
}

static void the_callers_environment_wins(void **state)
{
    struct view env[] = {view_of("LANG=de_DE.UTF-8"), view_of("X=1=2"), view_of("EMPTY="),
                         view_of("PATH=/opt/bin"), view_of("Q=\"\\\n\x01\xc3\xbc")};
    struct fixture f = make();
    (void)state;
    f.spec.env = (struct view_list){env, sizeof(env) / sizeof(env[0])};
    build(&f);
    assert_string_equal(variable(&f, "LANG"), "de_DE.UTF-8");
    assert_string_equal(variable(&f, "X"), "1=2");
    assert_string_equal(variable(&f, "EMPTY"), "");
    assert_string_equal(variable(&f, "PATH"), "/opt/bin");
    assert_string_equal(variable(&f, "Q"), "\"\\\n\x01\xc3\xbc");
    cJSON_Delete(f.body);
}

static void hostile_entries_are_refused(void **state)
{
    /* Without "=", Docker would remove the variable instead of setting it. */
    struct view bad[] = {
        view_of(""),           view_of("PATH"),           view_of("=x"), view_bytes("A=\0B", 4),
        view_of("A=\xff\xfe"), view_of("A=\xed\xa0\x80"),
    };
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct fixture f = make();
        struct err err = ERR_INIT;
        f.spec.env = (struct view_list){&bad[i], 1};
        assert_int_equal(try_build(&f, &err), -ERR_INVALID);
        assert_non_null(strstr(err.text, "environment entry"));
        assert_null(f.body);
    }
}

/* ---- privileges ------------------------------------------------------------------------------ */

static void privileges_are_few(void **state)
{
    struct fixture f = make();
    (void)state;
    build(&f);
    expect_text(&f, "HostConfig.NetworkMode", "none");
    expect_bool(&f, "HostConfig.ReadonlyRootfs", true);
    expect_bool(&f, "HostConfig.Privileged", false);
    expect_list(&f, "HostConfig.CapDrop", "ALL");
    expect_list(&f, "HostConfig.CapAdd", "SETUID SETGID KILL SETPCAP");
    expect_text(&f, "HostConfig.IpcMode", "private");
    expect_text(&f, "HostConfig.CgroupnsMode", "private");
    /* The engine's own list stays in force: an empty list would replace it. */
    assert_null(spec_at(&f, "HostConfig.ReadonlyPaths"));
    /* Nothing of the host is passed in. */
    static const char *const absent[] = {"Binds", "Devices", "PidMode", "UsernsMode",
                                         "VolumesFrom"};
    for (size_t i = 0; i < sizeof(absent) / sizeof(absent[0]); i++) {
        assert_null(json_get(spec_at(&f, "HostConfig"), absent[i]));
    }
    cJSON_Delete(f.body);
}

/* The filter's rule for a call by name alone; NULL if there is none. */
static const cJSON *rule_of(const cJSON *profile, const char *call)
{
    const cJSON *rule;
    cJSON_ArrayForEach(rule, json_get(profile, "syscalls"))
    {
        if (lists(json_get(rule, "names"), call) && json_get(rule, "args") == NULL) {
            return rule;
        }
    }
    return NULL;
}

static void docker_gets_our_filter_inline(void **state)
{
    struct fixture f = make();
    struct err err = ERR_INIT;
    (void)state;
    build(&f);
    const cJSON *options = spec_at(&f, "HostConfig.SecurityOpt");
    assert_int_equal(cJSON_GetArraySize(options), 2);
    assert_true(lists(options, "no-new-privileges"));
    const char *text = cJSON_GetArrayItem(options, 1)->valuestring;
    assert_int_equal(strncmp(text, "seccomp={", 9), 0);
    cJSON *profile = NULL;
    assert_int_equal(json_parse(text + 8, strlen(text + 8), 1u << 20, 16, &profile, NULL, &err), 0);
    assert_string_equal(json_get_str(profile, "defaultAction"), "SCMP_ACT_ERRNO");
    /* The engine may be of another architecture than this program. */
    assert_null(json_get(profile, "architectures"));
    assert_null(json_get(profile, "archMap"));
    assert_string_equal(json_get_str(rule_of(profile, "read"), "action"), "SCMP_ACT_ALLOW");
    assert_string_equal(json_get_str(rule_of(profile, "ptrace"), "action"), "SCMP_ACT_ALLOW");
    assert_string_equal(json_get_str(rule_of(profile, "bpf"), "action"), "SCMP_ACT_ERRNO");
    /* Engines without a default errno would return EPERM, so no thread could be started. */
    const cJSON *clone3 = rule_of(profile, "clone3");
    assert_string_equal(json_get_str(clone3, "action"), "SCMP_ACT_ERRNO");
    assert_int_equal((int)json_get(clone3, "errnoRet")->valuedouble, ENOSYS);
    cJSON_Delete(profile);

    f.engine.seccomp = false; /* the engine would refuse to start a container with a filter */
    build(&f);
    expect_list(&f, "HostConfig.SecurityOpt", "no-new-privileges");
    cJSON_Delete(f.body);
}

/* What the engine masks by itself is among ours, since Docker takes one list or the other. */
static void what_tells_of_the_host_is_masked(void **state)
{
    static const char *const paths[] = {"/proc/acpi",
                                        "/proc/asound",
                                        "/proc/cmdline",
                                        "/proc/interrupts",
                                        "/proc/kcore",
                                        "/proc/keys",
                                        "/proc/latency_stats",
                                        "/proc/pressure",
                                        "/proc/sched_debug",
                                        "/proc/scsi",
                                        "/proc/timer_list",
                                        "/proc/timer_stats",
                                        "/proc/vmstat",
                                        "/sys/firmware",
                                        "/sys/devices/virtual/powercap",
                                        "/sys/devices/system/cpu/cpu3/thermal_throttle"};
    struct fixture f = make();
    (void)state;
    f.engine.cpu_milli_max = 4000;
    build(&f);
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        assert_true(lists(spec_at(&f, "HostConfig.MaskedPaths"), paths[i]));
    }
    assert_false(lists(spec_at(&f, "HostConfig.MaskedPaths"),
                       "/sys/devices/system/cpu/cpu4/thermal_throttle"));
    assert_null(spec_at(&f, "HostConfig.ReadonlyPaths")); /* the engine's own */

    f.engine.podman = true; /* masks what is listed beside its own */
    build(&f);
    assert_null(spec_at(&f, "HostConfig.MaskedPaths"));
    const char *mask = cJSON_GetArrayItem(spec_at(&f, "HostConfig.SecurityOpt"), 1)->valuestring;
    assert_int_equal(strncmp(mask, "mask=/proc/acpi:/proc/asound:/proc/cmdline:", 43), 0);
    cJSON_Delete(f.body);
}

static void a_runtime_is_named_only_if_one_is_wanted(void **state)
{
    struct fixture f = make();
    (void)state;
    build(&f);
    assert_null(spec_at(&f, "HostConfig.Runtime"));
    f.runtime = "runsc";
    build(&f);
    expect_text(&f, "HostConfig.Runtime", "runsc");
    cJSON_Delete(f.body);
}

/* ---- limits ---------------------------------------------------------------------------------- */

static void limits_are_asked_for(void **state)
{
    struct fixture f = make();
    (void)state;
    build(&f);
    expect_number(&f, "HostConfig.Memory", 512 << 20);
    expect_number(&f, "HostConfig.MemorySwap", 512 << 20); /* no swap beyond the memory */
    expect_number(&f, "HostConfig.NanoCpus", 1.5e9);
    expect_number(&f, "HostConfig.PidsLimit", 256 + DOCKER_PIDS_ROOM);
    expect_number(&f, "HostConfig.OomScoreAdj", 500);
    expect_number(&f, "HostConfig.ShmSize", 64 << 20);
    const cJSON *limit;
    size_t seen = 0;
    cJSON_ArrayForEach(limit, spec_at(&f, "HostConfig.Ulimits"))
    {
        double soft = json_get(limit, "Soft")->valuedouble;
        double hard = json_get(limit, "Hard")->valuedouble;
        if (strcmp(json_get_str(limit, "Name"), "core") == 0) {
            assert_true(soft == 1 && hard == 1);
        } else {
            assert_true(soft <= 4096 && hard >= 4096);
        }
        seen++;
    }
    assert_int_equal(seen, 2);

    f.spec.limits.files = 10000;
    build(&f);
    limit = cJSON_GetArrayItem(spec_at(&f, "HostConfig.Ulimits"), 0);
    assert_string_equal(json_get_str(limit, "Name"), "nofile");
    assert_int_equal((int)json_get(limit, "Hard")->valuedouble, 10000);
    cJSON_Delete(f.body);
}

static void reads_and_writes_are_limited_where_the_disk_is_named(void **state)
{
    struct fixture f = make();
    (void)state;
    f.spec.limits.io_read_bytes = 5 << 20;
    f.spec.limits.io_ops = 100;
    build(&f);
    assert_null(spec_at(&f, "HostConfig.BlkioDeviceReadBps"));
    f.spec.io_device = "/dev/sda";
    build(&f);
    const cJSON *rate = cJSON_GetArrayItem(spec_at(&f, "HostConfig.BlkioDeviceReadBps"), 0);
    assert_string_equal(json_get_str(rate, "Path"), "/dev/sda");
    assert_int_equal(json_get(rate, "Rate")->valueint, 5 << 20);
    assert_null(spec_at(&f, "HostConfig.BlkioDeviceWriteBps"));
    assert_non_null(spec_at(&f, "HostConfig.BlkioDeviceReadIOps"));
    assert_non_null(spec_at(&f, "HostConfig.BlkioDeviceWriteIOps"));
    cJSON_Delete(f.body);
}

static void no_file_of_an_installer_is_larger_than_it_may_need(void **state)
{
    struct fixture f = make();
    (void)state;
    f.spec.packages_write = true;
    f.spec.packages_bytes = 8 << 20;
    build(&f);
    const cJSON *limit = cJSON_GetArrayItem(spec_at(&f, "HostConfig.Ulimits"), 1);
    assert_string_equal(json_get_str(limit, "Name"), "fsize");
    assert_int_equal(json_get(limit, "Hard")->valueint, 80 << 20);
    cJSON_Delete(f.body);
}

static void a_limit_that_nobody_chose_is_not_none(void **state)
{
    struct fixture f = make();
    (void)state;
    f.spec.limits = (struct backend_limits){.memory_bytes = 0}; /* 0 would be "unlimited" */
    build(&f);
    expect_number(&f, "HostConfig.Memory", 512 << 20);
    expect_number(&f, "HostConfig.NanoCpus", 1e9);
    expect_number(&f, "HostConfig.PidsLimit", 256 + DOCKER_PIDS_ROOM);
    assert_non_null(strstr(tmpfs(&f, "/workspace"), ",size=268435456,"));
    cJSON_Delete(f.body);
}

static void more_than_all_cpus_is_all_cpus(void **state)
{
    struct fixture f = make();
    (void)state;
    f.spec.limits.cpu_milli = 64000;
    build(&f);
    expect_number(&f, "HostConfig.NanoCpus", 4e9);
    f.spec.limits.cpu_milli = UINT64_MAX;
    build(&f);
    expect_number(&f, "HostConfig.NanoCpus", 4e9);
    f.engine.cpu_milli_max = 0; /* unknown */
    f.spec.limits.cpu_milli = 64000;
    build(&f);
    expect_number(&f, "HostConfig.NanoCpus", 64e9);
    f.spec.limits.cpu_milli = 1; /* less than the engine's minimum */
    build(&f);
    expect_number(&f, "HostConfig.NanoCpus", 1e7);
    cJSON_Delete(f.body);
}

static void what_the_engine_cannot_do_is_not_asked_for(void **state)
{
    struct fixture f = make();
    (void)state;
    f.engine.memory_limit = false;
    f.engine.cpu_quota = false; /* the engine would refuse the whole request */
    f.engine.pids_limit = false;
    build(&f);
    assert_null(spec_at(&f, "HostConfig.Memory"));
    assert_null(spec_at(&f, "HostConfig.MemorySwap"));
    assert_null(spec_at(&f, "HostConfig.NanoCpus"));
    assert_null(spec_at(&f, "HostConfig.PidsLimit"));
    assert_true(
        lists(spec_at(&f, "Cmd"), "536870912")); /* the agent's rlimit replaces the memory limit */
    f = (struct fixture){.engine = make().engine, .spec = f.spec, .runtime = "", .body = f.body};
    f.engine.cgroup_none = true;
    build(&f);
    assert_null(spec_at(&f, "HostConfig.Memory"));
    assert_null(spec_at(&f, "HostConfig.NanoCpus"));
    assert_null(spec_at(&f, "HostConfig.PidsLimit"));
    assert_true(lists(spec_at(&f, "Cmd"), "536870912"));
    cJSON_Delete(f.body);
}

/* ---- file systems ---------------------------------------------------------------------------- */

static void what_is_writable_is_bounded(void **state)
{
    static const struct {
        const char *target, *mode, *size, *exec;
        bool owned;
    } rows[] = {
        {"/run", ",mode=0755,", ",size=1048576,", ",noexec,", false},
        {"/run/cloister", ",mode=0700,", ",size=65536,", ",noexec,", false},
        {"/tmp", ",mode=1777,", ",size=67108864,", ",exec,", true},
        {"/home/user", ",mode=0755,", ",size=67108864,", ",exec,", true},
        {"/workspace", ",mode=0755,", ",size=134217728,", ",exec,", true},
    };
    struct fixture f = make();
    char owner[64];
    (void)state;
    build(&f);
    unsigned uid = docker_spec_uid(&f.engine, "abc");
    snprintf(owner, sizeof(owner), ",uid=%u,gid=%u,", uid, uid);
    assert_int_equal(cJSON_GetArraySize(spec_at(&f, "HostConfig.Tmpfs")), 5);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *options = tmpfs(&f, rows[i].target);
        assert_int_equal(strncmp(options, "rw,nosuid,nodev,", 16), 0);
        assert_non_null(strstr(options, rows[i].mode));
        assert_non_null(strstr(options, rows[i].size));
        assert_non_null(strstr(options, rows[i].exec));
        assert_non_null(strstr(options, ",nr_inodes="));
        assert_int_equal(strstr(options, owner) != NULL, rows[i].owned);
    }
    cJSON_Delete(f.body);
}

static void the_agent_cannot_be_altered(void **state)
{
    struct fixture f = make();
    (void)state;
    build(&f);
    assert_int_equal(cJSON_GetArraySize(spec_at(&f, "HostConfig.Mounts")), 2);
    const cJSON *mount = cJSON_GetArrayItem(spec_at(&f, "HostConfig.Mounts"), 0);
    assert_string_equal(json_get_str(mount, "Type"), "volume");
    assert_string_equal(json_get_str(mount, "Source"), "cloister-agent-1");
    assert_string_equal(json_get_str(mount, "Target"), DOCKER_AGENT_DIR);
    assert_true(cJSON_IsTrue(json_get(mount, "ReadOnly")));
    assert_true(cJSON_IsTrue(json_get(json_get(mount, "VolumeOptions"), "NoCopy")));
    const cJSON *labels = json_get(json_get(mount, "VolumeOptions"), "Labels");
    assert_string_equal(json_get_str(labels, "io.cloister.agent"), "cloister-agent-1");
    assert_string_equal(json_get_str(labels, "io.cloister.agent-path"), "/lib/cloister-agent");
    cJSON_Delete(f.body);
}

/* What the host has once for all, or what would outlive who used it. */
static void terminals_and_shared_memory_are_bounded(void **state)
{
    struct fixture f = make();
    (void)state;
    build(&f);
    const cJSON *mount = cJSON_GetArrayItem(spec_at(&f, "HostConfig.Mounts"), 1);
    assert_string_equal(json_get_str(mount, "Type"), "volume");
    assert_string_equal(json_get_str(mount, "Target"), "/dev/pts");
    assert_null(json_get(mount, "Source")); /* so it goes with the container */
    const cJSON *driver = json_get(json_get(mount, "VolumeOptions"), "DriverConfig");
    assert_string_equal(json_get_str(driver, "Name"), "local");
    assert_string_equal(json_get_str(json_get(driver, "Options"), "type"), "devpts");
    assert_non_null(strstr(json_get_str(json_get(driver, "Options"), "o"), ",max=32"));
    /* the keys have dots, so no path leads to them */
    const cJSON *sysctls = spec_at(&f, "HostConfig.Sysctls");
    assert_string_equal(json_get_str(sysctls, "kernel.shm_rmid_forced"), "1");
    assert_string_equal(json_get_str(sysctls, "kernel.shmall"), "65536");

    f.engine.podman = true; /* it would mount something else there */
    build(&f);
    assert_int_equal(cJSON_GetArraySize(spec_at(&f, "HostConfig.Mounts")), 1);
    f.engine.userns = true; /* the kernel may refuse, and then the container would not start */
    build(&f);
    assert_null(spec_at(&f, "HostConfig.Sysctls"));
    cJSON_Delete(f.body);
}

/* ---- podman ---------------------------------------------------------------------------------- */

static bool agent_filters(const struct fixture *f)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, spec_at(f, "Cmd"))
    {
        if (strcmp(item->valuestring, "--filter") == 0) {
            return true;
        }
    }
    return false;
}

static void the_agent_always_filters_system_calls(void **state)
{
    struct fixture f = make();
    (void)state;
    build(&f);
    assert_true(agent_filters(&f)); /* beside the engine, for arguments */
    f.engine.podman = true;
    build(&f);
    assert_true(agent_filters(&f));
    f.engine.podman = false;
    f.engine.seccomp = false;
    build(&f);
    assert_true(agent_filters(&f));
    cJSON_Delete(f.body);
}

static void podman_gets_what_it_understands(void **state)
{
    static const char *const shared[] = {"/tmp", "/home/user", "/workspace"};
    struct fixture f = make();
    (void)state;
    f.engine.podman = true;
    build(&f);
    /* Podman would take the profile as the name of a file. */
    const cJSON *security = spec_at(&f, "HostConfig.SecurityOpt");
    assert_int_equal(cJSON_GetArraySize(security), 2);
    assert_true(lists(security, "no-new-privileges"));
    assert_int_equal(strncmp(cJSON_GetArrayItem(security, 1)->valuestring, "mask=/", 6), 0);
    const cJSON *item;
    cJSON_ArrayForEach(item, spec_at(&f, "HostConfig.Tmpfs"))
    {
        assert_null(strstr(item->valuestring, "uid="));
        assert_null(strstr(item->valuestring, "gid="));
        assert_null(strstr(item->valuestring, "nr_inodes="));
        assert_non_null(strstr(item->valuestring, ",notmpcopyup,"));
        assert_non_null(strstr(item->valuestring, ",size="));
        /* Each option once, because Podman refuses contradictory ones. */
        assert_true((strstr(item->valuestring, ",exec") == NULL) !=
                    (strstr(item->valuestring, ",noexec") == NULL));
    }
    for (size_t i = 0; i < sizeof(shared) / sizeof(shared[0]); i++) {
        assert_non_null(strstr(tmpfs(&f, shared[i]), ",mode=1777,"));
    }
    assert_non_null(strstr(tmpfs(&f, "/run"), ",mode=0755,"));
    assert_non_null(strstr(tmpfs(&f, DOCKER_SOCKET_DIR), ",mode=0700,"));

    /* Under cgroup v2 it reports no support though it has it. */
    f.engine.cpu_quota = false;
    f.engine.swap_limit = false;
    build(&f);
    expect_number(&f, "HostConfig.NanoCpus", 1.5e9);
    expect_number(&f, "HostConfig.MemorySwap", 512 << 20);
    cJSON_Delete(f.body);
}

/* ---- ids of user code ------------------------------------------------------------------------ */

static void each_sandbox_has_an_id_of_its_own(void **state)
{
    struct docker_engine engine = {.podman = false};
    (void)state;
    unsigned same = 0;
    for (unsigned i = 0; i < 1000; i++) {
        char id[16], next[16];
        snprintf(id, sizeof(id), "s%u", i);
        snprintf(next, sizeof(next), "s%u", i + 1);
        engine = (struct docker_engine){.podman = false};
        uint32_t uid = docker_spec_uid(&engine, id);
        /* Above all ids that are usually assigned, and positive as a signed number. */
        assert_true(uid > 2000200000u && uid <= INT32_MAX);
        assert_int_equal(uid, docker_spec_uid(&engine, id));
        same += uid == docker_spec_uid(&engine, next);
        engine.podman = true;
        assert_int_equal(docker_spec_uid(&engine, id), uid);
        engine.rootless = true; /* its ids are subordinate ids of a user */
        uid = docker_spec_uid(&engine, id);
        assert_true(uid >= 20000 && uid < 60000);
        engine.userns = true;
        assert_int_equal(docker_spec_uid(&engine, id), 1000);
        engine.podman = false;
        assert_int_equal(docker_spec_uid(&engine, id), 1000);
    }
    assert_int_equal(same, 0);
}

/* ---- limits that are not enforced ------------------------------------------------------------ */

/* Requires that the texts begin with these names, in this order. */
static void expect_notes(const struct docker_engine *engine, const char *const *warnings,
                         size_t warning_count, const char *const *names, size_t count)
{
    char *notes[BACKEND_UNAPPLIED_MAX];
    size_t got = docker_spec_unapplied(engine, warnings, warning_count, notes);
    for (size_t i = 0; i < got; i++) {
        const char *name = i < count ? names[i] : "nothing";
        if (strncmp(notes[i], name, strlen(name)) != 0) {
            fail_msg("\"%s\" instead of %s", notes[i], name);
        }
        for (const char *p = notes[i]; *p != '\0'; p++) {
            assert_true((unsigned char)*p >= 0x20);
        }
        assert_true(strlen(notes[i]) < 300);
        free(notes[i]);
    }
    assert_int_equal(got, count);
}

static void a_good_engine_applies_everything(void **state)
{
    struct docker_engine engine = make().engine;
    (void)state;
    expect_notes(&engine, NULL, 0, NULL, 0);
}

static void what_the_engine_lacks_is_told(void **state)
{
    static const char *const all[] = {"memory: ", "cpus: ", "pids: "};
    static const char *const swap[] = {"swap: "};
    static const char *const podman[] = {"ptys: "};
    static const char *const sockets[] = {"sockets: "};
    static const char *const mapped[] = {"shm: ", "inotify: "};
    struct docker_engine engine = {.podman = false};
    (void)state;
    expect_notes(&engine, NULL, 0, all, 3);
    engine = make().engine;
    engine.cgroup_none = true;
    expect_notes(&engine, NULL, 0, all, 3);
    engine = make().engine;
    engine.swap_limit = false;
    expect_notes(&engine, NULL, 0, swap, 1);
    engine.podman = true;
    expect_notes(&engine, NULL, 0, podman, 1);
    engine = make().engine;
    engine.cgroup_v1 = true; /* its runtimes ignore KernelMemoryTCP without a word */
    expect_notes(&engine, NULL, 0, sockets, 1);
    engine = make().engine;
    engine.userns = true;
    expect_notes(&engine, NULL, 0, mapped, 2);
    engine.userns = false;
    engine.rootless = true;
    expect_notes(&engine, NULL, 0, mapped, 2);
}

/* Requires a note that begins so, or none. */
static void expect_asked(const struct docker_engine *engine, const struct backend_spec *spec,
                         const char *begin)
{
    char *notes[BACKEND_UNAPPLIED_MAX];
    size_t count = docker_spec_unapplied_asked(engine, spec, 0, notes);
    assert_int_equal(count, begin != NULL ? 1 : 0);
    if (begin != NULL) {
        assert_int_equal(strncmp(notes[0], begin, strlen(begin)), 0);
        free(notes[0]);
    }
    assert_int_equal(docker_spec_unapplied_asked(engine, spec, BACKEND_UNAPPLIED_MAX, notes),
                     BACKEND_UNAPPLIED_MAX);
}

static void what_is_only_there_if_asked_for_is_told_only_then(void **state)
{
    struct docker_engine engine = make().engine;
    struct backend_spec spec = {.packages_bytes = 0};
    (void)state;
    expect_asked(&engine, &spec, NULL);
    spec.packages_bytes = 1;
    expect_asked(&engine, &spec, "packages: ");
    spec = (struct backend_spec){.limits = {.io_write_bytes = 1}};
    expect_asked(&engine, &spec, "io: which disk");
    spec.io_device = "/dev/sda";
    expect_asked(&engine, &spec, NULL);
    engine.cgroup_v1 = true;
    expect_asked(&engine, &spec, "io writes: ");
    engine.rootless = true;
    expect_asked(&engine, &spec, "io: this engine");
}

static void warnings_are_recognised(void **state)
{
    static const char *const warnings[] = {
        "Your kernel does not support swap limit capabilities or the cgroup is not mounted. Memory "
        "limited without swap.",
        "Your kernel does not support memory limit capabilities or the cgroup is not mounted. "
        "Limitation discarded.",
        "Your kernel does not support PIDs limit capabilities or the cgroup is not mounted. PIDs "
        "limit discarded.",
        "Your kernel does not support CPU CFS quota or the cgroup is not mounted. Quota discarded.",
        "Your kernel does not support memory swappiness capabilities.",
    };
    static const char *const names[] = {"swap: Your", "memory: Your", "pids: Your", "cpus: Your",
                                        "engine: Your"};
    static const char *const rootless[] = {
        "Resource limits are not supported and ignored on cgroups V1 rootless systems"};
    static const char *const lost[] = {"memory: Res", "cpus: Res", "pids: Res"};
    struct docker_engine engine = make().engine;
    (void)state;
    expect_notes(&engine, warnings, 5, names, 5);
    expect_notes(&engine, rootless, 1, lost, 3);

    /* A limit that is known before and reported by the engine later appears once. */
    static const char *const once[] = {"memory: the engine", "swap: Your", "pids: Your",
                                       "cpus: Your", "engine: Your"};
    engine.memory_limit = false;
    expect_notes(&engine, warnings, 5, once, 5);
}

static void hostile_warnings_are_bounded(void **state)
{
    static char huge[10000];
    const char *many[40];
    const char *names[BACKEND_UNAPPLIED_MAX];
    struct docker_engine engine = make().engine;
    (void)state;
    memset(huge, 'y', sizeof(huge) - 1);
    memcpy(huge, "a\nb\x1b[31m\x7f", 9);
    for (size_t i = 0; i < 40; i++) {
        many[i] = i % 2 == 0 ? huge : "\xff\xfe";
    }
    for (size_t i = 0; i < BACKEND_UNAPPLIED_MAX; i++) {
        names[i] = i % 2 == 0 ? "engine: a b [31m yyy" : "engine: ";
    }
    expect_notes(&engine, many, 40, names, BACKEND_UNAPPLIED_MAX);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_agent_is_what_runs),
        cmocka_unit_test(the_first_stream_ends_with_its_connection),
        cmocka_unit_test(nothing_of_the_image_runs_beside_the_agent),
        cmocka_unit_test(labels_are_kept_as_they_are),
        cmocka_unit_test(the_image_says_what_path_is),
        cmocka_unit_test(the_callers_environment_wins),
        cmocka_unit_test(hostile_entries_are_refused),
        cmocka_unit_test(privileges_are_few),
        cmocka_unit_test(docker_gets_our_filter_inline),
        cmocka_unit_test(what_tells_of_the_host_is_masked),
        cmocka_unit_test(a_runtime_is_named_only_if_one_is_wanted),
        cmocka_unit_test(limits_are_asked_for),
        cmocka_unit_test(reads_and_writes_are_limited_where_the_disk_is_named),
        cmocka_unit_test(no_file_of_an_installer_is_larger_than_it_may_need),
        cmocka_unit_test(a_limit_that_nobody_chose_is_not_none),
        cmocka_unit_test(more_than_all_cpus_is_all_cpus),
        cmocka_unit_test(what_the_engine_cannot_do_is_not_asked_for),
        cmocka_unit_test(what_is_writable_is_bounded),
        cmocka_unit_test(the_agent_cannot_be_altered),
        cmocka_unit_test(terminals_and_shared_memory_are_bounded),
        cmocka_unit_test(the_agent_always_filters_system_calls),
        cmocka_unit_test(podman_gets_what_it_understands),
        cmocka_unit_test(each_sandbox_has_an_id_of_its_own),
        cmocka_unit_test(a_good_engine_applies_everything),
        cmocka_unit_test(what_the_engine_lacks_is_told),
        cmocka_unit_test(what_is_only_there_if_asked_for_is_told_only_then),
        cmocka_unit_test(warnings_are_recognised),
        cmocka_unit_test(hostile_warnings_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
