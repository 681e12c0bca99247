/*
 * The backend with a real runtime of this host and a stand-in for the agent. It skips itself with a
 * reason where no runtime works.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/clock.h"
#include "common/fd.h"
#include "tests/unit/worker/backend/oci/lab.h"
#include "worker/backend/mode.h"
#include "worker/backend/record.h"

#define SKIP 77

static void nothing_is_left(struct lab *lab)
{
    assert_int_equal(lab_count_entries(lab->dir), 0);
    assert_int_equal(lab_count_cgroups(lab->id), 0);
    assert_int_equal(lab_count_processes(lab->id), 0);
}

static int setup(void **state)
{
    struct lab *shared = *state;
    struct lab *lab = calloc(1, sizeof(*lab));
    lab_init(lab, "live", shared->spec.agent_path);
    lab->spec.mode = shared->spec.mode;
    *state = lab;
    return 0;
}

static int teardown(void **state)
{
    struct lab *lab = *state;
    lab_destroy(lab);
    lab_finish(lab);
    free(lab);
    return 0;
}

static void create(struct lab *lab)
{
    if (lab_create(lab) < 0) {
        fail_msg("%s", lab->err.text);
    }
}

/* Runs a command as user code and compares its whole output. */
static void expect(struct lab *lab, const char *command, const char *output)
{
    char line[4096];
    snprintf(line, sizeof(line), "user %s", command);
    char *text = lab_say(lab, line);
    bool same = strcmp(text, output) == 0;
    if (!same) {
        print_error("%s\n  printed: %s\n  expected: %s\n", command, text, output);
    }
    free(text);
    assert_true(same);
}

static struct oci_mode mode_of(const struct lab *lab)
{
    struct oci_mode mode;
    assert_true(oci_mode_unpack(lab->spec.mode, &mode));
    return mode;
}

static void a_sandbox_lives_and_leaves_nothing(void **state)
{
    struct lab *lab = *state;
    create(lab);
    assert_string_equal(lab->image, "host:/usr");
    assert_int_equal(lab->runtime[0], '/');
    expect(lab, "echo hello; echo $HOME $PWD", "hello\n/home/user /workspace\n");
    expect(lab, "echo kept > file", "");
    expect(lab, "cat file", "kept\n"); /* a new stream is opened each time */
    assert_int_equal(lab_usage(lab), 0);
    if (mode_of(lab).memory) {
        assert_true(lab->usage.memory_bytes > 0);
    }
    assert_int_equal(lab_destroy(lab), 0);
    nothing_is_left(lab);
    assert_int_equal(lab_stream(lab), -ERR_GONE);
    assert_int_equal(lab_destroy(lab), 0);
}

static void a_mode_of_zero_probes_first(void **state)
{
    struct lab *lab = *state;
    lab->spec.mode = 0;
    create(lab);
    expect(lab, "echo up", "up\n");
    assert_int_equal(lab_destroy(lab), 0);
    nothing_is_left(lab);
}

static void the_next_worker_finds_it(void **state)
{
    struct lab *lab = *state;
    create(lab);
    expect(lab, "echo before > file", "");
    lab_restart(lab);
    assert_int_equal(lab_attach(lab), 0);
    assert_string_equal(lab->image, "host:/usr");
    expect(lab, "cat file", "before\n");
    assert_int_equal(lab_usage(lab), 0);
    lab_restart(lab);
    assert_int_equal(lab_destroy(lab), 0); /* a sweep needs no attach */
    nothing_is_left(lab);
}

