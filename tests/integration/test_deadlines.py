"""Code that must be stopped, by its deadline or by a cancellation, whatever it does against that.

The checks are those of a user and an operator: the answer comes in time, or never where none is due; the
state is kept if an interrupt was enough; no process of that run is left in the sandbox, seen from outside;
and the next call works soon.
"""

import datetime
import itertools
import time

from common import EACH, NONE, ONE, Server, SharedByThread, Suite, contains, equal, needs_runtime, poll
import mcp

needs_runtime()
# The agent interrupts interpreters, in the same way on each backend: on engines only cases run that find and
# end processes in a container, or measure how fast a message gets into it.
suite = Suite(NONE)

DEADLINE = 1.0
OWN_SECONDS = 60.0  # duration of code that is cancelled earlier
LATEST = 30.0  # the deadline of an answer; without an interrupt or a kill it would come after OWN_SECONDS, or never

KEPT, RESTARTED = "kept", "restarted"

STUBBORN = "for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT): signal.signal(s, signal.SIG_IGN)"
DAEMON = f"""
def daemon():
    import os, signal, time
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            {STUBBORN}
            os.closerange(0, 256)
            while True:
                time.sleep(0.01)
        os._exit(0)
    os.wait()
"""

PYTHON = [
    ("a plain loop", KEPT, "begun()\nwhile True: pass"),
    ("time.sleep", KEPT, "begun()\nimport time\ntime.sleep(600)"),
    ("catches KeyboardInterrupt and goes on", RESTARTED, "import time\nbegun()\nwhile True:\n    try: time.sleep(600)\n    except KeyboardInterrupt: pass"),
    ("ignores SIGINT", RESTARTED, "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nbegun()\nwhile True: pass"),
    ("blocks all signals", RESTARTED, "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\nbegun()\nwhile True: pass"),
    ("has a handler of its own that goes on", RESTARTED, "import signal, time\nsignal.signal(signal.SIGINT, lambda *a: None)\nbegun()\nwhile True: time.sleep(600)"),
    ("C code that sleeps with the interpreter lock", KEPT, "import ctypes\nlibc = ctypes.PyDLL(None)\nbegun()\nwhile True: libc.usleep(500000)"),
    ("C code that holds the interpreter lock for ever", RESTARTED, "import ctypes\nlibc, lock = ctypes.PyDLL(None), ctypes.create_string_buffer(64)\nlibc.pthread_mutex_lock(lock)\nbegun()\nlibc.pthread_mutex_lock(lock)"),
    ("C code that is busy with the interpreter lock", RESTARTED, "begun()\nsum(range(10**15))"),
    ("a regular expression that backtracks", KEPT, "import re\nbegun()\nre.match(r'(a|aa)+$', 'a' * 200 + 'b')"),
    ("waits for a thread that loops", KEPT, "import threading, time\nstop = False\ndef work():\n    while not stop: time.sleep(0.001)\nt = threading.Thread(target=work)\nt.start()\nbegun()\nt.join()"),
    ("asynchronous code", KEPT, "import asyncio\nbegun()\nawait asyncio.sleep(600)"),
    ("a tree of programs", KEPT, "import subprocess\nbegun()\nsubprocess.run(['sh', '-c', 'sleep 600 & (sleep 600 & sleep 600) & wait'])"),
    ("programs in sessions of their own", KEPT, "import subprocess\nfor _ in range(3): p = subprocess.Popen(['sleep', '600'], start_new_session=True)\nbegun()\np.wait()"),
    ("a daemon that ignores everything", KEPT, DAEMON + "daemon()\nbegun()\nwhile True: pass"),
    ("a daemon, and code that cannot be interrupted", RESTARTED, DAEMON + "daemon()\nimport signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nbegun()\nwhile True: pass"),
    ("has stopped itself", KEPT, "import os, signal\nbegun()\nos.kill(os.getpid(), signal.SIGSTOP)\nwhile True: pass"),
    ("waits for a child that has stopped itself", KEPT, "import os, signal\npid = os.fork()\nif pid == 0:\n    signal.signal(signal.SIGINT, signal.SIG_DFL)\n    os.kill(os.getpid(), signal.SIGSTOP)\n    os._exit(0)\nbegun()\nos.waitpid(pid, 0)"),
    ("floods its output", KEPT, "begun()\nwhile True: print('x' * 1000)"),
]

