/*
 * What user code cannot do: survive its interpreter or its keeper, see, trace or signal the agent,
 * keep a capability. The agent is pid 1 of a namespace of its own here.
 */
#include "tests/unit/worker/agent/fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/bpf.h"
#include "tests/lib/needs.h"

/* Kills the running operation by force, as a deadline does in the end. */
static struct agent_result *kill_after_first_output(struct fixture *f, const char *language,
                                                    const char *code)
{
    struct msg_start s = agent_code(&f->link, language, code);
    const char *op = s.op.data;
    start_only(f, &s, AGENT_CLIENT_WAIT_MS);
    cancel(f, op, OP_STOP_TIMEOUT, true);
    struct agent_result *r = follow(f, op);
    assert_status(r, OP_STATUS_TIMEOUT);
    assert_int_equal(r->last.interpreter, OP_INTERPRETER_RESTARTED);
    return r;
}

/* How many processes of the sandbox user run a command of this name, zombies excluded. */
static int count_of(struct fixture *f, const char *name)
{
    char code[256];
    snprintf(code, sizeof(code),
             "n=0; for s in /proc/[0-9]*/stat; do read -r pid name state rest <$s && "
             "[ \"$name\" = '(%s)' ] && [ $state != Z ] && [ $state != X ] && n=$((n+1)); "
             "done 2>/dev/null; echo $n",
             name);
    struct agent_result *r = run(f, "bash", code);
    assert_status(r, OP_STATUS_OK);
    return (int)strtol(r->out, NULL, 10);
}

static void processes_that_escape_die_with_their_run(void **state)
{
    struct fixture *f = fixture_of(state);
    kill_after_first_output(f, "python",
                            "import os, subprocess, time\n"
                            "subprocess.Popen(['setsid', 'sleep', '600'])\n"
                            "if os.fork() == 0:\n"
                            "    os.setsid()\n"
                            "    if os.fork() == 0:\n"
                            "        os.execvp('sleep', ['sleep', '601'])\n"
                            "    os._exit(0)\n"
                            "time.sleep(0.2)\n"
                            "print('in')\ntime.sleep(60)");
    assert_int_equal(count_of(f, "sleep"), 0);
    /* the same when the interpreter ends by itself */
    run(f, "python",
        "import subprocess, os\nsubprocess.Popen(['setsid', 'sleep', '602'])\nos._exit(0)");
    assert_int_equal(count_of(f, "sleep"), 0);
}

static void children_of_kept_interpreters_live(void **state)
{
    struct fixture *f = fixture_of(state);
    run(f, "python", "import subprocess\np = subprocess.Popen(['sleep', '603'])");
    assert_int_equal(count_of(f, "sleep"), 1); /* it belongs to a running interpreter */
    run(f, "python", "p.kill(); p.wait()");
}

/* Processes that a stopped run has started end with it, wherever they are, while the interpreter
 * and the processes of earlier runs go on. */
static void children_of_stopped_runs_die(void **state)
{
    static const char *const codes[][2] = {
        {"python", "import os, subprocess, time\n"
                   "e = subprocess.Popen(['sleep', '604'], start_new_session=True)\n"
                   "if os.fork() == 0:\n"
                   "    os.setsid()\n"
                   "    if os.fork() == 0:\n"
                   "        os.closerange(0, 64)\n"
                   "        os.execvp('sleep', ['sleep', '605'])\n"
                   "    os._exit(0)\n"
                   "print('in', flush=True)\nwhile True: time.sleep(1)"},
        {"bash", "setsid sleep 606 & (nohup sleep 607 >/dev/null 2>&1 &); echo in; wait"},
    };
    struct fixture *f = fixture_of(state);
    run(f, "python", "import subprocess\np = subprocess.Popen(['tail', '-f', '/dev/null'])");
    run(f, "bash", "sh -c 'kill -STOP $$' & stopped=$!");
    for (size_t i = 0; i < 20; i++) {
        run_interrupted(f, codes[i % 2][0], codes[i % 2][1], 0);
        assert_int_equal(count_of(f, "sleep"), 0);
        assert_int_equal(count_of(f, "tail"), 1);
        assert_int_equal(count_of(f, "sh"), 1);
    }
    run(f, "python", "p.kill(); p.wait()");
    run(f, "bash", "kill -9 $stopped; wait");
    assert_int_equal(count_of(f, "sh"), 0);
}

/* Each process of these starts the next one and ends, so that a list of processes may show none.
 * The living one holds the lock of the file "held", which a test can query. */
