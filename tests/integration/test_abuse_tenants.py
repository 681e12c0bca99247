"""What somebody may try at the cost of the others: sandboxes larger than the machine, all places, all memory, all connections.

Each case is such an attempt, as it is made with an ordinary client, and says what the others still have."""

import os
import secrets
import signal
import time

from common import NONE, Server, Suite, clear, contains, equal, mcp, needs_runtime, poll
from http_wire import Raw, head_bytes
from mcp_http import EVENTS, JSON, BothServer
from tenants import Tenants

needs_runtime()
suite = Suite(engines=NONE)
SMALL = ("--memory-mb", "64")  # sandboxes that this machine has many of
MANY = 100  # more sandboxes than any server here allows
PLACES = 40  # connections of a server
BOTH = [("Content-Type", JSON), ("Accept", f"{JSON}, {EVENTS}")]


def grab(client, **arguments):
    """Makes sandboxes until the server refuses: (their ids, the error)."""
    made = []
    while len(made) < MANY:
        result = client.start_call("create_sandbox", **arguments).result()
        if result.get("isError"):
            return made, clear(result["structuredContent"]["error"])
        made.append(result["structuredContent"]["sandbox_id"])
    raise AssertionError(f"{len(made)} sandboxes, and none is refused")


def refused(client, tool="create_sandbox", **arguments):
    return clear(client.call_failing(tool, **arguments)["error"])


def fails_to_start(*options):
    """What a server says that does not start with these options."""
    server = Server(*options)
    equal(server.wait_exit(), 64, "exit status")
    server.logger.join(30)
    return server.log_tail()


# ---- one sandbox ----


@suite.case("a sandbox larger than the machine is refused, by whatever tool it is asked for")
def larger_than_the_machine():
    everything = {"memory_mb": 1000000, "cpus": 1000, "pids": 100000, "disk_mb": 1000000}
    options = {"memory_mb": "--max-memory-mb", "cpus": "--max-cpus", "pids": "--max-pids", "disk_mb": "--max-disk-mb"}
    with Server() as server:
        server.legacy()
        shown = {tool["name"]: tool["inputSchema"]["properties"] for tool in server.request("tools/list")["tools"]}
        for tool, more in (("create_sandbox", {}), ("create_run_close", {"code": "1"})):
            error = refused(server, tool, **everything, **more)
            equal(error["code"], "invalid_argument")
            for name, value in everything.items():
                error = refused(server, tool, **{name: value}, **more)
                equal(error["code"], "invalid_argument")
                for part in (f"{name} {value}", options[name], f"at most {shown[tool][name]['maximum']}"):
                    contains(error["message"], part)
        equal(server.call("get_sandbox_status")["count"], 0)
        with open("/proc/meminfo", encoding="ascii") as file:
            memory_kb = int(file.readline().split()[1])
        assert shown["create_sandbox"]["memory_mb"]["maximum"] < memory_kb >> 10, "more than the machine has"
        assert shown["create_sandbox"]["cpus"]["maximum"] <= max(os.cpu_count(), 1), "more than the machine has"


@suite.case("the operator's ceilings hold for every sandbox, and what is at a ceiling is granted")
def ceilings():
    with Server(*SMALL, "--max-memory-mb", "128", "--max-cpus", "1.5", "--max-pids", "300", "--max-disk-mb", "20") as server:
        server.legacy()
        most = {"memory_mb": 128, "cpus": 1.5, "pids": 300, "disk_mb": 20}
        made = server.call("create_sandbox", **most)
        equal({name: made["limits"][name] for name in most}, most)
        for name, value in most.items():
            contains(refused(server, **{name: value + 1})["message"], f"at most {value}")
        equal(server.call("create_sandbox", memory_mb=128)["limits"]["disk_mb"], 20, "the default does not pass the ceiling")


