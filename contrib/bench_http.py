"""Many clients over HTTP at once, each with a session and a sandbox of its own and calls at a steady pace.

One loop without threads runs all clients, so that it uses little CPU compared with what it measures. A client
sends its next call `pause` seconds after the previous answer; 200 clients with a pause of a quarter of a
second make 800 calls a second, if they need not wait. Before and after, one client alone makes the same call:
over stdio to a server of its own, and over HTTP to this one.
"""

import collections
import json
import os
import random
import resource
import selectors
import socket
import subprocess
import time

CALL = "1+1"
CREATED_AT_ONCE = 4
ALONE_SECONDS = 4.0
GIVE_UP_SECONDS = 120.0


def raise_limits(wanted):
    """Raises the limits on descriptors: ours for the clients, and the server's, which inherits it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, wanted))
        except (ValueError, OSError):
            raise SystemExit(f"{wanted} open files are needed and {hard} are allowed; raise `ulimit -Hn`") from None
    elif soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class HttpServer:
    """Cloister with --http, and small sandboxes so that many fit."""

    def __init__(self, program, directory, sessions):
        options = {
            "--runtime-dir": directory,
            "--http": "127.0.0.1:0",
            "--log-level": "warn",
            "--max-sandboxes": sessions + 8,
            "--max-sessions": sessions + 64,
            "--max-connections": 2 * sessions + 64,
            "--memory-mb": 64,
            "--memory-budget-mb": 64 * (sessions + 8),
            "--pids": 32,
            "--disk-mb": 16,
        }
        command = [program, *(str(word) for pair in options.items() for word in pair)]
        self.child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=dict(os.environ, CLOISTER_BACKEND="oci", CLOISTER_RESULTS="structured", CLOISTER_POOL="0")
        )
        self.log = []
        while True:
            line = self.child.stderr.readline().decode("utf-8", "replace")
            if line == "":
                raise SystemExit("the server did not start:\n" + "".join(self.log))
            self.log.append(line)
            if "listening on http://" in line:
                self.address = line.split("http://", 1)[1].split("/", 1)[0]
                break
        os.set_blocking(self.child.stderr.fileno(), False)

    def close(self):
        self.child.terminate()
        rest = self.child.communicate(timeout=30)[1]
        self.log.append((rest or b"").decode("utf-8", "replace"))
        return self.child.returncode


class Client:
    """One connection, one session, one sandbox, one call at a time."""

    def __init__(self, server):
        host, _, port = server.address.rpartition(":")
        self.address = server.address
        self.socket = socket.create_connection((host.strip("[]"), int(port)))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.session = None
        self.sandbox = None
        self.worker = None
        self.number = 0
        self.received = b""
        self.begun = None
        self.then = None  # the callback for the answer

    def request(self, method, params, then):
        self.number += 1
        message = {"jsonrpc": "2.0", "id": self.number, "method": method, "params": params}
        self.post(json.dumps(message).encode(), then)

    def post(self, body, then):
        session = f"Mcp-Session-Id: {self.session}\r\nMCP-Protocol-Version: 2025-11-25\r\n" if self.session else ""
        head = (
            f"POST /mcp HTTP/1.1\r\nHost: {self.address}\r\nContent-Type: application/json\r\n"
            f"Accept: application/json, text/event-stream\r\n{session}Content-Length: {len(body)}\r\n\r\n"
        )
        self.then = then
        self.begun = time.perf_counter()
        data = head.encode() + body
        if self.socket.send(data) != len(data):
            raise OSError("a request of a few hundred bytes did not fit")

    def call(self, tool, then, **arguments):
        self.request("tools/call", {"name": tool, "arguments": arguments}, then)

    def take(self):
        """Reads; returns (status, head, message or None) when a response is complete, else None."""
        data = self.socket.recv(1 << 18)
        if not data:
            raise OSError("the server has closed the connection")
        self.received += data
        head, gap, body = self.received.partition(b"\r\n\r\n")
        if not gap:
            return None
        fields = {}
        lines = head.decode("latin-1").split("\r\n")
        for line in lines[1:]:
            name, _, value = line.partition(":")
            fields[name.strip().lower()] = value.strip()
        if fields.get("transfer-encoding") == "chunked":
            if not body.endswith(b"0\r\n\r\n"):
                return None
            events = [line for line in body.replace(b"\r\n", b"\n").split(b"\n") if line.startswith(b"data: {")]
            text = events[-1][6:] if events else b""
        else:
            length = int(fields.get("content-length", "0"))
            if len(body) < length:
                return None
            text = body
        self.received = b""
        return int(lines[0].split()[1]), fields, json.loads(text) if text else None


class Crowd:
    """All clients, and their loop."""

    def __init__(self, server, count):
        self.server = server
        self.selector = selectors.DefaultSelector()
        self.clients = [Client(server) for _ in range(count)]
        for client in self.clients:
            self.selector.register(client.socket, selectors.EVENT_READ, client)
        self.errors = collections.Counter()
        self.waiting = collections.deque()  # (when, client), in order
        self.under_way = 0

    def error(self, what):
        self.errors[str(what)[:200]] += 1
        self.under_way -= 1

    def run(self, on_due=None):
        """Runs until no request is pending and no client waits for its next call."""
        limit = time.perf_counter() + GIVE_UP_SECONDS
        while self.under_way > 0 or self.waiting:
            now = time.perf_counter()
            while self.waiting and self.waiting[0][0] <= now:
                on_due(self.waiting.popleft()[1])
            rest = self.waiting[0][0] - now if self.waiting else 1.0
            found = self.selector.select(max(0.0, min(rest, 1.0)))
            if found:
                limit = time.perf_counter() + GIVE_UP_SECONDS
            elif not self.waiting and time.perf_counter() > limit:
                self.errors["no answer"] += self.under_way
                return
            for key, _ in found:
                self.readable(key.data)

    def readable(self, client):
        try:
            response = client.take()
        except (OSError, ValueError, IndexError) as problem:
            self.selector.unregister(client.socket)
            self.error(problem)
            return
        if response is not None:
            self.answered(client, *response)

    def answered(self, client, status, fields, message):
        now = time.perf_counter()
        seconds, then = now - client.begun, client.then
        if client.session is None:
            client.session = fields.get("mcp-session-id")
        if then is None:
            self.under_way -= 1
        elif status != 200 or message is None or "error" in message or message["result"].get("isError"):
            self.error(f"{status} {json.dumps(message)[:160]}")
        else:
            self.under_way -= 1
            then(client, message["result"], seconds)

    def each(self, start, at_once):
        """Calls start(client) for all, with a limited number pending; it begins exactly one request."""
        left = collections.deque(self.clients)
        while left or self.under_way > 0:
            while left and self.under_way < at_once:
                self.under_way += 1
                start(left.popleft())
            for key, _ in self.selector.select(1.0):
                self.readable(key.data)

    # ---- the clients' calls ----

    def open_sessions(self):
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
        self.each(lambda c: c.request("initialize", hello, lambda *_: None), 32)
        ready = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
        self.each(lambda c: c.post(ready, None), 32)

    def open_sandboxes(self):
        def made(client, result, _):
            client.sandbox = result["structuredContent"]["sandbox_id"]

        def known(client, result, _):
            client.worker = result["structuredContent"]["worker"]["pid"]

        self.each(lambda c: c.call("create_sandbox", made), CREATED_AT_ONCE)
        ready = [c for c in self.clients if c.sandbox]
        if len(ready) < len(self.clients):
            raise SystemExit(f"{len(ready)} of {len(self.clients)} sandboxes could be created: {dict(self.errors)}")
        self.each(lambda c: c.call("execute_code", lambda *_: None, sandbox_id=c.sandbox, code=CALL), CREATED_AT_ONCE)
        self.each(lambda c: c.call("get_sandbox_status", known, sandbox_id=c.sandbox), 32)

    def close_all(self):
        self.each(lambda c: c.call("close_sandbox", lambda *_: None, sandbox_id=c.sandbox), CREATED_AT_ONCE)
        for client in self.clients:
            client.socket.close()

    def steady(self, clients, seconds, pause):
        """Calls of these clients for so many seconds; returns (milliseconds of each, calls a second)."""
        spent = []
        until = time.perf_counter() + seconds

        def call(client):
            self.under_way += 1
            client.call("execute_code", done, sandbox_id=client.sandbox, code=CALL)

        def done(client, result, taken):
            spent.append(taken * 1e3)
            if result["structuredContent"].get("result") != "2":
                self.errors[f"a wrong result: {json.dumps(result)[:160]}"] += 1
            due = time.perf_counter() + pause
            if due < until:
                self.waiting.append((due, client))

        begun = time.perf_counter()
        rng = random.Random(1)
        self.waiting = collections.deque(sorted(((begun + rng.random() * pause, c) for c in clients), key=lambda w: w[0]))
        self.run(call)
        return spent, len(spent) / (time.perf_counter() - begun)


def alone_over_stdio(server, seconds, timed):
    """The same call by one client over a pipe, sequentially."""
    sandbox = server.call("create_sandbox")["sandbox_id"]
    line = lambda: server.call_line("execute_code", sandbox_id=sandbox, code=CALL)  # noqa: E731

    def call():
        server.write(line())
        return server.read()

    for _ in range(50):
        call()
    spent, until = [], time.perf_counter() + seconds
    while time.perf_counter() < until:
        spent.append(timed(call))
    server.call("close_sandbox", sandbox_id=sandbox)
    return spent


def bench_http(options, directory, stdio_server, tools):
    """`tools`: functions of the main program: summary, timed, rollup, agent_pid."""
    sessions = options.http
    raise_limits(16 * sessions + 512)
    stdio = alone_over_stdio(stdio_server, ALONE_SECONDS, tools["timed"])
    server = HttpServer(options.program, directory, sessions)
    memory = {}

    def supervisor(when):
        memory[when] = tools["rollup"](server.child.pid)["pss_kb"]

    try:
        supervisor("start")
        crowd = Crowd(server, sessions)
        crowd.open_sessions()
        supervisor("sessions")
        begun = time.perf_counter()
        crowd.open_sandboxes()
        created = time.perf_counter() - begun
        supervisor("sandboxes")
        http, _ = crowd.steady(crowd.clients[:1], ALONE_SECONDS, 0.0)
        many, rate = crowd.steady(crowd.clients, options.seconds, options.pause)
        supervisor("load")
        few = crowd.clients[:: max(1, sessions // 20)]  # finding an agent reads all processes
        workers = [tools["rollup"](c.worker)["pss_kb"] for c in crowd.clients]
        agents = [tools["rollup"](pid)["pss_kb"] for pid in (tools["agent_pid"](c.sandbox) for c in few) if pid]
        crowd.close_all()
    finally:
        status = server.close()
    if status != 0:
        crowd.errors[f"the server ended with {status}: {''.join(server.log)[-500:]}"] += 1
    summary = tools["summary"]
    return {
        "sessions": sessions,
        "seconds": options.seconds,
        "pause": options.pause,
        "errors": dict(crowd.errors),
        "created_per_second": sessions / created,
        "stdio_alone": summary(stdio),
        "http_alone": summary(http),
        "http_many": {**summary(many), "calls_per_second": rate},
        "memory": {
            "supervisor_kb": memory,
            "session_kb": (memory["sessions"] - memory["start"]) / sessions,
            "session_with_sandbox_kb": (memory["load"] - memory["start"]) / sessions,
            "worker_kb": sum(workers) / len(workers),
            "agent_kb": sum(agents) / len(agents) if agents else 0,
        },
    }


def print_http(report, row):
    memory = report["memory"]
    print("| milliseconds | n | p50 | p95 | p99 |")
    print("|---|---|---|---|---|")
    print(row('`execute_code("1+1")` over stdio, one client alone', report["stdio_alone"]))
    print(row("the same over HTTP, one client alone", report["http_alone"]))
    print(row(f"{report['sessions']} HTTP sessions at once, each with its sandbox", report["http_many"]))
    print()
    many = report["http_many"]
    print(f"- errors: {sum(report['errors'].values())}" + "".join(f"\n  - {n}: {what}" for what, n in report["errors"].items()))
    print(f"- {many['calls_per_second']:.0f} calls a second for {report['seconds']:g} s; each client paused {report['pause']:g} s between calls")
    print(f"- over HTTP alone: {report['http_alone']['p50'] / report['stdio_alone']['p50']:.2f} times stdio (p50)")
    print(f"- all at once: {many['p50'] / report['stdio_alone']['p50']:.1f} times stdio alone (p50), p99 {many['p99']:.1f} ms")
    print(f"- {report['created_per_second']:.1f} sandboxes created a second, {CREATED_AT_ONCE} at a time")
    print()
    print("| kB, proportional, of one session | |")
    print("|---|---|")
    print(f"| supervisor, session without a sandbox | {memory['session_kb']:.1f} |")
    print(f"| supervisor, session with a sandbox in use | {memory['session_with_sandbox_kb']:.1f} |")
    print(f"| worker | {memory['worker_kb']:.0f} |")
    print(f"| agent | {memory['agent_kb']:.0f} |")
