"""The page /metrics: its figures move with what happens, and only those read it who may."""

import os
import signal
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # pylint: disable=wrong-import-position

from common import LATEST_LEGACY, MODERN, NONE, Skip, Suite, contains, equal, needs_runtime, poll
from mcp_http import EVENTS, JSON, HttpServer
from metrics_page import number, page, promtool
from tokens_file import Tokens, bearer

needs_runtime()
suite = Suite(NONE)  # what is counted does not depend on the backend
BOTH = [("Content-Type", JSON), ("Accept", f"{JSON}, {EVENTS}")]
PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
CALLS, SECONDS = "cloister_calls_total", "cloister_call_duration_seconds_count"
_shared = []


def shared():
    if not _shared:
        _shared.append(HttpServer())
    return _shared[0]


def moved(server, before):
    """What has changed since, by the same keys."""
    now = page(server)
    return {key: value - before.get(key, 0) for key, value in now.items() if value != before.get(key, 0)}


def quiet(server):
    """The page when no sandbox is left of earlier cases, which end a little after they are closed."""

    def empty():
        figures = page(server)
        return figures if all(v == 0 for k, v in figures.items() if k[0] in ("cloister_sandboxes", "cloister_workers")) else None

    return poll("no sandbox is left", empty)


@suite.case("calls, executions and output are counted by how they ended")
def counted():
    server = shared()
    client = server.client(LATEST_LEGACY)
    sandbox = client.call("create_sandbox")["sandbox_id"]
    before = page(server)
    client.call("execute_code", sandbox_id=sandbox, code="import sys\nprint('x' * 99)\nprint('no', file=sys.stderr)")
    client.call_failing("execute_code", sandbox_id=sandbox, code="1 / 0")
    client.call_failing("read_file", sandbox_id=sandbox, path="not-there")
    client.call_failing("read_file", sandbox_id="nobody-has-this", path="x")
    change = moved(server, before)
    equal(number(change, CALLS, tool="execute_code", outcome="ok"), 1)
    equal(number(change, CALLS, tool="execute_code", outcome="error"), 1)
    equal(number(change, CALLS, tool="read_file", outcome="failed"), 2)
    equal(number(change, "cloister_call_errors_total", code="file_not_found"), 1)
    equal(number(change, "cloister_call_errors_total", code="sandbox_not_found"), 1)
    equal(number(change, SECONDS, tool="execute_code"), 2)
    equal(number(change, "cloister_executions_total", status="ok"), 1)
    equal(number(change, "cloister_executions_total", status="error"), 1)
    equal(number(change, "cloister_execution_duration_seconds_count"), 2)
    equal(number(change, "cloister_output_bytes_total", stream="stdout"), 100)
    equal(number(change, "cloister_output_bytes_total", stream="stderr"), 3)
    client.call("close_sandbox", sandbox_id=sandbox)


@suite.case("sandboxes by state, their memory, and how long it took to make them")
def sandboxes():
    server = shared()
    client = server.client(LATEST_LEGACY)
    before = quiet(server)
    made = client.call("create_sandbox", memory_mb=256)
    change = moved(server, before)
    equal(number(change, "cloister_sandboxes", state="ready"), 1)
    equal(number(change, "cloister_sandbox_memory_limit_bytes"), 256 << 20)
    equal(number(change, "cloister_sandboxes_opened_total", outcome="ok"), 1)
    equal(number(change, "cloister_sandbox_start_seconds_count"), 1)
    equal(number(change, "cloister_workers"), 1)
    client.call("close_sandbox", sandbox_id=made["sandbox_id"])
    equal(number(quiet(server), "cloister_sandbox_memory_limit_bytes"), 0)


