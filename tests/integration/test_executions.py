"""Executions that outlive their request: read later, followed, stopped."""

import time

from common import EACH, NONE, ONE, Server, Suite, contains, equal, needs_runtime, poll

needs_runtime()
# The server keeps them: on engines only cases run that have to get through to the container.
suite = Suite(NONE)

# Prints the time of the interrupt, by the clock that the test has as well. Nothing else ends it before the test.
TIMED = """
import time
print("begun", flush=True)
try:
    time.sleep(600)
except KeyboardInterrupt:
    print(time.clock_gettime(time.CLOCK_MONOTONIC))
    raise
"""


class Impatient:
    """One server with a short time budget for all cases of this file."""

    server = None

    @classmethod
    def get(cls):
        if cls.server is None:
            cls.server = Server("--sync-budget-seconds", "1")
            cls.server.legacy()
        return cls.server, cls.server.call("create_sandbox")["sandbox_id"]


def get(server, execution, **arguments):
    """structuredContent of get_execution, however the code has ended."""
    return server.start_call("get_execution", execution_id=execution, **arguments).result()["structuredContent"]


def wait_over(server, execution):
    def look():
        done = get(server, execution)
        return done if done["status"] != "running" else None

    return poll("the end of an execution", look)


def shown(server, execution, stdout):
    """What get_execution tells at the moment, if the code has shown just this."""
    part = get(server, execution["execution_id"], wait_seconds=0)
    return part if part["stdout"] == stdout else None


@suite.case("code that takes longer than the budget goes on, and its outcome is fetched", engines=ONE)
def budget():
    server, sandbox = Impatient.get()
    answer = server.start_call(
        "execute_code", sandbox_id=sandbox, code="import os, time\nbegun = time.monotonic()\nprint('early', flush=True)\nwhile not os.path.exists('go'): time.sleep(0.02)\ntook = time.monotonic() - begun\nx = 5\nx * 2"
    )
    result = answer.result()
    assert answer.seconds() >= 1, answer.seconds()  # before its end, which needs a signal of the test
    assert not result.get("isError"), result
    running = result["structuredContent"]
    equal(running["status"], "running")
    early = poll("its output", lambda: shown(server, running, "early\n"))
    equal((early["status"], early["next_offset"]), ("running", 6))
    assert "exit_code" not in running, running
    contains(result["content"][0]["text"], "get_execution")
    contains(result["content"][0]["text"], running["execution_id"])
    server.call("write_file", path="go", content="", sandbox_id=sandbox)
    done = wait_over(server, running["execution_id"])
    equal((done["status"], done["result"], done["stdout"], done["exit_code"]), ("ok", "10", "early\n", 0))
    # the budget begins with the call, the duration with the code, which is a little later
    assert done["duration_ms"] >= 1000 * float(server.run_to_end("took", sandbox_id=sandbox)["result"]), done
    equal(server.run_to_end("x", sandbox_id=sandbox)["result"], "5")
    # and again, any number of times
    equal(get(server, running["execution_id"])["result"], "10")


@suite.case("parts of the output, fetched while it streams, add up to the whole", engines=EACH)
def streaming():
    server, sandbox = Impatient.get()
    whole = "".join(f"{i} ä€😀\n" for i in range(3000))
    code = (
        "import os, time\n"
        "whole = ''.join(f'{i} ä€😀\\n' for i in range(3000)).encode()\n"
        "for at in range(0, len(whole), 617):\n"  # offsets in the middle of characters
        "    os.write(1, whole[at:at + 617])\n"
        "    if at % 5 == 0:\n"
        "        os.write(2, b'.')\n"
        "    time.sleep(0.03)\n"
    )
    part = server.run(code, sandbox_id=sandbox)
    equal(part["status"], "running")
    parts, errors, count = [part["stdout"]], [part["stderr"]], 0
    while part["status"] == "running":
        offset, stderr_offset = part["next_offset"], part["next_stderr_offset"]
        part = get(
            server, part["execution_id"], offset=offset, stderr_offset=stderr_offset, wait_seconds=0.05 * (count % 3)
        )
        equal((part["offset"], part["stderr_offset"]), (offset, stderr_offset))
        parts.append(part["stdout"])
        errors.append(part["stderr"])
        count += 1
    equal("".join(parts), whole)
    assert set("".join(errors)) == {"."} and len("".join(errors)) == part["stderr_bytes"], errors
    equal(part["next_offset"], len(whole.encode()))
    assert count > 5, count


