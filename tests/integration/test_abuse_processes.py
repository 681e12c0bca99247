"""What somebody has won who takes over one of our processes, or runs beside them as the same person: the
server, its sweeper, and the worker of a sandbox."""

import os

from common import Server, Suite, equal, needs_runtime
import mcp

needs_runtime()
suite = Suite()

SECRETS = {
    "GITHUB_TOKEN": "ghp-of-the-person-4711",
    "AWS_SECRET_ACCESS_KEY": "aws-of-the-person-4711",
    "CLOISTER_TEST_SECRET": "option-of-the-person-4711",
    "SSH_AUTH_SOCK": "/tmp/agent-of-the-person-4711",
}


def parts(server, sandbox):
    """Pids by what the process is."""
    (sweeper,) = server.sweepers()
    return {"server": server.process.pid, "worker": server.worker_pid(sandbox), "sweeper": sweeper}


def environment(pid):
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return dict(word.partition(b"=")[::2] for word in file.read().split(b"\0") if word)
    except OSError:
        return {}


# ---- the environment ----


@suite.case("tokens and keys in the environment of a server are in no process that it starts")
def secrets():
    with Server(env=SECRETS) as server:
        server.legacy()
        sandbox = server.call("create_sandbox")["sandbox_id"]
        server.run("1", sandbox_id=sandbox)
        found = {name: environment(pid) for name, pid in parts(server, sandbox).items() if name != "server"}
        equal({name: sorted(set(SECRETS) & {n.decode() for n in got}) for name, got in found.items()}, {"worker": [], "sweeper": []})
        values = [value.encode() for value in SECRETS.values()]
        everywhere = {pid: environment(pid) for pid, _ in mcp.processes() if pid not in (os.getpid(), server.process.pid)}
        equal([pid for pid, got in everywhere.items() if set(values) & set(got.values())], [])
        for name in ("worker", "sweeper"):
            assert found[name].get(b"PATH") == os.environ["PATH"].encode(), f"{name}: it finds no programs"


@suite.case("a worker that replaces a dead one has no more of it")
def secrets_later():
    with Server(env=SECRETS) as server:
        server.legacy()
        sandbox = server.call("create_sandbox")["sandbox_id"]
        server.kill_worker(sandbox)
        equal(server.run("6 * 7", sandbox_id=sandbox)["result"], "42")
        equal(set(SECRETS) & {name.decode() for name in environment(server.worker_pid(sandbox))}, set())


suite.run()
