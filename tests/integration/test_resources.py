"""Resources of real sandboxes: listed, read, subscribed to and completed; output and tasks of running code."""

import base64
import json
import os
import signal

from common import MODERN, Server, Shared, Suite, contains, equal, modern_meta, needs_runtime, poll
import mcp
from wire import PREFIX

needs_runtime()
suite = Suite()
shared = Shared()

FILE = {"type": "ref/resource", "uri": "sandbox://{sandbox_id}/{+path}"}
NO_RESOURCE, TOO_LARGE = -32002, 413
PROGRESS_SECONDS = 0.5  # between two notifications of progress, at least


def read(server, uri):
    (content,) = server.request("resources/read", {"uri": uri})["contents"]
    equal(content["uri"], uri)
    return content


def not_read(server, uri):
    return server.start("resources/read", {"uri": uri}).error()


def listed(server):
    """All resources, page by page."""
    found, cursor = [], None
    while True:
        page = server.request("resources/list", {"cursor": cursor} if cursor else {})
        assert len(page["resources"]) <= 100
        found += page["resources"]
        cursor = page.get("nextCursor")
        if cursor is None:
            return found


@suite.case("what code writes is listed and read, whatever it is called")
def files():
    with Server() as server:
        server.legacy()
        sandbox = server.call("create_sandbox", name="box")["sandbox_id"]
        names = ["plain.txt", "a b%c?#.csv", "ä漢😀.json", "dir/deep/er/x.png", ".hidden"]
        server.run(
            "import os\n"
            f"for name in {names!r}:\n"
            "    os.makedirs(os.path.dirname(name) or '.', exist_ok=True)\n"
            "    open(name, 'w').write(name)\n"
            "open('bytes', 'wb').write(bytes(range(256)))\n"
            "open(b'no-utf8-\\xff', 'w').close()\n"
            "os.symlink('/etc/passwd', 'link')",
            sandbox_id=sandbox,
        )
        found = listed(server)
        equal(sorted(r["name"] for r in found), sorted(names + ["bytes"]))
        for resource in found:
            content = read(server, resource["uri"])
            if resource["name"] == "bytes":
                equal(base64.b64decode(content["blob"]), bytes(range(256)))
            else:
                equal(content["text"], resource["name"])
        equal({r["name"]: r.get("mimeType") for r in found}["a b%c?#.csv"], "text/csv")
        inside = json.loads(read(server, f"sandbox://{sandbox}/workspace/dir/")["text"])
        equal([(e["name"], e["type"]) for e in inside["entries"]], [("deep", "directory")])
        equal(json.loads(read(server, inside["entries"][0]["uri"])["text"])["entries"][0]["name"], "er")
        equal(read(server, "sandbox://box/workspace/plain.txt")["text"], "plain.txt")


@suite.case("links in results lead to what they name")
def links():
    server, sandbox = shared.get()
    result = server.start_call("write_file", path="made/by tool.md", content="# hi", sandbox_id=sandbox).result()
    (link,) = [b for b in result["content"] if b["type"] == "resource_link"]
    equal((link["size"], link["mimeType"]), (4, "text/markdown"))
    equal(read(server, link["uri"])["text"], "# hi")
    done = server.start_call("execute_code", code="print('x' * 230000)", sandbox_id=sandbox).result()
    (link,) = [b for b in done["content"] if b["type"] == "resource_link"]
    equal(read(server, link["uri"])["text"], "x" * 230000 + "\n")
    done = server.start_call("execute_code", code="print('y' * 600000)", sandbox_id=sandbox).result()
    (link,) = [b for b in done["content"] if b["type"] == "resource_link"]
    whole = read(server, link["uri"])["text"]
    assert whole.startswith("y" * 262144 + "\n["), whole[-200:]
    assert whole.endswith("]\n" + "y" * 262143 + "\n"), whole[:-100]
    contains(whole, f"\n[... {600001 - 2 * 262144} bytes are not kept ...]\n")


