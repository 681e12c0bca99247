"""Over HTTP, everything beside an answer: heartbeats, output of running code, changes, resources, tasks."""

import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # pylint: disable=wrong-import-position

from common import LATEST_LEGACY, MODERN, Suite, contains, equal, needs_runtime, poll
from common_http import COUNTING, TASKS, begun, close_shared, listen, maker, on_stream, shared, stands_still, with_sandbox
from mcp_http import HttpServer, SseClient
from wire import PREFIX

needs_runtime()
suite = Suite()

NO_METHOD, INVALID_PARAMS, NEEDS_CAPABILITY = -32601, -32602, -32021
HEARTBEAT_SECONDS = 10.0


def heard(client, method):
    return [n for n in client.notifications if n["method"] == method]


# ---- before the answer ----


@suite.case("silence is never longer than ten seconds while a client waits")
def heartbeat():
    seconds = 2.3 * HEARTBEAT_SECONDS
    clients = [with_sandbox(version) for version in (MODERN, "2025-11-25", "2025-03-26")]
    code = f"import time; time.sleep({seconds})"
    pending = [c.start_call("execute_code", code=code, sandbox_id=box) for c, box in clients]
    noted = [with_sandbox(version) for version in (MODERN, LATEST_LEGACY)]
    told = [c.start_noted("beat", "execute_code", code=code, sandbox_id=box) for c, box in noted]
    standing = clients[1][0].listen()
    old = shared().client("2024-11-05", kind=SseClient)
    for call in pending:
        call.structured()
        # with longer silences there would be fewer within the time for which the code sleeps
        assert len(call.exchange.stream.comments) >= 2, f"{call.client.version}: heartbeats within {seconds} s"
    for call, (client, _) in zip(told, noted):
        call.structured()
        assert len(client.progress("beat")) >= 2, f"progress within {seconds} s: {client.progress('beat')}"
    for stream in (standing, old.stream):
        assert len(stream.stream.comments) >= 2, "heartbeats of a standing stream"
    for client, box in (*clients, *noted):
        client.call("close_sandbox", sandbox_id=box)


@suite.case("with a progress token, output comes while the code runs")
def streamed_output():
    for version in (MODERN, LATEST_LEGACY, "2024-11-05"):
        kind = {"kind": SseClient} if version == "2024-11-05" else {}
        client, sandbox = with_sandbox(version, **kind)
        code = "import time\nfor i in range(6): print('mark', i, flush=True); time.sleep(0.5)"
        pending = client.start_noted(5, "execute_code", code=code, sandbox_id=sandbox)
        if version >= "2025-03-26":
            poll("output in progress", lambda c=client: any("mark 1" in p.get("message", "") for p in c.progress(5)))
        else:
            poll("progress", lambda c=client: c.progress(5))
        assert not pending.answered(), "progress came only with the answer"
        equal(json.dumps(pending.structured()).count("mark"), 6)
        shown = [p["progress"] for p in client.progress(5)]
        equal(shown, sorted(set(shown)), "progress rises")
        client.call("close_sandbox", sandbox_id=sandbox)


@suite.case("much output does not become many notifications, and all of it is in the answer")
def much_output():
    client, sandbox = with_sandbox(MODERN)
    code = "for i in range(20000): print('x' * 50)"
    done = client.start_noted("much", "execute_code", code=code, sandbox_id=sandbox).structured()
    equal(done["stdout_bytes"], 20000 * 51)
    shown = client.progress("much")
    assert len(shown) < 60, len(shown)
    assert sum(len(p.get("message", "")) for p in shown) < 1 << 20
    client.call("close_sandbox", sandbox_id=sandbox)


# ---- changes ----


@suite.case("sessions hear on their standing stream what they subscribed to")
def legacy_subscription():
    client, sandbox = with_sandbox(LATEST_LEGACY)
    other = shared().client(LATEST_LEGACY)
    equal(other.listen().status(), 200)
    stream = client.listen()
    equal(stream.status(), 200)
    uri, other_uri = (f"sandbox://{sandbox}/workspace/{name}.txt" for name in ("watched", "other"))

    def updates(of, about):
        return sum(note["params"]["uri"] == about for note in heard(of, "notifications/resources/updated"))

    # a change in a sandbox is sent for all of its subscribed files, in the order of the subscriptions: when
    # the second notification has come, the first one has, too, if it comes at all
    equal(client.request("resources/subscribe", {"uri": uri}), {})
    for each in (client, other):
        equal(each.request("resources/subscribe", {"uri": other_uri}), {})
    client.call("write_file", path="watched.txt", content="1", sandbox_id=sandbox)
    poll("updates", lambda: [updates(client, uri), updates(client, other_uri), updates(other, other_uri)] == [1, 1, 1])
    equal(updates(other, uri), 0, "for who did not subscribe")
    equal(client.request("resources/unsubscribe", {"uri": uri}), {})
    client.call("write_file", path="watched.txt", content="2", sandbox_id=sandbox)
    poll("an update", lambda: [updates(client, other_uri), updates(other, other_uri)] == [2, 2])
    equal([updates(client, uri), updates(other, uri)], [1, 0], "after unsubscribe")
    # notifications while the stream was lost are sent when it is resumed
    equal(client.request("resources/subscribe", {"uri": uri}), {})
    last = [e.id for e in stream.events if e.id][-1]
    stream.drop()
    client.notifications.clear()
    client.call("write_file", path="watched.txt", content="3", sandbox_id=sandbox)
    client.listen(last_event=last)
    poll("an update that was missed", lambda: heard(client, "notifications/resources/updated"))
    client.call("close_sandbox", sandbox_id=sandbox)


