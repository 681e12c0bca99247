"""Authentication over HTTP, and that no principal sees anything of another's, not even that it exists."""

import hashlib
import json
import os
import re
import secrets
import signal
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # pylint: disable=wrong-import-position

from common import LATEST_LEGACY, MODERN, Suite, contains, equal, mcp, needs_runtime, poll, refused
from http_wire import Place
from issuer import CLIENT, Issuer
from mcp_http import EVENTS, JSON, HttpClient, HttpServer, SseClient
from tokens_file import Tokens, bearer, new_token
from wire import PREFIX

needs_runtime()
suite = Suite()
TASKS = PREFIX + "tasks"
BOTH = [("Content-Type", JSON), ("Accept", f"{JSON}, {EVENTS}")]
PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
SLOW = "import time, pathlib\nfor i in range(600):\n    pathlib.Path('count').write_text(str(i))\n    time.sleep(0.1)"


class Guests:
    """One server with two principals that are independent of each other."""

    def __init__(self, *options):
        self.file = Tokens()
        self.alice_token, self.bob_token = self.file.add("alice"), self.file.add("bob", hashed=True)
        self.server = HttpServer(*options, "--tokens", self.file.path, "--task-after-seconds", "1", "--sync-budget-seconds", "2")

    def alice(self, version=LATEST_LEGACY, **how):
        return self.server.client(version, token=self.alice_token, **how)

    def bob(self, version=LATEST_LEGACY, **how):
        return self.server.client(version, token=self.bob_token, **how)


_guests = []


def guests():
    if not _guests:
        _guests.append(Guests())
    return _guests[0]


def initialize():
    params = {"protocolVersion": LATEST_LEGACY, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).encode()


# ---- tokens ----


@suite.case("without a token, with a wrong one, in a wrong place: 401, before anything is read")
def no_token():
    server = guests().server
    good = guests().alice_token
    for what, headers, path in (
        ("none", [], "/mcp"),
        ("wrong", [bearer(new_token())], "/mcp"),
        ("one letter more", [bearer(good + "a")], "/mcp"),
        ("one letter less", [bearer(good[:-1])], "/mcp"),
        ("empty", [("Authorization", "Bearer ")], "/mcp"),
        ("another scheme", [("Authorization", f"Basic {good}")], "/mcp"),
        ("in the query", [], f"/mcp?access_token={good}"),
        ("the digest instead of the token", [bearer(hashlib.sha256(guests().bob_token.encode()).hexdigest())], "/mcp"),
    ):
        for body in (initialize(), b"{ not JSON"):
            answer = server.ask("POST", path, [*BOTH, *headers], body)
            contains((400, 401), answer.head.status, what)
            if answer.head.status == 401:
                assert answer.get("www-authenticate").startswith("Bearer"), f"{what}: {answer.head.headers}"
    for method, path in (("GET", "/mcp"), ("DELETE", "/mcp"), ("GET", "/sse"), ("POST", "/messages?sessionId=x")):
        equal(server.ask(method, path, BOTH).head.status, 401, f"{method} {path}")
    twice = server.ask("POST", "/mcp", [*BOTH, bearer(good), bearer(new_token())], initialize())
    contains((400, 401), twice.head.status, "two tokens")
    scheme = server.ask("POST", "/mcp", [*BOTH, ("authorization", f"bearer {good}")], initialize())
    equal(scheme.head.status, 200, "the scheme in small letters")


@suite.case("both kinds of lines are good for both eras and the oldest clients")
def good_tokens():
    for client in (guests().alice(), guests().bob(), guests().alice(MODERN), guests().bob(MODERN), guests().bob("2024-11-05", kind=SseClient)):
        assert client.request("tools/list")["tools"]


@suite.case("a token that has expired is no token")
def expired():
    file = Tokens()
    old, late, good = file.add("old", "expires=2020-01-31"), file.add("late", "expires=2999-12-31"), file.add("good")
    with HttpServer("--tokens", file.path) as server:
        soon = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 10))
        brief = file.add("brief", f"expires={soon}")
        os.kill(server.process.pid, signal.SIGHUP)
        poll("it is good", lambda: server.ask("POST", "/mcp", [*BOTH, bearer(brief)], initialize()).head.status == 200)
        equal(server.ask("POST", "/mcp", [*BOTH, bearer(old)], initialize()).head.status, 401)
        for fine in (late, good):
            equal(server.ask("POST", "/mcp", [*BOTH, bearer(fine)], initialize()).head.status, 200)
        poll("it expires", lambda: server.ask("POST", "/mcp", [*BOTH, bearer(brief)], initialize()).head.status == 401, interval=0.3)


