"""A named instance outlives its server: the next server of that name continues its work."""

import os
import signal
import time

from common import NONE, ON_OCI, ONE, Server, Suite, alive, contains, ended_in_time, equal, needs_runtime, poll
import mcp
import silence

needs_runtime()
suite = Suite()

LINES = 300
STREAM = f"""
import time
for i in range({LINES}):
    print('line', i, 'x' * 100, flush=True)
    if i == 20:
        open('begun', 'w').close()
    time.sleep(0.01)
"""
WANTED = "".join(f"line {i} {'x' * 100}\n" for i in range(LINES))


def named(directory=None, *options):
    server = Server("--instance", "main", *options, runtime_dir=directory or mcp.temporary_directory())
    server.legacy()
    return server


def finish(server):
    """Sends SIGINT, which ends the sandboxes with the server. Nothing may be left then."""
    server.process.send_signal(signal.SIGINT)
    equal(server.wait_exit(), 0, f"exit status; {server.log_tail()}")
    server.reader.join(30)
    server.logger.join(30)
    equal([line for line in server.log if "Sanitizer" in line], [], "sanitizers")
    equal(server.violations, [], "stdout")
    equal(server.left_behind(), [])


def boxes(server):
    return {box["sandbox_id"]: box for box in server.call("get_sandbox_status")["sandboxes"]}


def facts(box):
    return {key: box[key] for key in ("sandbox_id", "name", "limits", "created_at", "backend", "runtime", "image", "executions")}


def latest(server, sandbox):
    """The execution that was begun last."""
    recent = server.call("get_sandbox_status", sandbox_id=sandbox)["executions_recent"]
    return recent[0] if recent else {"execution_id": None, "status": None}


def running(server, sandbox):
    """The id of the running execution: it is listed as soon as the agent has it."""
    poll("it is listed as running", lambda: latest(server, sandbox)["status"] == "running")
    return latest(server, sandbox)["execution_id"]


def state(server, sandbox):
    return server.call("get_sandbox_status", sandbox_id=sandbox)["state"]


def end_killed(server):
    server.kill()


def end_terminated(server):
    server.process.send_signal(signal.SIGTERM)
    equal(server.wait_exit(), 0, "exit status")
    ended_in_time(server)


def end_of_input(server):
    server.process.stdin.close()
    equal(server.wait_exit(), 0, "exit status")


def ended_while_code_runs(end):
    first = named()
    box = first.call("create_sandbox", name="box", memory_mb=200, timeout_seconds=50)["sandbox_id"]
    other = first.call("create_sandbox")["sandbox_id"]
    first.run("before = 'state'", sandbox_id=box)
    first.run("x = 41", sandbox_id=other)
    first.run("shared = 7")
    first.start_call("execute_code", sandbox_id=box, code=STREAM)
    poll("it runs", lambda: first.read_text("begun", box) is not None)
    listed = {ident: facts(found) for ident, found in boxes(first).items()}
    execution = running(first, box)
    workers = {ident: first.worker_pid(ident) for ident in listed}
    end(first)
    assert all(alive(pid) for pid in workers.values()), "workers ended with their server"

    second = named(first.runtime_dir)
    equal({i: b["name"] for i, b in boxes(second).items()}, {i: b["name"] for i, b in listed.items()})
    done = second.call("get_execution", execution_id=execution, wait_seconds=30)
    equal((done["status"], done["stdout"]), ("ok", WANTED))
    poll("all are found", lambda: all(box["state"] == "ready" for box in boxes(second).values()))
    equal({ident: facts(found) for ident, found in boxes(second).items()}, listed)
    equal(latest(second, box)["execution_id"], execution)
    equal(second.run("before", sandbox_id="box")["result"], "'state'")
    equal(second.run("x + 1", sandbox_id=other)["result"], "42")
    equal(second.run("shared")["result"], "7")
    equal({ident: second.worker_pid(ident) for ident in listed}, workers)
    equal(len(boxes(second)), 3)
    finish(second)


@suite.case("a server is killed while code runs and writes: the next one has all of it")
def killed():
    ended_while_code_runs(end_killed)


@suite.case("SIGTERM leaves the sandboxes to the next server, without waiting for anything", engines=ONE)
def terminated():
    ended_while_code_runs(end_terminated)


@suite.case("so does the end of input", engines=ONE)
def input_ended():
    ended_while_code_runs(end_of_input)


