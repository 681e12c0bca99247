"""A sandbox whose agent or engine is stopped for a while: what its users are told meanwhile, and that nothing
is lost."""

import os
import signal
import time

from engine import send_signal
from tap import contains, equal, poll

BUDGET_SECONDS = 3
DEADLINE_SECONDS = 15  # of code that runs when the sandbox is stopped, which takes a moment to notice
OVERDUE_MS = (DEADLINE_SECONDS + 12) * 1000  # an operation that has not ended by then is given up when the agent answers again
GIVEN_UP_SECONDS = 75  # the next server tries for so long; a sandbox that cannot be reached for a minute is given up
HELD_SECONDS = 120  # long enough for the worker to notice; an answer is overdue after some 15 s, a HELLO 10 s later


def get(server, execution):
    """The whole result of get_execution, without waiting."""
    return server.start_call("get_execution", execution_id=execution, wait_seconds=0).result()


def over(server, execution):
    done = get(server, execution)["structuredContent"]
    assert "status" in done, (done, server.log_tail())
    return done if done["status"] != "running" else None


def told_and_kept(server, sandbox, stop, go_on):
    """The server was started with BUDGET_SECONDS."""
    server.run("before = 'state'", sandbox_id=sandbox)
    endless = server.run("echo shown; while :; do sleep 1; done", sandbox_id=sandbox, language="bash", timeout_seconds=DEADLINE_SECONDS)
    equal(endless["status"], "running")
    poll("it shows something", lambda: get(server, endless["execution_id"])["structuredContent"]["stdout"] == "shown\n")
    stop()
    try:
        given = server.start_call("execute_code", sandbox_id=sandbox, code="print(before)")
        files = server.start_call("list_files", sandbox_id=sandbox)
        result = given.result(10 * BUDGET_SECONDS)
        assert not result.get("isError"), result
        waiting = result["structuredContent"]
        equal((waiting["status"], waiting["unconfirmed"]), ("running", True))
        contains(result["content"][0]["text"], "whether the code has begun is not known")
        contains(result["content"][0]["text"], waiting["execution_id"])
        failed = files.failed(10 * BUDGET_SECONDS)["error"]
        equal(failed["code"], "engine_unavailable")
        contains(failed["message"], "not known to have ended")
        # longer than the deadline, and than all timeouts
        poll("the worker has given up a stream", lambda: any("trying again" in line for line in server.log), HELD_SECONDS)
        poll("it is said that it does not answer", lambda: "does not answer at the moment" in get(server, endless["execution_id"])["content"][0]["text"])
        poll("its deadline is behind it", lambda: get(server, endless["execution_id"])["structuredContent"]["duration_ms"] > OVERDUE_MS)
        result = get(server, endless["execution_id"])
        equal((result["structuredContent"]["status"], result["structuredContent"]["stdout"]), ("running", "shown\n"))
        assert "close" not in result["content"][0]["text"], result
    finally:
        go_on()
    done = poll("the end of what had a deadline", lambda: over(server, endless["execution_id"]))
    equal((done["status"], done["stdout"]), ("timeout", "shown\n"))
    done = poll("the end of what was given meanwhile", lambda: over(server, waiting["execution_id"]))
    equal((done["status"], done["stdout"]), ("ok", "state\n"))
    assert "unconfirmed" not in done, done
    equal(server.run("before", sandbox_id=sandbox)["result"], "'state'")


def taken_over_and_kept(named, stop, go_on):
    """The next server of an instance starts while everything is stopped; one of two sandboxes has lost its
    worker as well."""
    first = named()
    boxes = {name: first.call("create_sandbox", name=name)["sandbox_id"] for name in ("whole", "torn")}
    endless = {}
    for name in boxes:
        first.run(f"before = {name!r}", sandbox_id=name)
        code = "echo shown; while :; do sleep 1; done"
        endless[name] = first.run(code, sandbox_id=name, language="bash", timeout_seconds=600)["execution_id"]
        poll("it shows something", lambda n=name: get(first, endless[n])["structuredContent"]["stdout"] == "shown\n")
    worker = first.worker_pid(boxes["torn"])
    stop(boxes.values())
    try:
        send_signal(worker, signal.SIGSTOP)
        first.kill()
        os.kill(worker, signal.SIGKILL)
        second = named(first.runtime_dir)
        until = time.monotonic() + GIVEN_UP_SECONDS  # the test requires that they are stopped for so long
        given = {name: second.start_call("execute_code", sandbox_id=name, code="print(before)") for name in boxes}
        for name, sandbox in boxes.items():
            waiting = given[name].result(10 * BUDGET_SECONDS)["structuredContent"]
            equal((waiting["status"], waiting["unconfirmed"]), ("running", True))
            given[name] = waiting["execution_id"]
            asked = second.start_call("get_execution", execution_id=endless[name], wait_seconds=0)
            equal(second.start_call("get_sandbox_status", sandbox_id=sandbox).result(10 * BUDGET_SECONDS)["structuredContent"]["state"], "recovering")
            error = asked.failed(10 * BUDGET_SECONDS)["error"]
            equal(error["code"], "engine_unavailable")
            contains(error["message"], "not known yet")
            contains(error["hint"], "do not run the code again")
        while time.monotonic() < until:
            equal({box["state"] for box in second.call("get_sandbox_status")["sandboxes"]}, {"recovering"}, second.log_tail())
            time.sleep(1)
    finally:
        go_on()
    for name in boxes:
        done = poll("the end of what was given meanwhile", lambda n=name: over(second, given[n]))
        equal((done["status"], done["stdout"]), ("ok", name + "\n"))
        result = get(second, endless[name])["structuredContent"]
        equal((result["status"], result["stdout"]), ("running", "shown\n"))
        second.start_call("cancel_execution", execution_id=endless[name]).wait()
        equal(poll("its end", lambda n=name: over(second, endless[n]))["status"], "cancelled")
        equal(second.run("before", sandbox_id=name)["result"], repr(name))
    return second
