"""Where the time of a warm execute_code goes, hop by hop, beside the bare echo of each hop.

Nothing is traced, since an observer of each system call costs more than the call. Instead the same code runs through
less and less of the way: through the server; asked of a worker in the place of a server (bench_wire.py); asked of an
agent in the place of a worker; and the agent says how long its interpreter took. Between two of them lies one process.
Each process also answers something by itself, so that its hop is told apart from its work. All ways take turns, so a
machine that becomes slower meanwhile makes all of them slower.

What it costs to look is what the asker in the place of another costs, a few microseconds of Python for each way. The
parts are differences, so they add up to the whole call, but a small one may come out below nothing on a machine that
does other work. So there are two columns: medians, and the fastest tenth, in which others took the least.
"""

import ctypes
import json
import os
import re
import signal
import time

from bench_echo import NngEcho, PipeEcho, UnixEcho
from bench_memory import processes_of
from bench_wire import AgentPeer, WorkerPeer, poll

CODE = "1+1"
STAMP = '__import__("time").clock_gettime_ns(1)'  # CLOCK_MONOTONIC, which is the same in a sandbox
WARM_UP = 50
INSTANCE = "hops"
USER_INSTANCES = "/proc/sys/fs/inotify/max_user_instances"
PARTS = ("p50", "p10")


class Ways:
    """A server, a worker without one, an agent without a worker, a bare interpreter, and the echoes."""

    def __init__(self, start, tools, directory):
        self.start = start
        self.summary = lambda values: {**tools["summary"](values), "p10": tools["percentile"](values, 0.1)}
        self.server = start()
        self.sandbox = self.server.call("create_sandbox")["sandbox_id"]
        left = start("--instance", INSTANCE)
        ids = [left.call("create_sandbox")["sandbox_id"] for _ in range(2)]
        for sandbox in ids:
            left.call("execute_code", sandbox_id=sandbox, code=CODE)
        pid = left.call("get_sandbox_status", sandbox_id=ids[1])["worker"]["pid"]
        left.close()  # its sandboxes wait for the next server of its name
        os.kill(pid, signal.SIGKILL)
        self.agents = [tools["agent_pid"](sandbox) for sandbox in (self.sandbox, *ids)]
        place = [os.path.join(directory, INSTANCE, "sandboxes", sandbox) for sandbox in ids]
        found = {name: pid for pid, name in processes_of(self.sandbox).items()}
        worker = self.server.call("get_sandbox_status", sandbox_id=self.sandbox)["worker"]["pid"]
        self.pids = {"supervisor": self.server.child.pid, "worker": worker, "agent": found["agent"], "interpreter": found["interpreter"]}
        self.worker = WorkerPeer(os.path.join(place[0], "w1.sock"), ids[0], 1)
        self.agent = AgentPeer(os.path.join(place[1], "agent.sock"), ids[1], 2)
        self.bare = tools["Lines"]([tools["python"], "-u", "-c", tools["loop"]])
        self.pipe, self.unix = PipeEcho(), UnixEcho()
        try:
            self.nng = NngEcho(directory)
        except OSError:
            self.nng = None

    def through_server(self, code):
        self.server.write(self.server.call_line("execute_code", sandbox_id=self.sandbox, code=code))
        return self.server.read()

    def ping(self):
        self.server.write(self.server.line("ping", {}))
        return self.server.read()

    def through_bare(self):
        self.bare.write(json.dumps({"code": CODE}).encode() + b"\n")
        return self.bare.read()

    def close(self):
        for end in (self.worker, self.agent, self.bare, self.pipe, self.unix, self.nng):
            if end:
                end.close()
        self.server.close()
        last = self.start("--instance", INSTANCE)  # which takes over what the first has left
        poll("the sandboxes that were left are taken over", lambda: all(box["state"] == "ready" for box in last.call("get_sandbox_status")["sandboxes"]))
        last.child.send_signal(signal.SIGINT)
        last.close()