@suite.case("ceilings below the defaults, or above the budget, are refused at the start with the reason")
def bad_ceilings():
    for options, parts in (
        (("--max-memory-mb", "100"), ("--max-memory-mb (100)", "--memory-mb (512)")),
        (("--max-cpus", "0.5"), ("--max-cpus (0.5)", "--cpus (1)")),
        (("--max-pids", "100"), ("--max-pids (100)", "--pids (256)")),
        (("--max-disk-mb", "100", "--disk-mb", "120"), ("--max-disk-mb (100)", "--disk-mb (120)")),
        (("--memory-budget-mb", "500"), ("--memory-budget-mb (500)", "--memory-mb (512)")),
        (("--memory-budget-mb", "600", "--max-memory-mb", "700"), ("--max-memory-mb (700)", "--memory-budget-mb (600)")),
    ):
        said = fails_to_start(*options)
        for part in parts:
            contains(said, part)


# ---- all of them ----


@suite.case("all sandboxes together get no more memory than the budget; what ends gives it back")
def budget():
    with Server(*SMALL, "--memory-budget-mb", "200") as server:
        server.legacy()
        made, error = grab(server)
        equal((len(made), error["code"]), (3, "sandbox_limit"))
        for part in ("200 MiB", "--memory-budget-mb", "192 MiB", "64 MiB"):
            contains(error["message"], part)
        contains(error["hint"], "memory_mb")
        equal(refused(server, "create_run_close", code="1")["code"], "sandbox_limit")
        server.call("close_sandbox", sandbox_id=made[0])
        equal(len(grab(server, memory_mb=16)[0]), 4)


@suite.case("sandboxes of an earlier server count against the budget of the next one")
def budget_of_the_next_server():
    options = ("--instance", "budget", *SMALL, "--memory-budget-mb", "200")
    first = Server(*options, runtime_dir=mcp.temporary_directory())
    first.legacy()
    equal(len(grab(first)[0]), 3)
    first.kill()
    second = Server(*options, runtime_dir=first.runtime_dir)
    second.legacy()
    made, error = grab(second)
    equal((made, error["code"]), ([], "sandbox_limit"))
    contains(error["message"], "192 MiB")
    second.process.send_signal(signal.SIGINT)  # ends the sandboxes, too
    equal(second.wait_exit(), 0, second.log_tail())
    equal(second.left_behind(), [])


@suite.case("one principal cannot take all places: whoever comes later finds one")
def all_places():
    with Tenants(("greedy", "late", "later"), *SMALL, "--max-sandboxes", "6") as tenants:
        greedy = tenants.client("greedy")
        made, error = grab(greedy)
        equal((len(made), error["code"]), (3, "sandbox_limit"))
        contains(error["message"], "you have 3 sandboxes")
        contains(error["hint"], "close_sandbox")
        for _ in range(3):  # as calls that name no sandbox get one of their own, once for each session
            tenants.client("greedy").start_call("execute_code", code="1").result()
        equal(len(greedy.call("get_sandbox_status")["sandboxes"]), 3)
        for name in ("late", "later"):
            client = tenants.client(name)
            equal(client.run("6 * 7")["result"], "42", name)
        greedy.call("close_sandbox", sandbox_id=made[0])
        equal(len(grab(greedy)[0]), 0, "there are fewer free places than it has sandboxes")


@suite.case("one principal cannot take all memory: whoever comes later finds enough for a sandbox")
def all_memory():
    with Tenants(("greedy", "late"), *SMALL, "--memory-budget-mb", "1000") as tenants:
        greedy = tenants.client("greedy")
        for asked in (1000, 501):
            error = refused(greedy, memory_mb=asked)
            equal(error["code"], "sandbox_limit")
            contains(error["message"], "1000 MiB are free")
        greedy.call("create_sandbox", memory_mb=500)
        equal(len(grab(greedy, memory_mb=16)[0]), 0)
        equal(tenants.client("late").run("6 * 7")["result"], "42")


@suite.case("a principal that is the only one has all places, until the file of tokens names another")
def only_one():
    with Tenants(("alone",), *SMALL, "--max-sandboxes", "4") as tenants:
        alone = tenants.client("alone")
        made, error = grab(alone)
        equal(len(made), 4)
        contains(error["message"], "there are 4 sandboxes")
        for sandbox in made[:3]:
            alone.call("close_sandbox", sandbox_id=sandbox)
        tenants.tokens["second"] = secrets.token_urlsafe(24)
        tenants.write()
        tenants.server.process.send_signal(signal.SIGHUP)
        poll("the tokens are read", lambda: any("tokens were read again" in line for line in tenants.server.log))
        equal(len(grab(alone)[0]), 1)
        equal(tenants.client("second").run("6 * 7")["result"], "42")