static void an_end_of_its_own_is_noticed(void **state)
{
    struct lab *lab = *state;
    create(lab);
    free(lab_say(lab, "quit"));
    int rc = 0;
    for (uint64_t end = clock_ms() + 5000; clock_ms() < end && rc == 0;) {
        rc = lab_stream(lab);
        if (rc == 0) {
            close(lab->fd);
        }
    }
    assert_int_equal(rc, -ERR_GONE);
    /* a process that ends has closed its sockets before its mounts are gone, and then is gone */
    rc = 0;
    for (uint64_t end = clock_ms() + 5000; clock_ms() < end && rc == 0;) {
        lab_restart(lab);
        rc = lab_attach(lab);
    }
    assert_int_equal(rc, -ERR_GONE);
    assert_int_equal(lab_destroy(lab), 0);
    nothing_is_left(lab);
}

static void it_is_destroyed_without_a_record(void **state)
{
    struct lab *lab = *state;
    char path[PATH_MAX + 32];
    create(lab);
    snprintf(path, sizeof(path), "%s/oci.record", lab->dir);
    assert_int_equal(unlink(path), 0);
    lab_restart(lab);
    assert_int_equal(lab_destroy(lab), 0);
    nothing_is_left(lab);
}

static void destroying_does_not_wait_for_what_runs(void **state)
{
    struct lab *lab = *state;
    create(lab);
    expect(lab, "sleep 600 >/dev/null 2>&1 & (trap '' TERM; sleep 601) >/dev/null 2>&1 & true", "");
    assert_int_equal(lab_destroy(lab), 0); /* nothing else ends them before the lab gives up */
    nothing_is_left(lab);
}

static void closing_in_the_middle_is_swept(void **state)
{
    struct lab *lab = *state;
    create(lab);
    lab_destroy(lab);
    lab_begin_create(lab);
    lab_restart(lab); /* forgets the creation */
    assert_int_equal(lab_destroy(lab), 0);
    nothing_is_left(lab);
}

static void code_has_no_privileges(void **state)
{
    struct lab *lab = *state;
    create(lab);
    expect(lab,
           "grep -E '^Cap(Inh|Prm|Eff|Bnd|Amb):' /proc/self/status | grep -vc 0000000000000000",
           "0\n");
    expect(lab, "grep -E '^(NoNewPrivs|Seccomp):' /proc/self/status | tr -d '\\t'",
           "NoNewPrivs:1\nSeccomp:2\n");
    expect(lab, "mount -t tmpfs none /tmp 2>/dev/null || echo refused", "refused\n");
    expect(lab, "unshare -U true 2>/dev/null || echo refused", "refused\n");
    if (mode_of(lab).hide) {
        expect(lab, "ls -d /proc/1 2>/dev/null | wc -l", "0\n");
    }
    expect(lab, "cat /proc/1/environ 2>/dev/null; echo $?", "1\n");
    expect(lab, "for f in /.cloister/x /.cloister/agent; do (: >> $f) 2>/dev/null || echo no; done",
           "no\nno\n");
}

static void the_host_cannot_be_seen_or_changed(void **state)
{
    struct lab *lab = *state;
    create(lab);
    expect(lab, "ls /home; ls /root /opt /mnt /media /srv 2>/dev/null | grep -v -e : -e '^$'",
           "user\n");
    expect(lab, "touch /x /etc/x /usr/x 2>/dev/null; echo $?", "1\n");
    expect(lab, "cat /etc/shadow 2>/dev/null; echo $?", "1\n");
    expect(lab, "ls /sys | wc -l", "0\n");
    expect(lab, "hostname", "sandbox\n");
    expect(lab, "ls /dev | grep -c -e sd -e vd -e kvm -e mem", "0\n");
    expect(lab, "cat /proc/net/dev | tail -n +3 | cut -d: -f1 | tr -d ' '", "lo\n");
}

static void the_disk_has_its_size(void **state)
{
    struct lab *lab = *state;
    create(lab);
    expect(lab, "head -c 8000000 /dev/zero > big 2>/dev/null; wc -c < big", "4194304\n");
    expect(lab,
           "rm big; seq 2000 | xargs touch 2>/dev/null; [ $(ls | wc -l) -lt 1100 ] && echo few",
           "few\n");
}

