"""MCP over HTTP: both eras at one URL, the pair of endpoints of the oldest clients, and what happens to work
when connections are lost."""

import json
import os
import signal
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # pylint: disable=wrong-import-position

from common import LATEST_LEGACY, LEGACY, MODERN, Suite, contains, equal, mcp, modern_meta, needs_runtime, poll
from common_http import COUNTING, begun, close_shared, count, listen, shared, stands_still, with_sandbox
from http_wire import encoded, head_bytes
from mcp_http import EVENTS, JSON, BothServer, HttpClient, HttpServer, SseClient
from wire import PREFIX

needs_runtime()
suite = Suite()

PARSE_ERROR, INVALID_REQUEST, NO_METHOD, INVALID_PARAMS = -32700, -32600, -32601, -32602
HEADER_MISMATCH, NEEDS_CAPABILITY, UNSUPPORTED_VERSION = -32020, -32021, -32022
BOTH = f"{JSON}, {EVENTS}"

def message(ident, method, params=None):
    found = {"jsonrpc": "2.0", "id": ident, "method": method}
    if params is not None:
        found["params"] = params
    return json.dumps(found).encode()


def code_of(exchange):
    return exchange.json()["error"]["code"]


def initialize(version=LATEST_LEGACY):
    return message(0, "initialize", {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}})


# ---- sessions of older revisions ----


@suite.case("each older revision has a session, named by an id that cannot be guessed, until DELETE")
def sessions():
    seen = set()
    for version in LEGACY:
        client = shared().client()
        result = client.legacy(version)
        equal(result["protocolVersion"], version)
        assert client.session and len(client.session) >= 22 and client.session not in seen, client.session
        assert all(0x21 <= ord(c) <= 0x7E for c in client.session), client.session
        seen.add(client.session)
        equal(client.request("ping"), {})
        assert client.request("tools/list")["tools"]
        first = client.delete()
        assert 200 <= first.head.status < 300, first.head.status
        equal(client.delete().head.status, 404, "DELETE of a session that has ended")
        gone = client.post(message(9, "ping")).wait()
        equal(gone.head.status, 404)
        assert "id" not in gone.json(), gone.body
        client.unmatched.clear()


@suite.case("a missing session id is 400, an unknown one 404, and neither says more than that")
def session_ids():
    client = shared().client(LATEST_LEGACY)
    common = [("Content-Type", JSON), ("Accept", BOTH)]
    missing = client.post(message(1, "tools/list"), common).wait()
    equal(missing.head.status, 400)
    for wrong in ("x", client.session[:-1], client.session + "A", client.session.swapcase(), "a" * 3000, "ä"):
        answer = client.post(message(2, "tools/list"), [*common, ("Mcp-Session-Id", wrong)]).wait()
        equal(answer.head.status, 404, wrong[:40])
    twice = client.post(message(3, "ping"), [*common, ("Mcp-Session-Id", client.session), ("Mcp-Session-Id", "other")]).wait()
    equal(twice.head.status, 400)
    equal(client.request("ping"), {})


@suite.case("notifications and responses are taken with 202 and no body")
def accepted():
    client = shared().client(LATEST_LEGACY)
    for body in (
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 77}},
        {"jsonrpc": "2.0", "method": "notifications/unheard/of"},
        {"jsonrpc": "2.0", "id": 5, "result": {}},
    ):
        answer = client.post(json.dumps(body).encode()).wait()
        equal((answer.head.status, answer.body), (202, b""), body)
    modern = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1, "_meta": modern_meta()}}
    answer = client.post(json.dumps(modern).encode(), [("Content-Type", JSON), ("MCP-Protocol-Version", MODERN)]).wait()
    equal((answer.head.status, answer.body), (202, b""))


