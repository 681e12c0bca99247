"""contrib/bench: what its modes measure is there and fits together. How fast anything is depends on the machine, so no figure is asserted."""

import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # pylint: disable=wrong-import-position

from common import HERE, ON_OCI, Skip, Suite, contains, equal, mcp, needs_runtime, skip_all

if not ON_OCI:
    skip_all("measures the backend that a machine has without an engine")
needs_runtime()
suite = Suite()
BENCH = os.path.join(os.path.dirname(os.path.dirname(HERE)), "contrib", "bench")
CALLS = 5

# A peer with tools of its own names: its sandboxes are numbers, and it knows one program.
PEER = """
import json, sys
live = 0
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        print(json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "heard"}}), flush=True)
        continue
    result = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "peer", "version": "1"}}
    if asked["method"] == "tools/call":
        name, arguments = asked["params"]["name"], asked["params"]["arguments"]
        live += {"new": 1, "drop": -1}.get(name, 0)
        text = {"new": f"box{live}", "eval": "two" if arguments == {"box": "box1", "text": "1 + 1"} else "?", "drop": "gone"}[name]
        result = {"content": [{"type": "text", "text": text}], "isError": live not in (0, 1)}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""
ABOUT = {
    "name": "a stand-in",
    "command": sys.executable,
    "arguments": ["{dir}/peer.py"],
    "code": "1 + 1",
    "expects": "two",
    "create": {"tool": "new"},
    "run": {"tool": "eval", "arguments": {"box": "{id}", "text": "{code}"}},
    "close": {"tool": "drop"},
}


def bench(*words):
    command = [sys.executable, BENCH, "--program", os.environ["CLOISTER"], "--calls", str(CALLS), *words]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False)


def measured(*words):
    done = bench("--json", *words)
    equal(done.returncode, 0, done.stderr)
    return json.loads(done.stdout)


def printed(*words):
    done = bench(*words)
    equal(done.returncode, 0, done.stderr)
    return done.stdout


@suite.case("the hops of a call add up to it, and each link has a bare echo beside it")
def hops():
    if os.geteuid() != 0:
        raise Skip("an agent is spoken to in the place of its worker, which takes root")
    report = measured("--hops")
    for part in ("p50", "p10"):
        whole = report["ways"]["server"][part]
        assert abs(sum(hop[part]["ms"] for hop in report["hops"]) - whole) < 1e-6, report["hops"]
        assert abs(sum(hop[part]["share"] for hop in report["hops"]) - 1) < 1e-6, report["hops"]
    equal({name: figures["n"] for name, figures in report["ways"].items()}, dict.fromkeys(report["ways"], CALLS))
    echoes = {hop["echo"] for hop in report["hops"] if hop["echo"]}
    assert echoes >= {"pipe", "unix", "bare"}, echoes
    equal(sorted(report["effort"]), ["agent", "interpreter", "supervisor", "worker"])
    for name, figures in report["effort"].items():
        assert figures["cpu_us"] > 0 and figures["wakes"] > 0, (name, figures)
    equal(sorted(report["directions"]), ["agent", "server", "worker"])


@suite.case("many sandboxes: each figure is there, at few and at all of them")
def scale():
    report = measured("--scale", "12")
    equal([step["sandboxes"] for step in report["steps"]], [10, 12])
    equal(report["few"]["sandboxes"], 12)
    equal(report["many"]["n"], 12)  # one in each, which are more than were asked for
    for step in report["steps"]:
        equal(step["call"]["n"], CALLS)
        assert step["supervisor_us"] > 0, step
    assert report["fairness"]["sandboxes"] == 8 and report["fairness"]["loud"]["n"] > 0, report["fairness"]
    assert report["memory_kb"]["all"] > report["memory_kb"]["worker"] > 0, report["memory_kb"]


@suite.case("the same with sandboxes of nothing, which this build has for tests")
def scale_fake():
    contains(printed("--scale", "4", "--backend", "fake"), "4 sandboxes made in ")


@suite.case("peers are measured by what their files say, beside this server")
def peers():
    place = mcp.temporary_directory()
    with open(f"{place}/peer.py", "w", encoding="utf-8") as file:
        file.write(PEER)
    with open(f"{place}/peer.json", "w", encoding="utf-8") as file:
        json.dump(ABOUT, file)
    report = measured("--peers", place, "--creates", "2")
    equal([peer["name"] for peer in report["peers"]], ["cloister, oci", "a stand-in"])
    for peer in report["peers"]:
        equal({name: peer[name]["n"] for name in ("create", "first", "warm", "whole")}, {"create": 2, "first": 2, "warm": CALLS, "whole": 2})
    equal(report["peers"][0]["times"], {"create": 1, "first": 1, "warm": 1, "whole": 1})


@suite.case("what is wrong with a peer is said, with its file or its answer")
def wrong_peers():
    place = mcp.temporary_directory()
    with open(f"{place}/peer.py", "w", encoding="utf-8") as file:
        file.write(PEER)
    lacks = {name: value for name, value in ABOUT.items() if name not in ("close", "expects")}
    for about, words in (
        ("{", "peer.json is no JSON"),
        ("[]", "peer.json is no object"),
        (json.dumps(lacks), "peer.json has no expects, close"),
        (json.dumps({**ABOUT, "run": {}}), "peer.json has no run.tool"),
        (json.dumps({**ABOUT, "command": "/nowhere/peer"}), "a stand-in cannot be started"),
        (json.dumps({**ABOUT, "arguments": ["-c", "pass"]}), "a stand-in has ended during initialize: run its command by hand"),
        (json.dumps({**ABOUT, "code": "2 + 2"}), "a stand-in: run did not answer 'two'"),
    ):
        with open(f"{place}/peer.json", "w", encoding="utf-8") as file:
            file.write(about)
        done = bench("--peers", place, "--creates", "1")
        assert done.returncode != 0, about
        contains(done.stderr, words)


suite.run()