@suite.case("output that does not fit into one result is fetched by offset, as far as it is kept")
def paging():
    server, sandbox = Impatient.get()
    part = server.run_to_end("print('\\n' * 249999)", sandbox_id=sandbox)
    got = part["stdout"][: part["next_offset"]]  # followed by a line about the gap, and the end
    assert part["truncated"] and part["next_offset"] == len(got) < 250000, part["next_offset"]
    equal(set(got), {"\n"})
    while part["truncated"]:
        part = get(server, part["execution_id"], offset=part["next_offset"])
        got += part["stdout"]
    equal(got, "\n" * 250000)
    lost = server.run_to_end("print('x' * 999999)", sandbox_id=sandbox)
    rest = get(server, lost["execution_id"], offset=lost["next_offset"])
    assert rest["truncated"] and rest["stdout_bytes"] == 1000000, rest["stdout_bytes"]
    rest = get(server, lost["execution_id"], offset=500000)  # an offset within the gap
    equal((rest["offset"], rest["stdout"][:2]), (1000000 - (256 << 10), "xx"))
    error = server.call_failing("get_execution", execution_id=lost["execution_id"], offset=1000001)["error"]
    equal(error["code"], "invalid_argument")
    contains(error["message"], "is behind")
    error = server.call_failing("get_execution", execution_id=lost["execution_id"], stderr_offset=1)["error"]
    contains(error["message"], "stderr_offset")


@suite.case("an offset inside a character is moved to where it begins")
def inside_character():
    server, sandbox = Impatient.get()
    done = server.run_to_end("print('a€b')", sandbox_id=sandbox)
    for offset, begin, text in ((0, 0, "a€b\n"), (1, 1, "€b\n"), (2, 1, "€b\n"), (3, 1, "€b\n"), (4, 4, "b\n"), (6, 6, "")):
        part = get(server, done["execution_id"], offset=offset)
        equal((part["offset"], part["stdout"], part["next_offset"]), (begin, text, 6))


def stopped_within(server, sandbox, stop):
    """Seconds from stop(execution) to the interrupt in the code."""
    begun = server.run(TIMED, sandbox_id=sandbox, timeout_seconds=600)
    equal(begun["status"], "running")
    poll("it has begun", lambda: shown(server, begun, "begun\n"))
    now = time.clock_gettime(time.CLOCK_MONOTONIC)
    stop(begun["execution_id"])
    done = wait_over(server, begun["execution_id"])
    equal(done["status"], "cancelled")
    return float(done["stdout"].split("\n")[1]) - now


@suite.case("cancel_execution reaches the code and says how it ended", engines=EACH)
def cancel_by_tool():
    server, sandbox = Impatient.get()
    results = []

    def stop(execution):
        results.append(server.start_call("cancel_execution", execution_id=execution).result())

    took = [stopped_within(server, sandbox, stop) for _ in range(3)]
    print(f"# cancel_execution reached the code after {max(took) * 1000:.1f} ms at most")
    assert min(took) > 0, took
    for result in results:
        assert not result.get("isError"), result
        equal(result["structuredContent"]["status"], "cancelled")
    # an execution that has ended is not changed
    done = server.run_to_end("1 + 1", sandbox_id=sandbox)
    late = server.call("cancel_execution", execution_id=done["execution_id"])
    equal((late["status"], late["result"]), ("ok", "2"))


@suite.case("notifications/cancelled on execute_code stops the code as well, on get_execution only the wait")
def cancel_by_notification():
    server, sandbox = Impatient.get()
    server.run_to_end("open('began', 'w').close()", sandbox_id=sandbox)
    code = "import time, os\nopen('began', 'w').write('x')\n" + TIMED.replace(
        "print(time", "open('stopped', 'w').write(str(time").replace("MONOTONIC))", "MONOTONIC)))")
    call = server.start_call("execute_code", sandbox_id=sandbox, code=code, timeout_seconds=600)
    poll("code that runs", lambda: server.read_text("began", sandbox) == "x")
    now = time.clock_gettime(time.CLOCK_MONOTONIC)
    server.notify("notifications/cancelled", {"requestId": call.ident})
    stopped = float(poll("an interrupt", lambda: server.read_text("stopped", sandbox)))
    print(f"# notifications/cancelled reached the code after {(stopped - now) * 1000:.1f} ms")
    assert stopped > now, stopped - now

    # an interrupt would reach the code before what lets it end
    begun = server.run("import os, time\nwhile not os.path.exists('go on'): time.sleep(0.01)\n'undisturbed'", sandbox_id=sandbox)
    equal(begun["status"], "running")
    wait = server.start_call("get_execution", execution_id=begun["execution_id"], wait_seconds=1)
    server.notify("notifications/cancelled", {"requestId": wait.ident})
    equal(get(server, begun["execution_id"], wait_seconds=0)["status"], "running")
    server.call("write_file", sandbox_id=sandbox, path="go on", content="")
    done = wait_over(server, begun["execution_id"])
    equal((done["status"], done["result"]), ("ok", "'undisturbed'"))


@suite.case("code that ignores its interrupt is killed, and the sandbox goes on", engines=ONE)
def stubborn():
    server, sandbox = Impatient.get()
    server.run_to_end("open('ignores', 'w').close()", sandbox_id=sandbox)
    code = "import time\nwhile True:\n    try:\n        with open('ignores', 'w') as file: file.write('x')\n        time.sleep(9)\n    except KeyboardInterrupt:\n        pass"
    begun = server.run(code, sandbox_id=sandbox)
    poll("code that ignores interrupts", lambda: server.read_text("ignores", sandbox) == "x")
    call = server.start_call("cancel_execution", execution_id=begun["execution_id"])
    equal(call.result()["structuredContent"]["status"], "cancelled")
    assert call.seconds() > 1.5, call.seconds()  # it would run for ever
    equal(server.run_to_end("1 + 1", sandbox_id=sandbox)["interpreter"], "restarted")


