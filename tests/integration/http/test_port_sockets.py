"""WebSockets of sandboxes: a client talks with a server inside through the address of its port; handshakes that are none
are refused on both sides, and neither side can make the server keep what the other does not read."""

import base64
import hashlib
import os
import re
import signal
import socket
import ssl
import struct
import subprocess
import sys
import threading
import urllib.parse

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # pylint: disable=wrong-import-position

from common import LATEST_LEGACY, NONE, Suite, contains, equal, needs_runtime, poll
from mcp import temporary_directory
from mcp_http import HttpServer

needs_runtime()
suite = Suite(NONE)

MIB = 1 << 20
SECONDS = 120
GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_shared = []

# What a path does is its first word: "/echo", "/flood", …
SERVER = r"""
import base64, hashlib, os, pathlib, socket, struct, threading

GUID = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11'

def note(name, text):  # whole at any time
    own = pathlib.Path(f'/tmp/{name}.{threading.get_ident()}')
    own.write_text(str(text))
    os.replace(own, f'/tmp/{name}')

def exactly(s, n):
    data = b''
    while len(data) < n:
        part = s.recv(n - len(data))
        if not part:
            raise EOFError
        data += part
    return data

def read_frame(s):
    first, second = exactly(s, 2)
    size = second & 127
    if size == 126: size = struct.unpack('>H', exactly(s, 2))[0]
    elif size == 127: size = struct.unpack('>Q', exactly(s, 8))[0]
    mask = exactly(s, 4)
    data = exactly(s, size)
    key = (mask * (size // 4 + 1))[:size]
    return first & 15, (int.from_bytes(data, 'big') ^ int.from_bytes(key, 'big')).to_bytes(size, 'big') if size else b''

def frame(opcode, data):
    size = len(data)
    head = bytes([128 | opcode]) + (bytes([size]) if size < 126 else b'\x7e' + struct.pack('>H', size) if size < 65536 else b'\x7f' + struct.pack('>Q', size))
    return head + data

def echo(s):
    while True:
        opcode, data = read_frame(s)
        s.sendall(frame(opcode, data))
        if opcode == 8:
            return

def serve(s):
    head = b''
    while b'\r\n\r\n' not in head:
        head += s.recv(65536)
    note('told', head.decode())
    what = head.split()[1].decode().strip('/').split('?')[0]
    fields = {k.strip().lower(): v.strip() for k, _, v in (line.partition(':') for line in head.decode().split('\r\n')[1:])}
    accept = base64.b64encode(hashlib.sha1((fields.get('sec-websocket-key', '') + GUID).encode()).digest()).decode()
    answer = f'HTTP/1.1 101 Switching Protocols\r\nUpgrade: WebSocket\r\nConnection: keep-alive, Upgrade\r\nSet-Cookie: a=b\r\nSec-WebSocket-Accept: {accept}\r\n'
    try:
        if what == 'refuse':
            s.sendall(b'HTTP/1.1 403 No\r\nContent-Length: 7\r\n\r\nrefused')
        elif what == 'garbage':
            s.sendall(b'what do you want?\r\n\r\n')
        elif what == 'silent':
            pass
        elif what == 'wrong':
            s.sendall(answer.replace(accept, accept[::-1]).encode() + b'\r\n')
        elif what == 'plain101':
            s.sendall(b'HTTP/1.1 101 Yes\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n')
        elif what == 'extension':
            s.sendall(answer.encode() + b'Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n')
        elif what == 'protocol':
            s.sendall(answer.encode() + b'Sec-WebSocket-Protocol: not-asked\r\n\r\n')
        elif what == 'choose':
            chosen = fields['sec-websocket-protocol'].split(',')[-1].strip()
            s.sendall(answer.encode() + f'Sec-WebSocket-Protocol: {chosen}\r\n\r\n'.encode() + frame(1, b'at once'))
            echo(s)
        elif what == 'flood':
            s.sendall(answer.encode() + b'\r\n')
            part, sent = frame(2, bytes(65526)), 0
            while sent < 64 << 20:
                s.sendall(part)
                sent += len(part)
                note('sent', sent)
        elif what == 'deaf':
            s.sendall(answer.encode() + b'\r\n')
            threading.Event().wait()
        elif what == 'quit':
            s.sendall(answer.encode() + b'\r\n')
            s.sendall(frame(1, read_frame(s)[1]) * 1000)
        else:
            s.sendall(answer.encode() + b'\r\n')
            echo(s)
    except (EOFError, OSError):
        note('left', what)
    s.close()

listener = socket.create_server(('127.0.0.1', 8000))
def run():
    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
threading.Thread(target=run, daemon=True).start()
"""