@suite.case("whoever has the pipe may have all places and all memory, also beside clients over HTTP")
def pipe_beside_http():
    with BothServer(*SMALL, "--max-sandboxes", "4", "--memory-budget-mb", "256") as server:
        server.legacy()
        made, error = grab(server)
        equal((len(made), error["code"]), (4, "sandbox_limit"))
        contains(error["hint"], "--max-sandboxes")
        for sandbox in made:
            server.call("close_sandbox", sandbox_id=sandbox)
        large = server.call("create_sandbox", memory_mb=256)["sandbox_id"]
        contains(refused(server)["hint"], "--memory-budget-mb")
        server.call("close_sandbox", sandbox_id=large)


# ---- connections ----


def pinged(tenants, raw, name):
    """Whether this principal's request on this connection is answered."""
    body = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}'
    raw.send(head_bytes(tenants.server.place, "POST", "/mcp", [*BOTH, ("Authorization", f"Bearer {tenants.tokens[name]}")], len(body)) + body)
    head, answer = raw.response()
    return head.status == 200 and b'"protocolVersion"' in answer


def said(tenants, words, why, times=1):
    """Waits until the server has logged these words so often; `why` is what is wrong if it never does."""

    def lines():
        return [line for line in tenants.server.log if words in line]

    poll(why, lambda: len(lines()) >= times)
    return lines()


@suite.case("half-open heads from the address of everybody, more than there are places, keep nobody out who has a token")
def half_open_heads():
    with Tenants(("alice",), "--max-connections", str(PLACES)) as tenants:
        place = tenants.server.place
        half = head_bytes(place, "POST", "/mcp", BOTH)[:-2]
        with Raw(place) as earlier:
            assert pinged(tenants, earlier, "alice")
            flood = []
            for _ in range(5 * PLACES):
                flood.append(place.connect())
                flood[-1].sendall(half)
            for _ in range(5):
                with Raw(place) as raw:
                    assert pinged(tenants, raw, "alice"), "a new connection"
            assert pinged(tenants, earlier, "alice"), "one that was idle all the while"
        said(tenants, "give way to new ones", "somebody has to give way, else they were let in when the timeouts of all others had passed")
        for made in flood:
            made.close()


@suite.case("a head that stays half open is given up after 5 s, when a body still has time")
def slow_heads():
    with Tenants(("alice",), "--log-level", "debug") as tenants:
        place = tenants.server.place
        begun = time.monotonic()
        with Raw(place) as silent, Raw(place) as half, Raw(place) as body:
            half.send(head_bytes(place, "POST", "/mcp", BOTH)[:-2])
            body.send(head_bytes(place, "POST", "/mcp", [*BOTH, ("Authorization", f"Bearer {tenants.tokens['alice']}")], 100) + b"{")
            for raw in (half, silent):
                assert raw.is_closed(60), "it holds its place"
            assert time.monotonic() - begun >= 4.9, "they had less time"
            equal(len(said(tenants, "took too long for the head of a request", "the server says why, of both", 2)), 2)
            body.socket.setblocking(False)
            try:
                equal(body.socket.recv(1), None, "what the one whose head was there got")
            except BlockingIOError:
                pass  # it is waited for


@suite.case("one principal cannot hold all connections by bodies that never come: the others get in")
def half_open_bodies():
    with Tenants(("greedy", "alice"), "--max-connections", str(PLACES)) as tenants:
        place = tenants.server.place
        half = head_bytes(place, "POST", "/mcp", [*BOTH, ("Authorization", f"Bearer {tenants.tokens['greedy']}")], 100) + b"{"
        flood = []
        for _ in range(5 * PLACES):
            flood.append(place.connect())
            flood[-1].sendall(half)
        with Raw(place) as raw:
            assert pinged(tenants, raw, "alice")
        said(tenants, "greedy has half of all connections", "he is told as greedy, else she was let in when the others had timed out")
        for made in flood:
            made.close()

        def back():
            with Raw(place) as raw:
                return pinged(tenants, raw, "greedy")

        poll("with fewer connections he gets in again, too", back)


suite.run()
