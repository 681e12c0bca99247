"""The checker of received messages (lib/wire.py) itself: it accepts valid messages and finds each kind of
invalid ones."""

from common import MODERN, Suite, equal, modern_meta
from wire import PREFIX, Wire

suite = Suite()

META = {PREFIX + "serverInfo": {"name": "s", "version": "1"}}


def opened(version):
    wire = Wire()
    wire.sent({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": version}})
    result = {"protocolVersion": version, "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}
    equal(wire.received({"jsonrpc": "2.0", "id": 0, "result": result}), [])
    return wire


def asked(version, method, **params):
    """A wire on which request 1 is pending."""
    wire = Wire() if version == MODERN else opened(version)
    if version == MODERN:
        params["_meta"] = modern_meta()
    wire.sent({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    return wire


def result(value):
    return {"jsonrpc": "2.0", "id": 1, "result": value}


def error(code, ident=1, **more):
    return {"jsonrpc": "2.0", "id": ident, "error": {"code": code, "message": "why", **more}}


TEXT = {"content": [{"type": "text", "text": "x"}]}
LINK = {"content": [{"type": "resource_link", "uri": "a://b", "name": "b"}]}
DONE = {"resultType": "complete", "_meta": META}
TASK = {"taskId": "t", "status": "working", "createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z"}

ROWS = [
    # revision, method of the request, its params, message, whether it is valid
    ("2024-11-05", "tools/call", {}, result(TEXT), True),
    ("2024-11-05", "tools/call", {}, result({"content": "x"}), False),
    ("2025-03-26", "tools/call", {}, result(LINK), False),
    ("2025-06-18", "tools/call", {}, result(LINK), True),
    ("2025-06-18", "tools/call", {}, result({**TEXT, "resultType": "complete"}), False),
    ("2025-11-25", "ping", {}, result({}), True),
    ("2025-11-25", "ping", {}, result({"ok": True}), False),
    ("2025-11-25", "tools/call", {"task": {}}, result({"task": {**TASK, "ttl": 1}}), True),
    ("2025-11-25", "tools/call", {"task": {}}, result(TEXT), False),
    ("2025-11-25", "server/discover", {}, result({}), False),
    ("2025-11-25", "tools/list", {}, error(-32603), True),
    ("2025-11-25", "tools/list", {}, error(-32700, ident=None), False),
    ("2024-11-05", "tools/list", {}, error(-32700, ident=None), True),
    (MODERN, "tools/call", {}, result({**TEXT, **DONE}), True),
    (MODERN, "tools/call", {}, result(TEXT), False),
    (MODERN, "tools/call", {}, result({**TASK, "resultType": "task", "ttlMs": None}), True),
    (MODERN, "tools/call", {}, result({**TASK, "resultType": "task", "ttl": 5}), False),
    (MODERN, "tools/call", {}, result({"resultType": "input_required", "requestState": "s"}), True),
    (MODERN, "tools/list", {}, result({"tools": [], "ttlMs": 0, "cacheScope": "public", **DONE}), True),
    (MODERN, "tools/list", {}, result({"tools": [], **DONE}), False),
    (MODERN, "tasks/get", {}, result({**TASK, **DONE, "ttlMs": 1}), True),
    (MODERN, "tasks/get", {}, result({**TASK, **DONE, "ttlMs": 1, "status": "completed", "result": {"content": 7}}), False),
    (MODERN, "resources/read", {}, error(-32002), False),
    (MODERN, "tools/list", {}, error(-32022, data={"supported": [MODERN], "requested": "x"}), True),
    (MODERN, "tools/list", {}, error(-32022), False),
    (MODERN, "ping", {}, result(DONE), False),
]


@suite.case("answers are held against the result of their request, in its revision")
def answers():
    for version, method, params, message, fine in ROWS:
        found = asked(version, method, **params).received(message)
        equal(not found, fine, f"{version} {method} {message}: {found}")


@suite.case("an id that is used twice belongs to the first request, once the second is refused")
def twice():
    for first, second in ((result(TEXT), error(-32600)), (error(-32600), result(TEXT))):
        wire = asked("2025-11-25", "tools/call")
        wire.sent({"jsonrpc": "2.0", "id": 1, "method": "ping"})
        equal(wire.received(first) + wire.received(second), [])


@suite.case("notifications and requests of the server must be the revision's own")
def others():
    def note(method, **params):
        return {"jsonrpc": "2.0", "method": method, "params": params}

    wire = opened("2025-06-18")
    equal(wire.received(note("notifications/tools/list_changed")), [])
    for wrong in (
        note("notifications/tasks/status", **TASK),
        note("notifications/unheard/of"),
        note("notifications/resources/updated"),
        note("notifications/progress", progressToken=1, progress=1),
    ):
        assert wire.received(wrong), wrong
    wire.sent({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"_meta": {"progressToken": 1}}})
    equal(wire.received(note("notifications/progress", progressToken=1, progress=1)), [])
    equal(wire.received({"jsonrpc": "2.0", "id": 9, "method": "roots/list"}), [])
    assert wire.received({"jsonrpc": "2.0", "id": 9, "method": "tools/list"})
    assert asked(MODERN, "tools/list").received({"jsonrpc": "2.0", "id": 9, "method": "roots/list"}), "the latest has none"
    for wrong in ("text", 7, {}, {"jsonrpc": "1.0"}, {"jsonrpc": "2.0", "id": 1}, [error(-32600)]):
        assert wire.received(wrong), wrong
    equal(opened("2025-03-26").received([error(-32600)]), [])


suite.run()
