/*
 * The container's configuration with each of its defaults, and the system call filter.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/io/json.h"
#include "tests/lib/json_at.h"
#include "worker/backend/oci/relay.h"
#include "worker/backend/oci/runtime.h"
#include "worker/backend/oci/shares.h"
#include "worker/backend/oci/spec.h"
#include "worker/backend/seccomp.h"

struct fixture {
    struct backend_spec spec;
    struct oci_mode mode;
    struct oci_host host;
    struct oci_bind binds[2];
    struct oci_root root;
    cJSON *config;
};

static struct fixture make(void)
{
    struct fixture f = {
        .spec = {.id = "abc",
                 .dir = "/d",
                 .shared_dir = "/s",
                 .agent_path = "/a",
                 .limits = {.memory_bytes = 512u << 20,
                            .cpu_milli = 1500,
                            .pids = 256,
                            .disk_bytes = 128u << 20,
                            .files = 1024},
                 .grace_ms = 7000},
        .mode = {.userns = OCI_USERNS_RANGE,
                 .cgroups = OCI_CGROUPS_FS,
                 .memory = true,
                 .swap = true,
                 .cpu = true,
                 .pids = true,
                 .hide = true,
                 .views = true,
                 .counted = true},
        .host = {.root = true,
                 .uids = {0, UINT32_MAX},
                 .gids = {0, UINT32_MAX},
                 .files_max = 1u << 20,
                 .core_max = 1},
        .binds = {{(char *)(uintptr_t) "/usr", (char *)(uintptr_t) "/usr", false},
                  {(char *)(uintptr_t) "/opt/agent", (char *)(uintptr_t)OCI_ROOT_AGENT, false}},
        .root = {.dir = (char *)(uintptr_t) "/s/root-1", .bind_count = 2},
    };
    return f;
}

static int try_build(struct fixture *f, struct err *err)
{
    f->root.binds = f->binds;
    struct oci_spec_input in = {
        .spec = &f->spec,
        .mode = &f->mode,
        .host = &f->host,
        .root = &f->root,
        .container = "cloister-abc",
        .verb = "serve",
    };
    char *text = NULL;
    int rc = oci_spec_build(&in, &text, err);
    if (rc == 0) {
        /* Parsed by the strict reader, so the text must be valid JSON for any parser. */
        assert_int_equal(json_parse(text, strlen(text), 1u << 20, 32, &f->config, NULL, err), 0);
    }
    free(text);
    return rc;
}

static void build(struct fixture *f)
{
    struct err err = ERR_INIT;
    if (try_build(f, &err) < 0) {
        fail_msg("%s", err.text);
    }
}

/* "a.b.c" below the configuration; NULL if absent. */
static const cJSON *spec_at(const struct fixture *f, const char *path)
{
    return at(f->config, path);
}

static double number(const struct fixture *f, const char *path)
{
    const cJSON *item = spec_at(f, path);
    assert_true(cJSON_IsNumber(item));
    return item->valuedouble;
}

static bool lists(const cJSON *array, const char *text)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, array)
    {
        if (cJSON_IsString(item) && strcmp(item->valuestring, text) == 0) {
            return true;
        }
    }
    return false;
}

/* Element of an array of objects whose member `key` is `value`. */
static const cJSON *find(const cJSON *array, const char *key, const char *value)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, array)
    {
        const char *text = json_get_str(item, key);
        if (text != NULL && strcmp(text, value) == 0) {
            return item;
        }
    }
    return NULL;
}

static const cJSON *mount_options(const struct fixture *f, const char *target)
{
    const cJSON *mount = find(spec_at(f, "mounts"), "destination", target);
    if (mount == NULL) {
        fail_msg("no mount at %s", target);
    }
    return json_get(mount, "options");
}

static void has_args(const struct fixture *f, const char *option, const char *value)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, spec_at(f, "process.args"))
    {
        if (strcmp(item->valuestring, option) == 0) {
            assert_string_equal(item->next->valuestring, value);
            return;
        }
    }
    fail_msg("no argument %s", option);
}