@suite.case("hundreds of files are told once each, while some come and go")
def pages():
    with Server() as server:
        server.legacy()
        boxes = [server.call("create_sandbox")["sandbox_id"] for _ in range(2)]
        for box in boxes:
            server.run("for i in range(250): open(f'{i:03}', 'w').close()", sandbox_id=box)
        first = server.request("resources/list", {})
        server.run("import os\nfor i in range(50): os.remove(f'{i:03}')", sandbox_id=sorted(boxes)[0])
        uris = [r["uri"] for r in first["resources"]]
        cursor = first["nextCursor"]
        while cursor:
            page = server.request("resources/list", {"cursor": cursor})
            uris += [r["uri"] for r in page["resources"]]
            cursor = page.get("nextCursor")
        equal(len(uris), 500)
        equal(len(set(uris)), 500)


@suite.case("what is not there, not readable or too large is refused, each in its way")
def refusals():
    server, sandbox = shared.get()
    server.run("open('big', 'wb').write(b'x' * (1048576 + 1))", sandbox_id=sandbox)
    messages = set()
    for uri in (
        f"sandbox://{sandbox}/workspace/nothing",
        f"sandbox://{sandbox}/.cloister/agent.sock",
        f"sandbox://{sandbox}/workspace/../etc/passwd",
        f"sandbox://{sandbox}/%2e%2e/%2e%2e/etc/passwd",
        f"sandbox://{'a' * 16}/workspace/x",
        f"execution://{'a' * 16}/stdout",
        "file:///etc/passwd",
    ):
        error = not_read(server, uri)
        equal((error["code"], error["data"]), (NO_RESOURCE, {"uri": uri}))
        messages.add(error["message"].replace(uri, "URI"))
    equal(messages, {"Resource not found: URI"})
    error = not_read(server, f"sandbox://{sandbox}/workspace/big")
    equal((error["code"], error["data"]["size"]), (TOO_LARGE, 1048577))
    contains(error["message"], "read_file")


@suite.case("a resource that is being read while its sandbox closes is not found, as it will be from then on")
def read_while_closing():
    server, sandbox = shared.fresh()
    server.run("open('file.txt', 'w').write('here')", sandbox_id=sandbox)
    uri = f"sandbox://{sandbox}/workspace/file.txt"
    equal(read(server, uri)["text"], "here")
    for pid in mcp.agents_of(sandbox):  # stopped, so that it cannot end before the close
        mcp.send_signal(pid, signal.SIGSTOP)
    pending = [server.start("resources/read", {"uri": uri}) for _ in range(3)]
    server.start_call("close_sandbox", sandbox_id=sandbox).result()
    for reading in pending:
        equal(reading.error()["code"], NO_RESOURCE)
    equal(not_read(server, uri)["code"], NO_RESOURCE)


@suite.case("subscribers hear of files that may have changed, and of a sandbox that is gone")
def changes():
    with Server() as server:
        server.legacy()
        sandbox = server.call("create_sandbox")["sandbox_id"]
        uri = f"sandbox://{sandbox}/workspace/watched"
        server.request("resources/subscribe", {"uri": uri})

        def heard():
            return sum(
                n["method"] == "notifications/resources/updated" and n["params"]["uri"] == uri
                for n in server.notifications
            )

        server.call("write_file", path="watched", content="1", sandbox_id=sandbox)
        poll("a notification of a written file", lambda: heard() >= 1)
        server.run("open('watched', 'w').write('2')", sandbox_id=sandbox)
        poll("a notification of what code may have written", lambda: heard() >= 2)
        read(server, uri)
        listed(server)
        server.call("close_sandbox", sandbox_id=sandbox)
        poll("a notification of the end", lambda: heard() >= 3)
        equal(heard(), 3)
        equal(not_read(server, uri)["code"], NO_RESOURCE)