@suite.case("guessing tokens is slowed down, and a valid token is not")
def guessing():
    file = Tokens()
    good = file.add("good")
    with HttpServer("--tokens", file.path) as server:
        found = [server.ask("POST", "/mcp", [*BOTH, bearer(new_token())], initialize()).head.status for _ in range(60)]
        assert set(found) <= {401, 429}, found
        contains(found, 429, "sixty guesses")
        equal(server.ask("POST", "/mcp", [*BOTH, bearer(good)], initialize()).head.status, 200, "a good one from the same address")


# ---- things of another principal ----

OTHERS = [
    ("execute_code", {"code": "1"}),
    ("read_file", {"path": "secret.txt"}),
    ("write_file", {"path": "x", "content": "y"}),
    ("upload_file", {"path": "x", "content": "y"}),
    ("list_files", {}),
    ("install_package", {"package_name": "x"}),
    ("check_package_status", {"package_name": "x"}),
    ("get_sandbox_status", {}),
    ("close_sandbox", {}),
]


def told(answer, *names):
    """An answer with the names in it replaced, to be compared with another answer."""
    text = json.dumps({k: v for k, v in answer.items() if k != "id"}, sort_keys=True)
    for name in names:
        text = text.replace(name, "NAME")
    return text


def like(name):
    """A name of the same form that does not exist: each letter is replaced."""
    return "".join(secrets.choice("abcdefghjkmnpqrstuvwxyz") if c.isalpha() else secrets.choice("23456789") if c.isdigit() else c for c in name)


def same_as_unknown(ask, name, what):
    """The answer about something of another principal is exactly that about something unknown."""
    unknown = like(name)
    equal(told(ask(name), name), told(ask(unknown), unknown), what)


@suite.case("another's sandbox is answered like one that is not there, by every tool")
def foreign_sandbox():
    for version in (LATEST_LEGACY, MODERN):
        alice, bob = guests().alice(version), guests().bob(version)
        tools = [tool["name"] for tool in bob.request("tools/list")["tools"] if "sandbox_id" in tool["inputSchema"]["properties"]]
        equal(sorted(tools), sorted(tool for tool, _ in OTHERS), "every tool that takes a sandbox is tried")
        box = alice.call("create_sandbox", name="treasure")["sandbox_id"]
        alice.call("write_file", path="secret.txt", content="s3cret", sandbox_id=box)
        for tool, arguments in OTHERS:
            same_as_unknown(lambda name, t=tool, a=arguments: bob.start_call(t, sandbox_id=name, **a).wait(), box, f"{version} {tool}")
            same_as_unknown(lambda name, t=tool, a=arguments: bob.start_call(t, sandbox_id=name, **a).wait(), "treasure", f"{version} {tool} by name")
        equal(alice.read_text("secret.txt", box), "s3cret")
        everything = json.dumps(bob.call("get_sandbox_status"))
        assert box not in everything and "treasure" not in everything, everything
        own = bob.call("create_sandbox", name="treasure")["sandbox_id"]
        assert own != box, "the name of another's sandbox is free for me"
        equal(bob.read_text("secret.txt", own), None)
        bob.call("close_sandbox", sandbox_id="treasure")
        equal(alice.read_text("secret.txt", "treasure"), "s3cret")
        alice.call("close_sandbox", sandbox_id=box)


FOREIGN = {  # of each profile: the tool that makes a sandbox, the field of its name, the tool that takes the name; None: no name
    "code-sandbox": (
        ("create_sandbox", {"session_id": "treasure"}),
        "session_id",
        [
            ("execute_code", {"code": "1"}),
            ("install_package", {"package_name": "x"}),
            ("list_files", {}),
            ("read_file", {"file_path": "/workspace/x"}),
            ("write_file", {"file_path": "/workspace/x", "content": "y"}),
            ("upload_file", {"file_name": "x", "file_content": "y"}),
            ("get_sandbox_status", {}),
            ("close_sandbox", {}),
        ],
    ),
    "docker-interpreter": (("initialize_sandbox", {}), None, [("execute_code", {"code": "print('mine')"}), ("stop_sandbox", {})]),
    "python-env": (
        ("create_python_env", {}),
        "container_id",
        [("execute_python_code", {"code": "1"}), ("install_package_in_env", {"package_name": "x"}), ("check_package_status", {"package_name": "x"})],
    ),
    "python-sandbox": (
        ("create_sandbox", {"name": "treasure"}),
        "sandbox_id",
        [
            ("execute_python_code", {"code": "1"}),
            ("install_package_in_sandbox", {"package_name": "x"}),
            ("check_package_installation_status", {"package_name": "x"}),
            ("execute_terminal_command", {"command": "ls"}),
            ("upload_file_to_sandbox", {"local_file_path": "/etc/hostname"}),
        ],
    ),
}


