"""Violations, and the state of the machine seen from outside.

A run is judged by what a user or the operator of the host could notice: answers, files, processes, control
groups. Every thread reports to the one Court; the Court prints a violation at once with the seed and the
number of the latest kill, so that it can be found in the server's log, and goes on, because the second
violation often explains the first.

The processes of a sandbox on this host are found by the runtime directory on a worker's command line, never
by a program's name, so that other programs are not touched. Before a signal is sent, the process is held by a
descriptor and checked once more, so a reused pid cannot be hit.
"""

import os
import signal
import threading
import time

import mcp

GRACE_SECONDS = 10.0  # processes that end by themselves have ended by then


def percentile(values, part):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))]


class Court:
    """Counts and measurements of one run, for all threads."""

    def __init__(self, seed, log_path):
        self.seed = seed
        self.log_path = log_path
        self.lock = threading.Lock()
        self.begun = time.monotonic()
        self.step = 0  # kills planned so far
        self.violations = []
        self.kills = {}
        self.calls = {}
        self.remarks = {}
        self.seconds = {}  # name -> measured times

    def violation(self, text):
        with self.lock:
            at = time.monotonic() - self.begun
            line = f"VIOLATION seed={self.seed} step={self.step} at={at:.2f}s: {text}"
            self.violations.append(line)
            print(line, flush=True)
        self.note(line)

    def note(self, text):
        """Writes a line of ours into the server's log."""
        with open(self.log_path, "a", encoding="utf-8") as file:
            file.write(f"{time.monotonic() - self.begun:10.4f} ---- {text}\n")

    def count(self, table, name):
        with self.lock:
            table[name] = table.get(name, 0) + 1

    def measured(self, name, seconds):
        with self.lock:
            self.seconds.setdefault(name, []).append(seconds)

    def report(self):
        minutes = (time.monotonic() - self.begun) / 60
        for title, table in (("kills", self.kills), ("calls", self.calls), ("remarks", self.remarks)):
            if table:
                total = sum(table.values())
                print(f"{title}: {total} ({total / minutes:.0f} a minute)")
                for name, number in sorted(table.items()):
                    print(f"  {number:7d}  {name}")
        for name, values in sorted(self.seconds.items()):
            figures = ", ".join(f"p{int(p * 100)} {percentile(values, p) * 1e3:.1f}" for p in (0.5, 0.95, 0.99))
            print(f"{name}: n {len(values)}, {figures}, most {max(values) * 1e3:.1f} ms")
        print(f"violations: {len(self.violations)}, seed {self.seed}")


# ---- processes ----


class Process:
    """A process of ours, held so that its pid cannot mean another one."""

    def __init__(self, pid, is_it):
        self.pid = pid
        self.fd = os.pidfd_open(pid)
        if not is_it(pid):
            os.close(self.fd)
            raise ProcessLookupError(pid)

    def send(self, number):
        signal.pidfd_send_signal(self.fd, number)

    def gone(self):
        return not mcp.alive(self.pid)

    def close(self):
        os.close(self.fd)


def words_of(pid):
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        return file.read().decode("utf-8", "replace").split("\0")


