"""Sandboxes out of the pool: create_sandbox when one is ready, and the first code in it; with --preload the first code that imports a module, where the
pool has imported it in advance and where it has not."""

import time

POOL = 4
USES = {"numpy": "int(numpy.arange(3).sum())", "pandas": "pandas.DataFrame({'a': [1]}).shape"}  # and others are only imported


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


def bench_preload(start, module, creates, tools):
    """Two servers in turn, of which one has --preload; each sandbox comes out of the pool."""
    code = f"import {module}; {USES.get(module, module + '.__name__')}"
    servers = {"plain": start("--pool", "1"), "preloaded": start("--pool", "1", "--preload", module)}
    spent = {name: [] for name in servers}
    memory = {name: [] for name in servers}
    hits = 0
    for name, server in servers.items():
        server.hello()
        server.call("close_sandbox", sandbox_id=server.call("create_sandbox")["sandbox_id"])
    for _ in range(creates):
        for name, server in servers.items():
            while server.call("get_sandbox_status")["pool"]["ready"] < 1:
                time.sleep(0.05)
            before = server.call("get_sandbox_status")["pool"]["hits"]
            sandbox = server.call("create_sandbox")["sandbox_id"]
            hits += server.call("get_sandbox_status")["pool"]["hits"] - before
            memory[name] += [tools["rollup"](pid)["pss_kb"] for pid, what in tools["processes_of"](sandbox).items() if what == "interpreter"]
            spent[name].append(tools["timed"](lambda s=sandbox, to=server: to.call("execute_code", sandbox_id=s, code=code)))
            server.call("close_sandbox", sandbox_id=sandbox)
    for server in servers.values():
        server.close()
    summary = tools["summary"]
    return {"code": code, "hits": hits, "asked": 2 * creates, **{name: {"first_call": summary(spent[name]), "interpreter_kb": summary(memory[name])} for name in servers}}


def print_preload(report, row):
    plain, preloaded = report["plain"], report["preloaded"]
    print("| milliseconds | n | p50 | p95 | p99 |")
    print("|---|---|---|---|---|")
    print(row(f"first `{report['code']}` in a sandbox of the pool", plain["first_call"]))
    print(row("the same with the module imported in advance", preloaded["first_call"]))
    print()
    print(f"- {plain['first_call']['p50'] / preloaded['first_call']['p50']:.0f} times as long without --preload (p50); {report['hits']} of {report['asked']} came out of the pool")
    print(f"- a waiting interpreter: {plain['interpreter_kb']['p50']:.0f} kB of proportional size, with the module {preloaded['interpreter_kb']['p50']:.0f} kB")


def rows_of(report, row):
    """Lines of the table of contrib/bench."""
    return [
        row("`create_sandbox` out of the pool", report["create"]),
        row("the same with another limit of CPU", report["create_changed"]),
        row("first `execute_code` in it", report["first_call"]),
    ]