@suite.case("nor do the tools of any profile find another's sandbox")
def foreign_profile():
    for profile, ((maker, made_of), key, tools) in FOREIGN.items():
        two = Guests("--compat", profile)
        alice, bob = two.alice(), two.bob()
        said = alice.start_call(maker, **made_of).result()["content"][0]["text"]
        found = re.search(r"\b[a-z2-7]{16}\b", said)
        name = found.group(0) if found else "treasure"
        for tool, arguments in tools:
            if key:
                same_as_unknown(lambda n, t=tool, a=arguments: bob.start_call(t, **{key: n}, **a).wait(), name, f"{profile} {tool}")
            else:  # each principal has one, and bob has made none
                contains(json.dumps(bob.start_call(tool, **arguments).result()), {"execute_code": "StateError"}.get(tool, "Sandbox stopped"))
        if not key:
            contains(json.dumps(alice.start_call("execute_code", code="print('alive')").result()), "alive")
        two.server.process.send_signal(signal.SIGINT)
        equal(two.server.wait_exit(), 0)
        two.server.join()


@suite.case("another's executions are answered like those that are not there")
def foreign_execution():
    alice, bob = guests().alice(), guests().bob()
    box = alice.call("create_sandbox")["sandbox_id"]
    running = alice.start_call("execute_code", code="print('alpha')\n" + SLOW, sandbox_id=box).structured()
    execution = running["execution_id"]
    for tool in ("get_execution", "cancel_execution"):
        same_as_unknown(lambda name, t=tool: bob.start_call(t, execution_id=name).wait(), execution, tool)
    equal(alice.call("get_execution", execution_id=execution)["status"], "running", "it still runs")
    for stream in ("stdout", "stderr"):
        same_as_unknown(lambda name, s=stream: bob.start("resources/read", {"uri": f"execution://{name}/{s}"}).wait(), execution, stream)
    alice.call("close_sandbox", sandbox_id=box)


@suite.case("another's files are in no list, no completion, no subscription, and cannot be read")
def foreign_resources():
    for version in (LATEST_LEGACY, MODERN):
        alice, bob = guests().alice(version), guests().bob(version)
        box = alice.call("create_sandbox", name="hoard")["sandbox_id"]
        alice.call("write_file", path="secret.txt", content="s3cret", sandbox_id=box)
        uri = f"sandbox://{box}/workspace/secret.txt"
        equal(alice.request("resources/read", {"uri": uri})["contents"][0]["text"], "s3cret")
        same_as_unknown(lambda name: bob.start("resources/read", {"uri": f"sandbox://{name}/workspace/secret.txt"}).wait(), box, "read")
        same_as_unknown(lambda name: bob.start("resources/read", {"uri": f"sandbox://{name}/workspace/"}).wait(), "hoard", "read by name")
        assert box not in json.dumps(bob.request("resources/list")), "resources/list"
        template = next(t["uriTemplate"] for t in bob.request("resources/templates/list")["resourceTemplates"] if t["uriTemplate"].startswith("sandbox:"))
        variable = template.split("{", 1)[1].split("}", 1)[0].lstrip("+/")
        for typed in ("", box[:2], "hoa"):
            asked = {"ref": {"type": "ref/resource", "uri": template}, "argument": {"name": variable, "value": typed}}
            found = bob.request("completion/complete", asked)["completion"]["values"]
            assert box not in found and "hoard" not in found, found
        if version == MODERN:
            unknown = uri.replace(box, like(box))
            for client, wanted, granted in ((bob, uri, []), (bob, unknown, []), (alice, uri, [uri])):
                pending = subscribed(client, [wanted])
                equal(json.loads(pending.exchange.events[0].data)["params"]["notifications"]["resourceSubscriptions"], granted)
                pending.exchange.drop()
        else:
            same_as_unknown(lambda name: bob.start("resources/subscribe", {"uri": f"sandbox://{name}/workspace/secret.txt"}).wait(), box, "subscribe")
            contains(bob.start("resources/subscribe", {"uri": uri}).wait()["error"]["message"].lower(), "not found")
            equal(alice.start("resources/subscribe", {"uri": uri}).wait()["result"], {})
        alice.call("close_sandbox", sandbox_id=box)


