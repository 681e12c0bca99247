"""Processes die: workers, agents, interpreters, the server itself."""

import os
import re
import signal
import time

from common import ONE, ON_OCI, Server, Suite, alive, contains, equal, needs_runtime, poll
import mcp
import silence
from mcp import ANSWER_SECONDS

needs_runtime()
suite = Suite()

LINES = 400
SILENCE = re.compile("no sign of life|did not answer .* in time")  # why a worker is replaced on a machine that is too busy
WAITED = re.compile("no sign of life|trying again")  # a limit of time was reached
STREAM = f"""
import time
for i in range({LINES}):
    print('line', i, 'x' * 200, flush=True)
    if i == 20:
        open('begun', 'w').close()
    time.sleep(0.005)
"""
WANTED = "".join(f"line {i} {'x' * 200}\n" for i in range(LINES))


def opened(*options):
    server = Server(*options)
    server.legacy()
    return server, server.call("create_sandbox")["sandbox_id"]


def streaming(server, sandbox, **arguments):
    pending = server.start_call("execute_code", sandbox_id=sandbox, code=STREAM, **arguments)
    poll("output has begun", lambda: server.read_text("begun", sandbox) is not None)
    return pending


@suite.case("a worker killed in the middle of a call: its full result comes, once")
def worker_killed():
    server, sandbox = opened()
    with server:
        server.run("before = 'state'", sandbox_id=sandbox)
        pending = streaming(server, sandbox)
        first = server.worker_pid(sandbox)
        os.kill(first, signal.SIGKILL)
        done = pending.structured()
        equal(done["stdout"], WANTED)
        equal((done["status"], done["stdout_bytes"], done["interpreter"]), ("ok", len(WANTED), "kept"))
        worker = server.call("get_sandbox_status", sandbox_id=sandbox)["worker"]
        assert worker["pid"] != first
        equal(worker["restarts"], 1)
        equal(server.run("before", sandbox_id=sandbox)["result"], "'state'")
        equal(server.unmatched, [])


@suite.case("a worker killed again and again during one call", engines=ONE)
def worker_killed_often():
    server, sandbox = opened()
    with server:
        pending = streaming(server, sandbox)
        killed = set()
        for _ in range(3):
            killed.add(server.kill_worker(sandbox, killed))
        equal(pending.structured()["stdout"], WANTED)


@suite.case("a worker killed while idle is replaced for the next call")
def idle_worker_killed():
    server, sandbox = opened()
    with server:
        server.run("x = 5", sandbox_id=sandbox)
        pid = server.worker_pid(sandbox)
        os.kill(pid, signal.SIGKILL)
        poll("it is gone", lambda: not alive(pid))
        equal(server.run("x", sandbox_id=sandbox)["result"], "5")


def ends_of_workers(server, sandbox):
    """How the log says that they ended."""
    return [line for line in server.log if "worker ended:" in line and f"sandbox={sandbox}" in line]


@suite.case("a worker that hangs is replaced within its silence limit, the call goes on", beside=True)
def worker_stopped():
    server, sandbox = opened()
    with server:
        pending = streaming(server, sandbox)
        pid = server.worker_pid(sandbox)
        mcp.send_signal(pid, signal.SIGSTOP)
        poll("the stopped worker is killed", lambda: not alive(pid), interval=0.02)
        done = pending.structured()
        equal((done["status"], done["stdout"]), ("ok", WANTED))
        mcp.send_signal(server.worker_pid(sandbox), signal.SIGSTOP)  # an idle worker, on which no call waits
        equal(server.run("1 + 1", sandbox_id=sandbox)["result"], "2")
        ends = poll("both ends are logged", lambda: len(ends_of_workers(server, sandbox)) > 1 and ends_of_workers(server, sandbox))
        equal(["no sign of life" in end for end in ends], [True, True], f"reasons; {ends}")


@suite.case("a deadline holds across a worker's death", engines=ONE, beside=True)
def deadline_across_death():
    server, sandbox = opened()
    with server:
        server.run("1", sandbox_id=sandbox)  # so that the interpreter runs before the deadline begins
        pending = server.start_call("execute_code", sandbox_id=sandbox, code="open('begun', 'w').close()\nwhile True: pass", timeout_seconds=3)
        poll("it runs", lambda: server.read_text("begun", sandbox) is not None)
        os.kill(server.worker_pid(sandbox), signal.SIGKILL)
        done = pending.failed()
        equal(done["status"], "timeout")
        assert done["duration_ms"] >= 3000, done["duration_ms"]


