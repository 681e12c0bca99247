"""Sandboxes with a kernel of their own, by gVisor's runsc on the oci backend: what runs, what outlives a worker and a server, and what is
told of the differences. Other files run under it by hand: CLOISTER_RUNTIME=runsc (contrib/docs/engines.md)."""

import os
import shutil
import signal

RUNTIME = shutil.which("runsc")
if RUNTIME is not None:
    os.environ["CLOISTER_RUNTIME"] = RUNTIME  # before anything looks for the runtime under test

from common import ON_OCI, Server, Shared, Suite, contains, doctor, equal, needs_runtime, poll, skip_all  # noqa: E402
import mcp  # noqa: E402

if not ON_OCI:
    skip_all("is about the oci backend")
if RUNTIME is None:
    skip_all("runsc is not installed")
if os.getuid() != 0:
    skip_all("gVisor wants root")
needs_runtime()
suite = Suite()
shared = Shared()

WAITS = "open('begun', 'w').close()\nwhile not os.path.exists('go'): time.sleep(0.02)\n"


@suite.case("code runs on a kernel that is not this host's")
def another_kernel():
    release = shared.run("import os; os.uname().release + os.uname().version")["result"]
    assert release.strip("'") != os.uname().release + os.uname().version, release


@suite.case("live Python, JavaScript and bash keep their state, and a run has CPU time and memory")
def live_languages():
    for language, first, second in (
        ("python", "x = 40", "print(x + 2)"),
        ("javascript", "let x = 40", "console.log(x + 2)"),
        ("bash", "x=42", "echo $x"),
    ):
        equal(shared.run(first, language=language)["status"], "ok", language)
        equal(shared.stdout(second, language=language), "42\n", language)
    busy = shared.run("import time\nuntil = time.monotonic() + 0.5\nwhile time.monotonic() < until: pass")
    assert busy["cpu_ms"] > 0 and busy["max_rss_kb"] > 0, busy


@suite.case("stdin, files and the workspace")
def files():
    equal(shared.run("input() + '!'", stdin="a line\n")["result"], "'a line!'")
    server, sandbox = shared.get()
    server.call("write_file", sandbox_id=sandbox, path="in.txt", content="inside")
    made = shared.run("open('out.txt', 'w').write(open('in.txt').read() * 2)")
    contains([entry["path"] for entry in made["files"]], "out.txt")
    equal(server.read_text("out.txt", sandbox), "insideinside")


@suite.case("a deadline interrupts code and keeps the interpreter")
def deadline():
    shared.run("kept = 5")
    equal(shared.run("while True: pass", timeout_seconds=1)["status"], "timeout")
    equal(shared.run("kept")["result"], "5")


@suite.case("a process that has left its parent ends with the interpreter, and those of others go on")
def orphans():
    detach = "import os, subprocess\nsubprocess.run('sleep {0} & echo $! > {0}', shell=True)\nint(open('{0}').read())"
    theirs = shared.run("sh -c 'sleep 777 & echo $! > 777'; cat 777", language="bash")["stdout"].strip()
    ours = shared.run(detach.format(888))["result"]
    equal(shared.run("os._exit(0)")["status"], "crashed")
    there = "[os.path.exists(f'/proc/{pid}') for pid in (%s, %s)]" % (ours, theirs)
    equal(shared.run("import os\n" + there)["result"], "[False, True]")


# Programs in Perl, as every Debian has it. The first leaves a process, and tells in the end whether that is still there.
LEAVES = """system(q(sh -c 'sleep 778 & echo $! >left')); print "done\\n";"""
HOLDS = LEAVES.replace("left", "held") + """
open(my $begun, '>', 'begun'); select(undef, undef, undef, 0.05) until -e 'go';
open(my $held, '<', 'held'); print kill(0, <$held> + 0) ? "there\\n" : "gone\\n";
"""