@suite.case("the version header of a session: absent is fine, an unknown one is 400")
def version_header():
    client = shared().client(LATEST_LEGACY)
    base = [("Content-Type", JSON), ("Accept", BOTH), ("Mcp-Session-Id", client.session)]
    equal(client.post(message(1, "ping"), base).wait().head.status, 200)
    for wrong in ("1999-01-01", "2025-11", "latest", ""):
        equal(client.post(message(2, "ping"), [*base, ("MCP-Protocol-Version", wrong)]).wait().head.status, 400, wrong)
    fresh = shared().client()
    headers = [("Content-Type", JSON), ("Accept", BOTH), ("MCP-Protocol-Version", LATEST_LEGACY)]
    equal(fresh.post(initialize(), headers).wait().head.status, 200, "initialize with a version header")


@suite.case("unknown paths, methods and content types are refused")
def statuses():
    server = shared()
    client = server.client(LATEST_LEGACY)
    session = ("Mcp-Session-Id", client.session)
    equal(server.ask("GET", "/").head.status, 404)
    equal(server.ask("POST", "/mcp/x", [("Content-Type", JSON)], b"{}").head.status, 404)
    for method in ("PUT", "PATCH", "HEAD", "TRACE", "BREW"):
        answer = server.ask(method, "/mcp", [session])
        assert answer.head.status in (405, 501), (method, answer.head.status)
        if method == "PUT":
            contains(answer.get("allow"), "POST")
    equal(server.ask("GET", "/mcp", [session, ("Accept", JSON)]).head.status, 406)
    equal(server.ask("POST", "/mcp", [session, ("Content-Type", "text/plain"), ("Accept", BOTH)], message(1, "ping")).head.status, 415)
    equal(server.ask("POST", "/mcp", [session, ("Accept", BOTH)], message(1, "ping")).head.status, 415)
    equal(server.ask("POST", "/mcp", [session, ("Content-Type", JSON), ("Accept", "text/html")], message(1, "ping")).head.status, 406)
    with_charset = [session, ("Content-Type", "Application/JSON; charset=utf-8"), ("Accept", BOTH)]
    equal(server.ask("POST", "/mcp", with_charset, message(1, "ping")).head.status, 200)
    for body, code in ((b"{", PARSE_ERROR), (b"", PARSE_ERROR), (b"[1]", INVALID_REQUEST), (b"7", INVALID_REQUEST), (b"\xff", PARSE_ERROR)):
        answer = server.ask("POST", "/mcp", [session, ("Content-Type", JSON), ("Accept", BOTH)], body)
        equal((answer.head.status, code_of(answer)), (400, code), body)
        assert answer.json().get("id") is None, answer.body


@suite.case("batches: in 2025-03-26, as one array or stream; nowhere else, and never with the latest revision inside")
def batches():
    two = b"[" + message("a", "ping") + b"," + message("b", "tools/list") + b"]"
    client = shared().client("2025-03-26")
    pending = [client.expect("a"), client.expect("b")]
    equal(client.post(two).status(), 200)
    equal(pending[0].result(), {})
    assert pending[1].result()["tools"]
    quiet = b'[{"jsonrpc":"2.0","method":"notifications/x"},{"jsonrpc":"2.0","id":3,"result":{}}]'
    assert client.post(quiet).wait().head.status in (202, 400), "notifications and responses together"
    equal(client.post(b'[{"jsonrpc":"2.0","method":"notifications/x"}]').wait().head.status, 202)
    modern = b"[" + message("a", "ping") + b"," + message("m", "tools/list", {"_meta": modern_meta()}) + b"]"
    for text in (b"[]", modern):
        answer = client.post(text).wait()
        equal((answer.head.status, code_of(answer)), (400, INVALID_REQUEST), text[:60])
    for version in ("2025-06-18", "2025-11-25"):
        other = shared().client(version)
        answer = other.post(two).wait()
        equal((answer.head.status, code_of(answer)), (400, INVALID_REQUEST), version)


# ---- the latest revision ----