BASH = [
    ("a plain loop", KEPT, "begun; while :; do :; done"),
    ("sleep", KEPT, "begun; sleep 600"),
    ("reads from a pipe that stays empty", KEPT, "begun; sleep 600 | cat"),
    ("traps INT and TERM away", RESTARTED, "trap '' INT TERM; begun; while :; do sleep 600; done"),
    ("has a trap that goes on", RESTARTED, "trap : INT TERM; begun; while :; do sleep 600; done"),
    ("background jobs under nohup", KEPT, "nohup sleep 600 >/dev/null 2>&1 & nohup sleep 600 >/dev/null 2>&1 & begun; wait"),
    ("programs in sessions of their own", KEPT, "setsid sleep 600 & (setsid sh -c \"trap '' INT TERM HUP; sleep 600; sleep 600\" >/dev/null 2>&1 &); begun; sleep 600"),
    ("programs in groups of their own", KEPT, "begun; timeout 600 sleep 600; sleep 600"),
    ("a tree that ignores the interrupt", RESTARTED, "export -f begun; bash -c \"trap '' INT TERM; begun; sleep 600; sleep 600\""),
    ("a job that has stopped itself", KEPT, "sh -c 'kill -STOP $$' & begun; wait"),
    ("a command that has stopped itself", KEPT, "begun; sh -c 'kill -STOP $$; sleep 600'"),
    ("the shell has stopped itself", KEPT, "begun; kill -STOP $$; sleep 600"),
]

BOMBS = [
    ("python", "import os\nbegun()\nwhile True:\n    try: os.fork()\n    except OSError: pass"),
    ("python", "import os, signal\nfor s in (signal.SIGINT, signal.SIGTERM): signal.signal(s, signal.SIG_IGN)\nbegun()\nwhile True:\n    try:\n        if os.fork() == 0: os.setsid()\n    except OSError: pass"),
    ("bash", "begun; bomb() { bomb | bomb & }; bomb; while :; do :; done"),
    ("bash", "begun; trap '' INT TERM; bomb() { bomb | bomb & }; bomb 2>/dev/null; while :; do :; done"),
]

# The cases to which a container could make a difference: ends by an interrupt, by a kill, and of processes
# that left their session or group.
ON_ENGINES = {
    "a plain loop": ONE,
    "ignores SIGINT": ONE,
    "a tree of programs": ONE,
    "programs in sessions of their own": ONE,
    "a daemon, and code that cannot be interrupted": EACH,
    "has stopped itself": ONE,
    "floods its output": EACH,
    "a tree that ignores the interrupt": EACH,
    "the shell has stopped itself": ONE,
}

shared = SharedByThread()
ordinals = itertools.count(1)


# ---- processes of a sandbox ----


def inside(sandbox):
    """{pid: parent} of every live process in the sandbox, with pids of the host, or of its own kernel."""
    if mcp.OWN_KERNEL:
        return mcp.inside_kernel(sandbox)
    found = {}
    namespaces = {mcp.pid_namespace(pid) for pid in mcp.agents_of(sandbox)}
    assert namespaces - {None}, f"no first process of {sandbox}"
    for pid, _ in mcp.processes():
        if mcp.pid_namespace(pid) in namespaces:
            try:
                with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
                    state, parent = file.read().rsplit(")", 1)[1].split()[:2]
            except OSError:
                continue
            if state not in "ZX":
                found[pid] = int(parent)
    return found


def left_of_runs(sandbox):
    """The processes in the sandbox besides the agent, its own helpers and one process per interpreter."""
    alive = inside(sandbox)
    agents = {1} if mcp.OWN_KERNEL else set(mcp.agents_of(sandbox))
    keepers = {pid for pid, parent in alive.items() if parent in agents}
    mains = {}
    for pid, parent in sorted(alive.items()):
        if parent in keepers:
            mains.setdefault(parent, pid)
    known = agents | keepers | set(mains.values())
    # a process that an engine put in has its parent outside
    return [f"{pid} {name_of(pid)}" for pid, parent in alive.items() if pid not in known and parent in alive]