static void agent_is_told_every_limit(void **state)
{
    (void)state;
    struct fixture f = make();
    build(&f);
    const cJSON *args = spec_at(&f, "process.args");
    assert_string_equal(cJSON_GetArrayItem(args, 0)->valuestring, OCI_ROOT_AGENT);
    assert_string_equal(cJSON_GetArrayItem(args, 1)->valuestring, "serve");
    has_args(&f, "--fd", "3");
    has_args(&f, "--sandbox", "abc");
    has_args(&f, "--grace-ms", "7000");
    has_args(&f, "--uid", "1000");
    has_args(&f, "--gid", "1000");
    has_args(&f, "--nproc", "256");
    has_args(&f, "--nofile", "1024");
    has_args(&f, "--data-bytes", "0");
    has_args(&f, "--workspace", "/workspace");
    has_args(&f, "--home", "/home/user");
    assert_false(lists(args, "--single-uid"));
    assert_false(lists(args, "--door"));
    cJSON_Delete(f.config);
    f.spec.door = true;
    build(&f);
    has_args(&f, "--door", "3128");
    cJSON_Delete(f.config);
}

static void privileges_are_few_and_end_with_the_agent(void **state)
{
    (void)state;
    struct fixture f = make();
    build(&f);
    assert_true(cJSON_IsTrue(spec_at(&f, "process.noNewPrivileges")));
    static const char *const sets[] = {"bounding", "effective", "permitted"};
    for (size_t i = 0; i < 3; i++) {
        const cJSON *caps = json_get(spec_at(&f, "process.capabilities"), sets[i]);
        assert_int_equal(cJSON_GetArraySize(caps), 4);
        assert_true(lists(caps, "CAP_SETUID") && lists(caps, "CAP_SETGID") &&
                    lists(caps, "CAP_KILL") && lists(caps, "CAP_SETPCAP"));
    }
    assert_null(spec_at(&f, "process.capabilities.inheritable"));
    assert_null(spec_at(&f, "process.capabilities.ambient"));
    assert_int_equal(number(&f, "process.user.uid"), 0);
    assert_int_equal(number(&f, "process.oomScoreAdj"), 500);
    const cJSON *core = find(spec_at(&f, "process.rlimits"), "type", "RLIMIT_CORE");
    assert_int_equal(json_get(core, "hard")->valueint, 1); /* 0 would run the host's handler */
    assert_int_equal(json_get(core, "soft")->valueint, 1);
    assert_null(find(spec_at(&f, "process.rlimits"), "type", "RLIMIT_FSIZE"));
    assert_null(spec_at(&f, "process.apparmorProfile"));
    cJSON_Delete(f.config);
}

static void a_profile_of_the_kernel_is_named(void **state)
{
    (void)state;
    struct fixture f = make();
    f.host.apparmor = true;
    build(&f);
    assert_string_equal(spec_at(&f, "process.apparmorProfile")->valuestring, "cloister-sandbox");
    cJSON_Delete(f.config);
    f.mode.own_kernel = true; /* which does not know of this host's */
    build(&f);
    assert_null(spec_at(&f, "process.apparmorProfile"));
    cJSON_Delete(f.config);
}

/* Only where code of packages may write beside the programs that count. */
static void no_file_of_an_installer_is_larger_than_it_may_need(void **state)
{
    (void)state;
    struct fixture f = make();
    f.spec.packages_bytes = (uint64_t)8 << 20;
    build(&f);
    assert_null(find(spec_at(&f, "process.rlimits"), "type", "RLIMIT_FSIZE"));
    cJSON_Delete(f.config);
    f.spec.packages_write = true;
    build(&f);
    const cJSON *size = find(spec_at(&f, "process.rlimits"), "type", "RLIMIT_FSIZE");
    assert_int_equal(json_get(size, "hard")->valueint, 80 << 20);
    cJSON_Delete(f.config);
}

