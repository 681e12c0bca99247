"""The table of contrib/bench as it is without a mode: figures as Markdown, and the ratios that count."""

from bench_pool import rows_of


def row(name, figures):
    if not figures:
        return f"| {name} | | | | |"
    return "| {} | {} | {:.3g} | {:.3g} | {:.3g} |".format(
        name, figures["n"], figures["p50"], figures["p95"], figures["p99"]
    )


def print_table(report, live):
    """`live`: what is run in each language, and by which program."""
    print("| milliseconds | n | p50 | p95 | p99 |")
    print("|---|---|---|---|---|")
    print(row('warm `execute_code("1+1")` over stdio', report["warm"]))
    print(row("floor: the same to a bare `python3` over a pipe", report["warm_floor"]))
    if report["exec_python"]:
        print(row('beside it: `docker exec … python3 -c "print(1+1)"`', report["exec_python"]))
        print(row("of that, an exec of `true` by the engine's API", report["exec"]))
    for language, figures in report["live"].items():
        code, command = live[language][:2]
        print(row(f"warm `{code}` in {language}", figures and figures["warm"]))
        print(row(f"floor: the same to a bare `{command[0]}` over a pipe", figures and figures["floor"]))
    print(row("cold `create_sandbox`", report["cold"]))
    print(row("first `execute_code` in it", report["first_call"]))
    print("\n".join(rows_of(report["pool"], row)))
    what = "the engine's own create and start, same options" if report["exec"] else "the bare runtime with the same specification"
    print(row(f"floor: {what}", report["runtime_run"]))
    print(row("floor: start of a bare interpreter", report["interpreter_start"]))
    print(row("from kill -9 of a worker to the next answer, by a new one", report["recovery"]))
    print(row(f"from start of a server to {report['adopted']} sandboxes of a killed one ready", report["adoption"]))
    print(row("from start to the answer to `initialize`", report["start"]))
    print(row("from start to the answer to `execute_code`", report["start_code"]))
    print(row("the same where no earlier server has tried the runtime", report["start_untried"]))
    print(row(f"{report['sandboxes']} sandboxes at once, one call", report["many"]))
    print()
    print(f"- warm call: {report['warm_ratio']:.1f} times its floor (p50)")
    if report["exec_python"]:
        print(f"- `docker exec` of the same: {report['exec_python']['p50'] / report['warm']['p50']:.0f} times a warm call (p50)")
        print(f"- cold create: {report['cold']['p50'] / report['runtime_run']['p50']:.2f} times the engine's create and start (p50)")
    elif report["cold_ratio"]:
        print(f"- cold create: {report['cold_ratio']:.2f} times bare runtime and bare interpreter start (p50)")
    sizes = report["tools_list"]
    pool = report["pool"]
    print(
        f"- create: {report['cold']['p50'] / pool['create']['p50']:.0f} times as long as out of the pool, the first code {report['first_call']['p50'] / pool['first_call']['p50']:.0f} times "
        f"(p50); {pool['hits']} of {pool['asked']} came out of it"
    )
    print(f"- the list of {sizes['tools']} tools: {sizes['bytes'] / 1000:.1f} kB, of which {sizes['inputs'] / 1000:.1f} kB are schemas of arguments")
    print(f"- {report['sandboxes']} sandboxes at once: {report['many']['calls_per_second']:.0f} calls a second")
    print()
    output = report["output"]
    ours, bare = output["mb_per_second"]["p50"], output["floor_mb_per_second"]["p50"]
    peaks = ", ".join(f"{name} {kb}" for name, kb in output["peak_kb"].items())
    print(f"- 100 MB of stdout: {ours:.0f} MB/s; floor, a bare `python3` into a pipe: {bare:.0f} MB/s")
    print(f"- peak resident memory after that, kB: {peaks}")
    files = report["files"]
    print("- 64 MB, MB/s: " + "; ".join(f"{name} {figures['p50']:.0f}" for name, figures in files["mb_per_second"].items()))
    print("- peak resident memory after that, kB: " + ", ".join(f"{name} {kb}" for name, kb in files["peak_kb"].items()))
    print()
    print("| kB | resident | proportional |")
    print("|---|---|---|")
    for name, figures in report["memory"].items():
        print(f"| {name} | {figures['rss_kb']} | {figures['pss_kb']} |")