static void memory_has_its_limit(void **state)
{
    struct lab *lab = *state;
    if (!mode_of(lab).memory) {
        skip();
    }
    create(lab);
    expect(lab, "(head -c 200000000 /dev/zero | tail -c 190000000) >/dev/null 2>&1", "");
    assert_int_equal(lab_usage(lab), 0);
    assert_true(lab->usage.oom_kills >= 1);
    expect(lab, "echo alive", "alive\n");
}

static void memory_and_cpu_can_be_changed(void **state)
{
    struct lab *lab = *state;
    create(lab);
    lab->spec.limits.memory_bytes *= 4;
    lab->spec.limits.cpu_milli = 500;
    int rc = lab_limit(lab);
    if (!mode_of(lab).memory || mode_of(lab).cgroups == OCI_CGROUPS_SYSTEMD) {
        assert_int_equal(rc, -ERR_CONFIG);
        return;
    }
    if (rc < 0) {
        fail_msg("%s", lab->err.text);
    }
    /* more than it had at first, and less than it has now; then more than that */
    expect(lab, "(head -c 200000000 /dev/zero | tail -c 100000000) | wc -c", "100000000\n");
    assert_int_equal(lab_usage(lab), 0);
    assert_int_equal(lab->usage.oom_kills, 0);
    lab->spec.limits.memory_bytes /= 4;
    assert_int_equal(lab_limit(lab), 0);
    expect(lab, "(head -c 200000000 /dev/zero | tail -c 190000000) >/dev/null 2>&1", "");
    assert_int_equal(lab_usage(lab), 0);
    assert_true(lab->usage.oom_kills >= 1);
    expect(lab, "echo alive", "alive\n");
}

static void processes_have_their_limit(void **state)
{
    struct lab *lab = *state;
    if (!mode_of(lab).pids) {
        skip();
    }
    create(lab);
    expect(lab,
           "i=0; while [ $i -lt 200 ]; do sleep 60 >/dev/null 2>&1 & i=$((i+1)); done 2>/dev/null",
           "");
    assert_int_equal(lab_usage(lab), 0);
    assert_true(lab->usage.pids <= lab->spec.limits.pids + 32);
    assert_int_equal(lab_destroy(lab), 0);
    nothing_is_left(lab);
}

/* Makes it an installer for the sandbox of another lab. */
static void become_installer(struct lab *lab, const struct lab *owner)
{
    lab->spec.shared_dir = owner->shared;
    lab->spec.packages = owner->id;
    lab->spec.packages_write = true;
}

static void packages_are_written_by_an_installer_and_read_by_the_sandbox(void **state)
{
    struct lab *lab = *state;
    struct lab *installer = calloc(1, sizeof(*installer));
    lab_init(installer, "installer", lab->spec.agent_path);
    installer->spec.mode = lab->spec.mode;
    become_installer(installer, lab);
    assert_int_equal(lab_create(installer), -ERR_GONE); /* there is no sandbox to install for */

    lab->spec.packages = lab->id;
    create(lab);
    expect(lab, "ls /packages; echo x > /packages/python/x || echo no",
           "node\npython\nsh: 1: cannot create /packages/python/x: Read-only file system\nno\n");
    create(installer);
    expect(installer,
           "cd /packages/python; umask 077; echo private > own; umask 022; mkdir -p a/b; "
           "echo text > a/b/c; echo '#!/bin/sh' > run; echo 'echo runs' >> run; chmod 755 run; ls",
           "a\nown\nrun\n");
    expect(lab, "cat /packages/python/a/b/c; /packages/python/run",
           "text\nruns\n"); /* visible at once */
    if (geteuid() == 0) {   /* without root both are the same user */
        expect(lab, "cat /packages/python/own", "private\n");
    }
    expect(installer, "cd /packages/node; mkdir -p m/n; echo x > m/n/o; chmod 0 m/n m", "");
    assert_int_equal(lab_destroy(installer), 0);
    nothing_is_left(installer);
    lab_finish(installer);
    free(installer);

    expect(lab, "cat /packages/python/a/b/c", "text\n");
    lab_restart(lab); /* the next worker removes them, too */
    assert_int_equal(lab_destroy(lab), 0);
    char path[PATH_MAX * 2];
    snprintf(path, sizeof(path), "%s/packages-%s", lab->shared, lab->id);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(lab_count_entries(lab->dir), 1); /* left for the next sweep */
    struct err err;
    snprintf(path, sizeof(path), "%s/packages", lab->dir);
    assert_int_equal(dir_remove(path, &err), 0);
    nothing_is_left(lab);
}