static void root_is_read_only_and_the_rest_is_capped(void **state)
{
    (void)state;
    struct fixture f = make();
    build(&f);
    assert_true(cJSON_IsTrue(spec_at(&f, "root.readonly")));
    assert_string_equal(spec_at(&f, "root.path")->valuestring, "/s/root-1");
    assert_string_equal(spec_at(&f, "hostname")->valuestring, "sandbox");

    const cJSON *workspace = mount_options(&f, "/workspace");
    assert_true(lists(workspace, "size=134217728") && lists(workspace, "nr_inodes=32768"));
    assert_true(lists(workspace, "uid=1000") && lists(workspace, "gid=1000"));
    assert_true(lists(workspace, "nosuid") && lists(workspace, "nodev"));

    /* Everything writable has a size, and their sum is below the default memory limit. */
    uint64_t sum = 0;
    const cJSON *mount;
    cJSON_ArrayForEach(mount, spec_at(&f, "mounts"))
    {
        if (strcmp(json_get_str(mount, "type"), "tmpfs") == 0) {
            bool sized = false;
            const cJSON *option;
            cJSON_ArrayForEach(option, json_get(mount, "options"))
            {
                if (strncmp(option->valuestring, "size=", 5) == 0) {
                    sum += strtoull(option->valuestring + 5, NULL, 10);
                    sized = true;
                }
            }
            assert_true(sized);
        } else if (strcmp(json_get_str(mount, "type"), "bind") == 0) {
            assert_true(lists(json_get(mount, "options"), "ro"));
            assert_true(lists(json_get(mount, "options"), "nosuid"));
            assert_true(lists(json_get(mount, "options"), "nodev"));
        }
        assert_string_not_equal(json_get_str(mount, "type"), "sysfs");
    }
    assert_true(sum < (uint64_t)512 << 20);

    assert_true(lists(mount_options(&f, "/dev/pts"), "max=32")); /* of some 3,000 of the host */
    const cJSON *proc = mount_options(&f, "/proc");
    assert_true(lists(proc, "hidepid=2") && lists(proc, "gid=0") && lists(proc, "nosuid") &&
                lists(proc, "noexec") && lists(proc, "nodev"));
    assert_true(lists(spec_at(&f, "linux.maskedPaths"), "/proc/kcore"));
    assert_true(lists(spec_at(&f, "linux.maskedPaths"), "/proc/keys"));
    assert_true(lists(spec_at(&f, "linux.maskedPaths"), "/proc/cmdline"));
    assert_true(lists(spec_at(&f, "linux.maskedPaths"), "/proc/pressure"));
    assert_true(lists(spec_at(&f, "linux.readonlyPaths"), "/proc/sys"));
    assert_true(lists(spec_at(&f, "linux.readonlyPaths"), "/proc/sysrq-trigger"));
    cJSON_Delete(f.config);
}

static void every_namespace_is_its_own(void **state)
{
    (void)state;
    struct fixture f = make();
    build(&f);
    static const char *const types[] = {"pid", "network", "ipc", "uts", "mount", "cgroup", "user"};
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        const cJSON *ns = find(spec_at(&f, "linux.namespaces"), "type", types[i]);
        assert_non_null(ns);
        assert_null(json_get(ns, "path"));
    }
    const cJSON *map = cJSON_GetArrayItem(spec_at(&f, "linux.uidMappings"), 0);
    assert_int_equal(json_get(map, "containerID")->valueint, 0);
    assert_int_equal(json_get(map, "size")->valueint, 65536);
    assert_true(json_get(map, "hostID")->valuedouble >= 0x10000000);
    cJSON_Delete(f.config);
}

static void limits_go_to_the_cgroup(void **state)
{
    (void)state;
    struct fixture f = make();
    build(&f);
    assert_string_equal(spec_at(&f, "linux.cgroupsPath")->valuestring, "/cloister-abc");
    assert_true(number(&f, "linux.resources.memory.limit") == 512u << 20);
    assert_true(number(&f, "linux.resources.memory.swap") == 512u << 20);
    assert_true(number(&f, "linux.resources.cpu.quota") == 150000);
    assert_true(number(&f, "linux.resources.cpu.period") == 100000);
    assert_true(number(&f, "linux.resources.pids.limit") == 256 + OCI_SPEC_PIDS_ROOM);
    cJSON_Delete(f.config);
}

