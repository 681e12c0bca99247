"""Calls in parallel: a slow call does not delay other answers."""


from common import EACH, NONE, ONE, OWN_TOOLS, Server, Suite, contains, equal, needs_runtime, poll

needs_runtime()
# The server decides about order and limits: on engines only cases with many containers or many pending calls
# run.
suite = Suite(NONE)

SLOW = "import os, time\nopen('begun', 'w').close()\nwhile not os.path.exists('go'):\n    time.sleep(0.02)\n'slow one'"


def slow_call(server, sandbox):
    """Starts code that is running when this returns, and ends when the file `go` is written."""
    pending = server.start_call("execute_code", sandbox_id=sandbox, code=SLOW, timeout_seconds=600)
    poll("the slow code runs", lambda: server.read_text("begun", sandbox) is not None)
    return pending


def let_go(server, sandbox, pending):
    assert not pending.answered(), "the slow call ended by itself"
    server.call("write_file", sandbox_id=sandbox, path="go", content="")
    equal(pending.structured()["result"], "'slow one'")


@suite.case("a slow call in one sandbox does not delay another sandbox, nor the protocol", engines=ONE)
def other_sandbox():
    with Server() as server:
        server.legacy()
        one = server.call("create_sandbox")["sandbox_id"]
        two = server.call("create_sandbox")["sandbox_id"]
        slow = slow_call(server, one)
        for number in range(20):
            equal(server.run(str(number), sandbox_id=two)["result"], str(number))
        equal(server.request("ping"), {})
        equal(len(server.request("tools/list")["tools"]), OWN_TOOLS)
        made = server.call("create_sandbox")["sandbox_id"]
        server.call("close_sandbox", sandbox_id=made)
        let_go(server, one, slow)


@suite.case("files, status and another interpreter answer while one interpreter is busy")
def same_sandbox():
    with Server() as server:
        server.legacy()
        sandbox = server.call("create_sandbox")["sandbox_id"]
        slow = slow_call(server, sandbox)
        equal(server.run("echo beside", language="bash", sandbox_id=sandbox)["stdout"], "beside\n")
        server.call("write_file", sandbox_id=sandbox, path="a", content="b")
        equal(server.read_text("a", sandbox), "b")
        assert server.call("list_files", sandbox_id=sandbox)["entries"]
        equal(server.call("get_sandbox_status", sandbox_id=sandbox)["state"], "ready")
        let_go(server, sandbox, slow)


@suite.case("calls on one interpreter run one after another, in the order they came")
def order():
    with Server() as server:
        server.legacy()
        sandbox = server.call("create_sandbox")["sandbox_id"]
        server.run("seen = []", sandbox_id=sandbox)
        calls = [server.start_call("execute_code", sandbox_id=sandbox, code=f"seen.append({i}); {i}") for i in range(30)]
        equal([c.structured()["result"] for c in calls], [str(i) for i in range(30)])
        equal(server.run("seen == list(range(30))", sandbox_id=sandbox)["result"], "True")


@suite.case("the deadline of a queued call counts from the begin of its run")
def queued_deadline():
    with Server() as server:
        server.legacy()
        sandbox = server.call("create_sandbox")["sandbox_id"]
        slow = server.start_call("execute_code", sandbox_id=sandbox, code="import time; time.sleep(3)", timeout_seconds=20)
        quick = server.start_call("execute_code", sandbox_id=sandbox, code="'in time'", timeout_seconds=2)
        equal(slow.structured()["status"], "ok")
        equal(quick.structured()["result"], "'in time'")


@suite.case("a cancelled call stops, is never answered twice, and the interpreter goes on")
def cancel():
    with Server() as server:
        server.legacy()
        sandbox = server.call("create_sandbox")["sandbox_id"]
        server.run("kept = 1", sandbox_id=sandbox)
        endless = server.start_call("execute_code", sandbox_id=sandbox, code="open('begun', 'w').close()\nwhile True: pass")
        poll("it runs", lambda: server.read_text("begun", sandbox) is not None)
        server.notify("notifications/cancelled", {"requestId": endless.ident, "reason": "test"})
        equal(server.run("kept", sandbox_id=sandbox)["result"], "1")
        if endless.answered():
            contains(["cancelled"], endless.result()["structuredContent"]["status"])