@suite.case("what a program has left behind ends with it, and not with another program")
def orphans_of_programs():
    server, sandbox = shared.fresh()
    program = {"sandbox_id": sandbox, "language": "perl"}
    pending = server.start_call("execute_code", code=HOLDS, **program)
    poll("the first runs", lambda: server.read_text("begun", sandbox) is not None)
    for _ in range(3):
        equal(server.run(LEAVES, **program)["stdout"], "done\n")
    server.call("write_file", sandbox_id=sandbox, path="go", content="")
    equal(pending.structured()["stdout"], "done\nthere\n")
    there = """print -e "/proc/$_" ? "there\\n" : "gone\\n" for map { open(my $f, '<', $_); <$f> + 0 } qw(held left);"""
    equal(server.run(there, **program)["stdout"], "gone\ngone\n")
    server.call("close_sandbox", sandbox_id=sandbox)


@suite.case("a worker is killed in the middle of a call: the next one opens a stream by a relay, and the result comes")
def worker_killed():
    server, sandbox = shared.fresh()
    server.run("import os, time; x = 41", sandbox_id=sandbox)
    pending = server.start_call("execute_code", sandbox_id=sandbox, code=WAITS + "x + 1")
    poll("the code runs", lambda: server.read_text("begun", sandbox) is not None)
    os.kill(server.worker_pid(sandbox), signal.SIGKILL)
    server.call("write_file", sandbox_id=sandbox, path="go", content="")
    equal(pending.structured()["result"], "42")
    server.call("close_sandbox", sandbox_id=sandbox)
    poll("nothing of it is left", lambda: not mcp.traces_of(sandbox))


@suite.case("a server is killed with its worker: the next one adopts the sandbox with its state")
def adopted():
    first = Server("--instance", "main")
    first.legacy()
    sandbox = first.call("create_sandbox")["sandbox_id"]
    first.run("x = 43", sandbox_id=sandbox)
    worker = first.worker_pid(sandbox)
    first.kill()
    os.kill(worker, signal.SIGKILL)
    second = Server("--instance", "main", runtime_dir=first.runtime_dir)
    second.legacy()
    equal(second.run("x", sandbox_id=sandbox)["result"], "43")
    second.process.send_signal(signal.SIGINT)
    equal(second.wait_exit(), 0, second.log_tail())
    equal(mcp.traces_of(sandbox), [])


@suite.case("as many processes as there may be, and no more")
def processes():
    server, sandbox = shared.fresh(pids=20)
    code = """
import subprocess
held = []
try:
    while len(held) < 60:
        held.append(subprocess.Popen(["sleep", "600"]))
except OSError as problem:
    print(type(problem).__name__)
len(held) < 25
"""
    done = server.run(code, sandbox_id=sandbox)
    equal((done["stdout"], done["result"]), ("BlockingIOError\n", "True"))
    equal(server.run("1 + 1", sandbox_id=sandbox)["result"], "2")
    server.call("close_sandbox", sandbox_id=sandbox)


@suite.case("code that fills the memory ends its sandbox, which says so")
def full_memory():
    server, sandbox = shared.fresh(memory_mb=128)
    shared.enforced("memory")
    done = server.run("held = []\nwhile True: held.append(bytearray(8 << 20))", sandbox_id=sandbox)
    equal(done["status"], "crashed")
    contains(done["error"]["message"], "ran out of memory")
    equal(shared.run("1 + 1")["result"], "2")


@suite.case("what turns out at the start to be missing is told, once, and refused with --strict")
def io():
    options = ("--io-read-mbps", "1", "--io-device", "/dev/null")
    with Server(*options) as server:
        server.legacy()
        for _ in range(2):  # the first creation begins with a trial
            notes = [note for note in server.call("create_sandbox")["limits"]["unapplied"] if note.startswith("io: ")]
            equal(len(notes), 1, str(notes))
    with Server(*options, "--strict") as server:
        server.legacy()
        contains(server.call_failing("create_sandbox")["error"]["message"], "io")


@suite.case("doctor says that there is no network, and what to do for one")
def told():
    contains(" ".join(doctor().stdout.split()), "a kernel of its own, into which no interface can be put")


@suite.finish
def close():
    """the server ends and leaves nothing behind"""
    shared.close()


suite.run()
