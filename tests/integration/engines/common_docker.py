"""Helpers for tests of a container engine: code that runs while something happens to the engine, the error that its caller gets, and volumes that
a server sweeps."""

import os
import signal
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # pylint: disable=wrong-import-position

from common import Server, alive, clear, contains, equal, needs_engine, needs_runtime, poll
import mcp

running = needs_engine()
needs_runtime()
DOCKER = running.state["kind"] == "docker"

LINES = 400
STREAM = f"import time\nfor i in range({LINES}):\n    print('line', i, flush=True)\n    if i == 20:\n        open('begun', 'w').close()\n    time.sleep(0.01)"
WANTED = "".join(f"line {i}\n" for i in range(LINES))
ENDLESS = "open('begun', 'w').close()\nwhile True: pass"


def begun(server, sandbox, code, **arguments):
    pending = server.start_call("execute_code", sandbox_id=sandbox, code=code, **arguments)
    poll("the code runs", lambda: server.read_text("begun", sandbox) is not None)
    poll("it is known to run", lambda: server.call("get_sandbox_status", sandbox_id=sandbox)["executions_recent"])
    return pending


def container_of(sandbox):
    found = running.containers(sandbox)
    equal(len(found), 1, f"containers of {sandbox}")
    return found[0]


def lost(server, sandbox, pending):
    """Requires clear errors from the pending call of a lost sandbox and from the next call."""
    failed = pending.failed()
    equal(failed["status"], "crashed")
    contains(failed["error"]["message"], "the sandbox")
    error = clear(server.call_failing("execute_code", sandbox_id=sandbox, code="1")["error"])
    contains(["sandbox_not_found", "engine_unavailable"], error["code"])
    listed = {s["sandbox_id"]: s["state"] for s in server.call("get_sandbox_status")["sandboxes"]}
    assert listed.get(sandbox) != "ready", listed


def kill_all(server):
    """Kills the server, its sweeper if it has one, and its workers."""
    workers = [pid for pid, line in mcp.processes() if server.runtime_dir in line and "cloister-worker" in line]
    for pid in workers:
        mcp.send_signal(pid, signal.SIGSTOP)
    server.kill_with_sweeper()
    for pid in workers:
        if alive(pid):
            os.kill(pid, signal.SIGKILL)


def volumes_there():
    return {v["Name"] for v in running.volumes()}


def swept(names, labels, changes, gone):
    """Makes a volume for each of `changes`, with these labels and that change of them, and lets a server sweep until
    those of `gone` are no more. Returns which of `changes` still have their volume then."""
    volumes = {name: f"{names}-{name}" for name in changes}
    for name, change in changes.items():
        running.ask("POST", "/volumes/create", {"Name": volumes[name], "Labels": {**labels, **change}})
    try:
        with Server() as other:
            other.legacy()
            other.call("create_sandbox")
            poll("what is nobody's is gone", lambda: not {volumes[name] for name in gone} & volumes_there())
        there = volumes_there()
        return {name for name, volume in volumes.items() if volume in there}
    finally:
        for volume in volumes.values():
            running.send("DELETE", f"/volumes/{volume}")