def modern_headers(method="tools/list", name=None, version=MODERN):
    found = [("Content-Type", JSON), ("Accept", BOTH), ("MCP-Protocol-Version", version), ("Mcp-Method", method)]
    return found + ([("Mcp-Name", name)] if name is not None else [])


def modern_body(method="tools/list", meta=None, **params):
    return message(7, method, {**params, "_meta": modern_meta() if meta is None else meta})


def without(headers, name):
    return [(k, v) for k, v in headers if k != name]


def replaced(headers, name, value):
    return [*without(headers, name), (name, value)]


@suite.case("a request of the latest revision is checked in the order that the revision wants")
def ladder():
    meta = modern_meta()
    good = modern_headers()
    call = modern_headers("tools/call", "get_sandbox_status")
    call_body = modern_body("tools/call", name="get_sandbox_status", arguments={})
    bogus = {**meta, PREFIX + "protocolVersion": "2099-01-01"}
    legacy = {**meta, PREFIX + "protocolVersion": "2025-11-25"}
    bare = {PREFIX + "protocolVersion": MODERN}
    rows = [
        # what, headers, body, status, code
        ("not JSON", good, b"{", 400, PARSE_ERROR),
        ("two values", good, b"{} {}", 400, PARSE_ERROR),
        ("an array", good, b"[" + modern_body() + b"]", 400, INVALID_REQUEST),
        ("a fraction as id", good, modern_body().replace(b'"id": 7', b'"id": 7.5'), 400, INVALID_REQUEST),
        ("no client capabilities", good, modern_body(meta=bare), 400, INVALID_PARAMS),
        ("ill-typed capabilities", good, modern_body(meta={**bare, PREFIX + "clientCapabilities": []}), 400, INVALID_PARAMS),
        ("ill-typed before header", without(good, "MCP-Protocol-Version"), modern_body(meta=bare), 400, INVALID_PARAMS),
        ("only the header claims it", good, message(7, "tools/list"), 400, INVALID_PARAMS),
        ("no version header", without(good, "MCP-Protocol-Version"), modern_body(), 400, HEADER_MISMATCH),
        ("another version header", replaced(good, "MCP-Protocol-Version", "2025-11-25"), modern_body(), 400, HEADER_MISMATCH),
        ("header before version", good, modern_body(meta=bogus), 400, HEADER_MISMATCH),
        ("unknown version", modern_headers(version="2099-01-01"), modern_body(meta=bogus), 400, UNSUPPORTED_VERSION),
        ("old version", modern_headers(version="2025-11-25"), modern_body(meta=legacy), 400, UNSUPPORTED_VERSION),
        ("no method header", without(good, "Mcp-Method"), modern_body(), 400, HEADER_MISMATCH),
        ("another method header", replaced(good, "Mcp-Method", "tools/call"), modern_body(), 400, HEADER_MISMATCH),
        ("method in other case", replaced(good, "Mcp-Method", "TOOLS/LIST"), modern_body(), 400, HEADER_MISMATCH),
        ("method header before method", replaced(good, "Mcp-Method", "x"), modern_body("no/such"), 400, HEADER_MISMATCH),
        ("unknown method", modern_headers("no/such"), modern_body("no/such"), 404, NO_METHOD),
        ("a retired method", modern_headers("ping"), modern_body("ping"), 404, NO_METHOD),
        ("initialize of this revision", modern_headers("initialize"), modern_body("initialize"), 404, NO_METHOD),
        ("no name header", without(call, "Mcp-Name"), call_body, 400, HEADER_MISMATCH),
        ("another name header", replaced(call, "Mcp-Name", "close_sandbox"), call_body, 400, HEADER_MISMATCH),
        ("name, badly encoded", replaced(call, "Mcp-Name", "=?base64?!!?="), call_body, 400, HEADER_MISMATCH),
        ("name, badly padded", replaced(call, "Mcp-Name", "=?base64?Zw?="), call_body, 400, HEADER_MISMATCH),
        ("name, encoded for nothing", replaced(call, "Mcp-Name", "=?base64?Z2V0X3NhbmRib3hfc3RhdHVz?="), call_body, 200, None),
        ("blanks around values", replaced(call, "Mcp-Name", "  get_sandbox_status\t"), call_body, 200, None),
        ("other case of names", [(k.upper(), v) for k, v in call], call_body, 200, None),
        ("a session id and an event id", [*call, ("Mcp-Session-Id", "x"), ("Last-Event-ID", "1-1")], call_body, 200, None),
        ("unknown Mcp-Param", [*call, ("Mcp-Param-Colour", "red")], call_body, 200, None),
        ("no Accept", without(call, "Accept"), call_body, 200, None),
        ("unknown tool", replaced(call, "Mcp-Name", "nothing"), call_body.replace(b"get_sandbox_status", b"nothing"), 200, INVALID_PARAMS),
        ("a bad cursor", good, modern_body(cursor="nonsense"), 200, INVALID_PARAMS),
        ("no name at all", without(call, "Mcp-Name"), modern_body("tools/call"), 200, INVALID_PARAMS),
        ("a bad log level", good, modern_body(meta={**meta, PREFIX + "logLevel": "loud"}), None, INVALID_PARAMS),
    ]
    client = shared().client()
    wrong = []
    for what, headers, body, status, code in rows:
        answer = client.post(body, headers).wait()
        got = answer.json()
        got_code = got.get("error", {}).get("code")
        if (status or answer.head.status, code) != (answer.head.status, got_code):
            wrong.append(f"{what}: {answer.head.status} {got_code}, wanted {status} {code}: {answer.body[:150]!r}")
        if code not in (PARSE_ERROR, INVALID_REQUEST) and got.get("id") != 7:
            wrong.append(f"{what}: id {got.get('id')!r}")
    assert not wrong, "\n".join(wrong)
    unsupported = client.post(modern_body(meta=bogus), modern_headers(version="2099-01-01")).json()
    equal(unsupported["error"]["data"], {"supported": [MODERN], "requested": "2099-01-01"})


