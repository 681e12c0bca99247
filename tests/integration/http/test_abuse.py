"""Clients over HTTP that are slow, broken, greedy or gone. Each time the server must go on, its memory and
descriptors stay bounded, and a bystander, who makes calls all the while, is not affected."""

import concurrent.futures
import json
import os
import random
import resource
import socket
import struct
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # pylint: disable=wrong-import-position

from common import LATEST_LEGACY, MODERN, Suite, contains, equal, needs_runtime, poll
from http_wire import Raw, head_bytes
from mcp import status_of
from mcp_http import EVENTS, JSON, HttpServer, SseClient

needs_runtime()
suite = Suite()

BOTH = [("Content-Type", JSON), ("Accept", f"{JSON}, {EVENTS}")]
PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
MIB = 1 << 20
INPUT_SECONDS = 30  # timeout for receiving a request
CALLS = 100  # minimum calls of the bystander
P99_SECONDS = 1.0  # with sanitizers, without the time for which other programs had the processors; some 10 ms on an idle machine
SLOWEST_SECONDS = 8.0
GROWTH_KB = 128 * 1024  # of resident memory: the limit of bodies and their overhead

hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))

# Memory that the sanitizer quarantines would count as the server's.
SANITIZER = os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=8:detect_leaks=1"

NONSENSE = [
    # must not be parsed as a request
    b"\r\n\r\n\r\n",
    b"hello\r\n\r\n",
    b"GET\r\n\r\n",
    b"GET /mcp\r\n\r\n",
    b"GET /mcp HTTP/9.9\r\nHost: localhost\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
    b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999999\r\n\r\n",
    b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4x\r\n\r\nping",
    b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
    b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n{}\r\n",
    b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: cow\r\n\r\n{}",
    b"GET /%zz%00%ff/../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET http://evil.example.com/mcp HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /mcp HTTP/1.1\r\nHost: local\0host\r\n\r\n",
    b"GET /mcp HTTP/1.1\r\nHost: localhost\r\nMcp-Session-Id: a\0b\r\n\r\n",
    b"GET /mcp HTTP/1.1\r\nHost: localhost\r\n: nothing\r\n\r\n",
    b"GET /mcp HTTP/1.1\r\nHost : localhost\r\n\r\n",
    b"GET /mcp HTTP/1.1\nHost: localhost\n\n",
    b"\xff" * 4000 + b"\r\n\r\n",
]


def resident_kb(pid):
    return int(status_of(pid)["VmRSS"].split()[0])


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def stalled_seconds(paths):
    """The time for which threads have waited for a processor so far, from their schedstat files."""
    total = 0
    for path in paths:
        try:
            with open(path, encoding="ascii") as file:
                total += int(file.read().split()[1])
        except OSError:  # the kernel does not count it
            pass
    return total / 1e9