static const char *const chains[] = {
    /* fork, exit */
    "import fcntl, os, time\n"
    "first = os.fork()\n"
    "if first == 0:\n"
    "    fcntl.flock(os.open('held', os.O_CREAT | os.O_RDWR, 0o666), fcntl.LOCK_EX)\n"
    "    while True:\n"
    "        if os.fork(): os._exit(0)\n"
    "os.waitpid(first, 0)\n"
    "os.write(1, b'in')\n"
    "while True: time.sleep(1)",
    /* each in a session of its own */
    "import fcntl, os, time\n"
    "first = os.fork()\n"
    "if first == 0:\n"
    "    fcntl.flock(os.open('held', os.O_CREAT | os.O_RDWR, 0o666), fcntl.LOCK_EX)\n"
    "    while True:\n"
    "        if os.fork(): os._exit(0)\n"
    "        os.setsid()\n"
    "os.waitpid(first, 0)\n"
    "os.write(1, b'in')\n"
    "while True: time.sleep(1)",
    /* two forks and an exec of another program each time */
    "import os, subprocess, time\n"
    "open('chain.sh', 'w').write('(sh chain.sh &)\\n')\n"
    "subprocess.run(['sh', '-c', 'exec 9>held; flock 9; sh chain.sh &'])\n"
    "os.write(1, b'in')\n"
    "while True: time.sleep(1)",
};

static void children_that_are_always_another_process_die_too(void **state)
{
    struct fixture *f = fixture_of(state);
    char *path = alloc_printf("%s/held", f->agent.workspace);
    run(f, "python", "while True: os.waitpid(-1, 0)");       /* reaps earlier children */
    run(f, "bash", "for i in {1..22}; do sleep 600 & done"); /* many processes, so that reading them
                                                                takes time */
    for (size_t i = 0; i < 240; i++) {
        struct msg_start s = agent_code(&f->link, "python", chains[i % 3]);
        start_only(f, &s, AGENT_CLIENT_WAIT_MS);
        cancel(f, s.op.data, OP_STOP_TIMEOUT, false);
        struct agent_result *r = follow(f, s.op.data);
        assert_status(r, OP_STATUS_TIMEOUT);
        int fd = open(path, O_RDWR | O_CLOEXEC);
        assert_true(fd >= 0);
        bool survived = flock(fd, LOCK_EX | LOCK_NB) < 0;
        close(fd);
        assert_false(survived);
        assert_int_equal(unlink(path), 0);
        assert_string_equal(run(f, "python", "'fine'")->result, "'fine'");
    }
    free(path);
    run(f, "bash", "kill -9 $(jobs -p); wait");
    assert_int_equal(count_of(f, "sleep"), 0);
}

/* The children of a stopped run are killed without their parent, and may never be reaped: they must
 * not count among the eighty processes that code may have. */
static void dead_children_of_stopped_runs_take_nobodys_place(void **state)
{
    static const struct {
        const char *language, *code, *probe;
    } cases[] = {
        {"python",
         "import subprocess, time\n"
         "several = [subprocess.Popen(['sleep', '600']) for _ in range(60)]\n"
         "print('in', flush=True)\nwhile True: time.sleep(1)",
         "subprocess.run(['echo', 'fine'])"},
        {"python",
         "import os, signal, time\n"
         "for _ in range(60):\n"
         "    if os.fork() == 0:\n"
         "        while True: signal.pause()\n"
         "print('in', flush=True)\nwhile True: time.sleep(1)",
         "import subprocess; subprocess.run(['echo', 'fine'])"},
        {"python",
         "import multiprocessing, time\n"
         "context = multiprocessing.get_context('fork')\n"
         "several = [context.Process(target=time.sleep, args=(600,)) for _ in range(60)]\n"
         "for one in several: one.start()\n"
         "print('in', flush=True)\nwhile True: time.sleep(1)",
         "import subprocess; subprocess.run(['echo', 'fine'])"},
        {"python",
         "import asyncio\n"
         "several = [await asyncio.create_subprocess_exec('sleep', '600') for _ in range(30)]\n"
         "print('in', flush=True)\nwhile True: await asyncio.sleep(1)",
         "import subprocess; subprocess.run(['echo', 'fine']); await asyncio.sleep(0)"},
        {"bash", "for i in {1..60}; do sleep 600 & done; echo in; wait", "/bin/echo fine"},
        {"javascript",
         "for (let i = 0; i < 60; i++) require('child_process').spawn('sleep', ['600']);\n"
         "console.log('in'); while (true) ;",
         "require('child_process').execFileSync('echo', ['fine'], {stdio: 'inherit'}); 0"},
    };
    struct fixture *f = fixture_of(state);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (strcmp(cases[i].language, "javascript") == 0 && !needs_has_program("node")) {
            continue;
        }
        run(f, cases[i].language, strcmp(cases[i].language, "bash") == 0 ? "true" : "1");
        for (int k = 0; k < 4; k++) {
            run_interrupted(f, cases[i].language, cases[i].code, 0);
            struct agent_result *r = run(f, cases[i].language, cases[i].probe);
            assert_status(r, OP_STATUS_OK);
            assert_string_equal(r->out, "fine\n");
            assert_string_equal(r->err, "");
            assert_int_equal(r->last.interpreter, OP_INTERPRETER_KEPT);
        }
        run(f, cases[i].language,
            strcmp(cases[i].language, "python") == 0 ? "import os; os._exit(0)"
            : strcmp(cases[i].language, "bash") == 0 ? "exit 0"
                                                     : "process.exit(0)");
    }
}

