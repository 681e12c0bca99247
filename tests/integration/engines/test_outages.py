"""Container engines that end, hang or run out of space: the calls of their sandboxes go on, or end in a clear error within a limit of time.

Run by with_engine.py only, on an engine that no other file uses, because it stops and kills the engine.
"""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # pylint: disable=wrong-import-position

from common import OWN_TOOLS, Server, Suite, clear, contains, equal, opened, poll, works
from common_docker import DOCKER, ENDLESS, STREAM, WANTED, begun, kill_all, lost, running
import engine as engines
import mcp
import silence

suite = Suite()


# ---- end of the engine ----


@suite.case("the engine stopped under running sandboxes: clear answers while it is away, and it can come back", when=DOCKER)
def engine_stopped():
    directory = mcp.temporary_directory()
    server = Server(runtime_dir=directory)
    server.legacy()
    sandbox = server.call("create_sandbox")["sandbox_id"]
    with server:
        pending = begun(server, sandbox, ENDLESS)
        idle = server.call("create_sandbox")["sandbox_id"]
        running.signal(signal.SIGTERM)
        equal(server.request("ping"), {})
        equal(len(server.request("tools/list")["tools"]), OWN_TOOLS)
        running.wait_gone()
        lost(server, sandbox, pending)
        error = clear(server.call_failing("create_sandbox")["error"])
        equal(error["code"], "engine_unavailable")
        running.start()  # nothing that was asked above could wait for this
        clear(server.call_failing("execute_code", sandbox_id=idle, code="1")["error"])
        works(server)
        # the removal that was impossible without the engine is repeated
        poll("nothing is left of them", lambda: not mcp.sandbox_dirs(directory) and not mcp.containers_of(directory))


@suite.case("a server that ends while the engine is away: what it leaves is removed by the next one", when=DOCKER)
def engine_stopped_for_good():
    directory = mcp.temporary_directory()
    with Server(runtime_dir=directory) as server:
        server.legacy()
        server.call("create_sandbox")
        running.stop()
    running.start()
    with Server(runtime_dir=directory) as successor:
        successor.legacy()
        works(successor)
        poll("nothing is left of it", lambda: not mcp.sandbox_dirs(directory) and not mcp.containers_of(directory))


@suite.case("of a server that was killed, all goes that the next one could not remove at first because the engine was away")
def next_server_tries_again():
    server, sandbox = opened()
    kill_all(server)
    running.stop()
    with Server(env={"CLOISTER_BACKEND": "oci", "CLOISTER_IMAGE": ""}, runtime_dir=server.runtime_dir) as successor:
        try:
            successor.legacy()
            successor.call("create_sandbox")
            poll("it has tried", lambda: any("sandbox stays for now" in line for line in successor.log), found=successor.log_tail)
        finally:
            running.start()
        poll("nothing is left of it", lambda: not mcp.traces_of(sandbox) and not any(sandbox in d for d in mcp.sandbox_dirs(server.runtime_dir)))


def engine_comes_back(end):
    server, sandbox = opened()
    with server:
        other = server.call("create_sandbox")["sandbox_id"]
        server.run("before = 'state'", sandbox_id=sandbox)
        server.run("idle = 'here'", sandbox_id=other)
        pending = begun(server, sandbox, STREAM)
        end()
        equal(server.request("ping"), {})  # it cannot wait for what follows
        running.start()
        done = pending.structured()
        equal((done["status"], done["stdout"]), ("ok", WANTED))
        equal(server.run("before", sandbox_id=sandbox)["result"], "'state'")
        equal(server.run("idle", sandbox_id=other)["result"], "'here'")
        works(server)


@contextlib.contextmanager
def live_restore():
    """Docker is configured to let containers outlive it; with Podman they do so anyway."""
    if DOCKER:
        running.restart(live_restore=True)
    try:
        yield
    finally:
        if DOCKER:
            ensure_running(live_restore=False)


@suite.case("the engine restarted with live-restore: the call goes on, variables live")
def engine_restarted():
    with live_restore():
        engine_comes_back(running.stop)


@suite.case("the engine killed and started again with live-restore: the call goes on, variables live")
def engine_killed():
    with live_restore():
        engine_comes_back(running.kill)


@suite.case("a worker killed while the engine is away: another one gets through when it is back, and the call goes on")
def worker_killed_without_engine():
    with live_restore():
        server, sandbox = opened()
        with server:
            other = server.call("create_sandbox")["sandbox_id"]
            server.run("idle = 'here'", sandbox_id=other)
            pending = begun(server, sandbox, STREAM)
            running.kill()
            server.kill_worker(sandbox)
            error = clear(server.call_failing("create_sandbox")["error"])
            equal(error["code"], "engine_unavailable")
            running.start()
            done = pending.structured()
            equal((done["status"], done["stdout"]), ("ok", WANTED))
            equal(server.run("idle", sandbox_id=other)["result"], "'here'")
            works(server)