class Bystander:
    """A client with a session and a sandbox that makes one call after the other, on a connection of its own."""

    def __init__(self, server):
        self.client = server.client(LATEST_LEGACY)
        self.sandbox = self.client.call("create_sandbox")["sandbox_id"]
        self.client.run("1", sandbox_id=self.sandbox)
        self.server = server
        self.seconds = []
        self.problems = []
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.work, daemon=True)
        self.thread.start()

    def work(self):
        call = {"name": "execute_code", "arguments": {"code": "1 + 1", "sandbox_id": self.sandbox}}
        body = json.dumps({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": call}).encode()
        request = head_bytes(self.server.place, "POST", "/mcp", self.client.headers_for(None), len(body)) + body
        # other programs of this machine may keep the processors, which is not the server's fault
        stalled = [f"/proc/self/task/{threading.get_native_id()}/schedstat", f"/proc/{self.server.process.pid}/schedstat"]
        try:
            with Raw(self.server.place) as raw:
                while not self.over.is_set():
                    begun = time.monotonic() - stalled_seconds(stalled)
                    raw.send(request)
                    head, answer = raw.response()
                    self.seconds.append(time.monotonic() - stalled_seconds(stalled) - begun)
                    if head.status != 200 or b'"2"' not in answer:
                        self.problems.append((head.status, answer[:200]))
                    self.over.wait(0.01)
        except (OSError, EOFError, ValueError) as problem:
            self.problems.append(problem)

    def end(self):
        """Fails if the bystander was affected."""
        poll("calls of somebody else", lambda: len(self.seconds) >= CALLS or self.problems)
        self.over.set()
        self.thread.join(30)
        equal(self.problems, [], "what somebody else noticed")
        ordered = sorted(self.seconds)
        p99, most = ordered[int(len(ordered) * 0.99)], ordered[-1]
        print(f"# somebody else: {len(ordered)} calls, p50 {ordered[len(ordered) // 2] * 1e3:.1f} ms, p99 {p99 * 1e3:.1f} ms, most {most * 1e3:.0f} ms")
        assert p99 < P99_SECONDS and most < SLOWEST_SECONDS, f"p99 {p99:.2f} s, most {most:.2f} s"
        self.client.call("close_sandbox", sandbox_id=self.sandbox)


class Scene:
    """A server under attack, and its bystander. The same processes and descriptors must be there at the end
    as at the beginning."""

    def __init__(self, *options):
        self.server = HttpServer(*options, env={"ASAN_OPTIONS": SANITIZER})
        self.bystander = Bystander(self.server)
        self.pid = self.server.process.pid
        self.memory, self.files = resident_kb(self.pid), descriptors(self.pid)
        self.most = self.memory
        self.sockets = []

    def connect(self, **how):
        made = self.server.place.connect(**how)
        self.sockets.append(made)
        return made

    def look(self):
        self.most = max(self.most, resident_kb(self.pid))

    def __enter__(self):
        return self

    def __exit__(self, kind, problem, trace):
        self.look()
        for made in self.sockets:
            made.close()
        if kind is not None:
            self.server.__exit__(kind, problem, trace)
            return
        poll("its connections are closed", lambda: descriptors(self.pid) <= self.files + 2)
        self.bystander.end()
        print(f"# the server's memory: {self.memory} kB before, {self.most} kB at most, {resident_kb(self.pid)} kB behind it")
        assert self.most - self.memory < GROWTH_KB, f"grew by {self.most - self.memory} kB"
        for client in self.server.clients:
            client.unmatched.clear()
        self.server.close()


def post_head(server, length, more=()):
    return head_bytes(server.place, "POST", "/mcp", [*BOTH, *more], length)


def is_over(sock):
    """Whether the server has closed it, whatever it sent before."""
    sock.setblocking(False)
    try:
        while sock.recv(65536):
            pass
        return True
    except BlockingIOError:
        return False
    except OSError:
        return True


def drip(sock, data):
    try:
        sock.send(data)
        return True
    except OSError:
        return False


# ---- slow, silent and broken clients; cases in which the server waits for bytes that never come run beside each other ----


@suite.case("heads and bodies that come a byte at a time are given up, and nobody waits for them", beside=True)
def slow_clients():
    with Scene() as scene:
        begun = time.monotonic()
        slow = []
        for number in range(240):
            made = scene.connect()
            if number % 3 == 0:
                made.sendall(b"POST /mcp HTTP/1.1\r\nHo")
            elif number % 3 == 1:
                made.sendall(post_head(scene.server, 1000) + PING[:10])
            else:
                made.sendall(head_bytes(scene.server.place, "POST", "/mcp", [*BOTH, ("Transfer-Encoding", "chunked")]) + b"3e8\r\n{")
            slow.append(made)
        closed = {}
        while len(closed) < len(slow) and time.monotonic() - begun < INPUT_SECONDS + 25:
            for index, made in enumerate(slow):
                if index not in closed and (is_over(made) or not drip(made, b" ")):
                    closed[index] = time.monotonic() - begun
            scene.look()
            time.sleep(0.7)
        equal(len(closed), len(slow), "slow clients that were given up")
        first, last = min(closed.values()), max(closed.values())
        print(f"# given up after {first:.0f} to {last:.0f} s")
        assert first > 5, "a client may be a little slow"


@suite.case("clients that vanish in the middle of everything leave nothing behind", beside=True)
def vanishing():
    with Scene() as scene:
        client = scene.server.client(LATEST_LEGACY)
        session = client.session_headers()
        whole = post_head(scene.server, len(PING), session) + PING
        standing = head_bytes(scene.server.place, "GET", "/mcp", [("Accept", EVENTS), *session])
        old = head_bytes(scene.server.place, "GET", "/sse", [("Accept", EVENTS)])
        rng = random.Random(7)
        for number in range(600):
            made = scene.server.place.connect()
            text = rng.choice((whole, standing, old, whole * 3))
            made.sendall(text[: rng.randrange(1, len(text) + 1)])
            if number % 2:  # every other one by a reset
                made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            made.close()
        equal(client.request("ping"), {})


@suite.case("bytes that are no HTTP are refused or ignored, and never taken for a request", beside=True)
def nonsense():
    with Scene() as scene:
        rng = random.Random(11)
        tries = NONSENSE + [rng.randbytes(rng.randrange(1, 3000)) for _ in range(100)]
        whole = post_head(scene.server, len(PING)) + PING
        for _ in range(200):
            broken = bytearray(whole)
            for _ in range(rng.randrange(1, 6)):
                broken[rng.randrange(len(broken))] = rng.randrange(256)
            tries.append(bytes(broken))

        def refused_or_ignored(data):
            with Raw(scene.server.place) as raw:
                try:
                    raw.send(data)
                    raw.socket.shutdown(socket.SHUT_WR)
                    status = raw.response(1)[0].status
                    assert status >= 400, f"{data[:200]!r} was answered with {status}"
                except (OSError, EOFError, ValueError, IndexError):
                    pass  # closed, or ignored because more bytes may come

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(refused_or_ignored, tries))
        equal(scene.server.client(LATEST_LEGACY).request("ping"), {})


@suite.case("connections that say nothing do not keep others out, however many they are")
def silent_connections():
    with Scene("--max-connections", "300") as scene:
        for _ in range(1500):
            scene.connect()
            if len(scene.sockets) % 100 == 0:
                equal(scene.server.client(LATEST_LEGACY).request("ping"), {}, f"behind {len(scene.sockets)} silent connections")
        scene.look()
        assert descriptors(scene.pid) < scene.files + 400, descriptors(scene.pid)


@suite.case("more than a thousand connections that are in use are served at once")
def many_connections():
    with Scene("--max-connections", "2000", "--max-sessions", "2000") as scene:
        server = scene.server
        client = server.client(LATEST_LEGACY)
        request = post_head(server, len(PING), client.session_headers()) + PING
        open_ones = [Raw(server.place) for _ in range(1200)]
        for round_number in range(2):
            for raw in open_ones:
                raw.send(request)
            for raw in open_ones:
                head, body = raw.response()
                equal((head.status, json.loads(body)["result"]), (200, {}), f"round {round_number}")
        scene.look()
        for raw in open_ones:
            raw.close()


# ---- large requests ----


def answered(place, data):
    """The status of the response; None if the connection was reset first, by a server that has not read everything."""
    with Raw(place) as raw:
        try:
            raw.send(data)
            status = raw.response(INPUT_SECONDS + 10)[0].status
        except TimeoutError:
            raise
        except (ConnectionError, EOFError):
            return None
        if status != 200:
            assert raw.is_closed(INPUT_SECONDS + 10), f"the connection goes on behind {status}"
        return status


def large_heads_of(who):
    """Heads that are refused for their size alone: the rest of the request would be accepted."""
    with Scene() as scene:
        place = scene.server.place
        client = scene.server.client(LATEST_LEGACY)
        session, body = who(client)

        def request(*more, path="/mcp"):
            return head_bytes(place, "POST", path, [*BOTH, *session, *more], len(body)) + body

        equal(answered(place, request(("X-Long", "x" * 16384))), 200, "one that is not too large")
        for what, data in (
            ("a long header", request(("X-Long", "x" * 100000))),
            ("one a little too long", request(("X-Long", "x" * 33000))),
            ("many headers", request(*((f"X-{i}", "y") for i in range(20000)))),
            ("a long path", request(path="/mcp?" + "a" * 100000)),
            ("a long session id", request(("Mcp-Session-Id", "z" * 60000))),
            ("a line without end", b"GET /" + b"a" * 300000),
        ):
            for _ in range(5):
                contains((414, 431, None), answered(place, data), what)
        equal(client.request("ping"), {})
        scene.look()


@suite.case("heads that are too large are refused, and the connection closed, for a client with a session")
def large_heads():
    large_heads_of(lambda client: (client.session_headers(), PING))


@suite.case("heads that are too large are refused for a client without a session")
def large_heads_without_session():
    params = {"protocolVersion": LATEST_LEGACY, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    first = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).encode()
    large_heads_of(lambda client: ([], first))


@suite.case("bodies that are too large are refused before they are sent, or while they are")
def large_bodies():
    with Scene() as scene:
        server = scene.server
        client = server.client(LATEST_LEGACY)
        for length in (17 * MIB, 1 << 40, (1 << 63) - 1):
            with server.raw() as raw:
                raw.send(post_head(server, length, client.session_headers()))
                equal(raw.response()[0].status, 413, f"{length} bytes announced")
        with server.raw() as raw:
            raw.send(post_head(server, 17 * MIB, [*client.session_headers(), ("Expect", "100-continue")]))
            equal(raw.response()[0].status, 413, "asked before it is sent")
        with server.raw() as raw:
            raw.send(head_bytes(server.place, "POST", "/mcp", [*BOTH, *client.session_headers(), ("Transfer-Encoding", "chunked")]))
            chunk = b"100000\r\n" + b" " * MIB + b"\r\n"
            taken, until = 0, time.monotonic() + 60
            try:
                while time.monotonic() < until:  # bytes after the refusal are read for a moment, and dropped
                    raw.send(chunk)
                    taken += 1
                    scene.look()
                raise AssertionError(f"it still reads, after {taken} MiB")
            except OSError:
                pass
        big = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"x": "y" * (15 * MIB)}}).encode()
        equal(client.post(big).wait().head.status, 200, "just under the limit")
        scene.look()