@suite.case("names that headers cannot carry as they are, and both eras on one URL at the same time")
def odd_names():
    modern = shared().client(MODERN)
    for uri in ("sandbox://nobody/workspace/ä 漢.txt", "sandbox://x/=?base64?", " leading"):
        error = modern.start("resources/read", {"uri": uri}).error()
        equal((error["code"], error["data"]["uri"]), (INVALID_PARAMS, uri))
    error = modern.start_call("wörk").error()
    contains(error["message"], "wörk")
    contains(encoded("wörk"), "=?base64?")
    legacy = shared().client(LATEST_LEGACY)
    equal(legacy.start("resources/read", {"uri": "sandbox://nobody/x"}).error()["code"], -32002)
    equal(modern.request("server/discover")["supportedVersions"], [MODERN])
    equal(legacy.request("ping"), {})


@suite.case("an initialize whose header claims the latest revision is refused with the words of that")
def mixed_claim():
    client = shared().client()
    answer = client.post(initialize(), modern_headers("initialize")).wait()
    equal((answer.head.status, code_of(answer)), (400, HEADER_MISMATCH))


# ---- connections ----


@suite.case("one connection serves many requests, in order, also when they come all at once")
def keep_alive():
    place = shared().place
    client = shared().client(LATEST_LEGACY)
    headers = client.headers_for(None)
    with shared().raw() as raw:
        for number in range(20):
            body = message(number, "ping")
            raw.send(head_bytes(place, "POST", "/mcp", headers, len(body)) + body)
            head, got = raw.response()
            equal((head.status, json.loads(got)["id"]), (200, number))
        bodies = [message(n, "ping") for n in range(30)]
        raw.send(b"".join(head_bytes(place, "POST", "/mcp", headers, len(b)) + b for b in bodies))
        for number in range(30):
            head, got = raw.response()
            equal((head.status, json.loads(got)["id"]), (200, number), "pipelined")
    with shared().raw() as raw:
        body = message(1, "ping")
        head = head_bytes(place, "POST", "/mcp", [*headers, ("Transfer-Encoding", "chunked")])
        raw.send(head + b"".join(b"1\r\n" + bytes([b]) + b"\r\n" for b in body) + b"0\r\n\r\n")
        equal(raw.response()[0].status, 200, "a chunked body")
    with shared().raw() as raw:
        raw.send(head_bytes(place, "POST", "/mcp", [*headers, ("Connection", "close")], len(body)) + body)
        equal(raw.response()[0].status, 200)
        assert raw.is_closed(20), "Connection: close"