static void a_huge_limit_stays_an_integer(void **state)
{
    (void)state;
    struct fixture f = make();
    f.spec.limits.memory_bytes = 1000000000000000000u; /* "1e+18" would be refused by runtimes */
    f.root.binds = f.binds;
    struct oci_spec_input in = {&f.spec, &f.mode, &f.host, &f.root, "c", "serve"};
    char *text = NULL;
    struct err err;
    assert_int_equal(oci_spec_build(&in, &text, &err), 0);
    assert_non_null(strstr(text, "\"limit\":1000000000000000000"));
    free(text);
}

static void only_what_the_mode_has_is_asked_for(void **state)
{
    (void)state;
    struct fixture f = make();
    f.mode.swap = f.mode.cpu = false;
    build(&f);
    assert_null(spec_at(&f, "linux.resources.memory.swap"));
    assert_null(spec_at(&f, "linux.resources.cpu"));
    assert_non_null(spec_at(&f, "linux.resources.pids"));
    cJSON_Delete(f.config);

    f.mode = (struct oci_mode){.userns = OCI_USERNS_RANGE, .cgroups = OCI_CGROUPS_NONE};
    build(&f);
    assert_null(spec_at(&f, "linux.resources"));
    assert_null(spec_at(&f, "linux.cgroupsPath"));
    has_args(&f, "--data-bytes", "536870912");
    assert_false(lists(mount_options(&f, "/proc"), "hidepid=2"));
    cJSON_Delete(f.config);
}

static void systemd_gets_a_scope_name(void **state)
{
    (void)state;
    struct fixture f = make();
    f.mode.cgroups = OCI_CGROUPS_SYSTEMD;
    build(&f);
    assert_string_equal(spec_at(&f, "linux.cgroupsPath")->valuestring, "system.slice:cloister:abc");
    assert_null(spec_at(&f, "annotations"));
    cJSON_Delete(f.config);

    /* systemd has to know that there is to be no swap, or it takes the limit away */
    f.host.cgroup.version = OCI_CGROUP_VERSION_2;
    f.mode.memory = f.mode.swap = true;
    build(&f);
    const cJSON *told = spec_at(&f, "annotations");
    assert_string_equal(cJSON_GetArrayItem(told, 0)->string, "org.systemd.property.MemorySwapMax");
    assert_string_equal(cJSON_GetArrayItem(told, 0)->valuestring, "uint64 0");
    cJSON_Delete(f.config);
}

static void one_id_for_all_means_no_tracing_and_no_group(void **state)
{
    (void)state;
    struct fixture f = make();
    f.mode =
        (struct oci_mode){.userns = OCI_USERNS_SINGLE, .cgroups = OCI_CGROUPS_NONE, .hide = true};
    f.host = (struct oci_host){.uid = 1001, .gid = 1002, .files_max = 1024, .oom_score_adj = 700};
    build(&f);
    assert_true(lists(spec_at(&f, "process.args"), "--single-uid"));
    const cJSON *map = cJSON_GetArrayItem(spec_at(&f, "linux.uidMappings"), 0);
    assert_int_equal(json_get(map, "hostID")->valueint, 1001);
    assert_int_equal(json_get(map, "size")->valueint, 1);
    map = cJSON_GetArrayItem(spec_at(&f, "linux.gidMappings"), 0);
    assert_int_equal(json_get(map, "hostID")->valueint, 1002);
    assert_true(lists(mount_options(&f, "/proc"), "hidepid=2"));
    assert_false(lists(mount_options(&f, "/proc"), "gid=0"));
    assert_false(lists(mount_options(&f, "/workspace"), "uid=1000"));
    const cJSON *rule;
    cJSON_ArrayForEach(rule, spec_at(&f, "linux.seccomp.syscalls"))
    {
        if (lists(json_get(rule, "names"), "ptrace")) {
            assert_string_equal(json_get_str(rule, "action"), "SCMP_ACT_ERRNO");
        }
    }
    /* A child cannot have a lower value than its parent, nor a higher limit of descriptors. */
    assert_int_equal(number(&f, "process.oomScoreAdj"), 700);
    const cJSON *files = find(spec_at(&f, "process.rlimits"), "type", "RLIMIT_NOFILE");
    assert_int_equal(json_get(files, "hard")->valueint, 1024);
    cJSON_Delete(f.config);
}