/* Killing the children does not affect later code: code that waits for them gets their exit
 * status. */
static void later_runs_learn_how_children_of_a_stopped_run_have_ended(void **state)
{
    struct fixture *f = fixture_of(state);
    run(f, "python", "import subprocess\nolder = subprocess.Popen(['false'])");
    run_interrupted(
        f, "python",
        "import asyncio, multiprocessing, os, signal, time\n"
        "sleep = ['sleep', '600']\n"
        "class Own(subprocess.Popen): pass\n"
        "subprocess.Popen = Own\n"
        "handler = signal.signal(signal.SIGINT, signal.SIG_IGN)\n" /* user code's, too */
        "popens = [kind(sleep) for kind in (Own.__base__, Own)]\n"
        "context = multiprocessing.get_context('fork')\n"
        "process = context.Process(target=time.sleep, args=(600,))\n"
        "process.start()\n"
        "forked = os.fork()\n"
        "if forked == 0: time.sleep(600)\n"
        "awaited = await asyncio.create_subprocess_exec(*sleep)\n"
        "signal.signal(signal.SIGINT, handler)\n"
        "print('in', flush=True)\nwhile True: time.sleep(1)",
        0);
    struct agent_result *r = run(f, "python", "[p.returncode for p in popens]");
    assert_string_equal(r->result, "[-9, -9]"); /* without having asked for it */
    r = run(f, "python", "[p.wait() for p in popens], older.wait()");
    assert_string_equal(r->result, "([-9, -9], 1)");
    r = run(f, "python", "process.join(60); process.exitcode");
    assert_string_equal(r->result, "-9");
    r = run(f, "python", "os.waitstatus_to_exitcode(os.waitpid(forked, 0)[1])");
    assert_string_equal(r->result, "-9");
    r = run(f, "python", "await asyncio.wait_for(awaited.wait(), 60)");
    assert_string_equal(r->result, "-9");
    assert_string_equal(r->err, "");
    run(f, "python", "os._exit(0)");
}

static void after_a_fork_bomb_code_runs_again(void **state)
{
    struct fixture *f = fixture_of(state);
    kill_after_first_output(f, "bash", "echo in; b() { b | b & }; b; sleep 60");
    assert_string_equal(run(f, "bash", "echo fine")->out, "fine\n");
    kill_after_first_output(f, "python",
                            "import os\nprint('in', flush=True)\n"
                            "while True:\n"
                            "    try: os.fork()\n"
                            "    except OSError: pass");
    assert_string_equal(run(f, "python", "'fine'")->result, "'fine'");
    /* one that ends its own shell, which forks no more: if that failed, the shell would go on */
    run(f, "bash", "b() { b | b & }; b; for ((i = 0; i < 50000; i++)); do :; done; exit 0");
    assert_string_equal(run(f, "bash", "echo fine")->out, "fine\n");
    assert_true(count_of(f, "bash") <= 3);
}

/* Code that uses all the processes that it may have does not prevent other interpreters from
 * starting. */
