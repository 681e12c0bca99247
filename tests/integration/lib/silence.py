"""A sandbox whose agent or engine is stopped for a while: what its user is told meanwhile, and that nothing is lost."""

from tap import contains, equal, poll

BUDGET_SECONDS = 3
DEADLINE_SECONDS = 15  # of code that runs when it is stopped, which takes a moment to see
OVERDUE_MS = (DEADLINE_SECONDS + 12) * 1000  # what does not end by then is given up, if it is heard of
HELD_SECONDS = 120  # until its worker has found out; an answer is overdue after some 15 s, a hello 10 s later


def get(server, execution):
    """The whole result of get_execution at once."""
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
    equal(poll("it shows something", lambda: get(server, endless["execution_id"])["structuredContent"]["stdout"], 30), "shown\n")
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
        # for longer than the deadline, and than anybody's patience
        poll("the worker has given up a stream", lambda: any("trying again" in line for line in server.log), HELD_SECONDS)
        poll("it is said that it does not answer", lambda: "does not answer at the moment" in get(server, endless["execution_id"])["content"][0]["text"], 60)
        poll("its deadline is behind it", lambda: get(server, endless["execution_id"])["structuredContent"]["duration_ms"] > OVERDUE_MS, 60)
        result = get(server, endless["execution_id"])
        equal((result["structuredContent"]["status"], result["structuredContent"]["stdout"]), ("running", "shown\n"))
        assert "close" not in result["content"][0]["text"], result
    finally:
        go_on()
    done = poll("the end of what had a deadline", lambda: over(server, endless["execution_id"]), 60)
    equal((done["status"], done["stdout"]), ("timeout", "shown\n"))
    done = poll("the end of what was given meanwhile", lambda: over(server, waiting["execution_id"]), 60)
    equal((done["status"], done["stdout"]), ("ok", "state\n"))
    assert "unconfirmed" not in done, done
    equal(server.run("before", sandbox_id=sandbox)["result"], "'state'")