static void without_user_namespace_devices_are_refused(void **state)
{
    (void)state;
    struct fixture f = make();
    f.mode.userns = OCI_USERNS_NONE;
    build(&f);
    assert_null(find(spec_at(&f, "linux.namespaces"), "type", "user"));
    assert_null(spec_at(&f, "linux.uidMappings"));
    const cJSON *device = cJSON_GetArrayItem(spec_at(&f, "linux.resources.devices"), 0);
    assert_true(cJSON_IsFalse(json_get(device, "allow")));
    cJSON_Delete(f.config);
}

/* The uid of user code and of the directories that it may write to; checks that they agree. */
static unsigned user_of(struct fixture *f)
{
    build(f);
    const cJSON *args = spec_at(f, "process.args");
    const char *uid = NULL, *gid = NULL;
    for (const cJSON *arg = args->child; arg->next != NULL; arg = arg->next) {
        uid = strcmp(arg->valuestring, "--uid") == 0 ? arg->next->valuestring : uid;
        gid = strcmp(arg->valuestring, "--gid") == 0 ? arg->next->valuestring : gid;
    }
    assert_string_equal(uid, gid);
    static const char *const targets[] = {"/workspace", "/tmp", "/home/user"};
    for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
        char owner[32];
        snprintf(owner, sizeof(owner), "uid=%s", uid);
        assert_true(lists(mount_options(f, targets[i]), owner));
    }
    unsigned user = (unsigned)strtoul(uid, NULL, 10);
    cJSON_Delete(f->config);
    f->config = NULL;
    return user;
}

static void without_user_namespace_code_has_an_id_that_nobody_has(void **state)
{
    (void)state;
    struct fixture f = make();
    f.mode.userns = OCI_USERNS_NONE;
    unsigned one = user_of(&f);
    assert_true(one > 2000200000u && one <= INT32_MAX);
    f.spec.id = "def";
    assert_int_not_equal(user_of(&f), one);
    f.spec.packages = "abc"; /* an installer for the first sandbox */
    assert_int_equal(user_of(&f), one);
    /* Inside a container it must be an id that is mapped there. */
    f.host.uids = (struct oci_ids){0, 65536};
    unsigned few = user_of(&f);
    assert_true(few >= 20000 && few < 60000);
    f.host.gids = (struct oci_ids){0, 2000};
    few = user_of(&f);
    assert_true(few >= 1000 && few < 2000);
}

static void environment_of_the_caller_wins(void **state)
{
    (void)state;
    struct fixture f = make();
    struct view env[] = {view_of("LANG=de_DE.UTF-8"), view_of("X=1=2"), view_of("EMPTY=")};
    f.spec.env = (struct view_list){env, 3};
    build(&f);
    const cJSON *list = spec_at(&f, "process.env");
    assert_true(lists(list, "LANG=de_DE.UTF-8") && lists(list, "X=1=2") && lists(list, "EMPTY="));
    assert_false(lists(list, "LANG=C.UTF-8"));
    assert_true(lists(list, "HOME=/home/user") && lists(list, "USER=user"));
    cJSON_Delete(f.config);

    static const char *const bad[] = {"", "novalue", "=x"};
    for (size_t i = 0; i < 3; i++) {
        struct err err = ERR_INIT;
        env[0] = view_of(bad[i]);
        assert_int_equal(try_build(&f, &err), -ERR_INVALID);
    }
    struct err err = ERR_INIT;
    env[0] = view_bytes("A=\0B", 4);
    assert_int_equal(try_build(&f, &err), -ERR_INVALID);
}

