"""The end of a server with many sandboxes, measured from outside: when the last process of user code was
dead, and when nothing was left. `close` closes the pipe and waits for the server; `patience` sends SIGTERM 2
s and SIGKILL 4 s after that, as the official clients do; `kill` sends SIGKILL at once.

The kernel reports the deaths on pidfds, of which a measurement holds one for each process. Reading a thousand
files of /proc again and again would take as much of a processor as the end itself."""

import os
import resource
import select
import signal
import subprocess
import time

IN_FLIGHT = 16
REST_SECONDS = 300
LOOK_SECONDS = 0.01  # the precision of what is measured


def processes_with(text):
    text = text.encode()
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/cmdline", "rb") as file:
                if text in file.read():
                    yield int(entry)
        except OSError:
            continue


class Deaths:
    """Notices the ends of processes; a zombie has ended."""

    def __init__(self, pids):
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self.ends = select.epoll()
        self.left = set()
        for pid in pids:
            fd = os.pidfd_open(pid)
            self.ends.register(fd, select.EPOLLIN)
            self.left.add(fd)

    def look(self):
        """Returns how many of them live."""
        for fd, _ in self.ends.poll(0, max(1, len(self.left))):
            self.ends.unregister(fd)
            self.left.remove(fd)
            os.close(fd)
        return len(self.left)


def pipelined(server, lines):
    """Sends all requests, a limited number at a time; returns the structured results in the order of the answers."""
    import json

    rest, results = list(lines), []
    asked = 0
    while len(results) < len(lines):
        while rest and asked - len(results) < IN_FLIGHT:
            server.write(rest.pop(0))
            asked += 1
        answer = json.loads(server.read())
        if "error" in answer or answer["result"].get("isError"):
            raise SystemExit(f"failed: {json.dumps(answer)[:500]}")
        results.append(answer["result"]["structuredContent"])
    return results


def groups_of(ids):
    """Control groups of these sandboxes."""
    names = set(ids)
    found = []
    for place, inner, _ in os.walk("/sys/fs/cgroup"):
        found += [os.path.join(place, name) for name in inner if names & set(name.replace(".", "-").split("-"))]
    return found


def left_counts(directory, groups, engine):
    """Counts what is left of each kind; `groups` are the control groups that there were, because walking
    through all of them would take longer than the measured time."""
    boxes = 0
    places = [name for name in os.listdir(directory) if not name.startswith(".trial-")]  # kept for the next server
    for place in places:
        try:
            boxes += len(os.listdir(os.path.join(directory, place, "sandboxes")))
        except FileNotFoundError:
            boxes += 1
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        mounts = sum(directory in line for line in file)
    found = {
        "directories": boxes or len(places), "control groups": sum(map(os.path.exists, groups)), "mounts": mounts,
        "processes": sum(1 for _ in processes_with(directory)),
    }
    if engine:
        found["containers"] = len(engine.api.containers(directory))
        found["volumes"] = len(engine.api.volumes(directory))
    return found


def end(server, way):
    """Begins the end and returns its time; later steps run in a process of their own."""
    begun = time.monotonic()
    if way == "kill":
        server.child.kill()
    else:
        server.child.stdin.close()
    if way == "patience":
        pid = server.child.pid
        if os.fork() == 0:
            for at, number in ((2, signal.SIGTERM), (4, signal.SIGKILL)):
                time.sleep(max(0.0, begun + at - time.monotonic()))
                try:
                    os.kill(pid, number)  # it is not reaped before this process has ended
                except OSError:
                    break
            os._exit(0)
    return begun


def bench_end(server_of, options, directory, engine):
    """`server_of` starts a server with these options."""
    count = options.end
    server = server_of("--max-sandboxes", str(count), "--memory-mb", "64", "--memory-budget-mb", str(64 * count), "--ttl-seconds", "86400")
    server.hello()
    mark = f"31536000.{os.getpid()}"
    begun = time.monotonic()
    ids = [r["sandbox_id"] for r in pipelined(server, [server.call_line("create_sandbox") for _ in range(count)])]
    code = f"import subprocess\nchild = subprocess.Popen(['sleep', '{mark}'])"
    pipelined(server, [server.call_line("execute_code", sandbox_id=s, code=code) for s in ids])
    made = time.monotonic() - begun
    time.sleep(2)  # background work of the creations shall not be measured
    running = set(processes_with(mark))
    if len(running) != count:
        raise SystemExit(f"{len(running)} processes of user code for {count} sandboxes")
    groups = groups_of(ids)
    before = left_counts(directory, groups, engine)
    deaths, its_death = Deaths(running), Deaths([server.child.pid])

    begun = end(server, options.way)
    dead = exited = None
    while dead is None or exited is None:
        time.sleep(LOOK_SECONDS)
        now = time.monotonic() - begun
        if dead is None and not deaths.look():
            dead = now
        if exited is None and not its_death.look():
            exited = now
    marks = {}
    while True:
        now = time.monotonic() - begun
        left = left_counts(directory, groups, engine)
        for at in (5, 10, 30):
            if now >= at and at not in marks:
                marks[at] = left
        if (not any(left.values()) and not groups_of(ids)) or now > REST_SECONDS:
            break
        time.sleep(0.25)
    server.child.wait()
    return {
        "sandboxes": count, "way": options.way, "made_s": made, "before": before, "code_dead_s": dead, "exited_s": exited,
        "nothing_left_s": now if not any(left.values()) else None, "left": left, "left_at": marks,
        "errors": int(any(left.values())),
    }


def print_end(report):
    words = {"close": "the pipe closed", "patience": "the pipe closed, SIGTERM after 2 s, SIGKILL after 4 s", "kill": "SIGKILL"}
    print(f"end of {report['sandboxes']} sandboxes by {words[report['way']]} (made in {report['made_s']:.0f} s)")
    print(f"- all code dead after {report['code_dead_s']:.2f} s, the server gone after {report['exited_s']:.2f} s")
    if report["nothing_left_s"] is not None:
        print(f"- nothing left after {report['nothing_left_s']:.1f} s")
    else:
        print("- still left: " + ", ".join(f"{n} {what}" for what, n in report["left"].items() if n))
    for at, left in report["left_at"].items():
        print(f"- after {at} s: " + (", ".join(f"{n} {what}" for what, n in left.items() if n) or "nothing"))