@suite.case("a client that accepts only event streams gets one, a client that accepts only JSON gets JSON")
def kinds_of_answers():
    streams = shared().client(LATEST_LEGACY, accept=EVENTS)
    pending = streams.start("tools/list")
    assert pending.result()["tools"] and pending.exchange.is_stream()
    plain = shared().client(LATEST_LEGACY, accept=JSON)
    sandbox = plain.call("create_sandbox")["sandbox_id"]
    pending = plain.start_noted("t", "execute_code", code="import time\nfor i in range(3): print(i, flush=True); time.sleep(0.6)", sandbox_id=sandbox)
    equal(pending.structured()["stdout"], "0\n1\n2\n")
    assert not pending.exchange.is_stream()
    plain.call("close_sandbox", sandbox_id=sandbox)


@suite.case("latest revision: closing the response stops the code")
def modern_cancel():
    client, sandbox = with_sandbox(MODERN)
    for token in (None, "progress"):
        code = COUNTING.format(steps=600, seconds=0.1)
        client.call("write_file", path="count", content="", sandbox_id=sandbox)
        if token:
            pending = client.start_noted(token, "execute_code", code=code, sandbox_id=sandbox)
            poll("progress", lambda: client.progress(token))
        else:
            pending = client.start_call("execute_code", code=code, sandbox_id=sandbox)
        poll("it counts", lambda: count(client, sandbox) not in (None, ""))
        pending.exchange.drop()
        stands_still(client, sandbox)
    client.call("close_sandbox", sandbox_id=sandbox)


@suite.case("older revisions: a lost connection stops nothing, and a client that resumes gets the answer")
def resume():
    for version in ("2025-11-25", "2025-06-18"):
        client, sandbox = with_sandbox(version)
        code = COUNTING.format(steps=12, seconds=0.25)
        pending = client.start_noted("p", "execute_code", code=code, sandbox_id=sandbox)
        poll("an event with an id", lambda: [e for e in pending.exchange.events if e.id])
        pending.exchange.drop()
        last = [e.id for e in pending.exchange.events if e.id][-1]
        before = len(client.progress("p"))
        again = client.listen(last_event=last)
        equal(again.status(), 200)
        done = pending.structured()
        contains(done["stdout"], "step 11")
        assert len(client.progress("p")) >= before
        again.wait()
        shown = [p["progress"] for p in client.progress("p")]
        equal(shown, sorted(set(shown)), "progress rises, and is told once")
        equal(count(client, sandbox), "all")
        # once more after its end
        replay = client.listen(last_event=last)
        equal(replay.status(), 200)
        replay.wait()
        assert any(json.loads(e.data).get("id") == pending.ident for e in replay.events if e.data), "the kept answer"
        equal(len(client.unmatched), 1, "the answer, a second time")
        client.call("close_sandbox", sandbox_id=sandbox)