static void too_few_ids_are_an_error(void **state)
{
    (void)state;
    struct fixture f = make();
    f.host.uids = (struct oci_ids){0, 1000};
    struct err err = ERR_INIT;
    assert_int_equal(try_build(&f, &err), -ERR_ENGINE);
}

static void modes_survive_packing(void **state)
{
    (void)state;
    for (unsigned bits = 0; bits < 32768; bits++) {
        struct oci_mode in = {
            .userns = (enum oci_userns)(1 + bits % 3),
            .cgroups = (enum oci_cgroups)(1 + (bits >> 2) % 3),
            .hide = (bits & 16) != 0,
            .crun = (bits & 32) != 0,
            .choice = (bits >> 6) & 3,
            .views = (bits & 1024) != 0,
            .relay = (bits & 2048) != 0,
            .own_kernel = (bits & 4096) != 0,
            .counted = (bits & 8192) != 0,
            .gvisor = (bits & 16384) != 0,
        };
        in.memory = in.swap = in.cpu = in.pids = in.cgroups != OCI_CGROUPS_NONE && bits % 2 == 0;
        uint64_t packed = oci_mode_pack(&in);
        struct oci_mode out;
        assert_true(packed != 0 && packed <= UINT32_MAX);
        assert_true(oci_mode_unpack(packed, &out));
        assert_int_equal(oci_mode_pack(&out), packed);
        assert_true(out.views == in.views && out.relay == in.relay);
        assert_true(out.own_kernel == in.own_kernel && out.counted == in.counted);
    }
    struct oci_mode mode;
    static const uint64_t unknown[] = {0,          1,          0x20000000, 0x20000001,
                                       0x10000005, 0x2000010d, UINT32_MAX, UINT64_MAX};
    for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
        assert_false(oci_mode_unpack(unknown[i], &mode));
    }
}

static void what_is_missing_is_said(void **state)
{
    (void)state;
    struct oci_notes notes;
    struct oci_mode full = make().mode;
    oci_mode_unapplied(&full, true, "", &notes);
    assert_int_equal(notes.count, 0);
    full.swap = false;
    oci_mode_unapplied(&full, false, "", &notes);
    assert_int_equal(notes.count, 0);
    oci_mode_unapplied(&full, true, "", &notes);
    assert_int_equal(notes.count, 1);
    struct oci_mode none = {.userns = OCI_USERNS_SINGLE, .cgroups = OCI_CGROUPS_NONE};
    oci_mode_unapplied(&none, true, "the runtime's words", &notes);
    assert_int_equal(notes.count, 6);
    assert_non_null(strstr(notes.text[4], "private files: "));
    assert_non_null(strstr(notes.text[0], "memory: the runtime's words; RLIMIT_DATA"));
}

static void a_kernel_of_its_own_shares_no_files_and_says_what_it_lacks(void **state)
{
    (void)state;
    struct oci_notes notes;
    struct oci_mode own = make().mode;
    own.own_kernel = own.relay = true;
    own.views = false;
    oci_mode_unapplied(&own, true, "", &notes);
    assert_int_equal(notes.count, 0);
    own.hide = own.counted = false;
    oci_mode_unapplied(&own, true, "", &notes);
    assert_int_equal(notes.count, 2);
    assert_non_null(strstr(notes.text[0], "process limit: RLIMIT_NPROC does not hold"));
    assert_non_null(strstr(notes.text[1], "processes: "));
    own.cgroups = OCI_CGROUPS_NONE;
    own.memory = own.swap = own.cpu = own.pids = false;
    oci_mode_unapplied(&own, true, "", &notes);
    assert_non_null(strstr(notes.text[0], "nothing stands in"));
}

static void streams_by_a_relay_need_a_socket_inside(void **state)
{
    (void)state;
    struct fixture f = make();
    f.mode.relay = f.mode.own_kernel = true;
    build(&f);
    has_args(&f, "--listen", OCI_RELAY_SOCKET);
    assert_true(lists(mount_options(&f, OCI_RELAY_SOCKET_DIR), "mode=0700"));
    /* its kernel has room beside code: for itself, and for each process */
    assert_true(spec_at(&f, "linux.resources.memory.limit")->valuedouble > 512u << 20);
    assert_true(spec_at(&f, "linux.resources.pids.limit")->valuedouble > 10 * 256);
    cJSON_Delete(f.config);
}