def name_of(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().replace(b"\0", b" ").decode("utf-8", "replace")[:80]
    except OSError:
        return "(gone)"


# ---- one run ----


def prologue(language, tag):
    if language == "bash":
        return f"begun() {{ : > {tag}; }}\n"
    return f"def begun(): open('{tag}', 'w').close()\n"


def new_tag():
    return f"begun{next(ordinals)}"


def warm(server, sandbox, language):
    """An interpreter with state to lose."""
    done = server.run("kept=1" if language == "bash" else "kept = 1", sandbox_id=sandbox, language=language)
    equal(done["status"], "ok")


def usable(server, sandbox, language, wanted):
    """Requires that the next call works, and returns the interpreter's fate, which must agree with its state."""
    code = "echo ${kept:-none}" if language == "bash" else "print(globals().get('kept', 'none'))"
    done = server.run(code, LATEST, sandbox_id=sandbox, language=language)
    equal(done["status"], "ok", done)
    equal(done["stdout"].strip(), "1" if done["interpreter"] == "kept" else "none", done)
    if wanted is not None:
        equal(done["interpreter"], wanted, "what became of the interpreter")
    return done["interpreter"]


def nothing_left(sandbox):
    left = left_of_runs(sandbox)
    equal(left, [], "alive in the sandbox when the run was over")


def runs_into_deadline(server, sandbox, language, wanted, code):
    warm(server, sandbox, language)
    tag = new_tag()
    pending = server.start_call("execute_code", sandbox_id=sandbox, language=language, code=prologue(language, tag) + code, timeout_seconds=DEADLINE)
    done = pending.result(LATEST)["structuredContent"]
    nothing_left(sandbox)
    equal(done["status"], "timeout", done)
    assert pending.seconds() >= DEADLINE * 0.95, f"answered after {pending.seconds():.2f} s"
    assert server.read_text(tag, sandbox) is not None, "the code had not begun"
    became = usable(server, sandbox, language, wanted)
    equal(done["interpreter"], became if became == "restarted" else "kept", done)


def is_cancelled(server, sandbox, language, wanted, code):
    warm(server, sandbox, language)
    tag = new_tag()
    pending = server.start_call("execute_code", sandbox_id=sandbox, language=language, code=prologue(language, tag) + code, timeout_seconds=OWN_SECONDS)
    poll("the code has begun", lambda: server.read_text(tag, sandbox) is not None)
    server.notify("notifications/cancelled", {"requestId": pending.ident, "reason": "test"})
    usable(server, sandbox, language, wanted)
    nothing_left(sandbox)
    assert not pending.answered(), f"an answer to a cancelled request: {pending.wait()}"


def declare(language, name, wanted, code):
    engines = ON_ENGINES.get(name, NONE)

    @suite.case(f"deadline, {language}: {name}", engines=engines, beside=True)
    def deadline():
        server, sandbox = shared.get()
        runs_into_deadline(server, sandbox, language, wanted, code)

    @suite.case(f"cancelled, {language}: {name}", engines=engines, beside=True)
    def cancelled():
        server, sandbox = shared.get()
        is_cancelled(server, sandbox, language, wanted, code)


for case in PYTHON:
    declare("python", *case)
for case in BASH:
    declare("bash", *case)


# ---- bombs ----


def declare_bomb(number, language, code):
    @suite.case(f"fork bomb {number}, {language}: ended by its deadline, and by a cancellation; neighbours work on", engines=EACH if number % 2 == 0 else ONE)
    def bomb():
        server, neighbour = shared.get()
        _, sandbox = shared.fresh(pids=64)
        warm(server, sandbox, language)
        tag = new_tag()
        pending = server.start_call("execute_code", sandbox_id=sandbox, language=language, code=prologue(language, tag) + code, timeout_seconds=DEADLINE)
        beside = 0
        while not pending.answered():
            equal(server.run("1 + 1", LATEST, sandbox_id=neighbour)["result"], "2")
            beside += not pending.answered()
        assert beside > 0, "no call of a neighbour was answered before the bomb had ended"
        done = pending.result()["structuredContent"]
        nothing_left(sandbox)
        equal(done["status"], "timeout", done)
        usable(server, sandbox, language, None)
        is_cancelled(server, sandbox, language, None, code)
        server.call("close_sandbox", sandbox_id=sandbox)


for place, bomb_case in enumerate(BOMBS, 1):
    declare_bomb(place, *bomb_case)


# ---- processes of a run and of earlier runs ----


@suite.case("what an earlier run has left running goes on when a later one is interrupted", engines=ONE)
def servers_go_on():
    server, sandbox = shared.get()
    warm(server, sandbox, "python")
    start = "import subprocess\nserver = subprocess.Popen(['sh', '-c', 'while :; do sleep 0.05; done'])\nserver.pid"
    equal(server.run(start, sandbox_id=sandbox)["status"], "ok")
    done = server.run("import subprocess, time\nother = subprocess.Popen(['sleep', '600'], start_new_session=True)\nwhile True: pass", sandbox_id=sandbox, timeout_seconds=DEADLINE)
    equal((done["status"], done["interpreter"]), ("timeout", "kept"))
    state = server.run("(server.poll(), other.wait() < 0)", sandbox_id=sandbox)
    equal((state["result"], state["interpreter"]), ("(None, True)", "kept"))
    server.run("server.kill()\nserver.wait()", sandbox_id=sandbox)
    poll("only what belongs there is left", lambda: not left_of_runs(sandbox))


# ---- time to live ----

LIFETIME = 10  # seconds in which two sandboxes are made and code begins, on a busy machine as well


def seconds_between(begin, end):
    begin, end = (datetime.datetime.fromisoformat(t.replace("Z", "+00:00")) for t in (begin, end))
    return (end - begin).total_seconds()


def listed(server):
    return [s["sandbox_id"] for s in server.call("get_sandbox_status")["sandboxes"]]


@suite.case("a sandbox ends with its lifetime, whatever it does, and says why", engines=EACH, beside=True)
def lifetime():
    with Server("--max-lifetime-seconds", str(LIFETIME)) as server:
        server.legacy()
        begun = time.monotonic()
        made = server.call("create_sandbox")
        equal((made["limits"]["lifetime_seconds"], made["expires_at"]), (LIFETIME, made["ends_at"]))
        assert LIFETIME - 2 < seconds_between(made["created_at"], made["ends_at"]) < LIFETIME + 0.1, made  # a stall of the server makes it less
        busy, idle = made["sandbox_id"], server.call("create_sandbox", ttl_seconds=1)
        now = datetime.datetime.now(datetime.timezone.utc).isoformat()
        assert seconds_between(now, idle["expires_at"]) < 1.1, (now, idle)  # its ttl, from before its answer
        call = server.start_call("execute_code", sandbox_id=busy, code="print('shown', flush=True)\nwhile True: pass", timeout_seconds=OWN_SECONDS)
        failed = call.failed(LATEST)
        seconds = time.monotonic() - begun
        equal((failed["status"], failed["stdout"]), ("cancelled", "shown\n"))
        contains(failed["error"]["message"], "maximum lifetime")
        assert seconds >= LIFETIME - 0.2, f"it closed after {seconds:.2f} s"
        equal(server.call_failing("execute_code", sandbox_id=busy, code="1")["error"]["code"], "sandbox_not_found")
        equal(listed(server), [])


@suite.case("what runs keeps a sandbox from being idle, and not from its end", beside=True)
def idle_and_busy():
    with Server("--max-lifetime-seconds", "600") as server:
        server.legacy()
        sandbox = server.call("create_sandbox", ttl_seconds=1)["sandbox_id"]
        begun = time.monotonic()
        busy = server.start_call("execute_code", code="import time; time.sleep(2.2); 'ran'", sandbox_id=sandbox)
        equal(busy.structured()["result"], "'ran'")
        poll("it was idle for long enough", lambda: listed(server) == [])
        seconds = time.monotonic() - begun
        assert seconds >= 2.2 + 1, f"it closed after {seconds:.2f} s"


# ---- queued calls ----


@suite.case("a call that waits for its turn is cancelled at once, and never runs")
def queued():
    server, sandbox = shared.get()
    warm(server, sandbox, "python")
    tag, never = new_tag(), new_tag()
    first = server.start_call("execute_code", sandbox_id=sandbox, code=prologue("python", tag) + "begun()\nimport time\ntime.sleep(1)", timeout_seconds=30)
    poll("the first runs", lambda: server.read_text(tag, sandbox) is not None)
    second = server.start_call("execute_code", sandbox_id=sandbox, code=prologue("python", never) + "begun()")
    third = server.start_call("execute_code", sandbox_id=sandbox, code="'third'")
    server.notify("notifications/cancelled", {"requestId": second.ident})
    equal(first.structured()["status"], "ok")
    equal(third.structured()["result"], "'third'")
    equal(server.read_text(never, sandbox), None)
    assert not second.answered()


@suite.case("a call cancelled in the moment of its start does not disturb the next", engines=ONE)
def cancelled_early():
    server, sandbox = shared.get()
    for language, code in (("python", "while True: pass"), ("bash", "while :; do :; done")):
        for delay in (0, 0, 0.001, 0.002, 0.005, 0.01):
            warm(server, sandbox, language)
            pending = server.start_call("execute_code", sandbox_id=sandbox, language=language, code=code, timeout_seconds=OWN_SECONDS)
            time.sleep(delay)  # the test needs different moments
            server.notify("notifications/cancelled", {"requestId": pending.ident})
            usable(server, sandbox, language, KEPT)


@suite.case("a cancelled call of every revision is not answered, and nothing else suffers")
def revisions():
    for version in (*mcp.LEGACY, mcp.MODERN):
        with Server() as server:
            server.open(version)
            endless = server.start_call("execute_code", code="kept = 'it is kept'\nopen('begun', 'w').close()\nwhile True: pass")
            poll("it runs", lambda: not server.start_call("read_file", path="begun").result().get("isError"))
            server.notify("notifications/cancelled", {"requestId": endless.ident, "reason": "test"})
            after = server.start_call("execute_code", code="print(kept)").result(LATEST)
            contains(after["content"][0]["text"], "it is kept", version)
            assert not endless.answered(), f"{version}: {endless.wait()}"
            equal(server.unmatched, [], version)


# ---- how long a cancellation takes ----

NOTICED_MS = 100.0  # usually a few milliseconds, in every build
ROUND_TRIPS = 10  # plus the current duration of ordinary calls

PYTHON_NOTICES = """import signal, time
def notice(*_):
    seen = time.time()
    open('seen', 'w').write(repr(seen))
    raise KeyboardInterrupt
signal.signal(signal.SIGINT, notice)
open('{tag}', 'w').close()
while True: pass"""
BASH_NOTICES = "trap 'echo $EPOCHREALTIME >seen; trap - INT; kill -INT $$' INT; : >{tag}; while :; do :; done"


def round_trip_ms(server, sandbox):
    """The current duration of an ordinary call on this machine."""
    begun = time.monotonic()
    server.run(":", language="bash", sandbox_id=sandbox)
    return (time.monotonic() - begun) * 1000


def running(server, sandbox):
    recent = server.call("get_sandbox_status", sandbox_id=sandbox)["executions_recent"]
    return next((row["execution_id"] for row in recent if row["status"] == "running"), None)


def by_notification(server, _, pending):
    server.notify("notifications/cancelled", {"requestId": pending.ident})


def by_tool(server, execution, pending):
    server.start_call("cancel_execution", execution_id=execution)
    equal(pending.failed()["status"], "cancelled")


def latency_of(server, sandbox, language, code, cancel):
    """Milliseconds from the cancellation to the code's first reaction."""
    tag = new_tag()
    pending = server.start_call("execute_code", sandbox_id=sandbox, language=language, code=code.replace("{tag}", tag))
    poll("the code has begun", lambda: server.read_text(tag, sandbox) is not None)
    execution = poll("it is listed", lambda: running(server, sandbox), interval=0.02)
    sent = time.time()
    cancel(server, execution, pending)
    seen = float(poll("it was noticed", lambda: server.read_text("seen", sandbox), interval=0.05))
    server.run("rm seen", language="bash", sandbox_id=sandbox)
    return (seen - sent) * 1000


@suite.case("a cancellation reaches running code soon, also where a shell waits for it", engines=EACH)
def latency():
    server, sandbox = shared.get()
    for what, language, code in (
        ("python", "python", PYTHON_NOTICES),
        ("bash", "bash", BASH_NOTICES),
        ("python under bash", "bash", f"cat >program <<'END'\n{PYTHON_NOTICES}\nEND\npython3 program"),
        ("bash under bash", "bash", f"cat >program <<'END'\n{BASH_NOTICES}\nEND\nbash program"),
    ):
        for way, cancel in (("notifications/cancelled", by_notification), ("cancel_execution", by_tool)):
            usual, found = [], []
            for _ in range(9):
                usual.append(round_trip_ms(server, sandbox))
                found.append(latency_of(server, sandbox, language, code, cancel))
            usual, found = sorted(usual), sorted(found)
            print(f"# {what}, {way}: median {found[4]:.1f} ms, most {found[-1]:.1f} ms; of a call {usual[4]:.1f} ms")
            assert found[4] <= NOTICED_MS + ROUND_TRIPS * usual[4], f"{what}: {found}, calls: {usual}"


@suite.finish
def close():
    """the server ends and leaves nothing behind"""
    shared.close()


suite.run()