@suite.case("a stream can be resumed from any of its events, and from none that it does not have")
def resume_wrong():
    client = shared().client(LATEST_LEGACY)
    other = shared().client(LATEST_LEGACY)
    for wrong in ("nonsense", "999-1", "1-99999", "-1", "", "0-0-0", "18446744073709551616-1"):
        exchange = client.listen(last_event=wrong)
        assert exchange.status() in (200, 400, 404), (wrong, exchange.status())
        exchange.drop()
    equal(other.request("ping"), {})
    equal(client.request("ping"), {})


@suite.case("the first event of the newest sessions' streams has an id and nothing else")
def priming():
    client, sandbox = with_sandbox("2025-11-25")
    pending = client.start_call("execute_code", code="import time; time.sleep(2.5)", sandbox_id=sandbox)
    pending.structured()
    first = pending.exchange.events[0]
    assert first.id and not first.data and first.retry, vars(first)
    older, box = with_sandbox("2025-03-26")
    pending = older.start_call("execute_code", code="import time; time.sleep(2.5)", sandbox_id=box)
    pending.structured()
    assert all(e.data for e in pending.exchange.events), "older clients choke on empty data"
    client.call("close_sandbox", sandbox_id=sandbox)
    older.call("close_sandbox", sandbox_id=box)


@suite.case("older revisions: notifications/cancelled stops the code, whatever connection it comes by")
def legacy_cancel():
    client, sandbox = with_sandbox(LATEST_LEGACY)
    pending = client.start_call("execute_code", code=COUNTING.format(steps=600, seconds=0.1), sandbox_id=sandbox)
    begun(client, sandbox)
    client.notify("notifications/cancelled", {"requestId": pending.ident, "reason": "enough"})
    stands_still(client, sandbox)
    pending.exchange.wait()
    assert not pending.exchange.body and not any(e.data for e in pending.exchange.events), "a cancelled call is not answered"
    client.call("close_sandbox", sandbox_id=sandbox)


@suite.case("the end of a session stops its code, and leaves that of others alone")
def delete_stops():
    watcher = shared().client(LATEST_LEGACY)
    client, sandbox = with_sandbox(LATEST_LEGACY)
    other, box = with_sandbox(LATEST_LEGACY)
    code = COUNTING.format(steps=600, seconds=0.1)
    client.start_call("execute_code", code=code, sandbox_id=sandbox)
    goes_on = other.start_call("execute_code", code=COUNTING.format(steps=20, seconds=0.2), sandbox_id=box)
    begun(watcher, sandbox)
    client.delete()
    stands_still(watcher, sandbox)
    goes_on.structured()
    for name in (sandbox, box):
        watcher.call("close_sandbox", sandbox_id=name)


# ---- the oldest clients ----


@suite.case("the pair of /sse and /messages serves every older revision")
def old_pair():
    for version in LEGACY:
        client, sandbox = with_sandbox(version, kind=SseClient)
        contains(client.endpoint, "sessionId=")
        contains(json.dumps(client.call("execute_code", code="6 * 7", sandbox_id=sandbox)), "42")
        both = [client.start_call("execute_code", code=f"{n} * 2", sandbox_id=sandbox) for n in range(5)]
        equal([p.result().get("isError", False) for p in both], [False] * 5)
        client.call("close_sandbox", sandbox_id=sandbox)


@suite.case("posts for no session, an unknown one, or one of the other transport are refused")
def old_pair_wrong():
    server = shared()
    new = server.client(LATEST_LEGACY)
    old = server.client("2024-11-05", kind=SseClient)
    ident = old.endpoint.split("sessionId=")[1]
    headers = [("Content-Type", JSON), ("Accept", BOTH)]
    equal(server.ask("POST", "/messages", headers, message(1, "ping")).head.status, 400)
    equal(server.ask("POST", "/messages?sessionId=unknown", headers, message(1, "ping")).head.status, 404)
    equal(server.ask("POST", f"/messages?sessionId={new.session}", headers, message(1, "ping")).head.status, 404)
    equal(server.ask("POST", "/mcp", [*headers, ("Mcp-Session-Id", ident)], message(1, "ping")).head.status, 404)
    equal(server.ask("DELETE", "/mcp", [("Mcp-Session-Id", ident)]).head.status, 404)
    equal(server.ask("POST", old.endpoint, headers, b"{").head.status, 400)
    equal(old.request("ping"), {})


