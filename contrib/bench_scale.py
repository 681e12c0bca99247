"""Many sandboxes at once: how fast they come, what each takes, and whether their number or a neighbour slows others down.

All goes through one pipe to one server. A sandbox of `fake` has no container, so many more of them fit and the server
itself is what is measured; a build with tests has that backend.
"""

import json
import os
import sys
import time

from bench_end import pipelined
from bench_memory import kernel_kb, processes_of

AT_ONCE = 32  # calls in flight
CODE = "1+1"
STEPS = (10, 100, 1000)  # at so many sandboxes, and at the last, the supervisor's work for a call is counted
SAMPLED = 20  # sandboxes whose memory is looked at
QUIET = 8  # neighbours of the one that floods
FLOOD = 'import sys, time\nend = time.monotonic() + {}\nwhile time.monotonic() < end:\n    sys.stdout.write("x" * 65536)'
FLOOD_SECONDS = 10
MEMORY_MB = 64
HELD = "/proc/sys/fs/inotify/max_user_instances"


def bench_scale(start, sandboxes, calls, tools):
    """`start` starts a server with these options."""
    if sandboxes < 2:
        sys.exit("--scale needs 2 sandboxes, since one of them is the neighbour of the others")
    limits = ("--max-sandboxes", str(sandboxes + 2), "--memory-mb", str(MEMORY_MB), "--memory-budget-mb", str(MEMORY_MB * (sandboxes + 2)))
    server = start(*limits, "--ttl-seconds", "86400", "--max-lifetime-seconds", "86400")
    ids, steps, seconds = [], [], 0.0
    few = None
    wanted = sorted({min(step, sandboxes) for step in (*STEPS, AT_ONCE, sandboxes)})
    for step in wanted:
        begun = time.perf_counter()
        lines = [server.call_line("create_sandbox") for _ in range(step - len(ids))]
        ids += [made["sandbox_id"] for made in pipelined(server, lines)]
        seconds += time.perf_counter() - begun
        warm(server, ids[-len(lines) :])
        if step in STEPS or step == sandboxes:
            steps.append({"sandboxes": step, **one_at_a_time(server, ids, calls, tools)})
        if step == min(AT_ONCE, sandboxes):
            few = at_once(server, ids, calls, tools)
    report = {"sandboxes": sandboxes, "made_s": seconds, "per_second": sandboxes / seconds, "steps": steps, "few": {"sandboxes": min(AT_ONCE, sandboxes), **few}}
    report["many"] = at_once(server, ids, calls, tools)
    report["memory_kb"] = memory(server, ids, tools["rollup"])
    report["fairness"] = fairness(server, ids, calls, tools)
    report["inotify"] = inotify_limit()
    begun = time.perf_counter()
    pipelined(server, [server.call_line("close_sandbox", sandbox_id=sandbox) for sandbox in ids])
    report["closed_s"] = time.perf_counter() - begun
    server.close()
    return report


def warm(server, ids):
    """Each has run once, so that its interpreter is there."""
    pipelined(server, [server.call_line("execute_code", sandbox_id=sandbox, code=CODE) for sandbox in ids])