def subscribed(client, uris):
    """A subscription stream of the latest revision, acknowledged."""
    pending = client.start("subscriptions/listen", {"notifications": {"resourceSubscriptions": uris, "resourcesListChanged": True}})
    poll("the acknowledgement", lambda: pending.exchange.events)
    return pending


def watch(client, version, uris):
    """Subscribes to what it may; returns a function that returns the notifications since, as (method, URI)."""
    if version == MODERN:
        pending = subscribed(client, uris)

        def came():
            return [json.loads(e.data) for e in pending.exchange.events[1:] if e.data]

    else:
        equal(client.listen().status(), 200)
        for uri in uris:
            client.start("resources/subscribe", {"uri": uri}).wait()

        def came():
            return list(client.notifications)

    return lambda: [(n["method"].removeprefix("notifications/resources/"), n["params"].get("uri", "") if "params" in n else "") for n in came()]


@suite.case("a principal gets no notification of another's changes, neither of files nor of lists")
def foreign_notices():
    for version in (LATEST_LEGACY, MODERN):
        alice, bob = guests().alice(), guests().bob()
        theirs, own = (client.call("create_sandbox")["sandbox_id"] for client in (alice, bob))
        for client, box in ((alice, theirs), (bob, own)):
            client.call("write_file", path="file", content="1", sandbox_id=box)
        foreign, mine = (f"sandbox://{box}/workspace/file" for box in (theirs, own))
        # a stream that begins now has no earlier notifications
        to_alice = watch(guests().alice(version), version, [foreign])
        to_bob = watch(guests().bob(version), version, [foreign, mine])
        alice.call("write_file", path="file", content="2", sandbox_id=theirs)
        poll("alice hears of it", lambda: {("updated", foreign), ("list_changed", "")} <= set(to_alice()))
        # A list is notified at most once a second: bob's own change, if it came sooner, would be merged with
        # hers. So a second has passed when alice hears of another change. Bob's own notification comes after all
        # others that he should receive.
        alice.call("write_file", path="file", content="3", sandbox_id=theirs)
        poll("alice hears of it again", lambda: to_alice().count(("list_changed", "")) >= 2, found=to_alice)
        bob.call("write_file", path="file", content="2", sandbox_id=own)
        poll("bob hears of his own", lambda: ("updated", mine) in to_bob(), found=to_bob)
        heard = to_bob()
        equal(sorted(heard[: heard.index(("updated", mine)) + 1]), [("list_changed", ""), ("updated", mine)], f"{version}: what bob has heard")
        for client, box in ((alice, theirs), (bob, own)):
            client.call("close_sandbox", sandbox_id=box)


@suite.case("another's tasks are answered like those that are not there, in both kinds")
def foreign_tasks():
    alice, bob = guests().alice("2025-11-25"), guests().bob("2025-11-25")
    box = alice.call("create_sandbox")["sandbox_id"]
    slow = {"name": "execute_code", "arguments": {"code": SLOW, "sandbox_id": box}}
    task = alice.request("tools/call", {**slow, "task": {"ttl": 60000}})["task"]["taskId"]
    for method in ("tasks/get", "tasks/result", "tasks/cancel"):
        same_as_unknown(lambda name, m=method: bob.start(m, {"taskId": name}).wait(), task, method)
    assert task not in json.dumps(bob.request("tasks/list")), "tasks/list"
    equal(alice.request("tasks/get", {"taskId": task})["status"], "working")
    alice.request("tasks/cancel", {"taskId": task})
    modern = [guests().alice(MODERN), guests().bob(MODERN)]
    for client in modern:
        client.capabilities = {"extensions": {TASKS: {}}}
    poll("it is free again", lambda: alice.run("1", sandbox_id=box).get("result") == "1")
    made = modern[0].start("tools/call", slow).result()
    equal(made["resultType"], "task")
    for method, more in (("tasks/get", {}), ("tasks/cancel", {}), ("tasks/update", {"inputResponses": {}})):
        same_as_unknown(lambda name, m=method, x=more: modern[1].start(m, {"taskId": name, **x}).wait(), made["taskId"], method)
    equal(modern[0].request("tasks/get", {"taskId": made["taskId"]})["status"], "working")
    modern[0].request("tasks/cancel", {"taskId": made["taskId"]})
    alice.call("close_sandbox", sandbox_id=box)