@suite.case("code does not run twice when its worker dies", engines=ONE, beside=True)
def exactly_once():
    server, sandbox = opened()
    with server:
        for number in range(5):
            code = f"import time\nopen('log', 'a').write('{number}\\n')\nopen('begun{number}', 'w').close()\ntime.sleep(0.3)"
            pending = server.start_call("execute_code", sandbox_id=sandbox, code=code)
            poll("it runs", lambda n=number: server.read_text(f"begun{n}", sandbox) is not None)
            os.kill(server.worker_pid(sandbox), signal.SIGKILL)
            equal(pending.structured()["status"], "ok")
        equal(server.read_text("log", sandbox), "0\n1\n2\n3\n4\n")


@suite.case("an interpreter killed from outside is reported as crashed and started anew", engines=ONE, beside=True)
def interpreter_killed():
    server, sandbox = opened()
    with server:
        pending = server.start_call("execute_code", sandbox_id=sandbox, code="import os\nopen('begun', 'w').write('x')\nprint('some output', flush=True)\nmarker = 'interpreter-to-kill'\nos.execvp if False else None\nwhile True: pass")
        poll("it runs", lambda: server.read_text("begun", sandbox) is not None)
        inside = server.stdout("grep -l Name /proc/[0-9]*/status | while read f; do grep -q python $f && basename $(dirname $f); done; true", language="bash", sandbox_id=sandbox).split()
        server.run(f"kill -9 {' '.join(inside)}", language="bash", sandbox_id=sandbox)
        done = pending.failed()
        equal((done["status"], done["stdout"]), ("crashed", "some output\n"))
        after = server.run("1 + 1", sandbox_id=sandbox)
        equal((after["result"], after["interpreter"]), ("2", "restarted"))


@suite.case("an agent that dies ends its sandbox with a clear error; others live on")
def agent_killed():
    server, sandbox = opened()
    with server:
        other = server.call("create_sandbox")["sandbox_id"]
        server.run("x = 1", sandbox_id=other)
        pending = server.start_call("execute_code", sandbox_id=sandbox, code="open('begun', 'w').close()\nwhile True: pass")
        poll("it runs", lambda: server.read_text("begun", sandbox) is not None)
        poll("it is listed", lambda: server.call("get_sandbox_status", sandbox_id=sandbox)["executions_recent"])
        agents = mcp.agents_of(sandbox)
        assert agents, "no agent process found on the host"
        queued = server.start_call("execute_code", sandbox_id=sandbox, code="1")
        for pid in agents:
            os.kill(pid, signal.SIGKILL)
        failed = pending.failed()
        equal(failed["status"], "crashed")
        contains(failed["error"]["message"], "ended")
        failed = queued.failed()
        equal(failed["error"]["code"], "sandbox_not_found")
        contains(failed["error"]["message"], "ended")
        contains(failed["error"]["message"], "begun")
        equal([line for line in server.log if WAITED.search(line)], [], "the death is seen, not concluded from silence")
        equal(server.run("x", sandbox_id=other)["result"], "1")
        error = server.call_failing("execute_code", sandbox_id=sandbox, code="1")["error"]
        equal(error["code"], "sandbox_not_found")
        poll("nothing of it is left", lambda: not mcp.traces_of(sandbox))