static void overlays_come_below_all_else_and_the_trial_looks_for_them(void **state)
{
    (void)state;
    struct fixture f = make();
    build(&f);
    assert_null(find(spec_at(&f, "mounts"), "type", "overlay"));
    cJSON_Delete(f.config);
    f.root.lower = (char *)(uintptr_t) "skeleton:layers/empty";
    f.binds[0].lower = (char *)(uintptr_t) "layers/0:layers/empty";
    f.binds[0].noexec = true;
    build(&f);
    assert_string_equal(json_get_str(spec_at(&f, "mounts.0"), "destination"), "/");
    assert_true(lists(mount_options(&f, "/"), "lowerdir=skeleton:layers/empty"));
    assert_true(lists(mount_options(&f, "/usr"), "lowerdir=layers/0:layers/empty"));
    assert_true(lists(mount_options(&f, "/usr"), "noexec"));
    assert_true(lists(mount_options(&f, "/usr"), "nosuid"));
    assert_true(lists(spec_at(&f, "process.args"), "--views"));
    cJSON_Delete(f.config);
}

static void table_is_sorted(const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        assert_true(strlen(names[i]) > 0 &&
                    strspn(names[i], "abcdefghijklmnopqrstuvwxyz0123456789_") == strlen(names[i]));
        if (i > 0 && strcmp(names[i - 1], names[i]) >= 0) {
            fail_msg("%s comes before %s", names[i - 1], names[i]);
        }
    }
}

static bool in_table(const char *const *names, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(names[i], name) == 0) {
            return true;
        }
    }
    return false;
}

static void system_call_tables_are_sound(void **state)
{
    (void)state;
    size_t allowed_count, refused_count;
    const char *const *allowed = oci_seccomp_allowed(&allowed_count);
    const char *const *refused = oci_seccomp_refused(&refused_count);
    table_is_sorted(allowed, allowed_count);
    table_is_sorted(refused, refused_count);
    for (size_t i = 0; i < refused_count; i++) {
        assert_false(in_table(allowed, allowed_count, refused[i]));
    }
    /* Never allowed without a condition on its arguments. */
    static const char *const never[] = {
        "add_key",
        "bpf",
        "chroot",
        "clone",
        "clone3",
        "init_module",
        "io_uring_setup",
        "kexec_load",
        "keyctl",
        "mount",
        "open_by_handle_at",
        "perf_event_open",
        "personality",
        "pivot_root",
        "process_vm_writev",
        "ptrace",
        "reboot",
        "request_key",
        "setns",
        "socket",
        "socketcall",
        "swapon",
        "syslog",
        "umount2",
        "unshare",
        "userfaultfd",
    };
    for (size_t i = 0; i < sizeof(never) / sizeof(never[0]); i++) {
        assert_false(in_table(allowed, allowed_count, never[i]));
    }
    static const char *const always[] = {"execve", "exit_group", "futex", "getrandom",
                                         "mmap",   "openat",     "read",  "rseq",
                                         "statx",  "wait4",      "write"};
    for (size_t i = 0; i < sizeof(always) / sizeof(always[0]); i++) {
        assert_true(in_table(allowed, allowed_count, always[i]));
    }
}