@suite.case("another's session is answered like one that is not there")
def foreign_session():
    server = guests().server
    alice = guests().alice()
    old = guests().alice("2024-11-05", kind=SseClient)
    stream = alice.listen()
    equal(stream.status(), 200)
    thief = [*BOTH, bearer(guests().bob_token)]

    def answers(method, path, ident, body=None):
        return server.ask(method, path, [*thief, ("Mcp-Session-Id", ident)], body)

    for method, body in (("POST", PING), ("GET", None), ("DELETE", None)):
        mine, nobodys = (answers(method, "/mcp", i, body) for i in (alice.session, like(alice.session)))
        equal((mine.head.status, mine.body), (nobodys.head.status, nobodys.body), method)
        equal(mine.head.status, 404)
    ident = old.endpoint.split("sessionId=")[1]
    mine, nobodys = (server.ask("POST", f"/messages?sessionId={i}", thief, PING) for i in (ident, like(ident)))
    equal((mine.head.status, mine.body), (nobodys.head.status, nobodys.body))
    equal((alice.request("ping"), old.request("ping")), ({}, {}))
    assert not stream.ended.is_set(), "the stream of the session goes on"


# ---- Host and Origin ----


@suite.case("a forged Host or Origin is refused before the token is looked at")
def rebinding():
    server = guests().server
    port = server.place.port
    good = bearer(guests().alice_token)
    hosts = [
        ("evil.example.com", 403), (f"evil.example.com:{port}", 403), ("127.0.0.1.evil.example.com", 403), (f"127.0.0.1:{port}@evil", 403),
        ("", 403), (f"localhost:{port}", 200), ("localhost", 200), (f"127.0.0.1:{port}", 200), (f"LOCALHOST:{port}", 200),
    ]  # fmt: skip
    for host, wanted in hosts:
        got = server.ask("POST", "/mcp", [("Host", host), *BOTH, good], initialize()).head.status
        assert got == wanted or (wanted == 403 and got == 400), f"Host {host!r}: {got}, wanted {wanted}"
        if wanted == 403:
            assert server.ask("POST", "/mcp", [("Host", host), *BOTH], initialize()).head.status in (400, 403), host
    for origin, wanted in (
        ("https://evil.example.com", 403), ("null", 403), ("http://localhost.evil.example.com", 403), ("file://", 403),
        ("http://localhost:3000", 200), (f"http://127.0.0.1:{port}", 200),
    ):  # fmt: skip
        answer = server.ask("POST", "/mcp", [("Origin", origin), *BOTH, good], initialize())
        equal(answer.head.status, wanted, f"Origin {origin}")
        equal(answer.get("access-control-allow-origin"), origin if wanted == 200 else None)
        if wanted == 200:
            contains((answer.get("access-control-expose-headers") or "").lower(), "mcp-session-id")
    assert b"alice" not in server.ask("POST", "/mcp", [("Host", "evil.example.com"), *BOTH, good], initialize()).body
    with server.raw() as raw:
        raw.send(b"POST /mcp HTTP/1.1\r\nContent-Length: 2\r\nContent-Type: application/json\r\n\r\n{}")
        contains((400, 403), raw.response()[0].status, "no Host at all")


@suite.case("browsers of allowed pages may ask first, those of others may not")
def preflight():
    file = Tokens()
    file.add("alice")
    with HttpServer("--tokens", file.path, "--allow-origins", "https://app.example", "--allow-hosts", "box.example") as server:
        asked = [("Access-Control-Request-Method", "POST"), ("Access-Control-Request-Headers", "content-type,mcp-session-id,mcp-param-region,authorization,x-other")]
        answer = server.ask("OPTIONS", "/mcp", [("Origin", "https://app.example"), *asked])
        equal((answer.head.status, answer.get("access-control-allow-origin")), (204, "https://app.example"))
        allowed = answer.get("access-control-allow-headers").lower()
        for name in ("content-type", "authorization", "mcp-session-id", "mcp-param-region", "last-event-id", "mcp-method"):
            contains(allowed, name)
        assert "x-other" not in allowed and "*" not in allowed, allowed
        assert answer.get("access-control-allow-credentials") is None
        equal(server.ask("OPTIONS", "/mcp", [("Origin", "https://other.example"), *asked]).head.status, 403)
        equal(server.ask("OPTIONS", "/mcp", [("Origin", "http://localhost:3000"), *asked]).head.status, 403, "a list replaces those of this machine")
        equal(server.ask("POST", "/mcp", [("Host", "box.example"), *BOTH], initialize()).head.status, 401, "a name that was allowed")