@suite.case("the end of the stream of /sse is the end of its session and its code")
def old_pair_ends():
    watcher = shared().client(LATEST_LEGACY)
    client, sandbox = with_sandbox("2024-11-05", kind=SseClient)
    client.start_call("execute_code", code=COUNTING.format(steps=600, seconds=0.1), sandbox_id=sandbox)
    begun(watcher, sandbox)
    client.stream.drop()
    stands_still(watcher, sandbox)
    poll("its session has ended", lambda: shared().ask("POST", client.endpoint, [("Content-Type", JSON)], message(1, "ping")).head.status == 404)
    watcher.call("close_sandbox", sandbox_id=sandbox)


@suite.case("code that a call has left running goes on when its client is lost; the session's own sandbox ends soon after it")
def left_running():
    code = "import time\nfor i in range(12):\n    print(i, flush=True)\n    time.sleep(0.5)\n'all'"
    with HttpServer("--sync-budget-seconds", "1", "--session-idle-seconds", "2") as server:
        left = []
        for kind, leave in ((SseClient, lambda client: client.stream.drop()), (HttpClient, lambda client: None), (HttpClient, lambda client: client.delete())):
            client = server.client(LATEST_LEGACY, kind=kind)
            left.append(client.call("execute_code", code=code))
            equal(left[-1]["status"], "running")
            leave(client)
        watcher = server.client(LATEST_LEGACY)
        for one in left[:2]:
            status = lambda: watcher.call("get_sandbox_status", sandbox_id=one["sandbox_id"])  # noqa: B023
            poll("it waits for a next call only shortly", lambda: status()["limits"]["ttl_seconds"] <= 60, interval=0.1)
            ended = poll("the code ends", lambda: outcome(watcher, one), interval=0.1)  # noqa: B023
            equal((ended["status"], ended.get("result")), ("ok", "'all'"))
            equal(status()["state"], "ready")
        ended = poll("it has ended", lambda: outcome(watcher, left[2]), interval=0.1)
        equal(ended["status"], "cancelled")
        gone = watcher.call_failing("get_sandbox_status", sandbox_id=left[2]["sandbox_id"])
        equal(gone["error"]["code"], "sandbox_not_found")
        server.close_sandboxes()


def outcome(client, execution):
    """The outcome; None while it runs."""
    result = client.request("tools/call", {"name": "get_execution", "arguments": {"execution_id": execution["execution_id"]}})
    return result["structuredContent"] if result["structuredContent"]["status"] != "running" else None


# ---- results for models ----

def shown(client, tool, **arguments):
    """The content of a result, without other fields."""
    result = client.request("tools/call", {"name": tool, "arguments": arguments})
    assert "structuredContent" not in result, result
    return result["content"]


@suite.case("by default a model gets text and pictures, and its next request finds the files and variables of the last one")
def models():
    png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    picture = f"import base64\nclass Dot:\n    def _repr_png_(self):\n        return base64.b64decode('{png}')\nx = 6\nDot()"
    with HttpServer(env={"CLOISTER_RESULTS": "auto"}) as server:
        client = server.client(MODERN)
        equal([block["type"] for block in shown(client, "execute_code", code=picture)], ["text", "image"])
        equal([block["text"] for block in shown(client, "execute_code", code="x + 1")], ["7"])
        equal([block["text"] for block in shown(server.client(MODERN), "execute_code", code="x * 7")], ["42"])
        shown(client, "write_file", path="a.txt", content="kept")
        equal(shown(client, "read_file", path="a.txt")[0]["text"], "kept")
        server.close_sandboxes()


# ---- end and restart ----


