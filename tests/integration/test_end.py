"""The end of a server with many sandboxes: however it ends, the code in them is dead at once, and soon
nothing is left."""

import os
import signal
import subprocess
import time

from common import Server, Suite, alive, equal, needs_runtime, poll
import mcp

needs_runtime()
suite = Suite()

SANDBOXES = 40
AT_ONCE = 8  # how many are created in parallel
CODE_SECONDS = 10  # the release build on an idle machine needs one second
REST_SECONDS = 120
MARK = f"31536000.{os.getpid()}"  # an argument of sleep that no other process of this machine uses

CODE = f"import subprocess\nchild = subprocess.Popen(['sleep', '{MARK}'], start_new_session=True)"


def full():
    """A server with many sandboxes in each of which code has left a process; their ids, its pids."""
    server = Server("--max-sandboxes", str(SANDBOXES), "--memory-mb", "128")
    server.legacy()
    ids, calls = [], []
    for number in range(SANDBOXES + AT_ONCE):
        if number < SANDBOXES:
            calls.append(server.start_call("create_sandbox"))
        if number >= AT_ONCE:
            answer = calls[number - AT_ONCE].result(120)
            assert not answer.get("isError"), answer
            ids.append(answer["structuredContent"]["sandbox_id"])
    calls = [server.start_call("execute_code", sandbox_id=sandbox, code=CODE) for sandbox in ids]
    for call in calls:
        equal(call.result(120)["structuredContent"]["status"], "ok", "code that leaves something running")
    code = [pid for pid, line in mcp.processes() if MARK in line]
    equal(len(code), SANDBOXES, "processes of user code")
    return server, ids, code


def left_of(server, ids):
    """The remains of a server, as text."""
    names = set(ids)
    found = [d for d, _, _ in os.walk("/sys/fs/cgroup") if any(n in os.path.basename(d) for n in names)]
    found += [line for line in mcp.mounts_of("/") if any(n in line for n in names) or server.runtime_dir in line]
    found += mcp.processes_of(server.runtime_dir) + mcp.containers_of(server.runtime_dir)
    found += [f"directory {server.runtime_dir}/{name}" for name in os.listdir(server.runtime_dir) if not mcp.is_of_trial(name)]
    return found


def check_end(server, ids, code, begun):
    poll("the code in all sandboxes is dead", lambda: not any(alive(p) for p in code), CODE_SECONDS, 0.01)
    deadline = begun + REST_SECONDS
    while (left := left_of(server, ids)) and time.monotonic() < deadline:
        time.sleep(0.1)
    equal(left[:10], [], f"left behind by {len(ids)} sandboxes; {server.log_tail()}")
    server.logger.join(10)
    equal([line for line in server.log if "Sanitizer" in line or "runtime error" in line], [], "sanitizers")


@suite.case("many sandboxes, the client closes the pipe: the server exits in order and nothing is left")
def pipe_closed():
    server, ids, code = full()
    begun = time.monotonic()
    server.process.stdin.close()
    equal(server.wait_exit(10), 0, server.log_tail())
    check_end(server, ids, code, begun)
    equal(server.violations, [], "stdout")


@suite.case("many sandboxes, a client that kills the server 4 s after it closed the pipe: nothing is left")
def impatient():
    server, ids, code = full()
    begun = time.monotonic()
    server.process.stdin.close()
    try:
        server.process.wait(4)
    except subprocess.TimeoutExpired:
        server.process.kill()
        server.process.wait()
    check_end(server, ids, code, begun)


@suite.case("many sandboxes, the server is killed: nothing is left, although no server comes after it")
def killed():
    server, ids, code = full()
    begun = time.monotonic()
    server.process.kill()
    server.process.wait()
    check_end(server, ids, code, begun)


@suite.case("one sandbox, the server is killed: nothing is left, although no server comes after it")
def killed_with_one():
    server = Server()
    server.legacy()
    sandbox = server.call("create_sandbox")["sandbox_id"]
    server.run(CODE, sandbox_id=sandbox)
    code = [pid for pid, line in mcp.processes() if MARK in line]
    begun = time.monotonic()
    server.process.kill()
    server.process.wait()
    check_end(server, [sandbox], code, begun)


@suite.case("the server is killed while sandboxes are being created: nothing is left")
def killed_while_creating():
    server = Server()
    server.legacy()
    for _ in range(4):
        server.start_call("create_sandbox")
    poll("creation has begun", lambda: mcp.sandbox_dirs(server.runtime_dir), interval=0.001)
    ids = [os.path.basename(d) for d in mcp.sandbox_dirs(server.runtime_dir)]
    begun = time.monotonic()
    server.process.kill()
    server.process.wait()
    check_end(server, ids, [], begun)


@suite.case("worker, sweeper and server are killed at once: the next server removes all of it")
def killed_with_sweeper():
    server = Server()
    server.legacy()
    sandbox = server.call("create_sandbox")["sandbox_id"]
    equal(len(server.sweepers()), 1, "sweepers")
    worker = server.worker_pid(sandbox)
    mcp.send_signal(worker, signal.SIGSTOP)
    server.kill_with_sweeper()
    os.kill(worker, signal.SIGKILL)
    with Server(runtime_dir=server.runtime_dir) as other:
        other.legacy()
        other.call("create_sandbox")
        poll("the first server's sandbox is gone", lambda: not mcp.traces_of(sandbox))
        other.close()
    check_end(server, [sandbox], [], time.monotonic())


@suite.case("a server that has made no sandbox has no sweeper, one that has ended in order leaves none")
def no_sweeper():
    with Server() as server:
        server.legacy()
        server.request("tools/list")
        equal(server.sweepers(), [], "before the first sandbox")
        server.call("create_sandbox")
        equal(len(server.sweepers()), 1, "behind it")
        server.end()
        equal(server.wait_exit(10), 0)
        equal(server.sweepers(), [], "behind the end")
        equal(server.left_behind(), [], "left behind")


suite.run()