@suite.case("a call that was cancelled is counted as that, and those in flight are shown")
def cancelled():
    server = shared()
    client = server.client(LATEST_LEGACY)
    sandbox = client.call("create_sandbox")["sandbox_id"]
    before = page(server)
    waiting = client.start_call("execute_code", sandbox_id=sandbox, code="import time\ntime.sleep(600)", timeout_seconds=900)
    poll("it is in flight", lambda: moved(server, before).get(("cloister_calls_in_flight",)) == 1)
    client.notify("notifications/cancelled", {"requestId": waiting.ident})
    poll("it was cancelled", lambda: moved(server, before).get((CALLS, ("tool", "execute_code"), ("outcome", "cancelled"))) == 1)
    change = moved(server, before)
    equal(number(change, "cloister_executions_total", status="cancelled"), 1)
    assert ("cloister_calls_in_flight",) not in change, change
    client.call("close_sandbox", sandbox_id=sandbox)


@suite.case("a call whose code goes on is counted as running, and its execution when it has ended")
def running():
    with HttpServer("--sync-budget-seconds", "1") as server:
        client = server.client(LATEST_LEGACY)
        run = client.call("execute_code", code="import time\ntime.sleep(600)", timeout_seconds=900)
        equal(run["status"], "running")
        figures = page(server)
        equal(number(figures, CALLS, tool="execute_code", outcome="running"), 1)
        assert all(v == 0 for k, v in figures.items() if k[0] == "cloister_executions_total"), figures
        client.call("cancel_execution", execution_id=run["execution_id"])
        figures = page(server)
        equal(number(figures, "cloister_executions_total", status="cancelled"), 1)
        equal(number(figures, CALLS, tool="cancel_execution", outcome="ok"), 1)
        server.close_sandboxes()


@suite.case("a worker that dies is counted, and how long its sandbox was without one")
def worker():
    server = shared()
    client = server.client(LATEST_LEGACY)
    sandbox = client.call("create_sandbox")["sandbox_id"]
    before = page(server)
    client.kill_worker(sandbox)
    equal(client.run("6 * 7", sandbox_id=sandbox)["result"], "42")
    change = moved(server, before)
    assert number(change, "cloister_worker_restarts_total", reason="died") >= 1, change
    assert number(change, "cloister_worker_repair_seconds_count") >= 1, change
    client.call("close_sandbox", sandbox_id=sandbox)


@suite.case("sandboxes that were taken over are counted by the next server")
def adoption():
    first = HttpServer("--grace-seconds", "600")
    sandbox = first.client(LATEST_LEGACY).call("create_sandbox")["sandbox_id"]
    first.kill()
    with HttpServer("--grace-seconds", "600", runtime_dir=first.runtime_dir) as second:
        client = second.client(LATEST_LEGACY)
        poll("it was taken over", lambda: number(page(second), "cloister_adoptions_total", outcome="ok") == 1)
        equal(number(page(second), "cloister_adoptions_total", outcome="failed"), 0)
        client.call("close_sandbox", sandbox_id=sandbox)


@suite.case("refusals are counted by their reason")
def refusals():
    file = Tokens()
    good = file.add("alice", "metrics=yes")
    with HttpServer("--tokens", file.path, "--max-sandboxes", "1") as server:
        client = server.client(LATEST_LEGACY, token=good)
        sandbox = client.call("create_sandbox")["sandbox_id"]
        client.call_failing("create_sandbox")
        equal(server.ask("POST", "/mcp", BOTH, PING).head.status, 401)
        evil = [*BOTH, bearer(good), ("Origin", "https://evil.example")]
        equal(server.ask("POST", "/mcp", evil, PING).head.status, 403)
        figures = page(server, bearer(good))
        for reason, count in (("sandbox_limit", 1), ("unauthorized", 1), ("host_origin", 1), ("forbidden", 0)):
            equal(number(figures, "cloister_rejected_total", reason=reason), count, reason)
        equal(number(figures, "cloister_http_responses_total", code="4xx"), 2)
        client.call("close_sandbox", sandbox_id=sandbox)


# ---- who may read it ----


