#!/usr/bin/env python3
"""An HTTP server that behaves, or misbehaves, as the path says.

usage: server.py <empty directory>

It makes certificates with the openssl command and listens on a unix socket, on loopback without and with TLS,
once more with TLS asking for a client certificate, and on a port that is never answered. Then it prints one
line, "ready <tcp> <tls> <mutual> <mute>", and runs until its stdin is closed.
"""

import json
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
from urllib.parse import parse_qs, urlsplit

PIECE = 64 * 1024
lock = threading.Lock()
counts = {"accepted": 0, "open": 0, "requests": 0}


def count(name, by):
    with lock:
        counts[name] += by


# ---- certificates ----


def openssl(directory, *arguments):
    subprocess.run(["openssl", *arguments], cwd=directory, check=True, capture_output=True)


def make_certificates(directory):
    new_key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    for name in ("ca", "other"):
        openssl(directory, "req", "-x509", *new_key, "-keyout", f"{name}-key.pem", "-out", f"{name}.pem",
                "-days", "2", "-subj", f"/CN=test {name}")
    with open(os.path.join(directory, "names"), "w", encoding="ascii") as file:
        file.write("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    for name in ("server", "client"):
        openssl(directory, "req", *new_key, "-keyout", f"{name}-key.pem", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        openssl(directory, "x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca-key.pem",
                "-CAcreateserial", "-days", "2", "-extfile", "names", "-out", f"{name}.pem")


def tls_context(directory, mutual):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(os.path.join(directory, "server.pem"), os.path.join(directory, "server-key.pem"))
    context.set_alpn_protocols(["h2", "http/1.1"])  # a client that offers h2 gets it, and fails
    if mutual:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(os.path.join(directory, "ca.pem"))
    return context


# ---- requests and plain answers ----


class Request:
    def __init__(self, link):
        self.link = link
        self.data = bytearray()

    def read(self):
        """Reads the next request of this connection. False: the client has gone."""
        while b"\r\n\r\n" not in self.data:
            if not self.more():
                return False
        head, self.data = self.data.split(b"\r\n\r\n", 1)
        self.head = head.decode("latin-1")
        lines = self.head.split("\r\n")
        self.method, target, _ = lines[0].split(" ")
        self.path = urlsplit(target).path
        self.query = {k: v[0] for k, v in parse_qs(urlsplit(target).query).items()}
        self.fields = dict(line.lower().split(": ", 1) for line in lines[1:])
        if self.fields.get("transfer-encoding") == "chunked":
            return self.read_chunks()
        length = int(self.fields.get("content-length", "0"))
        while len(self.data) < length:
            if not self.more():
                return False
        self.body, self.data = bytes(self.data[:length]), self.data[length:]
        return True

    def read_chunks(self):
        self.body = b""
        while True:
            while b"\r\n" not in self.data:
                if not self.more():
                    return False
            line, self.data = self.data.split(b"\r\n", 1)
            size = int(line, 16)
            while len(self.data) < size + 2:
                if not self.more():
                    return False
            self.body += self.data[:size]
            self.data = self.data[size + 2 :]
            if size == 0:
                return True

    def more(self):
        piece = self.link.recv(PIECE)
        self.data += piece
        return bool(piece)

    def number(self, name, default):
        return int(self.query.get(name, default))

    def wait_for_end(self):
        while self.link.recv(PIECE):
            pass

    def send(self, *pieces):
        self.link.sendall(b"".join(p if isinstance(p, bytes) else p.encode("latin-1") for p in pieces))

    def reply(self, body, status="200 OK", fields=""):
        body = body if isinstance(body, bytes) else body.encode()
        shown = b"" if self.method == "HEAD" else body
        self.send(f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{fields}\r\n", shown)


CHUNKED = "HTTP/1.1 {}\r\nTransfer-Encoding: chunked\r\n\r\n"
END = "the connection ends here"


def hello(r):
    r.reply("hello", fields="X-Reply:   yes \r\n")


def echo(r):
    r.reply(r.body)


def head(r):
    r.reply(r.head)


def stats(r):
    with lock:
        text = json.dumps(counts)
    r.reply(text)


def slow(r):
    time.sleep(r.number("ms", 0) / 1000)
    r.reply("late")


def never(r):
    r.wait_for_end()
    return END


def drip(r):
    r.send(CHUNKED.format("200 OK"))
    for _ in range(r.number("n", 10)):
        r.send("1\r\nx\r\n")
        time.sleep(r.number("ms", 50) / 1000)
    r.send("0\r\n\r\n")


def stall(r):
    """Sends half a body, and then nothing."""
    r.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
    return never(r)


def swallow(r):
    """Takes a request, and closes without an answer."""
    with lock:
        counts["swallowed"] = counts.get("swallowed", 0) + 1
    return END


def close_head(r):
    r.send("HTTP/1.1 200 OK\r\nContent-Le")
    return END


def close_body(r):
    r.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this")
    return END


def big(r):
    r.reply(b"x" * r.number("n", 1))


def big_head(r):
    r.send("HTTP/1.1 200 OK\r\n", *(f"X-{i}: {'y' * 1000}\r\n" for i in range(64)), "\r\n")
    return never(r)


def chunked(r):
    status = r.query.get("status", "200 OK")
    r.send("HTTP/1.1 100 Continue\r\nX-Interim: yes\r\n\r\n", CHUNKED.format(status))
    for word in ("one ", "two ", "three"):
        r.send(f"{len(word):x}\r\n{word}\r\n")
    r.send("0\r\n\r\n")


def endless(r):
    r.send(CHUNKED.format("200 OK"))
    piece = b"x" * 4096
    while True:
        r.send(f"{len(piece):x}\r\n", piece, "\r\n")


def missing(r):
    r.reply('{"message":"No such container: x"}', "404 Not Found", "Content-Type: application/json\r\n")


def moved(r):
    r.reply("elsewhere", "302 Found", "Location: /hello\r\n")


def drop(r):
    r.reply("soon gone")
    return END


# ---- tunnels ----

UPGRADED = "HTTP/1.1 101 UPGRADED\r\nContent-Type: application/vnd.docker.raw-stream\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"


def require_upgrade(r):
    if r.fields.get("upgrade") != "tcp" or r.fields.get("connection") != "upgrade" or "expect" in r.fields:
        r.reply("no upgrade asked for", "400 Bad Request")
        raise OSError("bad upgrade")


def echo_stream(r, first=b""):
    r.send(first + bytes(r.data))
    while piece := r.link.recv(PIECE):
        r.send(piece)
    return END


def tunnel(r):
    require_upgrade(r)
    r.send(UPGRADED)
    return echo_stream(r, r.body)


def tunnel_200(r):
    r.send("HTTP/1.1 200 OK\r\nContent-Type: application/vnd.docker.raw-stream\r\n\r\n")
    return echo_stream(r)


def tunnel_early(r):
    r.send("HTTP/1.1 100 Continue\r\n\r\n", UPGRADED, "e" * r.number("n", 5))
    return echo_stream(r)


def tunnel_pieces(r):
    """Sends the head byte by byte."""
    for byte in (UPGRADED + "behind").encode():
        r.send(bytes([byte]))
    return echo_stream(r)


def tunnel_bye(r):
    r.send(UPGRADED, "bye")
    return END


def tunnel_flood(r):
    r.send(UPGRADED)
    left = r.number("n", 1)
    while left > 0:
        piece = b"f" * min(left, 65536)
        r.send(piece)
        left -= len(piece)
    return END


def refused_end(r):
    r.send("HTTP/1.1 404 Not Found\r\nContent-Type: application/vnd.docker.raw-stream\r\n\r\nNo such container: x")
    return END


def refused_stuck(r):
    r.send("HTTP/1.1 500 Oops\r\nContent-Length: 100\r\n\r\nhalf a reason")
    return never(r)


def refused_big(r):
    r.send("HTTP/1.1 500 Oops\r\n\r\n", "z" * 1000000)
    return END


def tunnel_garbage(r):
    r.send("SSH-2.0-OpenSSH_9.2\r\n")
    return never(r)


PATHS = {"/" + name.replace("_", "-"): action for name, action in list(globals().items()) if callable(action)}


def shake_hands(link, context):
    """The alert for a client without a certificate must reach it: closing with its request unread would
    reset the connection and discard the alert."""
    plain = context.wrap_socket(link, server_side=True, do_handshake_on_connect=False)
    try:
        plain.do_handshake()
    except ssl.SSLError:
        with plain, socket.socket(fileno=os.dup(plain.fileno())) as raw:
            raw.shutdown(socket.SHUT_WR)
            while raw.recv(PIECE):
                pass
        raise
    return plain


def serve(link, context):
    count("accepted", 1)
    count("open", 1)
    try:
        with link if context is None else shake_hands(link, context) as plain:
            request = Request(plain)
            while request.read():
                count("requests", 1)
                if PATHS[request.path](request) == END:
                    break
    except (OSError, ValueError):
        pass  # clients that go away are part of many tests
    finally:
        link.close()
        count("open", -1)


def accept(listener, context):
    while True:
        link, _ = listener.accept()
        if link.family == socket.AF_INET:
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=serve, args=(link, context), daemon=True).start()


def listen_tcp(backlog=256):
    listener = socket.create_server(("127.0.0.1", 0), backlog=backlog)
    return listener, listener.getsockname()[1]


def main():
    directory = sys.argv[1]
    make_certificates(directory)
    local = socket.socket(socket.AF_UNIX)
    local.bind(os.path.join(directory, "socket"))
    local.listen(256)
    threading.Thread(target=accept, args=(local, None), daemon=True).start()
    ports = []
    for context in (None, tls_context(directory, False), tls_context(directory, True)):
        listener, port = listen_tcp()
        ports.append(port)
        threading.Thread(target=accept, args=(listener, context), daemon=True).start()
    mute, port = listen_tcp()  # the kernel accepts; no thread does
    print("ready", *ports, port, flush=True)
    sys.stdin.read()
    mute.close()


main()
