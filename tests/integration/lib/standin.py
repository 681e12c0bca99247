"""Replacements for an engine: a socket that sends the same to every client, and a proxy that adds a warning
to the real engine's answers."""

import json
import os
import socket
import threading

STEP_SECONDS = 30.0  # timeout for a peer


class Listener:
    """Accepts on a unix socket in `directory` until closed; each connection goes to serve(), in a thread of its own."""

    def __init__(self, directory):
        self.path = os.path.join(directory, "engine.sock")
        self.host = "unix://" + self.path
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.bind(self.path)
        self.socket.listen(64)
        self.open = set()
        self.lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                peer, _ = self.socket.accept()
            except OSError:
                return
            peer.settimeout(STEP_SECONDS)
            with self.lock:
                self.open.add(peer)
            threading.Thread(target=self._serve, args=(peer,), daemon=True).start()

    def _serve(self, peer):
        try:
            self.serve(peer)
        except OSError:
            pass  # the peer may disconnect at any point
        finally:
            with self.lock:
                self.open.discard(peer)
            peer.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        with self.lock:
            for peer in self.open:
                peer.shutdown(socket.SHUT_RDWR)
        os.unlink(self.path)


def read_head(peer):
    """Reads the head of a request and the bytes after it; b"" at the end of the connection."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = peer.recv(65536)
        if not more:
            return b"", b""
        data += more
    head, rest = data.split(b"\r\n\r\n", 1)
    return head, rest


class Standin(Listener):
    """Answers every request with the same bytes and closes the connection; with `hold` it never answers."""

    def __init__(self, directory, answer, hold=False):
        self.answer = answer
        self.hold = hold
        super().__init__(directory)

    def serve(self, peer):
        if self.hold:
            while peer.recv(65536):
                pass
            return
        if read_head(peer)[0]:
            peer.sendall(self.answer)


class WarningProxy(Listener):
    """The real engine with one more warning in the answer to each creation of a container."""

    def __init__(self, engine_path, directory, warning):
        self.engine_path = engine_path
        self.warning = warning
        super().__init__(directory)

    def serve(self, peer):
        head, rest = read_head(peer)
        if not head:
            return
        engine = socket.socket(socket.AF_UNIX)
        try:
            engine.connect(self.engine_path)
            lines = head.split(b"\r\n")
            if b"upgrade: tcp" in head.lower():
                engine.sendall(head + b"\r\n\r\n" + rest)
                splice(peer, engine)
            else:
                kept = [line for line in lines if not line.lower().startswith((b"connection:", b"expect:"))]
                engine.sendall(b"\r\n".join([*kept, b"Connection: close"]) + b"\r\n\r\n" + rest)
                self.answer(peer, engine, b"/containers/create" in lines[0])
        finally:
            engine.close()

    def answer(self, peer, engine, creation):
        """Passes on one request, whose body may still be arriving, and its whole answer."""
        pump = threading.Thread(target=copy, args=(peer, engine), daemon=True)
        pump.start()
        if not creation:
            copy(engine, peer)
            return
        answer = b""
        while True:
            more = engine.recv(65536)
            if not more:
                break
            answer += more
        head, _, body = answer.partition(b"\r\n\r\n")
        if b" 201 " in head.split(b"\r\n")[0]:
            if b"transfer-encoding: chunked" in head.lower():
                body = unchunked(body)
            made = json.loads(body)
            made["Warnings"] = [*(made.get("Warnings") or []), self.warning]
            body = json.dumps(made).encode()
            head = b"HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close" % len(body)
        peer.sendall(head + b"\r\n\r\n" + body)


def unchunked(data):
    body = b""
    while True:
        size, _, data = data.partition(b"\r\n")
        length = int(size.split(b";")[0], 16)
        if length == 0:
            return body
        body += data[:length]
        data = data[length + 2 :]


def copy(source, target):
    try:
        while True:
            data = source.recv(65536)
            if not data:
                break
            target.sendall(data)
    except OSError:
        pass


def splice(one, two):
    """Copies bytes in both directions until either side ends."""
    one.settimeout(None)
    back = threading.Thread(target=lambda: (copy(two, one), shut(one)), daemon=True)
    back.start()
    copy(one, two)
    shut(two)
    back.join()


def shut(end):
    try:
        end.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