@suite.case("a principal reads the page only if the file of tokens says so, and learns why not; SIGHUP changes it")
def readers():
    file = Tokens()
    alice, bob, scraper = file.add("alice"), file.add("bob", "metrics=yes"), file.add("scraper", "metrics=only", hashed=True)
    with HttpServer("--tokens", file.path) as server:
        nobody = server.ask("GET", "/metrics")
        equal(nobody.head.status, 401)
        assert b"cloister_" not in nobody.body, nobody.body
        refused = server.ask("GET", "/metrics", [bearer(alice)])
        equal(refused.head.status, 403)
        for word in (b"alice", b"metrics=yes", b"file of tokens"):
            contains(refused.body, word)
        assert b"cloister_calls" not in refused.body
        for token in (bob, scraper):
            page(server, bearer(token))
        for method, path in (("POST", "/mcp"), ("GET", "/mcp"), ("DELETE", "/mcp"), ("GET", "/sse"), ("POST", "/messages?sessionId=x")):
            answer = server.ask(method, path, [*BOTH, bearer(scraper)], PING if method == "POST" else None)
            equal(answer.head.status, 403, f"{method} {path}")
            contains(answer.body, b"metrics=only")
        assert server.client(MODERN, token=bob).request("tools/list")["tools"]
        file.lines[0] += " metrics=yes"
        file.write()
        os.kill(server.process.pid, signal.SIGHUP)
        poll("alice may read it now", lambda: server.ask("GET", "/metrics", [bearer(alice)]).head.status == 200)


@suite.case("for a principal that only reads the page no share is kept")
def no_share():
    file = Tokens()
    alice = file.add("alice")
    file.add("scraper", "metrics=only")
    with HttpServer("--tokens", file.path, "--max-sandboxes", "2") as server:
        client = server.client(LATEST_LEGACY, token=alice)
        for sandbox in [client.call("create_sandbox")["sandbox_id"] for _ in range(2)]:
            client.call("close_sandbox", sandbox_id=sandbox)


@suite.case("Host and Origin are checked as everywhere; other methods are refused; HEAD has no body")
def guarded():
    server = shared()
    equal(server.ask("GET", "/metrics", [("Origin", "https://evil.example")]).head.status, 403)
    stranger = server.ask("GET", "/metrics", [("Host", "evil.example")])
    equal(stranger.head.status, 403)
    assert b"cloister_" not in stranger.body
    for method in ("POST", "PUT", "DELETE"):
        answer = server.ask(method, "/metrics", [], b"x" if method != "DELETE" else None)
        equal(answer.head.status, 405, method)
        equal(answer.get("allow"), "GET, HEAD")
    head = server.ask("HEAD", "/metrics")
    equal((head.head.status, head.body), (200, b""))
    equal(head.get("content-type"), "text/plain; version=0.0.4; charset=utf-8")
    equal(server.ask("GET", "/metrics/").head.status, 404)


@suite.case("nothing that clients say is on the page")
def no_secrets():
    server = shared()
    client = server.client(LATEST_LEGACY)
    sandbox = client.call("create_sandbox", name="marsupial-name", env={"WORD": "marsupial-env"})["sandbox_id"]
    client.call("execute_code", sandbox_id=sandbox, code="print('marsupial-code')", language="python")
    client.call("write_file", sandbox_id=sandbox, path="marsupial-path", content="marsupial-content")
    client.request("tools/call", {"name": "write_file", "arguments": {"marsupial": "argument"}})
    body = server.ask("GET", "/metrics").body
    for word in (b"marsupial", sandbox.encode()):
        assert word not in body, body[max(0, body.find(word) - 200) :][:400]
    client.call("close_sandbox", sandbox_id=sandbox)


@suite.case("Prometheus's own tool finds nothing wrong with the page")
def by_promtool():
    if promtool() is None:
        raise Skip("promtool is not installed (package prometheus)")
    body = shared().ask("GET", "/metrics").body
    done = subprocess.run([promtool(), "check", "metrics"], input=body, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    equal((done.returncode, done.stdout), (0, b""))


@suite.finish
def left():
    """nothing is left"""
    if _shared:
        _shared[0].close_sandboxes()
        _shared[0].close()


suite.run()