@suite.case("server and workers are killed together: the sandboxes are still there")
def all_killed():
    first = named()
    box = first.call("create_sandbox", name="box")["sandbox_id"]
    first.run("before = 'state'", sandbox_id=box)
    first.start_call("execute_code", sandbox_id=box, code=STREAM)
    poll("it runs", lambda: first.read_text("begun", box) is not None)
    execution = running(first, box)
    worker = first.worker_pid(box)
    mcp.send_signal(worker, signal.SIGSTOP)
    first.kill()
    os.kill(worker, signal.SIGKILL)
    second = named(first.runtime_dir)
    done = second.call("get_execution", execution_id=execution, wait_seconds=30)
    equal((done["status"], done["stdout"]), ("ok", WANTED))
    equal(second.run("before", sandbox_id=box)["result"], "'state'")
    finish(second)


@suite.case("server and worker are killed while a container is there, and its limits are not: it is swept, and not taken over", when=ON_OCI)
def all_killed_while_creating():
    first = named()
    box = first.call("create_sandbox")["sandbox_id"]
    first.run("1", sandbox_id=box)
    agents = mcp.agents_of(box)
    worker = first.worker_pid(box)
    mcp.send_signal(worker, signal.SIGSTOP)
    first.kill()
    os.kill(worker, signal.SIGKILL)
    assert any(alive(pid) for pid in agents), "the agent went too early for this test"
    (directory,) = (path for path in mcp.sandbox_dirs(first.runtime_dir) if box in path)
    record = os.path.join(directory, "oci.record")
    with open(record) as file:
        text = file.read()
    contains(text, "\nstate running\n")
    with open(record, "w") as file:
        file.write(text.replace("\nstate running\n", "\nstate unfinished\n"))  # as it was then
    second = named(first.runtime_dir)
    poll("it has ended", lambda: not any(alive(pid) for pid in agents))
    poll("its directory is gone", lambda: not os.path.exists(directory))
    finish(second)


def patient(directory=None):
    return named(directory, "--sync-budget-seconds", str(silence.BUDGET_SECONDS))


@suite.case("agents are stopped for long while the next server takes over: it answers within the budget, and all goes on behind it", when=ON_OCI)
def agents_stopped():
    agents = []

    def stop(sandboxes):
        agents.extend(pid for sandbox in sandboxes for pid in mcp.agents_of(sandbox))
        assert len(agents) == 2, agents
        for pid in agents:
            mcp.send_signal(pid, signal.SIGSTOP)

    def go_on():
        for pid in agents:
            os.kill(pid, signal.SIGCONT)

    finish(silence.taken_over_and_kept(patient, stop, go_on))


@suite.case("the engine hangs for long while the next server takes over: it answers within the budget, and all goes on behind it", when=mcp.ENGINE is not None)
def engine_stopped():
    engine = mcp.ENGINE
    finish(silence.taken_over_and_kept(patient, lambda _: engine.signal(signal.SIGSTOP), lambda: engine.signal(signal.SIGCONT)))


@suite.case("a deadline holds although the server is replaced", engines=ONE)
def deadline():
    first = named()
    box = first.call("create_sandbox")["sandbox_id"]
    # A deadline that began again with the next server would come after the code's own end.
    code = "import time\nbegun = time.monotonic()\nwhile time.monotonic() < begun + 5: pass\nopen('late', 'w').close()\nwhile time.monotonic() < begun + 12.5: pass"
    first.start_call("execute_code", sandbox_id=box, code=code, timeout_seconds=8)
    execution = poll("it runs", lambda: running(first, box))
    poll("most of its time is over", lambda: first.read_text("late", box) is not None)
    first.kill()
    second = named(first.runtime_dir)
    done = second.call_failing("get_execution", execution_id=execution, wait_seconds=20)
    equal(done["status"], "timeout")
    equal(second.run("1 + 1", sandbox_id=box)["result"], "2")
    finish(second)


@suite.case("code of the last server can be cancelled at the next one", engines=ONE)
def cancelled():
    first = named()
    box = first.call("create_sandbox")["sandbox_id"]
    first.start_call("execute_code", sandbox_id=box, code="open('begun', 'w').close()\nwhile True: pass")
    poll("it runs", lambda: first.read_text("begun", box) is not None)
    execution = running(first, box)
    first.kill()
    second = named(first.runtime_dir)
    second.start_call("cancel_execution", execution_id=execution).wait()
    done = second.start_call("get_execution", execution_id=execution, wait_seconds=20).result()["structuredContent"]
    equal(done["status"], "cancelled")
    equal(second.run("1 + 1", sandbox_id=box)["result"], "2")
    finish(second)


