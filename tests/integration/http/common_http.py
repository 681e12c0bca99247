"""Shared by the tests over HTTP: one server for the cases of a file, clients with sandboxes, code that counts
while it runs."""

import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # pylint: disable=wrong-import-position

from common import LATEST_LEGACY, equal, poll
from mcp_http import HttpServer
from wire import PREFIX

TASKS = PREFIX + "tasks"

_shared = []


def shared():
    """A server for cases that leave nothing behind."""
    if not _shared:
        _shared.append(HttpServer("--max-sandboxes", "24"))
    return _shared[0]


def maker():
    """A client that makes sandboxes for clients whose revision has no ids apart from text."""
    if len(_shared) < 2:
        _shared.append(shared().client(LATEST_LEGACY))
    return _shared[1]


def with_sandbox(version, **how):
    return shared().client(version, **how), maker().call("create_sandbox")["sandbox_id"]


def close_shared():
    if _shared:
        for client in _shared[0].clients:
            client.unmatched.clear()
        _shared[0].close_sandboxes()
        _shared[0].close()


COUNTING = """
import time, pathlib
for i in range({steps}):
    pathlib.Path('count').write_text(str(i))
    print('step', i, flush=True)
    time.sleep({seconds})
pathlib.Path('count').write_text('all')
"""


def count(client, sandbox):
    return client.read_text("count", sandbox)


def begun(client, sandbox):
    poll("the code runs", lambda: count(client, sandbox) is not None)


def stands_still(client, sandbox):
    """Requires that the code has been stopped: its counter stands still, and other code can run."""

    def stopped():
        executions = client.run("1 + 1", sandbox_id=sandbox)
        return executions.get("result") == "2"

    poll("the sandbox is free again", stopped)
    seen = count(client, sandbox)
    assert seen != "all", "it ran to its end"
    client.run("import time; time.sleep(1)", sandbox_id=sandbox)
    equal(count(client, sandbox), seen, "the count after it was stopped")


def listen(client, ident, **wanted):
    pending = client.start("subscriptions/listen", {"notifications": wanted}, ident=ident)
    equal(pending.exchange.status(), 200)
    poll("the acknowledgement", lambda: pending.exchange.events)
    first = json.loads(pending.exchange.events[0].data)
    equal(first["method"], "notifications/subscriptions/acknowledged")
    equal(first["params"]["_meta"][PREFIX + "subscriptionId"], ident)
    return pending, first["params"]["notifications"]


def on_stream(pending):
    return [json.loads(e.data) for e in pending.exchange.events[1:] if e.data]