static void interpreters_start_when_all_processes_are_taken(void **state)
{
    struct fixture *f = fixture_of(state);
    run(f, "bash", "exit 0"); /* its process is replaced, too */
    struct agent_result *r = run(f, "python",
                                 "import os, signal\n"
                                 "taken = []\n"
                                 "try:\n"
                                 "    while True:\n"
                                 "        taken.append(os.fork())\n"
                                 "        if taken[-1] == 0:\n"
                                 "            while True: signal.pause()\n"
                                 "except OSError as e: print(type(e).__name__)");
    assert_status(r, OP_STATUS_OK);
    assert_string_equal(r->out, "BlockingIOError\n");
    const struct view argv[] = {view_of("bash"), view_of("-c"), view_of("echo program")};
    for (int i = 0; i < 10; i++) {
        r = run(f, "bash", "echo fine");
        assert_status(r, OP_STATUS_OK);
        assert_string_equal(r->out, "fine\n");
        assert_int_equal(r->last.interpreter, OP_INTERPRETER_RESTARTED);
        struct msg_start s = agent_code(&f->link, "", "");
        s.kind = OP_RUN;
        s.args = (struct view_list){argv, sizeof(argv) / sizeof(argv[0])};
        r = run_start(f, &s);
        assert_status(r, OP_STATUS_OK);
        assert_string_equal(r->out, "program\n");
        run(f, "bash", "exit 0");
    }
    r = run(f, "python", "for p in taken: os.kill(p, 9); os.waitpid(p, 0)\n'fine'");
    assert_string_equal(r->result, "'fine'");
}

static void a_tree_that_restarts_itself_dies(void **state)
{
    struct fixture *f = fixture_of(state);
    /* children that keep waking each other up and restarting those that die */
    kill_after_first_output(f, "python",
                            "import os, signal, time\n"
                            "for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP): "
                            "signal.signal(s, signal.SIG_IGN)\n"
                            "pids = []\n"
                            "for i in range(6):\n"
                            "    pid = os.fork()\n"
                            "    if pid == 0:\n"
                            "        while True:\n"
                            "            try: os.kill(-1, signal.SIGCONT)\n"
                            "            except OSError: pass\n"
                            "            if os.fork() == 0: os._exit(0)\n"
                            "            os.wait()\n"
                            "print('in', flush=True)\ntime.sleep(60)");
    assert_string_equal(run(f, "python", "'fine'")->result, "'fine'");
    assert_true(count_of(f, "python3") <= 1);
}

static void user_code_finds_no_way_to_the_agent(void **state)
{
    struct fixture *f = fixture_of(state);
    struct agent_result *r =
        run(f, "bash",
            "kill -9 1 2>/dev/null; kill -STOP 1 2>/dev/null; kill -INT 1 2>/dev/null\n"
            "cat /proc/1/maps 2>/dev/null; cat /proc/1/environ 2>/dev/null\n"
            "readlink /proc/1/fd/* /proc/1/exe 2>/dev/null; echo done");
    assert_string_equal(r->out, "done\n");
    r = run(f, "python",
            "import ctypes, os\nlibc = ctypes.CDLL(None, use_errno=True)\n"
            "[libc.ptrace(16, p, 0, 0) for p in (1, os.getppid())]");
    assert_string_equal(r->result, "[-1, -1]");
    if (geteuid() == 0) {
        /* keepers and agent belong to another user, and /proc does not show them */
        r = run(
            f, "python",
            "got = []\n"
            "for p in (1, os.getppid()):\n"
            "    try: os.kill(p, 9)\n"
            "    except OSError as e: got.append(type(e).__name__)\n"
            "got, os.path.exists('/proc/1'), set(os.getresuid() + os.getresgid()), os.getgroups()");
        char *expected = alloc_printf("(['PermissionError', 'PermissionError'], False, {%u}, [])",
                                      (unsigned)f->agent.user);
        assert_string_equal(r->result, expected);
        free(expected);
    }
    r = run(f, "python", "1");
    assert_int_equal(r->last.interpreter, OP_INTERPRETER_KEPT);
}

static void user_code_has_no_privileges(void **state)
{
    struct fixture *f = fixture_of(state);
    struct agent_result *r = run(
        f, "bash", "grep -E '^(Cap|NoNewPrivs|Sig(Blk|Ign))' /proc/self/status; umask; ulimit -c");
    static const char *const none[] = {"CapInh:\t0000000000000000",
                                       "CapPrm:\t0000000000000000",
                                       "CapEff:\t0000000000000000",
                                       "CapAmb:\t0000000000000000",
                                       "NoNewPrivs:\t1",
                                       "SigBlk:\t0000000000000000",
                                       "SigIgn:\t0000000000000000",
                                       "\n0022\n0\n"};
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
        assert_contains(r->out, none[i]);
    }
    if (geteuid() == 0) {
        assert_contains(r->out, "CapBnd:\t0000000000000000");
    }
    r = run(f, "bash", "cat /proc/self/oom_score_adj; ulimit -u");
    assert_contains(r->out, "1000\n40\n");
    r = run(f, "python", "import os; sorted(map(int, os.listdir('/proc/self/fd')))[:4]");
    assert_string_equal(r->result, "[0, 1, 2, 3]"); /* 3 is the listing itself */
    r = run(f, "bash", "sleep 0.01; ls -l /proc/self/fd | grep -c socket");
    assert_string_equal(r->out, "0\n");
}