# ---- limits ----


@suite.case("each principal has its own share of sandboxes, memory and calls")
def quotas():
    file = Tokens()
    few = file.add("few", "sandboxes=1")
    small = file.add("small", "memory_mb=100")
    slow = file.add("slow", "calls=2")
    free = file.add("free")
    with HttpServer("--tokens", file.path, "--max-sandboxes", "8", "--memory-mb", "64") as server:
        clients = {name: server.client(LATEST_LEGACY, token=t) for name, t in (("few", few), ("small", small), ("slow", slow), ("free", free))}
        first = clients["few"].call("create_sandbox")["sandbox_id"]
        error = clients["few"].call_failing("create_sandbox")["error"]
        contains(error["message"], "may have 1")
        assert error.get("hint"), error
        clients["few"].call("close_sandbox", sandbox_id=first)
        poll("there is room again", lambda: not clients["few"].start_call("create_sandbox").result().get("isError"))
        clients["small"].call("create_sandbox")
        error = clients["small"].call_failing("create_sandbox")["error"]
        contains(error["message"].lower(), "memory")
        clients["small"].call("create_sandbox", memory_mb=32)
        box = clients["slow"].call("create_sandbox")["sandbox_id"]
        busy = [clients["slow"].start_call("execute_code", code="import time; time.sleep(600)", sandbox_id=box) for _ in range(2)]

        def refused():
            pending = clients["slow"].start("tools/call", {"name": "get_sandbox_status", "arguments": {}})
            answer = pending.wait()
            return answer["error"]["message"] if "error" in answer else None

        contains(poll("the third is refused while two are in flight", refused), "2 calls of yours are in flight")
        equal([pending.answered() for pending in busy], [False, False])
        clients["free"].call("create_sandbox")
        for pending in busy:
            clients["slow"].notify("notifications/cancelled", {"requestId": pending.ident})
        poll("there is room again", lambda: refused() is None)
        clients["slow"].call("get_sandbox_status")
        for shown in (few, small, slow, free):
            server.close_sandboxes(token=shown)


# ---- changes of the file of tokens ----