@suite.case("without a next server the sandboxes end after the grace period, and a server of any name sweeps them")
def nobody_comes():
    first = named(None, "--grace-seconds", "2")
    box = first.call("create_sandbox")["sandbox_id"]
    first.start_call("execute_code", sandbox_id=box, code="open('begun', 'w').close()\nwhile True: pass")
    poll("it runs", lambda: first.read_text("begun", box) is not None)
    first.kill()
    poll("its processes end", lambda: not mcp.processes_of(box))
    poll("its control groups are gone", lambda: not mcp.cgroups_of(box) and not mcp.containers_of(box))
    equal(mcp.mounts_of(box), [])
    assert mcp.sandbox_dirs(first.runtime_dir), "the record of a named instance stays for its next server"
    with Server(runtime_dir=first.runtime_dir) as stranger:
        stranger.legacy()
        stranger.call("create_sandbox")
        poll("the directory is swept", lambda: not [d for d in mcp.sandbox_dirs(first.runtime_dir) if box in d])
    equal(first.left_behind(), [])


@suite.case("the server that comes too late tells the owner what happened", engines=ONE)
def too_late():
    first = named(None, "--grace-seconds", "1")
    box = first.call("create_sandbox", name="box")["sandbox_id"]
    first.run("x = 1", sandbox_id=box)
    first.kill()
    poll("its processes end", lambda: not mcp.processes_of(box))
    second = named(first.runtime_dir)
    poll("it has failed", lambda: state(second, box) == "failed")
    error = second.call_failing("execute_code", sandbox_id="box", code="1")["error"]
    equal(error["code"], "sandbox_not_found")
    contains(error["message"], "while no server was there")
    equal(second.run("1 + 1")["result"], "2")
    finish(second)


@suite.case("a second server of the name lists its tools, and gets the sandboxes when the first is gone", engines=NONE)
def two_at_a_time():
    first = named()
    box = first.call("create_sandbox")["sandbox_id"]
    first.run("x = 5", sandbox_id=box)
    second = named(first.runtime_dir)
    assert second.request("tools/list")["tools"]
    error = second.call_failing("create_sandbox")["error"]
    contains(error["message"], "in use by another server")
    equal(first.run("x", sandbox_id=box)["result"], "5")
    end_of_input(first)
    equal(second.run("x", sandbox_id=box)["result"], "5")
    finish(second)


@suite.case("a stranger's sweep leaves living sandboxes alone", engines=ONE)
def strangers():
    first = named()
    box = first.call("create_sandbox")["sandbox_id"]
    first.run("x = 5", sandbox_id=box)
    first.kill()
    with Server(runtime_dir=first.runtime_dir) as stranger:
        stranger.legacy()
        stranger.call("create_sandbox")
        second = named(first.runtime_dir)
        equal(second.run("x", sandbox_id=box)["result"], "5")
        stranger.call("create_sandbox")
    equal(second.run("x", sandbox_id=box)["result"], "5")
    finish(second)


@suite.case("a server killed at any moment of a creation: answered sandboxes stay, others are swept")
def killed_while_creating():
    directory = mcp.temporary_directory()
    known = []
    for i in range(8):
        server = named(directory)
        pending = [server.start_call("create_sandbox") for _ in range(2)]
        deadline = time.monotonic() + 0.06 * i
        while time.monotonic() < deadline and not all(p.answered() for p in pending):
            time.sleep(0.002)
        server.kill()
        known += [p.structured()["sandbox_id"] for p in pending if p.answered() and not callable(p.box.queue[0])]
    server = named(directory)
    for box in known:
        equal(server.run("1 + 1", sandbox_id=box)["result"], "2")
    kept = boxes(server)
    mine = lambda line: any(box in line for box in kept)
    workers = lambda: [line for line in mcp.processes_of(directory) if "--generation" in line]
    rest = lambda: [line for line in workers() + mcp.sandbox_dirs(directory) if not mine(line)]
    poll("the rest has ended and is swept", lambda: not rest(), 120, found=rest)  # an engine takes some time to remove many at once
    finish(server)


suite.run()
