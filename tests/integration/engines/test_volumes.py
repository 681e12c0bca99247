"""Volumes on a container engine: none of a sandbox or server is left, however they end.

Run by with_engine.py only.
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # pylint: disable=wrong-import-position

from common import Server, Skip, Suite, contains, equal, opened, poll
from common_docker import kill_all, running, swept, volumes_there
import mcp

suite = Suite()

AGENT_VOLUMES = "cloister-agent"  # how their names begin
AT_ONCE = 24
SANDBOXES = 20  # more volumes than one pass over the engine removes


def filled(*options, directory=None):
    """A server with sandboxes, each with volumes for its packages."""
    server = Server("--max-sandboxes", str(SANDBOXES), "--memory-mb", "128", *options, runtime_dir=directory)
    server.legacy()
    calls = []
    for number in range(SANDBOXES + 4):  # four at a time
        if number < SANDBOXES:
            calls.append(server.start_call("create_sandbox"))
        if number >= 4:
            calls[number - 4].structured()
    volumes = running.volumes(server.runtime_dir)
    assert len(volumes) == 2 * SANDBOXES, volumes
    return server


def nothing_left_of(directory):
    poll("containers and volumes are gone", lambda: not mcp.containers_of(directory), 180, found=lambda: mcp.containers_of(directory)[:5])


def end(server):
    server.process.stdin.close()
    equal(server.wait_exit(), 0, f"exit status; {server.log_tail()}")
    server.join()
    server.check_wire()
    nothing_left_of(server.runtime_dir)


@suite.case("the first sandboxes of an engine can be created at once, while each finds that the agent is not there yet")
def first_at_once():
    for volume in [v for v in volumes_there() if v.startswith(AGENT_VOLUMES)]:
        poll("no container uses the agent's volume", lambda name=volume: running.send("DELETE", f"/volumes/{name}")[0] in (204, 404))
    server = Server("--max-sandboxes", str(AT_ONCE), "--memory-mb", "128")
    server.legacy()
    for call in [server.start_call("create_sandbox") for _ in range(AT_ONCE)]:
        call.structured()
    end(server)


@suite.case("a server that ends in order leaves no volume of its sandboxes")
def ended():
    end(filled())


@suite.case("of a server that was killed with all that is its own, the next server of any name removes all volumes")
def killed():
    for options in ([], ["--instance", "main", "--grace-seconds", "1"]):
        server = filled(*options)
        kill_all(server)
        assert [v for v in running.volumes(server.runtime_dir)], "there is nothing to remove"
        with Server(runtime_dir=server.runtime_dir) as other:
            other.legacy()
            box = other.call("create_sandbox")["sandbox_id"]
            poll("what is left is its own", lambda: not [line for line in mcp.containers_of(server.runtime_dir) if box not in line], 180)
        nothing_left_of(server.runtime_dir)


@suite.case("a volume of packages that does not say whose it is goes when no container uses it, whoever made it; others stay")
def unlabelled():
    server, sandbox = opened()
    with server:
        used = sorted(v["Name"] for v in running.volumes(sandbox))
        unused, made = (used[0].replace(sandbox, letter * len(sandbox)) for letter in "ab")
        others = ["cloister-packages-of-somebody-else", f"packages-{sandbox}-python", f"{unused}-more"]
        for volume in (unused, *others):
            running.ask("POST", "/volumes/create", {"Name": volume})
        mount = {"Type": "volume", "Source": made, "Target": "/packages/python"}  # the engine makes the volume itself
        body = {"Image": os.environ["CLOISTER_IMAGE"], "Cmd": ["true"], "HostConfig": {"Mounts": [mount]}}
        container = running.ask("POST", "/containers/create", body)["Id"]
        try:
            with Server() as other:
                other.legacy()
                other.call("create_sandbox")
                poll("what nobody uses is gone", lambda: unused not in volumes_there())
            assert {made, *used, *others} <= volumes_there(), volumes_there()
            running.ask("DELETE", f"/containers/{container}", force="1")
            with Server() as other:
                other.legacy()
                other.call("create_sandbox")
                poll("nor does anybody use the last one any more", lambda: made not in volumes_there())
            assert {*used, *others} <= volumes_there(), volumes_there()
        finally:
            running.send("DELETE", f"/containers/{container}", force="1")
            for volume in (unused, made, *others):
                running.send("DELETE", f"/volumes/{volume}")


@suite.case("the agent's volume of a build that is gone is swept; others stay")
def swept_agents():
    if not os.path.exists("/etc/machine-id"):
        raise Skip("this host has no identity, so its volumes cannot be told from those of another")

    server, _ = opened()

    with server:
        own = next(v for v in running.volumes() if v["Name"].startswith("cloister-agent-"))
        labels = {name: value for name, value in own["Labels"].items() if name != "io.cloister.process"}
        path = labels["io.cloister.agent-path"]
        absent = os.path.join(server.runtime_dir, "none", "cloister-agent")
        changes = {
            "updated": {"io.cloister.agent": "cloister-agent-0000000000000001"},
            "removed": {"io.cloister.agent-path": absent},
            "other-host": {"io.cloister.host": "elsewhere 0123456789abcdef", "io.cloister.agent-path": absent},
            "no-file": {"io.cloister.agent-path": os.path.dirname(path)},
            "same": {},
        }
        equal(swept("cloister-agent-test", labels, changes, gone={"updated", "removed"}), {"other-host", "no-file", "same"})
        contains(volumes_there(), own["Name"])


suite.run()