@suite.case("many bodies at once are bounded together")
def many_bodies():
    with Scene() as scene:
        server = scene.server
        begun = [scene.connect() for _ in range(40)]
        for made in begun:
            made.sendall(post_head(server, 12 * MIB))
        part = b" " * MIB
        for _ in range(11):
            for made in begun:
                made.settimeout(2)
                drip(made, part)
            scene.look()
        equal(server.client(LATEST_LEGACY).request("ping"), {}, "a small one beside them")


@suite.case("requests that are sent without reading any answer do not pile up")
def pipelining():
    with Scene() as scene:
        server = scene.server
        client = server.client(LATEST_LEGACY)
        body = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
        request = post_head(server, len(body), client.session_headers()) + body
        for _ in range(8):
            made = scene.connect(receive_buffer=4096)
            made.setblocking(False)
            sent, stuck = 0, time.monotonic()
            while time.monotonic() - stuck < 0.5 and sent < 64 * MIB:
                try:
                    sent += made.send(request * 50)
                    stuck = time.monotonic()
                except BlockingIOError:
                    time.sleep(0.02)
                scene.look()
            assert sent < 64 * MIB, "the server reads on though nobody reads its answers"
        equal(client.request("ping"), {})


# ---- clients that stop reading ----


@suite.case("readers who stop reading cost themselves their stream, and the server no memory")
def stalled_readers():
    with Scene() as scene:
        server = scene.server
        writer = server.client(LATEST_LEGACY)
        box = writer.call("create_sandbox")["sandbox_id"]
        writer.call("write_file", path="big", content="b" * 900000, sandbox_id=box)
        uri = f"sandbox://{box}/workspace/big"
        for _ in range(20):
            stalled = server.client(LATEST_LEGACY)
            stalled.request("resources/subscribe", {"uri": uri})
            made = scene.connect(receive_buffer=2048)
            made.sendall(head_bytes(server.place, "GET", "/mcp", [("Accept", EVENTS), *stalled.session_headers()]))
        read = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": uri}}).encode()
        for _ in range(30):
            made = scene.connect(receive_buffer=2048)
            made.sendall(post_head(server, len(read), writer.session_headers()) + read)
        for number in range(60):
            writer.call("write_file", path="small", content=str(number), sandbox_id=box)
            scene.look()
        code = "for i in range(40000): print('o' * 60)"
        noisy = {"name": "execute_code", "arguments": {"code": code, "sandbox_id": box}, "_meta": {"progressToken": 1}}
        body = json.dumps({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": noisy}).encode()
        made = scene.connect(receive_buffer=2048)
        made.sendall(post_head(server, len(body), writer.session_headers()) + body)
        poll("the code of who does not read has ended", lambda: writer.run("7", sandbox_id=box).get("result") == "7")
        writer.call("close_sandbox", sandbox_id=box)


@suite.case("the oldest clients: one that posts and does not read gets an error or is disconnected")
def stalled_old_client():
    with Scene() as scene:
        server = scene.server
        writer = server.client(LATEST_LEGACY)
        box = writer.call("create_sandbox")["sandbox_id"]
        writer.call("write_file", path="big", content="b" * 900000, sandbox_id=box)
        made = scene.connect(receive_buffer=2048)
        made.sendall(head_bytes(server.place, "GET", "/sse", [("Accept", EVENTS)]))
        seen = b""
        while b"sessionId=" not in seen or not seen.split(b"sessionId=")[1].strip().split(b"\n")[0]:
            seen += made.recv(1024)
            if seen.count(b"\n\n") + seen.count(b"\r\n\r\n") >= 2:
                break
        path = "/messages?sessionId=" + seen.split(b"sessionId=")[1].split()[0].decode()
        read = {"name": "read_file", "arguments": {"path": "big", "sandbox_id": box}}
        params = {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        statuses = [server.ask("POST", path, BOTH, json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}).encode()).head.status]
        until = time.monotonic() + 60
        while len(statuses) < 200 or (set(statuses) == {202} and time.monotonic() < until):  # the answers may come later than the calls
            body = json.dumps({"jsonrpc": "2.0", "id": len(statuses), "method": "tools/call", "params": read}).encode()
            statuses.append(server.ask("POST", path, BOTH, body).head.status)
            scene.look()
        equal(statuses[0], 202)
        assert set(statuses[1:]) - {202}, f"{len(statuses)} calls without reading were all taken"
        assert set(statuses) <= {202, 404, 503, 429}, set(statuses)
        old = server.client("2024-11-05", kind=SseClient)
        equal(old.request("ping"), {})
        writer.call("close_sandbox", sandbox_id=box)


# ---- ambiguous requests ----


@suite.case("a request whose length can be read in two ways is refused, with what follows it")
def smuggling():
    with Scene() as scene:
        hidden = b"GET /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n"
        head = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: */*\r\n"
        for what, data in (
            ("length and chunks", head + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden),
            ("two lengths", head + b"Content-Length: 2\r\nContent-Length: 40\r\n\r\n{}" + hidden),
            ("a list of lengths", head + b"Content-Length: 2, 40\r\n\r\n{}" + hidden),
            ("chunks by another name", head + b"Transfer-Encoding: identity, chunked\r\nContent-Length: 2\r\n\r\n{}" + hidden),
        ):
            with Raw(scene.server.place) as raw:
                raw.send(data)
                try:
                    contains((400, 411, 413, 501), raw.response()[0].status, what)
                except (ConnectionError, EOFError):
                    continue  # closed at once, with unread bytes
                assert raw.is_closed(20), f"{what}: the connection goes on"


# ---- many clients ----


@suite.case("sessions beyond the limit take the place of idle ones, never of busy ones")
def many_sessions():
    with Scene("--max-sessions", "40", "--max-connections", "400") as scene:
        server = scene.server
        busy = server.client(LATEST_LEGACY)
        stream = busy.listen()
        equal(stream.status(), 200)
        params = {"protocolVersion": LATEST_LEGACY, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).encode()
        request = post_head(server, len(body)) + body
        names = []
        with server.raw() as raw:
            for _ in range(600):
                raw.send(request)
                head, answer = raw.response()
                equal(head.status, 200, answer[:200])
                names.append(head.get("mcp-session-id"))
        scene.look()
        alive = [n for n in names if server.ask("POST", "/mcp", [*BOTH, ("Mcp-Session-Id", n)], PING).head.status == 200]
        assert 0 < len(alive) <= 40, len(alive)
        contains(alive, names[-1], "the newest session")
        equal(busy.request("ping"), {}, "a session with a stream")
        # when all are in use, the next client is told to try again later
        holders = []
        status = 200
        for _ in range(60):
            client = server.client()
            answer = client.post(body).wait()
            status = answer.head.status
            if status != 200:
                equal((status, answer.get("retry-after") is not None), (503, True))
                break
            holders.append(client.listen())
            equal(holders[-1].status(), 200)
        equal(status, 503, "all sessions are in use")
        for held in holders:
            held.drop()


@suite.case("hundreds of listeners each get what they asked for, and are gone when they go")
def many_listeners():
    with Scene("--max-connections", "1500") as scene:
        server = scene.server
        client = server.client(MODERN)
        box = client.call("create_sandbox")["sandbox_id"]
        wanted = {"resourceSubscriptions": [f"sandbox://{box}/workspace/"]}
        listeners = [client.start("subscriptions/listen", {"notifications": wanted}) for _ in range(250)]
        poll("all are acknowledged", lambda: all(p.exchange.events for p in listeners))
        client.call("write_file", path="a", content="1", sandbox_id=box)
        poll("all are told", lambda: all(len(p.exchange.events) >= 2 for p in listeners))
        scene.look()
        for pending in listeners:
            pending.exchange.drop()
        client.call("close_sandbox", sandbox_id=box)


@suite.case("a principal's listeners have a limit, and what is beyond it is an error")
def too_many_listeners():
    with Scene("--max-connections", "3000") as scene:
        server = scene.server
        client = server.client(MODERN)
        body = {"notifications": {"toolsListChanged": True}}
        answers = []
        for number in range(1300):
            pending = client.start("subscriptions/listen", body)
            if number % 100 == 99 or number > 1020:
                status = pending.exchange.status()
                if not pending.exchange.is_stream():
                    answers.append((status, pending.error()["code"]))
                    break
        scene.look()
        print(f"# {number + 1} listeners, then {answers}")
        assert answers, "1300 listeners of one principal were taken"
        client.hang_up()


suite.run()