@suite.case("latest revision: listeners hear what they asked for and nothing else, each under its own id")
def modern_subscription():
    client, sandbox = with_sandbox(MODERN)
    uri = f"sandbox://{sandbox}/workspace/"
    files, granted = listen(client, "files", resourceSubscriptions=[uri], promptsListChanged=True, unheardOf=True)
    equal(granted, {"resourceSubscriptions": [uri]}, "what is not offered is not granted")
    lists, granted = listen(client, 2**40, resourcesListChanged=True)
    equal(granted, {"resourcesListChanged": True})
    apart = maker().call("create_sandbox")["sandbox_id"]
    there = f"sandbox://{apart}/workspace/"
    elsewhere, _ = listen(client, 1003, resourceSubscriptions=[there])
    client.call("write_file", path="a", content="1", sandbox_id=sandbox)
    poll("the update", lambda: on_stream(files))
    poll("the list", lambda: on_stream(lists))
    for pending, ident, method in ((files, "files", "notifications/resources/updated"), (lists, 2**40, "notifications/resources/list_changed")):
        for note in on_stream(pending):
            equal((note["method"], note["params"]["_meta"][PREFIX + "subscriptionId"]), (method, ident))
    # the notification after it is the first one for a client with other subscriptions
    client.call("write_file", path="a", content="1", sandbox_id=apart)
    poll("an update elsewhere", lambda: on_stream(elsewhere))
    equal([(note["method"], note["params"]["uri"]) for note in on_stream(elsewhere)], [("notifications/resources/updated", there)])
    foreign, granted = listen(client, 1004, resourceSubscriptions=["sandbox://nobody/workspace/a"])
    for pending in (files, lists, elsewhere, foreign):
        pending.exchange.drop()
    equal(client.start("subscriptions/listen", {}).error()["code"], INVALID_PARAMS)
    for box in (sandbox, apart):
        client.call("close_sandbox", sandbox_id=box)


# ---- resources ----


@suite.case("files and output are resources: listed, read, completed, gone with their sandbox")
def resources():
    for version in (MODERN, LATEST_LEGACY, "2025-03-26"):
        client, sandbox = with_sandbox(version)
        client.call("write_file", path="a b/ä.txt", content="héllo\n", sandbox_id=sandbox)
        client.call("execute_code", code="open('raw.bin','wb').write(bytes(range(256)))", sandbox_id=sandbox)
        listed = {}
        cursor = None
        while True:
            page = client.request("resources/list", {"cursor": cursor} if cursor is not None else {})
            listed.update({r["uri"]: r for r in page["resources"]})
            cursor = page.get("nextCursor")
            if cursor is None:
                break
        mine = [u for u in listed if sandbox in u]
        equal(len(mine), 2, f"resources of the sandbox: {mine}")
        text = next(u for u in mine if u.endswith(".txt"))
        contents = client.request("resources/read", {"uri": text})["contents"]
        equal([c.get("text") for c in contents], ["héllo\n"])
        blob = client.request("resources/read", {"uri": next(u for u in mine if u.endswith(".bin"))})["contents"]
        assert blob[0]["blob"], blob
        templates = client.request("resources/templates/list")["resourceTemplates"]
        contains(" ".join(t["uriTemplate"] for t in templates), "sandbox://")
        template = next(t["uriTemplate"] for t in templates if t["uriTemplate"].startswith("sandbox://"))
        variable = template.split("{", 1)[1].split("}", 1)[0].lstrip("+/")
        asked = {"ref": {"type": "ref/resource", "uri": template}, "argument": {"name": variable, "value": sandbox[:3]}}
        contains(client.request("completion/complete", asked)["completion"]["values"], sandbox)
        for wrong in (text.replace("workspace", "workspace/../../etc"), text + "x", "file:///etc/passwd", f"sandbox://{sandbox}/../x", ""):
            error = client.start("resources/read", {"uri": wrong}).error()
            contains((INVALID_PARAMS, -32002), error["code"], wrong)
        client.call("close_sandbox", sandbox_id=sandbox)
        gone = client.start("resources/read", {"uri": text}).error()
        equal(gone["code"], INVALID_PARAMS if version == MODERN else -32002)