class Box:
    """A sandbox with the server."""

    def __init__(self, client):
        self.client = client
        self.id = client.call("create_sandbox", memory_mb=256)["sandbox_id"]
        self.run(SERVER)
        self.url = client.call("expose_port", port=8000, sandbox_id=self.id)["url"]

    def run(self, code):
        return self.client.stdout(code, sandbox_id=self.id)

    def read(self, name):
        return self.run(f"p = pathlib.Path('/tmp/{name}'); print(p.read_text() if p.exists() else '')").strip()

    def forget(self, name):
        self.run(f"pathlib.Path('/tmp/{name}').unlink(missing_ok=True)")


class WebSocket:
    """A client: the handshake, of which everything can be changed, then frames."""

    def __init__(self, url, what="echo", method="GET", version="HTTP/1.1", without=(), tls=None, first=b"", **headers):
        parts = urllib.parse.urlsplit(url)
        self.s = socket.create_connection((parts.hostname, parts.port), timeout=SECONDS)
        if tls:
            self.s = tls.wrap_socket(self.s, server_hostname=parts.hostname)
        self.key = base64.b64encode(os.urandom(16)).decode()
        fields = {"Host": parts.netloc, "Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": self.key}
        fields.update({k.replace("_", "-"): v for k, v in headers.items()})
        lines = [f"{method} {parts.path}{what} {version}"] + [f"{k}: {v}" for k, v in fields.items() if k not in without]
        self.s.sendall("\r\n".join(lines + ["", ""]).encode() + first)
        self.rest = b""
        while b"\r\n\r\n" not in self.rest:
            part = self.s.recv(65536)
            assert part, self.rest
            self.rest += part
        head, self.rest = self.rest.split(b"\r\n\r\n", 1)
        first_line, *lines = head.decode().split("\r\n")
        self.status = int(first_line.split()[1])
        self.headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines)}

    def exactly(self, n):
        data = bytearray(self.rest[:n])
        self.rest = self.rest[n:]
        while len(data) < n:
            part = self.s.recv(min(n - len(data), 1 << 20))
            if not part:
                raise EOFError
            data += part
        return bytes(data)

    def read(self):
        first, size = self.exactly(2)
        if size == 126:
            size = struct.unpack(">H", self.exactly(2))[0]
        elif size == 127:
            size = struct.unpack(">Q", self.exactly(8))[0]
        return first & 15, self.exactly(size)

    @staticmethod
    def frame(opcode, data):
        size = len(data)
        head = bytes([128 | opcode])
        if size < 126:
            head += bytes([128 | size])
        elif size < 65536:
            head += b"\xfe" + struct.pack(">H", size)
        else:
            head += b"\xff" + struct.pack(">Q", size)
        return head + bytes(4) + data  # a mask of zeros changes nothing

    def send(self, opcode, data):
        self.s.sendall(self.frame(opcode, data))

    def echoes(self, data=b"hello"):
        self.send(2, data)
        got = self.read()
        assert got == (2, data), (len(got[1]), len(data))

    def ended(self):
        """Whether the connection is at its end, read to it."""
        try:
            while self.rest or self.s.recv(1 << 20):
                self.rest = b""
            return True
        except ConnectionError:
            return True

    def body(self):
        data = self.rest
        self.s.settimeout(SECONDS)
        length = int(self.headers["content-length"])
        while len(data) < length:
            data += self.s.recv(65536)
        return data.decode()

    def close(self):
        self.s.close()


def shared():
    if not _shared:
        server = HttpServer("--ports", "--max-sandboxes", "6", "--port-wait-seconds", "5")
        client = server.client(LATEST_LEGACY)
        _shared.extend([server, client, Box(client)])
    return _shared


def box():
    return shared()[2]


def works():
    w = WebSocket(box().url)
    equal(w.status, 101)
    w.echoes()
    w.close()


# ---- what works ----


@suite.case("messages of all sizes come back as they were")
def echoes():
    w = WebSocket(box().url)
    equal(w.status, 101)
    equal(w.headers["sec-websocket-accept"], base64.b64encode(hashlib.sha1((w.key + GUID).encode()).digest()).decode())
    equal(w.headers["upgrade"], "websocket")
    assert "set-cookie" not in w.headers and "sec-websocket-extensions" not in w.headers, w.headers
    for size in (0, 1, 125, 126, 65535, 65536, 5 * MIB):
        w.echoes(os.urandom(size))
    w.send(8, b"\x03\xe8bye")
    equal(w.read(), (8, b"\x03\xe8bye"))
    assert w.ended()
    w.close()


