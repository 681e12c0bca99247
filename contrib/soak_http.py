"""The part of soak for HTTP: sessions, streams and listeners that begin and end, some of them abruptly, and
nothing of them stays.

One round: a session of each revision that has them, with a standing stream, a subscription, calls, a stream
that is lost and resumed, and an end by DELETE or by disconnecting; then requests of the latest revision and a
listener; the old pair of endpoints; a few broken connections. Between two samples nothing is open except
abandoned sessions, which the server keeps for the second of the idle timeout here.
"""

import json
import random
import socket
import struct
import time

from mcp import LEGACY, MODERN
from mcp_http import HttpServer, SseClient

SAMPLES = 50


class Rounds:
    def __init__(self, server, sandbox):
        self.server = server
        self.sandbox = sandbox
        self.rng = random.Random("soak over HTTP")
        self.number = 0

    def one(self):
        self.number += 1
        version = LEGACY[1 + self.number % 3]
        self.session(version)
        self.modern()
        if self.number % 2:
            self.old_pair()
        self.broken()
        for client in self.server.clients:
            client.hang_up()
            client.unmatched.clear()  # replayed messages come twice
            client.check_wire()
        self.server.clients.clear()

    def check(self, answer):
        """Requires 42 in some form; older revisions have text only."""
        if "42" not in json.dumps(answer):
            raise SystemExit(f"round {self.number}: {json.dumps(answer)[:500]}")

    def call(self, client):
        return client.start_call("execute_code", code="6 * 7", sandbox_id=self.sandbox)

    def session(self, version):
        client = self.server.client(version)
        stream = client.listen()
        client.request("resources/subscribe", {"uri": f"sandbox://{self.sandbox}/workspace/"})
        for pending in [self.call(client) for _ in range(3)]:
            self.check(pending.result())
        lost = client.start_noted(1, "execute_code", code="print(6 * 7)", sandbox_id=self.sandbox)
        if self.rng.random() < 0.5:
            lost.exchange.drop()
        else:
            self.check(lost.result())
        if stream.events:
            stream.drop()
            client.listen(last_event=stream.events[-1].id).drop()
        if self.rng.random() < 0.7:
            client.delete()

    def modern(self):
        client = self.server.client(MODERN)
        listener = client.start("subscriptions/listen", {"notifications": {"resourcesListChanged": True}})
        listener.exchange.status()
        self.check(self.call(client).result())
        cut = self.call(client)
        if self.rng.random() < 0.5:
            cut.exchange.drop()
        else:
            self.check(cut.result())
        listener.exchange.drop()

    def old_pair(self):
        client = self.server.client(LEGACY[0], kind=SseClient)
        self.check(self.call(client).result())
        client.stream.drop()

    def broken(self):
        for data in (b"", b"POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Len", b"\xff\xfe\r\n\r\n"):
            with socket.create_connection((self.server.place.host, self.server.place.port)) as s:
                s.sendall(data)
                # a reset, because an end after half a head is only noticed at the timeout of the head
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def connections(port):
    """TCP connections of this machine to that port."""
    with open("/proc/net/tcp", encoding="utf-8") as file:
        fields = [line.split() for line in file.readlines()[1:]]
    return sum(f[1].endswith(f":{port:04X}") and f[3] not in ("06", "0A") for f in fields)  # TIME_WAIT, LISTEN


def quiet(server):
    """Waits until its connections are closed."""
    deadline = time.monotonic() + 60
    while connections(server.place.port) > 0:
        if time.monotonic() > deadline:
            raise SystemExit("connections of clients that are gone are still open")
        time.sleep(0.01)


def soak_http(options, place, make_samples):
    """Returns what grew."""
    server = HttpServer("--session-idle-seconds", "1", program=options.program, runtime_dir=place.runtime_dir)
    try:
        return rounds_of(server, options, make_samples)
    except BaseException:
        server.kill()
        raise


def rounds_of(server, options, make_samples):
    owner = server.client(LEGACY[-1])
    sandbox = owner.call("create_sandbox")["sandbox_id"]
    owner.run("1", sandbox_id=sandbox)
    owner.delete()
    server.clients.clear()
    samples = make_samples(server, [sandbox])
    rounds = Rounds(server, sandbox)
    begun = time.monotonic()
    for number in range(options.http):
        rounds.one()
        if number % max(1, options.http // SAMPLES) == 0:
            quiet(server)
            samples.take()
    grown = samples.end(f"{options.http} rounds of HTTP clients in {time.monotonic() - begun:.0f} s")
    server.close_sandboxes()
    server.clients.clear()
    server.close()
    return grown