def ensure_running(live_restore):
    if running.running():
        running.remove_contents()
    running.restart(live_restore=live_restore)


def nobody_waits(server, seconds):
    """The server answers for so long, which the test needs the engine to hang for: it goes on only afterwards, so an
    answer that waited for it would not come."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        equal(server.request("ping"), {})
        time.sleep(0.1)


@suite.case("the engine hangs for a moment: nothing is lost, nobody else waits")
def engine_hangs():
    server, sandbox = opened()
    with server:
        pending = begun(server, sandbox, STREAM)
        running.signal(signal.SIGSTOP)
        try:
            nobody_waits(server, 2.0)
        finally:
            running.signal(signal.SIGCONT)
        equal(pending.structured()["stdout"], WANTED)
        works(server)


@suite.case("the engine hangs for long: answers within the budget, and all goes on behind it")
def engine_hangs_for_long():
    server, sandbox = opened("--sync-budget-seconds", str(silence.BUDGET_SECONDS))
    with server:
        silence.told_and_kept(server, sandbox, lambda: running.signal(signal.SIGSTOP), lambda: running.signal(signal.SIGCONT))
        works(server)


@suite.case("the engine hangs while a sandbox is created and another is closed: both are done when it goes on")
def engine_hangs_at_work():
    server, sandbox = opened()
    with server:
        running.signal(signal.SIGSTOP)
        try:
            creating = server.start_call("create_sandbox")
            closing = server.start_call("close_sandbox", sandbox_id=sandbox)
            nobody_waits(server, 3.0)
        finally:
            running.signal(signal.SIGCONT)
        equal(server.run("2 + 2", sandbox_id=creating.structured()["sandbox_id"])["result"], "4")
        closing.structured()
        poll("the closed one is gone", lambda: not mcp.containers_of(sandbox))


@suite.case("a server that ends while the engine hangs exits in order, and what it leaves is removed when the engine goes on")
def server_ends_while_engine_hangs():
    server, sandbox = opened()
    running.signal(signal.SIGSTOP)
    try:
        server.end()
        equal(server.wait_exit(), 0, server.log_tail())
    finally:
        running.signal(signal.SIGCONT)
    server.join()
    equal([line for line in server.log if "Sanitizer" in line or "runtime error" in line], [], "sanitizers")
    poll("nothing is left of it", lambda: not server.left_behind() and not mcp.containers_of(sandbox))


# ---- its disk ----


@contextlib.contextmanager
def small_disk(megabytes):
    """Runs the engine with its storage on a small file system; yields that directory."""
    place = f"{running.place}/data"
    running.remove_contents()
    running.stop()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", place], check=True)
    try:
        running.start()
        images = os.environ.get("CLOISTER_TEST_IMAGES") or os.path.join(tempfile.gettempdir(), "cloister-test-images")
        running.load(engines.IMAGE, f"{images}/python.tar")
        yield place
    finally:
        if running.running():
            running.remove_contents()
            running.stop()
        # processes that the engine had started may use it a moment longer than the engine
        poll("the file system is let go of", lambda: subprocess.run(["umount", place], check=False).returncode == 0)
        running.start()


@suite.case("the engine's disk is full: creating reports it, running code goes on, and creating works when space is free", when=DOCKER)
def engine_disk_full():
    with small_disk(1024) as place:
        server, sandbox = opened()
        with server:
            server.run("x = 'kept'", sandbox_id=sandbox)
            with open(f"{place}/filler", "wb", 0) as file, contextlib.suppress(OSError):
                while True:
                    file.write(b"x" * (1 << 20))
            with open(f"{place}/filler2", "wb", 0) as file, contextlib.suppress(OSError):
                while True:
                    file.write(b"x" * 4096)
            error = clear(server.call_failing("create_sandbox")["error"])
            contains(error["message"].lower(), "space")
            equal(server.run("x", sandbox_id=sandbox)["result"], "'kept'")
            server.kill_worker(sandbox)
            equal(server.run("x", sandbox_id=sandbox)["result"], "'kept'")
            os.unlink(f"{place}/filler")
            os.unlink(f"{place}/filler2")
            works(server)
            server.call("close_sandbox", sandbox_id=sandbox)
            poll("nothing is left", lambda: not mcp.containers_of(server.runtime_dir))


@suite.finish
def restore():
    """the engine runs as it did before"""
    with contextlib.suppress(AssertionError):
        running.signal(signal.SIGCONT)
    if not running.running():
        running.start()
    equal(running.answers(), True)


suite.run()