static void files_of_the_host_can_be_shown(void **state)
{
    struct lab *lab = *state;
    char dir[PATH_MAX], file[PATH_MAX + 8];
    snprintf(dir, sizeof(dir), "%.2000s/wheels", lab->top);
    snprintf(file, sizeof(file), "%s/one.whl", dir);
    assert_int_equal(mkdir(dir, 0755), 0);
    FILE *f = fopen(file, "w");
    assert_non_null(f);
    fputs("wheel\n", f);
    fclose(f);
    assert_int_equal(chmod(dir, 0755) | chmod(file, 0644), 0);
    lab->spec.mounts[0] = (struct backend_mount){dir, "/offered/some/wheels"};
    lab->spec.mounts[1] = (struct backend_mount){file, "/etc/ssl/authorities.pem"};
    lab->spec.mounts[2] = (struct backend_mount){file, "/run/here/it.is"};
    lab->spec.mount_count = 3;
    create(lab);
    expect(lab, "cat /offered/some/wheels/one.whl /etc/ssl/authorities.pem /run/here/it.is",
           "wheel\nwheel\nwheel\n");
    expect(lab, "(echo > /offered/some/wheels/two) 2> /dev/null || echo no", "no\n");
    assert_int_equal(lab_destroy(lab), 0);
    lab->spec.mounts[0].host_path = "/absent";
    assert_int_equal(lab_create(lab), -ERR_CONFIG);
    assert_non_null(strstr(lab->err.text, "/absent"));
    nothing_is_left(lab);
    lab->spec.mount_count = 0;
    create(lab); /* not visible to a sandbox that did not ask for it */
    expect(lab, "ls -d /offered /etc/ssl/authorities.pem 2> /dev/null", "");
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: test_oci_live STANDIN\n");
        return 2;
    }
    umask(077); /* the umask of workers */
    struct lab lab;
    lab_init(&lab, "probe", argv[1]);
    lab_probe(&lab);
    lab.spec.mode = lab.mode;
    int left = lab_count_entries(lab.dir) + lab_count_cgroups(lab.id) + lab_count_processes(lab.id);
    bool usable = lab.usable;
    lab_finish(&lab);
    if (!usable) {
        printf("skipped: %s\n", lab.reason);
        return SKIP;
    }
    if (left != 0) {
        fprintf(stderr, "the probe left something behind\n");
        return 1;
    }
#define TEST(name) cmocka_unit_test_prestate_setup_teardown(name, setup, teardown, &lab)
    const struct CMUnitTest tests[] = {
        TEST(a_sandbox_lives_and_leaves_nothing),
        TEST(a_mode_of_zero_probes_first),
        TEST(the_next_worker_finds_it),
        TEST(an_end_of_its_own_is_noticed),
        TEST(it_is_destroyed_without_a_record),
        TEST(destroying_does_not_wait_for_what_runs),
        TEST(closing_in_the_middle_is_swept),
        TEST(code_has_no_privileges),
        TEST(the_host_cannot_be_seen_or_changed),
        TEST(the_disk_has_its_size),
        TEST(memory_has_its_limit),
        TEST(memory_and_cpu_can_be_changed),
        TEST(processes_have_their_limit),
        TEST(packages_are_written_by_an_installer_and_read_by_the_sandbox),
        TEST(files_of_the_host_can_be_shown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