/* A file operation works when the user's processes are used up, and does not follow links to files
 * that only the agent could open. */
static void files_are_opened_as_the_user_even_without_processes(void **state)
{
    struct fixture *f = fixture_of(state);
    struct msg_start bomb =
        agent_code(&f->link, "bash", "for i in {1..60}; do sleep 5 & done; echo in; wait");
    const char *op = bomb.op.data;
    start_only(f, &bomb, AGENT_CLIENT_WAIT_MS);
    struct msg_start s = agent_code(&f->link, "", "x");
    s.kind = OP_FILE_WRITE;
    s.path = view_of("under-pressure");
    assert_status(run_start(f, &s), OP_STATUS_OK);
    cancel(f, op, OP_STOP_CANCEL, true);
    follow(f, op);
    s = agent_code(&f->link, "", "");
    s.kind = OP_FILE_READ;
    s.path = view_of("/proc/1/environ");
    assert_status(run_start(f, &s), OP_STATUS_FAILED);
    s = agent_code(&f->link, "", "");
    s.kind = OP_FILE_READ;
    s.path = view_of("/proc/self/mem");
    assert_status(run_start(f, &s), OP_STATUS_FAILED);
}

static int start_with_room(void **state)
{
    return fixture_start_with(state, (struct agent_options){.own_namespace = true, .nproc = 80});
}

/* From now on this process and its children meet a kernel that knows limits of pending signals and
 * message queues, but sets none, as gVisor's does. */
static int start_on_another_kernel(void **state)
{
    static const unsigned unknown[] = {RLIMIT_SIGPENDING, RLIMIT_MSGQUEUE};
    struct bpf_program p;
    bpf_begin(&p, SECCOMP_RET_ALLOW);
    bpf_jump(&p, BPF_JEQ, SYS_prlimit64, 1, 0);
    bpf_answer(&p, SECCOMP_RET_ALLOW);
    bpf_load(&p, offsetof(struct seccomp_data, args[2]));
    bpf_jump(&p, BPF_JEQ, 0, 0, 1); /* reads a limit, and sets none */
    bpf_answer(&p, SECCOMP_RET_ALLOW);
    bpf_load(&p, offsetof(struct seccomp_data, args[1]));
    bpf_answer_each(&p, unknown, BPF_COUNT(unknown), BPF_ERROR(EPERM));
    bpf_answer(&p, SECCOMP_RET_ALLOW);
    const struct sock_fprog program = {p.len, p.code};
    const struct rlimit none = {0, 0};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0 ||
        setrlimit(RLIMIT_MSGQUEUE, &none) == 0 || errno != EPERM) {
        return -1;
    }
    return fixture_start_in_namespace(state);
}

static void code_runs_where_a_limit_for_the_host_cannot_be_set(void **state)
{
    struct fixture *f = fixture_of(state);
    assert_string_equal(run(f, "python", "6 * 7")->result, "42");
    assert_string_equal(run(f, "bash", "echo here")->out, "here\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(processes_that_escape_die_with_their_run),
        cmocka_unit_test(children_of_kept_interpreters_live),
        cmocka_unit_test(children_of_stopped_runs_die),
        cmocka_unit_test(children_that_are_always_another_process_die_too),
        cmocka_unit_test_setup_teardown(dead_children_of_stopped_runs_take_nobodys_place,
                                        start_with_room, fixture_stop),
        cmocka_unit_test(later_runs_learn_how_children_of_a_stopped_run_have_ended),
        cmocka_unit_test(after_a_fork_bomb_code_runs_again),
        cmocka_unit_test(interpreters_start_when_all_processes_are_taken),
        cmocka_unit_test(a_tree_that_restarts_itself_dies),
        cmocka_unit_test(user_code_finds_no_way_to_the_agent),
        cmocka_unit_test(user_code_has_no_privileges),
        cmocka_unit_test(files_are_opened_as_the_user_even_without_processes),
        cmocka_unit_test_setup_teardown(code_runs_where_a_limit_for_the_host_cannot_be_set,
                                        start_on_another_kernel, fixture_stop), /* the last */
    };
    if (!fixture_namespace_allowed()) {
        return 0;
    }
    return cmocka_run_group_tests(tests, fixture_start_in_namespace, fixture_stop);
}
