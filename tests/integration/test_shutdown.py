"""The end of a server: whatever its cause, it ends by itself, within its own limits of time, and leaves nothing."""

import os
import random
import re
import signal
import subprocess
import time

from common import NONE, ONE, ON_OCI, Server, Suite, alive, ended_in_time, equal, needs_runtime, poll
import mcp

needs_runtime()
suite = Suite()

CREATION_SECONDS = 0.4 if ON_OCI else 1.2  # a trial and a creation, on a busy machine
ROUNDS = 15


def busy(count=3):
    """A server whose sandboxes all run code, and every pid that must end."""
    server = Server()
    server.legacy()
    ids = [server.call("create_sandbox")["sandbox_id"] for _ in range(count)]
    for sandbox in ids:
        server.start_call("execute_code", sandbox_id=sandbox, code="import subprocess\nsubprocess.Popen(['sleep', '300'])\nopen('begun', 'w').close()\nwhile True: pass")
    for sandbox in ids:
        poll("it runs", lambda s=sandbox: server.read_text("begun", s) is not None)
    pids = [server.worker_pid(s) for s in ids]
    return server, ids, pids


def check_gone(server, ids, pids):
    equal([p for p in pids if alive(p)], [], "workers")
    ended_in_time(server)  # after that: it waits for all that hold the server's stderr, as a worker does
    for sandbox in ids:
        equal(mcp.cgroups_of(sandbox), [], "control groups")
        equal(mcp.processes_left(sandbox), [], "processes")
        equal(mcp.mounts_of(sandbox), [], "mounts")
        equal(mcp.containers_of(sandbox), [], "containers")
    equal(mcp.sandbox_dirs(server.runtime_dir), [], "directories")
    equal(server.violations, [], "stdout")
    left = [os.path.join(d, f) for d, _, files in os.walk(server.runtime_dir) for f in files]
    equal([f for f in left if not f.endswith("lock") and not mcp.is_of_trial(os.path.basename(f))], [], "files")


def check_nothing(server):
    """The same for a server that returned no ids: those of its sandboxes and trials are in its log."""
    ended_in_time(server)
    for name in sorted(set(re.findall(r"sandbox=([a-z0-9]+)", "\n".join(server.log)))):
        equal(mcp.cgroups_of(name), [], "control groups")
        equal(mcp.processes_left(name), [], "processes")
        equal(mcp.mounts_of(name), [], "mounts")
        equal(mcp.containers_of(name), [], "containers")
    equal(mcp.processes_of(server.runtime_dir), [], "processes")
    equal(mcp.containers_of(server.runtime_dir), [], "containers")
    equal([name for name in os.listdir(server.runtime_dir) if not mcp.is_of_trial(name)], [], "runtime directory")
    equal(server.violations, [], "stdout")
    equal([line for line in server.log if "Sanitizer" in line], [], "sanitizers")


def ended_by(end, status):
    server, ids, pids = busy()
    end(server)
    code = server.wait_exit()
    check_gone(server, ids, pids)
    equal(code, status, f"exit status; {server.log_tail()}")


@suite.case("stdin closed while everything is busy")
def end_of_input():
    ended_by(lambda server: server.process.stdin.close(), 0)


@suite.case("SIGTERM while everything is busy")
def sigterm():
    ended_by(lambda server: server.process.send_signal(signal.SIGTERM), 0)


@suite.case("SIGINT while everything is busy", engines=ONE)
def sigint():
    ended_by(lambda server: server.process.send_signal(signal.SIGINT), 0)


@suite.case("SIGTERM twice, and stdin closed on top", engines=ONE)
def impatient():
    def end(server):
        server.process.send_signal(signal.SIGTERM)
        server.process.stdin.close()
        server.process.send_signal(signal.SIGTERM)

    ended_by(end, 0)


@suite.case("stdout closed by the client ends the server as well", engines=ONE)
def stdout_closed():
    server = Server("--log-level", "debug")
    server.legacy()
    sandbox = server.call("create_sandbox")["sandbox_id"]
    program = server.process
    # a second server whose stdout is a pipe without a reader
    read_end, write_end = os.pipe()
    other = subprocess.Popen([os.environ["CLOISTER"], "--runtime-dir", server.runtime_dir], stdin=subprocess.PIPE, stdout=write_end, stderr=subprocess.DEVNULL)
    os.close(write_end)
    os.close(read_end)
    other.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
    other.stdin.flush()
    other.wait(30)
    assert program.poll() is None
    equal(server.run("1 + 1", sandbox_id=sandbox)["result"], "2")
    server.close()


@suite.case("an idle server ends without waiting for anything", engines=ONE)
def idle():
    server = Server()
    server.legacy()
    server.close()
    ended_in_time(server)


@suite.case("ended while a sandbox is being created")
def during_creation():
    server = Server()
    server.legacy()
    server.start_call("create_sandbox")
    server.start_call("create_sandbox")
    poll("creation has begun", lambda: mcp.sandbox_dirs(server.runtime_dir), interval=0.001)
    server.process.stdin.close()
    equal(server.wait_exit(), 0)
    check_nothing(server)


@suite.case("ended at any moment of a creation, in every way")
def any_moment_of_creation():
    ways = {
        "stdin closed": lambda server: server.process.stdin.close(),
        "SIGTERM": lambda server: server.process.send_signal(signal.SIGTERM),
        "SIGINT": lambda server: server.process.send_signal(signal.SIGINT),
    }
    # One moment in each slice of the duration of a creation, each with one of the ways to end.
    chance = random.Random(4)
    for step in range(ROUNDS):
        way = list(ways)[step % len(ways)]
        delay = CREATION_SECONDS * (step + chance.random()) / ROUNDS
        server = Server("--log-level", "debug")
        server.legacy()
        pending = [server.start_call("create_sandbox") for _ in range(1 + step % 2)]
        time.sleep(delay)  # the test needs different moments
        ways[way](server)
        try:
            equal(server.wait_exit(), 0)
            check_nothing(server)
            for call in pending:
                call.box.get(timeout=30)  # answered, or ended with the server
        except AssertionError as problem:
            raise AssertionError(f"{way} after {delay * 1000:.0f} ms: {problem}\n{server.log_tail(60)}") from None


@suite.case("calls sent just before the end of input are answered or ended, never hang", engines=NONE)
def last_words():
    server = Server()
    server.legacy()
    sandbox = server.call("create_sandbox")["sandbox_id"]
    pending = [server.start_call("execute_code", sandbox_id=sandbox, code="1 + 1"), server.start("ping")]
    server.process.stdin.close()
    equal(server.wait_exit(), 0)
    ended_in_time(server)
    server.reader.join(30)
    equal(pending[1].result(), {})


@suite.case("the end of sandboxes with their server is notified to a client that may have gone", engines=NONE)
def last_notifications():
    for step in range(20):
        server = Server("--log-level", "debug", *(["--http", "127.0.0.1:0", "--stdio"] if step % 4 > 1 else []))
        server.legacy()
        equal(server.run("1 + 1")["result"], "2")
        if step % 2:
            server.process.stdin.close()
        else:
            server.process.send_signal(signal.SIGTERM)
        equal(server.wait_exit(), 0, f"exit status; {server.log_tail()}")
        server.logger.join(30)
        equal([line for line in server.log if "Sanitizer" in line], [], "sanitizers")


@suite.case("the probe of a client, a server that is started and closed at once, costs nothing", engines=NONE)
def throw_away():
    for _ in range(5):
        with Server() as server:
            server.modern()
            server.request("server/discover")
            equal(os.listdir(server.runtime_dir), [])


suite.run()