@suite.case("more calls in flight than --max-calls are refused with what to do, the others go on, and later ones are taken")
def too_many_calls():
    with Server("--max-calls", "3") as server:
        server.legacy()
        sandbox = server.call("create_sandbox")["sandbox_id"]
        server.run("import os, time", sandbox_id=sandbox)
        wait = "while not os.path.exists('/workspace/go'): time.sleep(0.01)"
        held = [server.start_call("execute_code", sandbox_id=sandbox, code=wait) for _ in range(3)]
        refused = server.start_call("execute_code", sandbox_id=sandbox, code="1").error()
        equal(refused["code"], -32010)
        contains(refused["message"], "3 calls")
        contains(refused["data"]["hint"], "--max-calls")
        equal(server.request("ping"), {})
        server.notify("notifications/cancelled", {"requestId": held.pop().ident})
        poll("one has ended", lambda: "error" not in server.start_call("write_file", sandbox_id=sandbox, path="go", content="").wait())
        for call in held:
            equal(call.result(30)["structuredContent"]["status"], "ok")


@suite.case("a duplicate id in flight is refused, the first request is not disturbed")
def duplicate_id():
    with Server() as server:
        server.legacy()
        sandbox = server.call("create_sandbox")["sandbox_id"]
        slow = slow_call(server, sandbox)
        server.send({"jsonrpc": "2.0", "id": slow.ident, "method": "ping"})
        refused = slow.wait()
        equal(refused.get("error", {}).get("code"), -32600, "second request of the same id")
        again = server.expect(slow.ident)
        server.call("write_file", sandbox_id=sandbox, path="go", content="")
        equal(again.structured()["result"], "'slow one'")


@suite.case("sixteen sandboxes are created, used and closed at once", engines=EACH)
def many_sandboxes():
    with Server() as server:
        server.legacy()
        creations = [server.start_call("create_sandbox") for _ in range(16)]
        ids = [c.structured(120)["sandbox_id"] for c in creations]
        equal(len(set(ids)), 16)
        equal(server.call("get_sandbox_status")["count"], 16)
        for round_number in range(3):
            calls = [server.start_call("execute_code", sandbox_id=s, code=f"x = globals().get('x', 0) + {n}; x") for n, s in enumerate(ids)]
            equal([c.structured(120)["result"] for c in calls], [str(n * (round_number + 1)) for n in range(16)])
        closings = [server.start_call("close_sandbox", sandbox_id=s) for s in ids]
        for pending in closings:
            equal(pending.structured(120)["state"], "closed")
        equal(server.call("get_sandbox_status")["count"], 0)


@suite.case("more sandboxes than allowed are refused with a clear error")
def sandbox_limit():
    with Server("--max-sandboxes", "2") as server:
        server.legacy()
        for _ in range(2):
            server.call("create_sandbox")
        error = server.call_failing("create_sandbox")["error"]
        equal(error["code"], "sandbox_limit")
        assert error["hint"]


@suite.case("closing a sandbox ends what runs in it; its call is answered", engines=EACH)
def close_while_busy():
    with Server() as server:
        server.legacy()
        sandbox = server.call("create_sandbox")["sandbox_id"]
        slow = slow_call(server, sandbox)
        server.call("close_sandbox", sandbox_id=sandbox)  # nothing else ends what runs
        result = slow.result()
        equal(result["isError"], True)
        assert result["structuredContent"].get("status") == "cancelled" or result["structuredContent"].get("error"), result


@suite.case("a client that does not read its answers stops being read, and loses none of them", engines=EACH)
def slow_reader():
    with Server() as server:
        server.legacy()
        sandbox = server.call("create_sandbox")["sandbox_id"]
        # more than pipes hold; our reader thread keeps up, and the server must not mix or drop lines
        calls = [server.start_call("execute_code", sandbox_id=sandbox, code=f"print(str({i}) * 150_000)") for i in range(24)]
        for number, pending in enumerate(calls):
            equal(pending.structured(120)["stdout"][:20], (str(number) * 20)[:20])


suite.run()