@suite.case("what code had shown when its sandbox died is kept, listed and told with how it ended", engines=ONE, beside=True)
def output_outlives_sandbox():
    server, sandbox = opened("--sync-budget-seconds", "1")
    with server:
        get = lambda execution, **more: server.start_call("get_execution", execution_id=execution, **more).result()["structuredContent"]
        over = server.run_to_end("print('over')", sandbox_id=sandbox)
        running = server.run("import sys, time\nprint('shown', flush=True)\nprint('too', file=sys.stderr, flush=True)\ntime.sleep(600)", sandbox_id=sandbox)
        equal(running["status"], "running")
        execution = running["execution_id"]
        poll("its output has come", lambda: get(execution, wait_seconds=0)["stderr"] == "too\n")
        for pid in mcp.agents_of(sandbox):
            os.kill(pid, signal.SIGKILL)
        poll("the sandbox has ended", lambda: server.call("get_sandbox_status", sandbox_id=sandbox)["state"] == "failed")
        result = server.start_call("get_execution", execution_id=execution).result()
        done = result["structuredContent"]
        equal((done["status"], done["stdout"], done["stderr"]), ("crashed", "shown\n", "too\n"))
        contains(done["error"]["message"], "ended")
        contains(result["content"][0]["text"], "create a new one")
        listed = {e["execution_id"]: e["status"] for e in server.call("get_sandbox_status", sandbox_id=sandbox)["executions_recent"]}
        equal(listed, {execution: "crashed", over["execution_id"]: "ok"})
        server.call("close_sandbox", sandbox_id=sandbox)
        equal((get(execution)["status"], get(execution)["stdout"]), ("crashed", "shown\n"))
        equal(get(over["execution_id"])["stdout"], "over\n")


@suite.case("the default sandbox dies under code: that has crashed, and the next call has a new one and is told so", engines=ONE, beside=True)
def default_sandbox_dies():
    with Server("--sync-budget-seconds", "1") as server:
        server.legacy()
        running = server.run("import time\ntime.sleep(600)")
        equal(running["status"], "running")
        for pid in mcp.agents_of(running["sandbox_id"]):
            os.kill(pid, signal.SIGKILL)
        fetch = lambda: server.start_call("get_execution", execution_id=running["execution_id"]).result()["structuredContent"]
        poll("it has crashed", lambda: fetch()["status"] == "crashed")
        result = server.start_call("execute_code", code="6 * 7").result()
        done = result["structuredContent"]
        if done["status"] == "running":  # the new sandbox took longer than the budget
            again = lambda: server.call("get_execution", execution_id=done["execution_id"])
            done = poll("its end", lambda: again()["status"] != "running" and again())
        equal(done["result"], "42")
        contains(result["content"][0]["text"], "earlier sandbox has ended")


@suite.case("an agent that is stopped for long: answers within the budget, and all goes on behind it", beside=True)
def agent_stopped():
    server, sandbox = opened("--sync-budget-seconds", str(silence.BUDGET_SECONDS))
    with server:
        agents = mcp.agents_of(sandbox)
        assert agents, "no agent process found on the host"

        def signal_all(number):
            for pid in agents:
                mcp.send_signal(pid, number)

        silence.told_and_kept(server, sandbox, lambda: signal_all(signal.SIGSTOP), lambda: signal_all(signal.SIGCONT))


@suite.case("a server that is killed with its sweeper leaves nothing once the grace period is over", beside=True)
def server_killed():
    server, sandbox = opened()
    worker = server.worker_pid(sandbox)
    server.start_call("execute_code", sandbox_id=sandbox, code="open('begun', 'w').close()\nwhile True: pass")
    poll("it runs", lambda: server.read_text("begun", sandbox) is not None)
    agents = mcp.agents_of(sandbox)
    assert agents, "no agent process found on the host"
    server.kill_with_sweeper()
    poll("worker and agent end by themselves", lambda: not any(alive(p) for p in [worker, *agents]))
    poll("the control groups or the container are gone", lambda: not mcp.cgroups_of(sandbox) and not mcp.containers_of(sandbox))
    equal(mcp.traces_of(sandbox), [])


@suite.case("fifty sandboxes of a killed server are all ready at the next one, with their workers", when=ON_OCI)
def fifty_adopted():
    options = ("--instance", "fifty", "--max-sandboxes", "50")
    first = Server(*options, runtime_dir=mcp.temporary_directory())
    first.legacy()
    made = [first.start_call("create_sandbox", name=f"box{i}", memory_mb=64) for i in range(50)]
    ids = {f"box{i}": pending.structured()["sandbox_id"] for i, pending in enumerate(made)}
    for name, ident in ids.items():
        first.run(f"who = {name!r}", sandbox_id=ident)
    workers = {ident: first.worker_pid(ident) for ident in ids.values()}
    first.kill()
    begun = time.monotonic()
    second = Server(*options, runtime_dir=first.runtime_dir)
    second.legacy()
    states = poll("all are ready", lambda: all_ready(second, ids), interval=0.01)
    took = time.monotonic() - begun
    print(f"# 50 sandboxes were ready {took * 1000:.0f} ms after the start of the server")
    equal(states, ids)
    others = [ident for ident in ids.values() if second.worker_pid(ident) != workers[ident]]
    unheard = [ident for ident in others if any(SILENCE.search(end) for end in ends_of_workers(first, ident) + ends_of_workers(second, ident))]
    equal(others, unheard, "sandboxes with another worker, though theirs was not silent for too long")
    assert len(others) <= len(ids) // 5, f"{len(others)} of {len(ids)} workers were replaced"
    for name, ident in ids.items():
        equal(second.run("who", sandbox_id=ident)["result"], repr(name))
    second.process.send_signal(signal.SIGINT)
    equal(second.wait_exit(20), 0, f"exit status; {second.log_tail()}")
    second.join()
    equal(second.left_behind(), [])