@suite.case("pipes and HTTP are served at once")
def both():
    with BothServer() as server:
        server.legacy()
        web = server.client(MODERN)
        box, other = server.call("create_sandbox")["sandbox_id"], web.call("create_sandbox")["sandbox_id"]
        pending = [server.start_call("execute_code", code="1 + 1", sandbox_id=box), web.start_call("execute_code", code="2 + 2", sandbox_id=other)]
        equal([p.structured()["result"] for p in pending], ["2", "4"])
        for client, name in ((server, box), (web, other)):
            client.call("close_sandbox", sandbox_id=name)


@suite.case("SIGTERM ends streams, says so to listeners, and ends the server with 0")
def stopping():
    server = HttpServer()
    legacy, modern = server.client(LATEST_LEGACY), server.client(MODERN)
    old = server.client("2024-11-05", kind=SseClient)
    stream = legacy.listen()
    equal(stream.status(), 200)
    listener, _ = listen(modern, 1001, toolsListChanged=True, resourcesListChanged=True)
    server.close()
    for exchange in (stream, listener.exchange, old.stream):
        assert exchange.ended.wait(30), "a stream is still open"
    equal(listener.result()["_meta"][PREFIX + "subscriptionId"], 1001)


@suite.case("a restarted server has the sandboxes that were there, and sessions go on with their variables")
def restart():
    directory = mcp.temporary_directory()
    for end in ("kill", "close"):  # SIGKILL, SIGTERM
        first = HttpServer(runtime_dir=directory)
        client = first.client(LATEST_LEGACY)
        unused = first.client(LATEST_LEGACY)
        sandbox = client.call("create_sandbox")["sandbox_id"]
        client.run("kept = 'here'", sandbox_id=sandbox)
        client.run("own = 'mine'")  # in the session's own sandbox
        getattr(first, end)()
        with HttpServer(runtime_dir=directory) as second:
            again = second.client(LATEST_LEGACY)
            equal(again.run("kept", sandbox_id=sandbox)["result"], "'here'")
            old = client.headers_for(None)
            run = message(7, "tools/call", {"name": "execute_code", "arguments": {"code": "own"}})
            answer = second.ask("POST", "/mcp", old, run)
            equal(answer.head.status, 200, answer.body[:200])
            contains(answer.body.decode(), "mine")
            equal(second.ask("POST", "/mcp", unused.headers_for(None), message(8, "ping")).head.status, 200)
            equal(second.ask("DELETE", "/mcp", old).head.status, 204)
            equal(second.ask("POST", "/mcp", old, message(9, "ping")).head.status, 404, "its client has ended it")
            again.call("close_sandbox", sandbox_id=sandbox)


@suite.case("SIGHUP disturbs nobody")
def hangup():
    server = shared()
    client, sandbox = with_sandbox(LATEST_LEGACY)
    pending = client.start_call("execute_code", code="import time; time.sleep(1); 'still'", sandbox_id=sandbox)
    os.kill(server.process.pid, signal.SIGHUP)
    equal(pending.structured()["result"], "'still'")
    equal(client.request("ping"), {})
    client.call("close_sandbox", sandbox_id=sandbox)


@suite.case("an address that is taken or wrong is an error that says so")
def bad_address():
    import subprocess

    taken = shared().place.authority
    for address, words in ((taken, "use"), ("127.0.0.1:99999", "port"), ("256.1.1.1:0", "256"), ("", "http")):
        done = subprocess.run(
            [os.environ["CLOISTER"], "--runtime-dir", mcp.temporary_directory(), "--http", address],
            capture_output=True, text=True, timeout=20, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        if address == "":
            continue  # none: stdio only, whose server ends with its pipe
        assert done.returncode != 0, address
        contains(done.stderr.lower(), words, f"--http {address}")


@suite.finish
def close():
    """the shared server has sent nothing wrong and leaves nothing behind"""
    close_shared()


suite.run()