def bench_hops(start, directory, calls, tools):
    ways = Ways(start, tools, directory)
    try:
        blind = sum(not has_inotify(pid) for pid in ways.agents)
        return {"calls": calls, "blind": blind, **budget(ways, calls, tools["timed"]), **directions(ways, max(20, calls // 4)), **effort(ways, calls)}
    finally:
        ways.close()


def budget(ways, calls, timed):
    """Milliseconds of each way, and microseconds that the agent has measured."""
    sent = {"line": ways.server.call_line("execute_code", sandbox_id=ways.sandbox, code=CODE), "start": ways.worker.start(CODE.encode())}
    ways.worker.finish(ways.worker.ask_bytes(sent["start"]))
    outcomes = []
    spent = {name: [] for name in ("server", "ping", "worker", "worker_own", "agent", "agent_own", "bare", "pipe", "unix", "nng")}

    def answer(peer):
        request = peer.start(CODE.encode())
        got = []
        took = timed(lambda: got.append(peer.ask_bytes(request)))
        outcome = peer.finish(got[0])
        if outcome["result"] != b"2":
            raise SystemExit(f"code in the place of a server: {outcome}")
        if peer is ways.agent:
            outcomes.append(outcome)
        return took

    def own(peer, name, **values):
        request = peer.request(name, **values)
        return timed(lambda: peer.ask_bytes(request))

    steps = {
        "server": lambda: timed(lambda: ways.through_server(CODE)),
        "ping": lambda: timed(ways.ping),
        "worker": lambda: answer(ways.worker),
        "worker_own": lambda: own(ways.worker, "PING", value=1),
        "agent": lambda: answer(ways.agent),
        "agent_own": lambda: own(ways.agent, "CANCEL", op="none"),
        "bare": lambda: timed(ways.through_bare),
        "pipe": lambda: timed(lambda: ways.pipe.ask(sent["line"])),
        "unix": lambda: timed(lambda: ways.unix.ask(sent["start"])),
        "nng": lambda: timed(lambda: ways.nng.ask(sent["start"])),
    }
    if not ways.nng:
        del steps["nng"], spent["nng"]
    for number in range(WARM_UP + calls):
        for name, step in steps.items():
            took = step()
            if number >= WARM_UP:
                spent[name].append(took)
    del outcomes[:WARM_UP]
    found = {name: ways.summary(values) for name, values in spent.items()}
    found["run"] = ways.summary([outcome["duration_us"] / 1e3 for outcome in outcomes])
    found["cpu"] = ways.summary([outcome["cpu_us"] / 1e3 for outcome in outcomes])
    return {"ways": found, "hops": hops_of(found)}


# name: the way or what is left of a way without others, and the way that is its bare echo
HOPS = (
    ("client ↔ supervisor: a `ping`", ("ping",), "pipe"),
    ("supervisor: the call, its record, its end of nng", ("server", "ping", "worker"), None),
    ("supervisor ↔ worker over nng: a PING", ("worker_own",), "nng"),
    ("worker: the call, its deadline", ("worker", "worker_own", "agent"), None),
    ("worker ↔ agent: a CANCEL of nothing", ("agent_own",), "unix"),
    ("agent: the call, its figures", ("agent", "agent_own", "run"), None),
    ("agent ↔ interpreter: pipes, both woken", ("run", "cpu"), "pipe"),
    ("the driver's Python, by its CPU time", ("cpu",), "bare"),
)


def hops_of(ways):
    """The parts of a call, which add up to it: for medians and for the fastest tenth milliseconds, share and bare echo."""
    hops = []
    for name, (way, *without), echo in HOPS:
        hop = {"hop": name, "echo": echo if echo in ways else None}
        for part in PARTS:
            ms = ways[way][part] - sum(ways[other][part] for other in without)
            hop[part] = {"ms": ms, "share": ms / ways["server"][part]}
            if hop["echo"]:
                hop[part].update(echo_ms=ways[echo][part], ratio=ms / ways[echo][part])
        hops.append(hop)
    return hops


def directions(ways, calls):
    """The way there and the way back: the code tells the moment in which it runs."""
    found = {}
    for name, ask in (
        ("server", lambda: ways.through_server(STAMP)),
        ("worker", lambda: ways.worker.ask_bytes(ways.worker.start(STAMP.encode()))),
        ("agent", lambda: ways.agent.ask_bytes(ways.agent.start(STAMP.encode()))),
    ):
        there, back = [], []
        for _ in range(calls):
            begun = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
            answer = ask()
            ended = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
            stamp = re.search(rb"\d{10,}", answer)  # no other number of an answer is as long
            if stamp:  # one that took so long that it was answered before its end has none
                there.append((int(stamp.group()) - begun) / 1e6)
                back.append((ended - int(stamp.group())) / 1e6)
        found[name] = {"there": ways.summary(there), "back": ways.summary(back)}
    return {"directions": found}


def effort(ways, calls):
    """What a call takes of each process, by the kernel's own count: CPU time, and how often a thread of it had to be woken."""
    before = {name: effort_of(pid) for name, pid in ways.pids.items()}
    for _ in range(calls):
        ways.through_server(CODE)
    after = {name: effort_of(pid) for name, pid in ways.pids.items()}
    return {
        "effort": {name: {"cpu_us": (after[name][0] - before[name][0]) / 1e3 / calls, "wakes": (after[name][1] - before[name][1]) / calls} for name in before}
    }


def effort_of(pid):
    """Nanoseconds of CPU, and voluntary switches, of all threads."""
    cpu = wakes = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/schedstat", encoding="ascii") as file:
            cpu += int(file.read().split()[0])
        with open(f"/proc/{pid}/task/{thread}/status", encoding="utf-8") as file:
            wakes += next(int(line.split()[1]) for line in file if line.startswith("voluntary_ctxt_switches"))
    return cpu, wakes


def has_inotify(pid):
    """Whether this agent was given what tells it that a run has changed no file: without, each call ends with a look at all files."""
    place = f"/proc/{pid}/fd"
    return any(os.readlink(os.path.join(place, fd)) == "anon_inode:inotify" for fd in os.listdir(place))


def print_hops(report):
    whole = report["ways"]["server"]
    print(f"A warm `execute_code(\"{CODE}\")`, {report['calls']} of them: p10 {whole['p10'] * 1e3:.0f}, p50 {whole['p50'] * 1e3:.0f}, p99 {whole['p99'] * 1e3:.0f} µs")
    print()
    print("| hop, there and back | µs, p50 | share | p10 | share | its bare echo | µs, p50 | p10 | times, p50 | p10 |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    names = {"pipe": "a pipe to `cat`", "nng": "nng's req/rep", "unix": "a Unix socket", "bare": "a bare `python3` over a pipe"}
    for hop in report["hops"]:
        cells = [hop["hop"]]
        for part in PARTS:
            cells += [f"{hop[part]['ms'] * 1e3:.0f}", f"{hop[part]['share']:.0%}"]
        if hop["echo"]:
            cells += [names[hop["echo"]], *(f"{hop[part]['echo_ms'] * 1e3:.0f}" for part in PARTS), *(f"{hop[part]['ratio']:.1f}" for part in PARTS)]
        print("| " + " | ".join(cells) + " |")
    print()
    ways = report["directions"]
    outer = {"supervisor": ("server", "worker"), "worker": ("worker", "agent"), "agent and interpreter": ("agent", None)}
    print("| each way (by code that tells when it runs), p10 | there, µs | back, µs |")
    print("|---|---|---|")
    for name, (way, inner) in outer.items():
        parts = [(ways[way][half]["p10"] - (ways[inner][half]["p10"] if inner else 0)) * 1e3 for half in ("there", "back")]
        print(f"| {name} | {parts[0]:.0f} | {parts[1]:.0f} |")
    print()
    print("| of a call | CPU, µs | threads woken |")
    print("|---|---|---|")
    for name, figures in report["effort"].items():
        print(f"| {name} | {figures['cpu_us']:.0f} | {figures['wakes']:.1f} |")
    print()
    print("- the whole call: " + ", ".join(f"{whole[part] / report['ways']['bare'][part]:.1f} ({part})" for part in PARTS) + " times a bare `python3` over a pipe")
    if report["blind"]:
        print(
            f"- {report['blind']} of 3 sandboxes had no inotify, of which this user has too few ({USER_INSTANCES}): they end each call with a look at "
            "all files, so these are not the figures of a call; raise that limit, or end what holds it"
        )
