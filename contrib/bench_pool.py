"""Sandboxes out of the pool: create_sandbox when one is ready, and the first code in it."""

import time

POOL = 4


def bench_pool(start, creates, tools):
    """`start` starts a server with these options. A sandbox is asked for only when the pool is full again, so each is a
    hit; what an empty pool costs is the cold figure."""
    server = start("--pool", str(POOL), "--max-sandboxes", str(POOL + 4))
    server.hello()

    def figures():
        return server.call("get_sandbox_status")["pool"]

    def filled():
        while figures()["ready"] < POOL:
            time.sleep(0.01)

    server.call("close_sandbox", sandbox_id=server.call("create_sandbox")["sandbox_id"])
    filled()
    before = figures()["hits"]
    ours, first_runs, changed = [], [], []
    for _ in range(creates):
        for spent, arguments in ((ours, {}), (changed, {"cpus": 0.5})):
            begun = time.perf_counter_ns()
            sandbox = server.call("create_sandbox", **arguments)["sandbox_id"]
            spent.append((time.perf_counter_ns() - begun) / 1e6)
            if spent is ours:
                first_runs.append(tools["timed"](lambda s=sandbox: server.call("execute_code", sandbox_id=s, code="1+1")))
            server.call("close_sandbox", sandbox_id=sandbox)
            filled()
    hits = figures()["hits"] - before
    server.close()
    summary = tools["summary"]
    return {"create": summary(ours), "create_changed": summary(changed), "first_call": summary(first_runs), "hits": hits, "asked": 2 * creates}


def rows_of(report, row):
    """Lines of the table of contrib/bench."""
    return [
        row("`create_sandbox` out of the pool", report["create"]),
        row("the same with another limit of CPU", report["create_changed"]),
        row("first `execute_code` in it", report["first_call"]),
    ]