@suite.case("what is said together with the handshake arrives, on both sides")
def early():
    w = WebSocket(box().url, "choose", Sec_WebSocket_Protocol="one, two", first=WebSocket.frame(1, b"too early"))
    equal((w.status, w.headers["sec-websocket-protocol"]), (101, "two"))
    equal(w.read(), (1, b"at once"))
    equal(w.read(), (1, b"too early"))
    w.close()


@suite.case("the program is told the handshake, and nothing of who its client is")
def told():
    w = WebSocket(box().url, "echo?a=b", Cookie="secret=1", Authorization="Bearer secret", Origin="https://secret.example", Sec_WebSocket_Extensions="permessage-deflate",
                  Sec_WebSocket_Protocol="chat")
    equal(w.status, 101)
    w.echoes()
    head = box().read("told")
    assert head.startswith("GET /echo?a=b HTTP/1.1"), head
    for line in ("Host: 127.0.0.1:8000", "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13", f"Sec-WebSocket-Key: {w.key}", "Sec-WebSocket-Protocol: chat"):
        contains(head, line)
    assert "secret" not in head and "xtensions" not in head and "Origin" not in head, head
    w.close()


@suite.case("many sockets at once each get their own")
def many():
    problems = []

    def one(i):
        try:
            w = WebSocket(box().url)
            for n in range(20):
                w.echoes(os.urandom(1000 * i + n))
            w.close()
        except Exception as problem:  # pylint: disable=broad-except
            problems.append(problem)

    threads = [threading.Thread(target=one, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    equal(problems, [])


@suite.case("over TLS it is the same")
def over_tls():
    place = temporary_directory()
    cert, key = os.path.join(place, "cert.pem"), os.path.join(place, "key.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", key, "-out", cert], check=True, capture_output=True)
    server = HttpServer("--ports", "--tls-cert", cert, "--tls-key", key, authority=cert)
    tls = ssl.create_default_context(cafile=cert)
    own = Box(server.client(LATEST_LEGACY))
    w = WebSocket(own.url, tls=tls)
    equal(w.status, 101)
    for size in (0, 1, 125, 65536, 5 * MIB):
        w.echoes(os.urandom(size))
    w.send(8, b"")
    equal(w.read(), (8, b""))
    w.close()
    flood = WebSocket(own.url, "flood", tls=tls)
    equal(len(flood.read()[1]), 65526)
    flood.close()
    poll("the program sees that it has gone", lambda: own.read("left") == "flood")
    server.close_sandboxes()
    server.close()


# ---- what is refused ----


@suite.case("a handshake that is none is refused before the sandbox hears of it")
def bad_handshakes():
    box().forget("told")
    url = box().url
    for status, w in ((426, dict(Sec_WebSocket_Version="8")), (426, dict(without=["Sec-WebSocket-Version"])), (400, dict(without=["Sec-WebSocket-Key"])),
                      (400, dict(Sec_WebSocket_Key="short")), (400, dict(Sec_WebSocket_Key="*" * 22 + "==")), (400, dict(method="POST", Content_Length="0")),
                      (400, dict(method="POST", Content_Length="5", first=b"hello")), (400, dict(Content_Length="5", first=b"hello")),
                      (400, dict(without=["Connection"])), (400, dict(Connection="keep-alive")), (400, dict(version="HTTP/1.0")), (400, {"sec-websocket-key": "AAAAAAAAAAAAAAAAAAAAAA=="})):
        got = WebSocket(url, **w)
        equal(got.status, status, str(w))
        if status == 426:
            equal(got.headers["sec-websocket-version"], "13")
        got.close()
    equal(WebSocket(re.sub(r"/[0-9a-f]{64}/", f"/{'0' * 64}/", url)).status, 403)
    equal(WebSocket(url, Host="evil.example").status, 403)
    equal(box().read("told"), "")
    works()


@suite.case("a program that refuses is heard, and one that answers with anything else is not")
def bad_answers():
    url = box().url
    refused = WebSocket(url, "refuse")
    equal((refused.status, refused.body()), (403, "refused"))
    for what, why in (("garbage", "not understood"), ("wrong", "answer to the key"), ("plain101", "another protocol"), ("extension", "extension"),
                      ("protocol", "subprotocol"), ("silent", "without an answer")):
        got = WebSocket(url, what)
        equal(got.status, 502, what)
        contains(got.body(), why)
        got.close()
    nobody = shared()[1].call("expose_port", port=8001, sandbox_id=box().id)["url"]
    equal(WebSocket(nobody).status, 502)
    works()


# ---- how much, and how long ----


def memory_kb(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return int(re.search(r"VmRSS:\s+(\d+)", file.read())[1])


@suite.case("a client that reads nothing makes the program wait, and gets everything when it reads")
def flood_out():
    box().forget("sent")
    before = memory_kb(shared()[0].process.pid)
    w = WebSocket(box().url, "flood")
    poll("it has begun", lambda: box().read("sent"))
    seen = []

    def stands_still():
        seen.append(int(box().read("sent")))
        return seen[-2:-1] == seen[-1:]

    poll("the program waits", stands_still)
    assert seen[-1] < 32 * MIB, seen
    assert memory_kb(shared()[0].process.pid) < before + 32 * 1024
    total = 0
    while total < 64 * MIB:
        total += len(w.read()[1]) + 10
    assert w.ended()
    w.close()


@suite.case("a program that reads nothing makes its client wait, and is left after a while")
def flood_in():
    before = memory_kb(shared()[0].process.pid)
    w = WebSocket(box().url, "deaf")
    equal(w.status, 101)
    w.s.settimeout(1)
    sent = 0
    try:
        while sent < 64 * MIB:
            sent += w.s.send(bytes(65536))
    except (TimeoutError, ConnectionError):
        pass
    assert sent < 48 * MIB, sent
    assert memory_kb(shared()[0].process.pid) < before + 32 * 1024
    w.s.settimeout(SECONDS)
    assert w.ended()
    w.close()
    works()


@suite.case("a client that is gone is gone for the program, and the other way round")
def gone():
    box().forget("left")
    w = WebSocket(box().url)
    w.echoes()
    w.close()
    poll("the program sees that its client has gone", lambda: box().read("left") == "echo")
    w = WebSocket(box().url, "quit")
    w.send(1, b"x" * 1000)
    equal([w.read() for _ in range(1000)], [(1, b"x" * 1000)] * 1000)
    assert w.ended()
    w.close()


@suite.case("so many are open at a time and no more")
def bound():
    held = []

    def one_more():
        w = WebSocket(box().url)
        if w.status == 101:
            held.append(w)
        return w.status == 101

    for _ in range(16):
        poll("there is a place", one_more)
    equal(WebSocket(box().url).status, 503)
    for w in held:
        w.echoes()
        w.close()
    poll("there is room again", one_more)
    held[-1].close()


@suite.case("it ends with its address, and not before")
def expires():
    server = HttpServer("--ports", "--link-seconds", "8")
    own = Box(server.client(LATEST_LEGACY))
    own.url = own.client.call("expose_port", port=8000, sandbox_id=own.id)["url"]
    w = WebSocket(own.url)
    w.echoes()
    until = int(own.url.split("/")[6])
    assert w.ended()
    assert int(own.run("import time; print(int(time.time()))")) >= until
    equal(WebSocket(own.url).status, 410)
    server.close_sandboxes()
    server.close()


@suite.case("it ends with its sandbox, and survives the worker")
def ends_with_sandbox():
    own = Box(shared()[1])
    w = WebSocket(own.url)
    w.echoes()
    os.kill(shared()[1].call("get_sandbox_status", sandbox_id=own.id)["worker"]["pid"], signal.SIGKILL)
    w.echoes()
    own.client.call("close_sandbox", sandbox_id=own.id)
    assert w.ended()
    w.close()


@suite.case("a server that ends cuts it, and does not wait for it")
def server_ends():
    runtime = temporary_directory()
    first = HttpServer("--ports", runtime_dir=runtime)
    own = Box(first.client(LATEST_LEGACY))
    quiet, flooded = WebSocket(own.url), WebSocket(own.url, "flood")
    quiet.echoes()
    equal(len(flooded.read()[1]), 65526)
    first.end()
    equal(first.wait_exit(), 0)
    assert quiet.ended() and flooded.ended()
    second = HttpServer("--ports", runtime_dir=runtime)
    second.close_sandboxes()
    second.close()


@suite.finish
def close():
    """the shared server leaves nothing behind"""
    if _shared:
        _shared[0].close_sandboxes()
        _shared[0].close()


suite.run()