@suite.case("paths and ids are completed")
def completion():
    server, sandbox = shared.get()
    server.run("import os\nos.makedirs('data', exist_ok=True)\nopen('data/one.csv', 'w')\nopen('data/two.csv', 'w')", sandbox_id=sandbox)

    def values(argument, value, **others):
        context = {"context": {"arguments": others}} if others else {}
        asked = {"ref": FILE, "argument": {"name": argument, "value": value}, **context}
        return server.request("completion/complete", asked)["completion"]["values"]

    equal(values("sandbox_id", sandbox[:3]), [sandbox])
    equal(values("path", "workspace/data/", sandbox_id=sandbox), ["workspace/data/one.csv", "workspace/data/two.csv"])
    equal(values("path", "workspace/dat", sandbox_id=sandbox), ["workspace/data/"])
    contains(values("path", "", sandbox_id=sandbox), "workspace/")


@suite.case("output reaches the client while the code runs")
def streaming():
    server, sandbox = shared.get()
    code = "import os, time\nfor i in range(4):\n    print('step', i, flush=True)\n    while not os.path.exists(f'seen {i}'): time.sleep(0.01)"
    call = server.start_noted("live", "execute_code", sandbox_id=sandbox, code=code)
    shown = lambda: "".join(p["message"] for p in server.progress("live"))
    for i in range(4):  # each step waits until the one before was seen
        poll(f"step {i}", lambda n=i: shown() == "".join(f"step {j}\n" for j in range(n + 1)), found=shown)
        assert not call.answered(), "the output came with the result"
        server.call("write_file", sandbox_id=sandbox, path=f"seen {i}", content="")
    call.result()
    equal(shown(), "".join(f"step {i}\n" for i in range(4)))
    rising = [p["progress"] for p in server.progress("live")]
    equal(rising, sorted(set(rising)))


@suite.case("a flood of output costs a few short messages")
def flood():
    server, sandbox = shared.get()
    code = "import time\nend = time.monotonic() + 2.2\nwhile time.monotonic() < end:\n    print('€' * 2000)"
    call = server.start_noted("flood", "execute_code", sandbox_id=sandbox, code=code)
    result = call.result()
    assert result["structuredContent"]["stdout_bytes"] > 1000000, result["structuredContent"]["stdout_bytes"]
    told = server.progress("flood")
    assert 1 <= len(told) <= 1 + call.seconds() / PROGRESS_SECONDS, (len(told), call.seconds())
    for progress in told:
        assert len(progress["message"].encode()) <= 1000, progress
    contains(told[-1]["message"], "bytes left out")


@suite.case("a long execution is a task that outlasts the call's budget")
def tasks():
    with Server("--task-after-seconds", "4", "--sync-budget-seconds", "6") as server:
        server.modern()
        meta = modern_meta(MODERN, {"extensions": {PREFIX + "tasks": {}}})

        def ask(method, **params):
            return server.request(method, {**params, "_meta": meta})

        def begin(code):
            made = ask("tools/call", name="execute_code", arguments={"code": code})
            equal((made["resultType"], made["status"]), ("task", "working"))
            return made["taskId"]

        def end(task):
            def look():
                state = ask("tasks/get", taskId=task)
                return None if state["status"] == "working" else state

            return poll("the end of a task", look)

        done = end(begin("import time\ntime.sleep(8)\nprint('over')"))
        equal(done["status"], "completed")
        equal(done["result"]["structuredContent"]["stdout"], "over\n")
        task = begin("import time\ntime.sleep(600)")
        ask("tasks/cancel", taskId=task)
        equal(end(task)["status"], "cancelled")
        quick = ask("tools/call", name="execute_code", arguments={"code": "40 + 2"})
        equal((quick["resultType"], quick["structuredContent"]["result"]), ("complete", "42"))


@suite.finish
def close():
    """the server ends and leaves nothing behind"""
    shared.close()


suite.run()