@suite.case("what a result leaves out is a resource that it links to")
def truncated_output():
    client, sandbox = with_sandbox(LATEST_LEGACY)
    result = client.start_call("execute_code", code="print('y' * 400000)", sandbox_id=sandbox).result()
    links = [b for b in result["content"] if b["type"] == "resource_link"]
    assert links, f"no link in {json.dumps(result)[:1500]}"
    read = client.request("resources/read", {"uri": links[0]["uri"]})["contents"][0]["text"]
    shown = sum(len(b.get("text", "")) for b in result["content"])
    assert len(read) > 200000 and len(read) > shown, f"{len(read)} behind the link, {shown} in the result"
    client.call("close_sandbox", sandbox_id=sandbox)


# ---- tasks ----


@suite.case("tasks of 2025-11-25: asked for by the client, there for another connection and another session")
def legacy_tasks():
    client, sandbox = with_sandbox("2025-11-25")
    params = {"name": "execute_code", "arguments": {"code": "import time; time.sleep(1.5); print('done')", "sandbox_id": sandbox}}
    task = client.request("tools/call", {**params, "task": {"ttl": 60000}})["task"]
    equal(task["status"], "working")
    contains([t["taskId"] for t in client.request("tasks/list")["tasks"]], task["taskId"])
    other = shared().client("2025-11-25")
    client.delete()
    equal(other.request("tasks/get", {"taskId": task["taskId"]})["status"], "working", "from another session")
    waiting = other.start("tasks/result", {"taskId": task["taskId"]})
    result = waiting.result()
    contains(result["structuredContent"]["stdout"], "done")
    equal(result["_meta"][PREFIX + "related-task"]["taskId"], task["taskId"])
    equal(other.request("tasks/get", {"taskId": task["taskId"]})["status"], "completed")
    equal(other.start("tasks/cancel", {"taskId": task["taskId"]}).error()["code"], INVALID_PARAMS, "cancel of a finished task")
    equal(other.start("tasks/get", {"taskId": "unknown"}).error()["code"], INVALID_PARAMS)
    slow = {"name": "execute_code", "arguments": {"code": COUNTING.format(steps=600, seconds=0.1), "sandbox_id": sandbox}}
    task = other.request("tools/call", {**slow, "task": {}})["task"]
    begun(other, sandbox)
    equal(other.request("tasks/cancel", {"taskId": task["taskId"]})["status"], "cancelled")
    stands_still(other, sandbox)
    other.call("close_sandbox", sandbox_id=sandbox)


@suite.case("tasks of the latest revision: code that takes long becomes one, and outlives its connection")
def modern_tasks():
    server = HttpServer("--task-after-seconds", "1")
    with server:
        client = server.client(MODERN)
        sandbox = client.call("create_sandbox")["sandbox_id"]
        plain = client.start_call("execute_code", code="import time; time.sleep(2.5); 'plain'", sandbox_id=sandbox)
        equal(plain.structured()["result"], "'plain'", "without the extension the call waits")
        equal(client.start("tasks/get", {"taskId": "unknown"}).error()["code"], NEEDS_CAPABILITY)
        client.capabilities = {"extensions": {TASKS: {}}}
        quick = client.start_call("execute_code", code="'quick'", sandbox_id=sandbox).result()
        equal(quick["resultType"], "complete")
        made = client.start_call("execute_code", code="import time; time.sleep(4); print('done')", sandbox_id=sandbox).result()
        equal((made["resultType"], made["status"]), ("task", "working"))
        client.hang_up()
        other = server.client(MODERN)
        other.capabilities = client.capabilities
        listener, granted = listen(other, "tasks", taskIds=[made["taskId"]])
        equal(granted.get("taskIds"), [made["taskId"]])

        def get():
            return other.request("tasks/get", {"taskId": made["taskId"]})

        done = poll("the end of the task", lambda: (t := get())["status"] != "working" and t)
        equal(done["status"], "completed")
        contains(done["result"]["structuredContent"]["stdout"], "done")
        poll("word of it", lambda: any(n["params"]["status"] == "completed" for n in on_stream(listener)))
        listener.exchange.drop()
        error = other.start("tasks/get", {"taskId": "unknown"}).error()
        equal(error["code"], INVALID_PARAMS)
        equal(other.start("tasks/result", {"taskId": made["taskId"]}).error()["code"], NO_METHOD)
        slow = other.start_call("execute_code", code=COUNTING.format(steps=600, seconds=0.1), sandbox_id=sandbox).result()
        equal(slow["resultType"], "task")
        equal(other.request("tasks/cancel", {"taskId": slow["taskId"]})["resultType"], "complete")
        poll("it is cancelled", lambda: other.request("tasks/get", {"taskId": slow["taskId"]})["status"] == "cancelled")
        equal(other.request("tasks/cancel", {"taskId": slow["taskId"]})["resultType"], "complete", "once more")
        other.capabilities = {}
        stands_still(other, sandbox)
        server.close_sandboxes()


@suite.finish
def close():
    """the shared server has sent nothing wrong and leaves nothing behind"""
    close_shared()


suite.run()