def spread(ids, count):
    """So many of them, from the first to the last."""
    return [ids[i * len(ids) // count] for i in range(min(count, len(ids)))]


def cpu_us(pid):
    """CPU time of all threads, by the kernel's count of nanoseconds."""
    total = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/schedstat", encoding="ascii") as file:
            total += int(file.read().split()[0])
    return total / 1e3


def one_at_a_time(server, ids, calls, tools):
    """The supervisor's CPU time for a call, and how long calls take, over all sandboxes in turn."""
    chosen = [ids[i * 7919 % len(ids)] for i in range(calls)]
    begun = cpu_us(server.child.pid)
    spent = []
    for sandbox in chosen:
        line = server.call_line("execute_code", sandbox_id=sandbox, code=CODE)
        spent.append(tools["timed"](lambda asked=line: (server.write(asked), server.read())))
    return {"supervisor_us": (cpu_us(server.child.pid) - begun) / calls, "call": tools["summary"](spent)}


def at_once(server, ids, calls, tools, seconds=None, strays=None):
    """Calls in all sandboxes in turn, so many in flight; for a number of calls or of seconds."""
    begun_at, spent = {}, []
    order = 0

    def send():
        nonlocal order
        line = server.call_line("execute_code", sandbox_id=ids[order % len(ids)], code=CODE)
        order += 1
        begun_at[server.number] = time.perf_counter()
        return line

    begun = time.perf_counter()
    server.write(b"".join(send() for _ in range(min(AT_ONCE, len(ids)))))
    while begun_at:
        number = json.loads(server.read())["id"]
        now = time.perf_counter()
        if number not in begun_at:
            strays.add(number)  # of what floods
            continue
        spent.append((now - begun_at.pop(number)) * 1e3)
        if order < calls if seconds is None else now - begun < seconds:
            server.write(send())
    return {**tools["summary"](spent), "calls_per_second": len(spent) / (time.perf_counter() - begun)}


def fairness(server, ids, calls, tools):
    """Calls of some sandboxes in turn, one at a time each, without and with a neighbour that writes as fast as it can."""
    noisy, others = ids[0], spread(ids[1:] or ids, QUIET)
    quiet = at_once(server, others, calls, tools)
    server.write(server.call_line("execute_code", sandbox_id=noisy, code=FLOOD.format(FLOOD_SECONDS), timeout_seconds=2 * FLOOD_SECONDS))
    flood = server.number
    ended = set()
    loud = at_once(server, others, calls, tools, FLOOD_SECONDS / 2, ended)
    while flood not in ended:
        ended.add(json.loads(server.read()).get("id"))
    return {"sandboxes": len(others), "quiet": quiet, "loud": loud}


def memory(server, ids, rollup):
    """Means of some of them, by the kernel's count of shared pages; None where none of them has processes of its own."""
    sums, kernel = {}, []
    chosen = spread(ids, SAMPLED)
    for sandbox in chosen:
        pids = {server.call("get_sandbox_status", sandbox_id=sandbox)["worker"]["pid"]: "worker", **processes_of(sandbox)}
        for pid, name in pids.items():
            sums[name] = sums.get(name, 0) + rollup(pid)["pss_kb"] / len(chosen)
        kernel.append(next((kernel_kb(pid) for pid, name in pids.items() if name == "agent"), None))
    sums["supervisor"] = rollup(server.child.pid)["pss_kb"] / len(ids)
    sums["all"] = sum(sums.values())
    if None not in kernel:
        sums["kernel"] = sum(kernel) / len(chosen)
    return sums


def inotify_limit():
    with open(HELD, encoding="ascii") as file:
        return int(file.read())


def print_scale(report):
    count = report["sandboxes"]
    few, many, fair = report["few"], report["many"], report["fairness"]
    print(f"- {count} sandboxes made in {report['made_s']:.1f} s, {report['per_second']:.1f} a second; closed in {report['closed_s']:.1f} s")
    print()
    print(f"| {AT_ONCE} calls at once | a second | p50, ms | p99, ms |")
    print("|---|---|---|---|")
    for name, figures in ((f"{few['sandboxes']} sandboxes", few), (f"{count} sandboxes", many)):
        print(f"| {name} | {figures['calls_per_second']:.0f} | {figures['p50']:.3g} | {figures['p99']:.3g} |")
    print(f"| times | {many['calls_per_second'] / few['calls_per_second']:.2f} | {many['p50'] / few['p50']:.2f} | {many['p99'] / few['p99']:.2f} |")
    print()
    print("| one call at a time, of all in turn | CPU of the supervisor for it, µs | p50, ms | p99, ms |")
    print("|---|---|---|---|")
    for step in report["steps"]:
        print(f"| {step['sandboxes']} sandboxes | {step['supervisor_us']:.0f} | {step['call']['p50']:.3g} | {step['call']['p99']:.3g} |")
    print()
    quiet, loud = fair["quiet"], fair["loud"]
    print(f"- a neighbour that floods its output: p99 of {fair['sandboxes']} others {loud['p99']:.3g} ms, {loud['p99'] / quiet['p99']:.2f} times that without it; p50 {loud['p50'] / quiet['p50']:.2f} times")
    print("- kB of a sandbox: " + ", ".join(f"{name} {kb:.0f}" for name, kb in report["memory_kb"].items()))
    if count > report["inotify"]:
        print(f"- of {count} sandboxes at most {report['inotify']} have inotify ({HELD}); calls of the others end with a look at all files")