def all_ready(server, ids):
    boxes = server.call("get_sandbox_status")["sandboxes"]
    return {box["name"]: box["sandbox_id"] for box in boxes} if len(boxes) == len(ids) and all(b["state"] == "ready" for b in boxes) else None


@suite.case("what a killed server, its killed worker and its killed sweeper leave is swept by the next start")
def sweep():
    server, sandbox = opened()
    worker = server.worker_pid(sandbox)
    directory = server.runtime_dir
    agents = mcp.agents_of(sandbox)
    # stopped first, so that the worker cannot clean up
    mcp.send_signal(worker, signal.SIGSTOP)
    server.kill_with_sweeper()
    os.kill(worker, signal.SIGKILL)
    assert any(alive(p) for p in agents), "the agent went too early for this test"
    with Server(runtime_dir=directory) as successor:
        successor.legacy()
        successor.call("create_sandbox")
        poll("the dead instance's sandbox is gone", lambda: not any(alive(p) for p in agents))
        poll("its control groups or its container are gone", lambda: not mcp.cgroups_of(sandbox) and not mcp.containers_of(sandbox))
        poll("its directory is gone", lambda: not [d for d in mcp.sandbox_dirs(directory) if sandbox in d])
    equal(mcp.mounts_of(sandbox), [])
    poll("nothing is left", lambda: not server.left_behind())


@suite.case("a live neighbour on the same runtime directory is not swept", engines=ONE)
def neighbour_is_not_swept():
    server, sandbox = opened()
    with server:
        server.run("x = 'here'", sandbox_id=sandbox)
        with Server(runtime_dir=server.runtime_dir) as neighbour:
            neighbour.legacy()
            neighbour.call("create_sandbox")
            equal(server.run("x", sandbox_id=sandbox)["result"], "'here'")
        equal(server.run("x", sandbox_id=sandbox)["result"], "'here'")


@suite.case("a worker that keeps dying parks its sandbox with a reason instead of burning CPU", engines=ONE)
def parked():
    server, sandbox = opened()
    with server:
        neighbour = server.call("create_sandbox")["sandbox_id"]
        server.run("before = 'state'", sandbox_id=neighbour)
        killed = set()

        def kill_next():
            equal(server.run("before", sandbox_id=neighbour)["result"], "'state'")
            status = server.start_call("get_sandbox_status", sandbox_id=sandbox).result(ANSWER_SECONDS)
            if status.get("isError") or status["structuredContent"]["state"] in ("failed", "closed"):
                return True
            pid = status["structuredContent"]["worker"]["pid"]
            if pid > 1 and pid not in killed:
                killed.add(pid)
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            return False

        poll("the sandbox is given up", kill_next)
        assert len(killed) <= 30, f"{len(killed)} workers were started"
        status = server.call("get_sandbox_status", sandbox_id=sandbox)
        equal((status["state"], status["worker"]["pid"]), ("failed", 0))
        contains(status["reason"], "its worker keeps dying: killed by signal 9")
        error = server.call_failing("execute_code", sandbox_id=sandbox, code="1")["error"]
        equal((error["code"], error["message"]), ("sandbox_not_found", status["reason"]))
        equal(server.call("get_sandbox_status", sandbox_id=neighbour)["worker"]["restarts"], 0)
        fresh = server.call("create_sandbox")["sandbox_id"]
        equal(server.run("1 + 1", sandbox_id=fresh)["result"], "2")
        contains(server.log_tail(400), sandbox)


suite.run()