def parent_of(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        return int(file.read().rpartition(")")[2].split()[1])


def value_behind(words, option):
    return words[words.index(option) + 1] if option in words else ""


def workers(runtime_dir):
    """[(sandbox, generation, pid)] of all workers below a runtime directory."""
    found = []
    for pid, line in mcp.processes():
        if runtime_dir + "/" not in line or "cloister-worker" not in line:
            continue
        words = line.split(" ")
        if value_behind(words, "--socket").startswith(runtime_dir + "/") and mcp.alive(pid):
            found.append((value_behind(words, "--sandbox"), int(value_behind(words, "--generation") or 0), pid))
    return found


def worker_of(runtime_dir, sandbox):
    """The latest living worker of a sandbox, held, or None."""
    mine = sorted((g, pid) for s, g, pid in workers(runtime_dir) if s == sandbox)
    return hold_worker(runtime_dir, mine[-1][1]) if mine else None


def hold_worker(runtime_dir, pid):
    try:
        return Process(pid, lambda p: value_behind(words_of(p), "--socket").startswith(runtime_dir + "/"))
    except (OSError, ValueError):
        return None


def children():
    """parent -> [pid] of the whole machine."""
    table = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            table.setdefault(parent_of(entry), []).append(int(entry))
        except (OSError, ValueError, IndexError):
            continue
    return table


def agent_of(sandbox):
    """The first process of a sandbox, held, or None; its keeper has the same words, and is its child."""
    found = mcp.agents_of(sandbox)
    for pid in found:
        try:
            if parent_of(pid) not in found:
                return Process(pid, lambda p: True)
        except (OSError, ValueError, IndexError):
            continue
    return None


def relay_of(sandbox):
    """The process that carries what the agent and a worker elsewhere say to each other, held, or None."""
    agent = agent_of(sandbox)
    if agent is None:
        return None
    agent.close()
    inside = mcp.pid_namespace(agent.pid)
    for pid, _ in mcp.processes():
        try:
            if is_relay(pid) and mcp.pid_namespace(pid) == inside:
                return Process(pid, is_relay)
        except OSError:
            continue
    return None


def is_relay(pid):
    return words_of(pid)[1:2] == ["relay"]


def interpreter_of(agent, language):
    """The live interpreter below an agent, held, or None: it is the child of a keeper, which runs the agent's
    program as well."""
    table = children()
    below = list(table.get(agent, []))
    for pid in below:
        below.extend(table.get(pid, []))
    for pid in below:
        try:
            words, above = words_of(pid), words_of(parent_of(pid))
            if is_interpreter(words, language) and above[1] == "serve":
                return Process(pid, lambda p: is_interpreter(words_of(p), language))
        except (OSError, ValueError, IndexError):
            continue
    return None


def is_interpreter(words, language):
    return os.path.basename(words[0]).startswith({"python": "python", "bash": "bash"}[language])


# ---- remains ----


def sockets_of(text):
    with open("/proc/net/unix", encoding="utf-8", errors="replace") as file:
        return [line.split()[-1] for line in file if text in line]


def cgroups_of(sandboxes):
    """Control groups of any of these sandboxes, found in one walk."""
    found = []
    for directory, names, _ in os.walk("/sys/fs/cgroup"):
        found += [os.path.join(directory, n) for n in names if n.startswith("cloister-") and n[len("cloister-") :] in sandboxes]
    return found


def files_of(runtime_dir):
    """Files below a runtime directory, except those that a named instance keeps: its lock, the root that sandboxes share, and
    how often its workers have brought the agent to the engine; and what trials have found, for the next servers."""
    found = []
    for directory, names, files in os.walk(runtime_dir):
        kept = os.path.basename(directory) == "shared"
        if kept:
            names[:] = [n for n in names if not n.startswith("root-")]
        place = os.path.relpath(directory, runtime_dir)
        found += [os.path.join(place, f) for f in files if f not in ("lock", "agent-volume.lock") and not mcp.is_of_trial(f)]
        if os.path.basename(directory) == "sandboxes":
            found += [os.path.join(place, n) for n in names]
    return found


def left_of(runtime_dir, sandboxes):
    """Everything that a server and its sandboxes have left on this host."""
    return (
        [f"process {p}" for p in mcp.processes_left(runtime_dir)]
        + [f"container {c}" for c in mcp.containers_of(runtime_dir)]
        + [f"control group {c}" for c in cgroups_of(sandboxes)]
        + [f"mount {m}" for m in mcp.mounts_of(runtime_dir)]
        + [f"socket {s}" for s in sockets_of(runtime_dir)]
        + [f"file {f}" for f in files_of(runtime_dir)]
    )


def wait_nothing(look, seconds=GRACE_SECONDS):
    """Waits until look() finds nothing, or for so many seconds; returns what it still finds."""
    deadline = time.monotonic() + seconds
    while True:
        found = look()
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.05)
