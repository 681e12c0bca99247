"""Memory of idle sandboxes: what each process of one takes by the kernel's count of shared pages (Pss), for
sandboxes that have run 1+1 and for sandboxes that only hold a file. The figures are means, since pages that
sandboxes share cost each of them less the more there are. What the kernel itself holds for a sandbox is counted
by its control group, and only there."""

import os

SETTLED = {"python": "1+1", "files": None}  # what was done in them


def processes_of(sandbox):
    """The processes in the control group of a sandbox: agent, keepers and interpreters."""
    found = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/cgroup", encoding="utf-8") as file:
                if sandbox not in file.read():
                    continue
            with open(f"/proc/{entry}/status", encoding="utf-8") as file:
                status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
        except OSError:
            continue
        first = status.get("NSpid", "").split()[-1:] == ["1"]
        name = "agent" if first else "interpreter" if status["Name"].startswith("python") else "keeper"
        found[int(entry)] = name
    return found


def kernel_kb(pid):
    """What the kernel holds for the control group of a process; None where that is not counted."""
    with open(f"/proc/{pid}/cgroup", encoding="utf-8") as file:
        groups = [line.rstrip("\n").split(":", 2)[1:] for line in file]
    for controllers, path in groups:
        try:
            if controllers == "memory":
                with open(f"/sys/fs/cgroup/memory{path}/memory.kmem.usage_in_bytes", encoding="utf-8") as file:
                    return int(file.read()) // 1024
            if controllers == "":
                with open(f"/sys/fs/cgroup{path}/memory.stat", encoding="utf-8") as file:
                    return next(int(line.split()[1]) // 1024 for line in file if line.startswith("kernel "))
        except (OSError, StopIteration):
            continue
    return None


def bench_memory(start, sandboxes, rollup):
    """`start` starts a server with these options."""
    report = {"sandboxes": sandboxes}
    for kind, code in SETTLED.items():
        server = start("--max-sandboxes", str(sandboxes), "--memory-budget-mb", str(512 * sandboxes))
        ids = [server.call("create_sandbox")["sandbox_id"] for _ in range(sandboxes)]
        for sandbox in ids:
            if code:
                server.call("execute_code", sandbox_id=sandbox, code=code)
            else:
                server.call("write_file", sandbox_id=sandbox, path="file", content="x")
        sums = {"supervisor": rollup(server.child.pid)["pss_kb"]}
        kernel = []
        for sandbox in ids:
            pids = {server.call("get_sandbox_status", sandbox_id=sandbox)["worker"]["pid"]: "worker", **processes_of(sandbox)}
            for pid, name in pids.items():
                sums[name] = sums.get(name, 0) + rollup(pid)["pss_kb"]
            kernel.append(next((kernel_kb(pid) for pid, name in pids.items() if name == "agent"), None))
        server.close()
        report[kind] = {name: kb / sandboxes for name, kb in sums.items()}
        report[kind]["all"] = sum(report[kind].values())
        if None not in kernel:
            report[kind]["kernel"] = sum(kernel) / sandboxes
    return report


def print_memory(report):
    columns = ["worker", "agent", "keeper", "interpreter", "supervisor", "all", "kernel"]
    names = {"python": "that has run `1+1`", "files": "that only holds a file"}
    print(f"| kB of an idle sandbox, of {report['sandboxes']} | " + " | ".join(columns).replace("supervisor", "its share of the supervisor") + " |")
    print("|---" * (len(columns) + 1) + "|")
    for kind, name in names.items():
        cells = [f"{report[kind][column]:.0f}" if column in report[kind] else "" for column in columns]
        print(f"| {name} | " + " | ".join(cells) + " |")