@suite.case("an outcome is still there when its sandbox is closed, and so is that of code that was running then", engines=ONE)
def after_close():
    server, sandbox = Impatient.get()
    done = server.run_to_end("print('kept')\n7", sandbox_id=sandbox)
    running = server.run("print('half', flush=True)\nimport time\ntime.sleep(60)", sandbox_id=sandbox)
    wait = server.start_call("get_execution", execution_id=running["execution_id"], wait_seconds=1)
    server.call("close_sandbox", sandbox_id=sandbox)
    equal(wait.result()["structuredContent"]["status"], "cancelled")
    kept = get(server, done["execution_id"])
    equal((kept["status"], kept["stdout"], kept["result"], kept["sandbox_id"]), ("ok", "kept\n", "7", sandbox))
    ended = get(server, running["execution_id"])
    equal((ended["status"], ended["stdout"]), ("cancelled", "half\n"))


@suite.case("create_run_close answers within the budget, closes when the code has ended, and its outcome stays", engines=ONE)
def throw_away():
    server, _ = Impatient.get()
    begun = server.call("create_run_close", code="import time\ntime.sleep(2.5)\nprint('late')")
    equal((begun["status"], begun["sandbox_closed"]), ("running", False))
    status = server.call("get_sandbox_status", sandbox_id=begun["sandbox_id"])
    equal([row["status"] for row in status["executions_recent"]], ["running"])

    def closed():
        listed = server.call("get_sandbox_status")["sandboxes"]
        return all(row["sandbox_id"] != begun["sandbox_id"] for row in listed)

    poll("a closed sandbox", closed)  # no client has asked for the outcome
    done = get(server, begun["execution_id"])
    equal((done["status"], done["stdout"]), ("ok", "late\n"))


@suite.case("the status of a sandbox lists its latest executions, latest first")
def recent():
    server, sandbox = Impatient.get()
    ids = [server.run_to_end(f"print({i})", sandbox_id=sandbox)["execution_id"] for i in range(23)]
    failed = server.run_to_end("1/0", sandbox_id=sandbox)["execution_id"]
    running = server.run("import time\ntime.sleep(600)", sandbox_id=sandbox)["execution_id"]
    queued = server.run("'next'", sandbox_id=sandbox)["execution_id"]
    rows = server.call("get_sandbox_status", sandbox_id=sandbox)["executions_recent"]
    equal(len(rows), 20)
    equal([row["status"] for row in rows[:4]], ["queued", "running", "error", "ok"])
    equal([row["execution_id"] for row in rows], ([queued, running, failed] + ids[::-1])[:20])
    for row in rows:
        assert row["language"] == "python" and row["started_at"].endswith("Z") and row["duration_ms"] >= 0, row
    server.call("cancel_execution", execution_id=running)
    equal(wait_over(server, queued)["result"], "'next'")


@suite.case("an execution that waited for its turn is listed as running as soon as it does, though it prints nothing")
def listed_in_turn():
    server, sandbox = Impatient.get()

    def states():
        rows = server.call("get_sandbox_status", sandbox_id=sandbox)["executions_recent"]
        return [row["status"] for row in rows if row["language"] == "python"][:2]

    def begin(until):
        code = f"import os, time\nwhile not os.path.exists({until!r}): time.sleep(0.01)"
        return server.run(code, sandbox_id=sandbox)["execution_id"]

    first, second = begin("first_may_end"), begin("second_may_end")
    equal(states(), ["queued", "running"])
    server.run("touch first_may_end", language="bash", sandbox_id=sandbox)
    poll("the second is listed as running", lambda: states() == ["running", "ok"])
    server.run("touch second_may_end", language="bash", sandbox_id=sandbox)
    equal([wait_over(server, e)["status"] for e in (first, second)], ["ok", "ok"])


@suite.case("an unknown execution is not found, with a hint")
def unknown():
    server, _ = Impatient.get()
    for tool in ("get_execution", "cancel_execution"):
        for name in ("nosuchexecution2", "x" * 64, "../../etc", "é"):
            error = server.call_failing(tool, execution_id=name)["error"]
            equal(error["code"], "execution_not_found")
            contains(error["hint"], "get_sandbox_status")


@suite.case("the latest of many executions are kept")
def bounds():
    most = 256 + 24  # more than are kept, with one sandbox allowed
    with Server("--max-sandboxes", "1") as server:
        server.legacy()
        ids = [server.run_to_end(f"{i}")["execution_id"] for i in range(most + 2)]
        for name in ids[:2]:
            equal(server.call_failing("get_execution", execution_id=name)["error"]["code"], "execution_not_found")
        equal(get(server, ids[2])["result"], "2")
        equal(get(server, ids[-1])["result"], str(most + 1))


@suite.finish
def end():
    """the server ends and leaves nothing behind"""
    if Impatient.server:
        Impatient.server.close()


suite.run()