@suite.case("SIGHUP: new tokens are good, those that are gone end sessions and streams, a broken file changes nothing")
def reload():
    file = Tokens()
    alice, bob = file.add("alice"), file.add("bob")
    with HttpServer("--tokens", file.path) as server:
        clients = [server.client(LATEST_LEGACY, token=t) for t in (alice, bob)]
        streams = [c.listen() for c in clients]
        modern = server.client(MODERN, token=bob)
        listening = modern.start("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        box = clients[0].call("create_sandbox")["sandbox_id"]
        equal([s.status() for s in (*streams, listening.exchange)], [200] * 3)

        def hangup(seen, words):
            before = len(server.log)
            os.kill(server.process.pid, signal.SIGHUP)
            poll(seen, lambda: any(w in line for line in server.log[before:] for w in words))

        file.write("this line is no token at all")
        hangup("a complaint", ["tokens"])
        equal(clients[1].request("ping"), {}, "with a broken file")
        assert alice not in "".join(server.log) and bob not in "".join(server.log), "tokens in the log"
        file.lines = file.lines[:1]
        carol = file.add("carol")
        os.kill(server.process.pid, signal.SIGHUP)
        poll("carol comes in", lambda: server.ask("POST", "/mcp", [*BOTH, bearer(carol)], initialize()).head.status == 200)
        equal(server.ask("POST", "/mcp", [*BOTH, bearer(bob)], initialize()).head.status, 401)
        assert streams[1].ended.wait(30), "the stream of who was put out"
        assert listening.exchange.ended.wait(30), "the listener of who was put out"
        equal(clients[0].run("'still'", sandbox_id=box)["result"], "'still'")
        assert not streams[0].ended.is_set()
        clients[0].call("close_sandbox", sandbox_id=box)


@suite.case("a file of tokens that others can read, or that makes no sense, is refused, without a word of it")
def bad_files():
    secret = new_token()
    for text, mode, words in (
        (f"alice {secret}\n", 0o644, "chmod"),
        ("alice\n", 0o600, "line 1"),
        (f"alice {secret}\nalice2 short\n", 0o600, "line 2"),
        (f"alice {secret} sandboxes=many\n", 0o600, "line 1"),
        (f"local {secret}\n", 0o600, "line 1"),
        (f"alice {secret}\nbob {secret}\n", 0o600, "line 2"),
        (None, 0, "tokens"),
    ):
        path = os.path.join(mcp.temporary_directory(), "tokens")
        if text is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(path, mode)
        done = refused("--http", "127.0.0.1:0", "--tokens", path)
        contains(done.stderr, words, text)
        assert secret not in done.stderr, done.stderr


@suite.case("other machines' addresses are not listened on without tokens and TLS, unless told so")
def not_loopback():
    file = Tokens()
    good = file.add("alice")
    for options in ((), ("--tokens", file.path)):
        done = refused("--http", "0.0.0.0:0", *options)
        contains(done.stderr, "--insecure-http", options)
    for address in ("0.0.0.0:0", "[::]:0"):
        if "[" in address and not os.path.exists("/proc/net/if_inet6"):
            continue
        try:
            server = HttpServer("--tokens", file.path, "--insecure-http", address=address)
        except AssertionError:
            if "[" in address:
                continue  # this machine has no IPv6
            raise
        with server:
            place = Place(f"http://127.0.0.1:{server.place.port}")
            client = HttpClient(place, token=good, log_tail=server.log_tail)
            client.legacy()
            client.check_wire()
            headers = [("Host", f"evil.example.com:{place.port}"), *BOTH, bearer(good)]
            server.place = place
            equal(server.ask("POST", "/mcp", headers, initialize()).head.status, 403)


# ---- an authorization server ----


class Authorized:
    """A server whose tokens an issuer knows."""

    def __init__(self, *options):
        self.issuer = Issuer()
        secret = os.path.join(mcp.temporary_directory(), "client")
        with open(secret, "w", encoding="utf-8", opener=lambda p, f: os.open(p, f, 0o600)) as file:
            file.write(CLIENT + "\n")
        self.server = HttpServer(
            "--oauth-issuer", self.issuer.url, "--oauth-introspection", self.issuer.url + "/introspect",
            "--oauth-client", secret, "--oauth-scopes", "mcp:use", *options,
        )  # fmt: skip
        self.audience = self.server.place.url + "/mcp"

    def good(self, subject="alice", **more):
        return self.issuer.good(new_token(), subject, more.pop("aud", self.audience), **more)

    def ask(self, shown, body=None):
        headers = [*BOTH, *([bearer(shown)] if shown else [])]
        return self.server.ask("POST", "/mcp", headers, body or initialize())

    def __enter__(self):
        return self

    def __exit__(self, kind, problem, trace):
        self.server.__exit__(kind, problem, trace)
        self.issuer.close()
        if kind is None:
            equal(self.issuer.problems, [], "how the issuer was asked")


@suite.case("OAuth: a client without a token learns where to get one")
def metadata():
    with Authorized() as a:
        answer = a.ask(None)
        equal(answer.head.status, 401)
        shown = answer.get("www-authenticate")
        contains(shown, "resource_metadata=")
        contains(shown, 'scope="mcp:use"')
        assert "error=" not in shown, "nothing was wrong with a token that was not there"
        url = re.search(r'resource_metadata="([^"]+)"', shown)[1]
        assert url.startswith(a.server.place.url + "/.well-known/oauth-protected-resource"), url
        for path in (url.removeprefix(a.server.place.url), "/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource"):
            found = a.server.ask("GET", path)
            equal(found.head.status, 200, path)
            document = found.json()
            equal((document["resource"], document["authorization_servers"]), (a.audience, [a.issuer.url]), path)
            equal((document["scopes_supported"], document["bearer_methods_supported"]), (["mcp:use"], ["header"]))
        equal(a.server.ask("GET", "/.well-known/oauth-protected-resource", [("Host", "evil.example.com")]).head.status, 403)


@suite.case("OAuth: only active tokens that were made for us, with the scopes that are needed")
def introspection():
    with Authorized() as a:
        rows = [
            ("good", a.good(), 200),
            ("good, with an array of audiences", a.good(aud=["https://other.example", a.audience]), 200),
            ("good, with more scopes", a.good(scope="openid mcp:use email"), 200),
            ("unknown to the issuer", new_token(), 401),
            ("inactive", a.issuer.good(new_token(), "x", a.audience, active=False), 401),
            ("active in a string", a.issuer.good(new_token(), "x", a.audience, active="true"), 401),
            ("made for another", a.good(aud="https://other.example/mcp"), 401),
            ("made for nobody in particular", a.good(aud=None), 401),
            ("made for what begins like us", a.good(aud=a.audience + "x"), 401),
            ("expired", a.good(exp=int(time.time()) - 60), 401),
            ("not good yet", a.good(nbf=int(time.time()) + 3600), 401),
            ("of another issuer", a.good(iss="https://other.example"), 401),
            ("too little scope", a.good(scope="openid"), 403),
            ("a scope that begins like it", a.good(scope="mcp:user"), 403),
            ("no scope", a.good(scope=None), 403),
        ]
        wrong = []
        for what, shown, status in rows:
            answer = a.ask(shown)
            if answer.head.status != status and not (status == 401 and answer.head.status == 503 and what == "active in a string"):
                wrong.append(f"{what}: {answer.head.status}, wanted {status}: {answer.body[:100]!r}")
            challenge = answer.get("www-authenticate") or ""
            if answer.head.status == 401 and 'error="invalid_token"' not in challenge:
                wrong.append(f"{what}: {challenge}")
            if answer.head.status == 403 and not ('error="insufficient_scope"' in challenge and 'scope="mcp:use"' in challenge):
                wrong.append(f"{what}: {challenge}")
        assert not wrong, "\n".join(wrong)


@suite.case("OAuth: each subject is a principal, however many tokens it has; the issuer is not asked each time")
def subjects():
    with Authorized() as a:
        first, second, other = a.good("alice"), a.good("alice"), a.good("bob")
        clients = [a.server.client(LATEST_LEGACY, token=t) for t in (first, second, other)]
        box = clients[0].call("create_sandbox")["sandbox_id"]
        equal(clients[1].run("1 + 1", sandbox_id=box)["result"], "2", "the same subject with another token")
        same_as_unknown(lambda name: clients[2].start_call("execute_code", code="1", sandbox_id=name).wait(), box, "another subject")
        for _ in range(30):
            clients[0].request("ping")
        assert a.issuer.asked.count(first) <= 2, f"asked {a.issuer.asked.count(first)} times for one token"
        clients[0].call("close_sandbox", sandbox_id=box)
        assert first not in "".join(a.server.log), "a token in the log"


@suite.case("OAuth: an issuer that is down, slow, or talks nonsense costs only those who need it")
def issuer_trouble():
    with Authorized() as a:
        known = a.good("alice")
        client = a.server.client(LATEST_LEGACY, token=known)
        for answer in (500, b"not JSON", b'"a string"', b"{}", b"[]", b"x" * (2 << 20)):
            shown = new_token()
            a.issuer.tokens[shown] = answer
            contains((401, 503), a.ask(shown).head.status, str(answer)[:20])
        a.issuer.hold.clear()
        waiting = [threading.Thread(target=a.ask, args=(a.good(f"u{i}"),), daemon=True) for i in range(10)]
        for thread in waiting:
            thread.start()
        equal(client.request("ping"), {}, "who is known, while others wait for the issuer")
        assert all(thread.is_alive() for thread in waiting), "the others did not wait"
        slow = a.ask(a.good("slow"))
        equal(slow.head.status, 503, "an issuer that says nothing, and goes on doing so")
        a.issuer.hold.set()
        for thread in waiting:
            thread.join(30)
        a.issuer.server.shutdown()
        a.issuer.server.server_close()
        equal(a.ask(a.good("late")).head.status, 503, "an issuer that is not there")
        equal(client.request("ping"), {})


@suite.finish
def close():
    """the server of the principals has sent nothing wrong and leaves nothing behind"""
    if _guests:
        server = _guests[0].server
        for client in server.clients:
            client.unmatched.clear()
        for shown in (_guests[0].alice_token, _guests[0].bob_token):
            server.close_sandboxes(token=shown)
        server.close()


suite.run()