static void unknown_calls_do_not_exist(void **state)
{
    (void)state;
    struct fixture f = make();
    build(&f);
    assert_string_equal(spec_at(&f, "linux.seccomp.defaultAction")->valuestring, "SCMP_ACT_ERRNO");
    assert_int_equal(number(&f, "linux.seccomp.defaultErrnoRet"), 38);
    assert_int_equal(cJSON_GetArraySize(spec_at(&f, "linux.seccomp.architectures")), 1);

    int clone_rules = 0, socket_rules = 0;
    const cJSON *rule;
    cJSON_ArrayForEach(rule, spec_at(&f, "linux.seccomp.syscalls"))
    {
        const cJSON *arg = cJSON_GetArrayItem(json_get(rule, "args"), 0);
        if (lists(json_get(rule, "names"), "clone")) {
            clone_rules++;
            assert_string_equal(json_get_str(arg, "op"), "SCMP_CMP_MASKED_EQ");
            assert_true(json_get(arg, "value")->valuedouble == 0x7e020000);
            assert_int_equal(json_get(arg, "valueTwo")->valueint, 0);
        }
        if (lists(json_get(rule, "names"), "socket")) {
            socket_rules++;
            assert_string_equal(json_get_str(arg, "op"), "SCMP_CMP_EQ");
            /* AF_VSOCK would reach the hypervisor. */
            if (json_get(arg, "value")->valueint == 40) {
                assert_string_equal(json_get_str(rule, "action"), "SCMP_ACT_ERRNO");
            }
        }
    }
    assert_int_equal(clone_rules, 1);
    assert_true(socket_rules >= 4);
    cJSON_Delete(f.config);
}

/* With devices, as many shares as there may be, and the longest command of a runtime. */
static void the_longest_command_has_room_and_a_failure_leaves_nothing(void **state)
{
    (void)state;
    struct fixture f = make();
    struct oci_box box = {.bundle = (char *)(uintptr_t) "/b"};
    struct oci_shares_command command;
    struct err err;
    const char *argv[OCI_ARGS_MAX + 1] = {NULL};
    for (size_t i = 0; i < OCI_ARGS_MAX; i++) {
        argv[i] = i + 1 < OCI_ARGS_MAX ? "word" : "last";
    }
    for (size_t i = 0; i < BACKEND_SHARES_MAX; i++) {
        f.spec.shares[i] = (struct backend_share){.name = "n", .host_path = "/h"};
    }
    f.spec.share_count = BACKEND_SHARES_MAX;
    assert_int_equal(oci_shares_wrap(&f.spec, &f.mode, &f.host, &box, argv, &command, &err), 0);
    assert_string_equal(command.items[1], "devices");
    assert_string_equal(command.items[command.count - 1], "last");
    assert_null(command.items[command.count]);
    oci_shares_command_finish(&command);

    f.host.uids.count = 1; /* what has been allocated by then nobody frees */
    assert_int_equal(oci_shares_wrap(&f.spec, &f.mode, &f.host, &box, argv, &command, &err),
                     -ERR_ENGINE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agent_is_told_every_limit),
        cmocka_unit_test(privileges_are_few_and_end_with_the_agent),
        cmocka_unit_test(a_profile_of_the_kernel_is_named),
        cmocka_unit_test(no_file_of_an_installer_is_larger_than_it_may_need),
        cmocka_unit_test(root_is_read_only_and_the_rest_is_capped),
        cmocka_unit_test(every_namespace_is_its_own),
        cmocka_unit_test(limits_go_to_the_cgroup),
        cmocka_unit_test(a_huge_limit_stays_an_integer),
        cmocka_unit_test(only_what_the_mode_has_is_asked_for),
        cmocka_unit_test(systemd_gets_a_scope_name),
        cmocka_unit_test(one_id_for_all_means_no_tracing_and_no_group),
        cmocka_unit_test(without_user_namespace_devices_are_refused),
        cmocka_unit_test(without_user_namespace_code_has_an_id_that_nobody_has),
        cmocka_unit_test(environment_of_the_caller_wins),
        cmocka_unit_test(too_few_ids_are_an_error),
        cmocka_unit_test(the_longest_command_has_room_and_a_failure_leaves_nothing),
        cmocka_unit_test(modes_survive_packing),
        cmocka_unit_test(what_is_missing_is_said),
        cmocka_unit_test(a_kernel_of_its_own_shares_no_files_and_says_what_it_lacks),
        cmocka_unit_test(streams_by_a_relay_need_a_socket_inside),
        cmocka_unit_test(overlays_come_below_all_else_and_the_trial_looks_for_them),
        cmocka_unit_test(system_call_tables_are_sound),
        cmocka_unit_test(unknown_calls_do_not_exist),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
