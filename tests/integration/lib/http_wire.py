"""HTTP for tests: one request per connection, read as it arrives, aborted when the test wants; event streams;
and plain sockets for malformed requests."""

import base64
import json
import re
import socket
import ssl
import threading
import time

CONNECT_SECONDS = 30.0
ANSWER_SECONDS = 60.0


class Place:
    """The address of a server."""

    def __init__(self, url, authority=None):
        found = re.fullmatch(r"(https?)://(\[[^\]]+\]|[^:/]+):(\d+)/?", url)
        self.url = url.rstrip("/")
        self.secure = found[1] == "https"
        self.host, self.port = found[2].strip("[]"), int(found[3])
        self.authority = f"{found[2]}:{found[3]}"
        self.context = None
        if self.secure:
            self.context = ssl.create_default_context(cafile=authority)

    def connect(self, receive_buffer=None):
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        bare = socket.socket(family, socket.SOCK_STREAM)
        if receive_buffer is not None:
            bare.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        bare.settimeout(CONNECT_SECONDS)
        bare.connect((self.host, self.port))
        bare.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self.context.wrap_socket(bare, server_hostname=self.host) if self.context else bare


def head_bytes(place, method, path, headers, length=None):
    """The head of a request. Headers: (name, value); a Host among them replaces the default."""
    lines = [f"{method} {path} HTTP/1.1"]
    if not any(name.lower() == "host" for name, _ in headers):
        lines.append(f"Host: {place.authority}")
    lines += [f"{name}: {value}" for name, value in headers]
    if length is not None:
        lines.append(f"Content-Length: {length}")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"


def encoded(value):
    """A header value that cannot be sent as it is, encoded as in the latest revision."""
    plain = value.isascii() and value.isprintable() and value == value.strip() and not value.startswith("=?base64?")
    return value if plain else f"=?base64?{base64.b64encode(value.encode()).decode()}?="


class Head:
    def __init__(self, file):
        line = file.readline(65536)
        if not line:
            raise EOFError("closed before a response")
        self.status = int(line.split()[1])
        self.headers = []
        while (line := file.readline(65536).rstrip(b"\r\n")) != b"":
            name, _, value = line.decode("latin-1").partition(":")
            self.headers.append((name.strip().lower(), value.strip()))

    def get(self, name):
        return next((value for key, value in self.headers if key == name.lower()), None)

    def pieces(self, file, method="GET"):
        """Yields the body of the response piece by piece."""
        if method == "HEAD":
            return
        if self.get("transfer-encoding") == "chunked":
            while (size := int(file.readline(1024).split(b";")[0], 16)) > 0:
                while size > 0:
                    piece = file.read1(min(size, 65536))
                    if not piece:
                        raise EOFError("closed inside a chunk")
                    size -= len(piece)
                    yield piece
                file.readline(1024)
            file.readline(1024)
        elif self.get("content-length") is not None:
            left = int(self.get("content-length"))
            while left > 0:
                piece = file.read1(min(left, 65536))
                if not piece:
                    raise EOFError("closed inside a body")
                left -= len(piece)
                yield piece
        elif self.status not in (202, 204, 304):
            while piece := file.read1(65536):
                yield piece


class Event:
    def __init__(self):
        self.id = None
        self.name = "message"
        self.data = None
        self.retry = None


class Events:
    """Parses an event stream from pieces of it."""

    def __init__(self):
        self.rest = b""
        self.event = Event()
        self.comments = []  # times of arrival

    def feed(self, piece):
        self.rest += piece
        *lines, self.rest = self.rest.split(b"\n")
        for line in lines:
            line = line.rstrip(b"\r").decode()
            if line == "":
                done, self.event = self.event, Event()
                if done.data is not None or done.id is not None:
                    yield done
            elif line.startswith(":"):
                self.comments.append(time.monotonic())
            else:
                self.field(*line.split(":", 1))

    def field(self, name, value=""):
        value = value.removeprefix(" ")
        if name == "data":
            self.event.data = value if self.event.data is None else f"{self.event.data}\n{value}"
        elif name == "id":
            self.event.id = value
        elif name == "event":
            self.event.name = value
        elif name == "retry":
            self.event.retry = int(value)


class Exchange:
    """One request on a connection of its own, read by a thread, which calls the callbacks."""

    def __init__(self, place, method, path, headers=(), body=None, on_head=None, on_event=None, on_end=None, receive_buffer=None):
        self.method = method
        self.on_head, self.on_event, self.on_end = on_head, on_event, on_end
        self.head = None
        self.body = b""
        self.events = []
        self.stream = Events()
        self.dropped = False
        self.problem = None  # the reason why it did not end normally
        self.begun = threading.Event()
        self.ended = threading.Event()
        self.socket = place.connect(receive_buffer)
        self.socket.settimeout(None)
        length = None if body is None else len(body)
        self.socket.sendall(head_bytes(place, method, path, headers, length) + (body or b""))
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self):
        try:
            with self.socket.makefile("rb") as file:
                head = Head(file)
                self.head = head
                if self.on_head:
                    self.on_head(self)
                self.begun.set()
                streaming = self.is_stream()
                parts = []
                for piece in head.pieces(file, self.method):
                    if not streaming:
                        parts.append(piece)
                        continue
                    for event in self.stream.feed(piece):
                        self.events.append(event)
                        if self.on_event:
                            self.on_event(self, event)
                self.body = b"".join(parts)
        except (OSError, EOFError, ValueError, IndexError, AttributeError) as problem:
            self.problem = problem
        finally:
            self.begun.set()
            self.socket.close()
            if self.on_end:
                self.on_end(self)
            self.ended.set()

    def is_stream(self):
        return self.head is not None and (self.head.get("content-type") or "").startswith("text/event-stream")

    def status(self, seconds=ANSWER_SECONDS):
        """Waits for the head."""
        if not self.begun.wait(seconds):
            raise AssertionError(f"no response within {seconds} s")
        if self.head is None:
            raise ConnectionError(f"no response: {self.problem!r}")
        return self.head.status

    def wait(self, seconds=ANSWER_SECONDS):
        """Waits for the end."""
        if not self.ended.wait(seconds):
            raise AssertionError(f"a response did not end within {seconds} s")
        self.status()
        return self

    def get(self, name):
        self.status()
        return self.head.get(name)

    def json(self):
        self.wait()
        return json.loads(self.body)

    def drop(self):
        """Closes the connection at any time."""
        self.dropped = True
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.ended.wait(10)


class Raw:
    """A connection on which a test writes arbitrary bytes."""

    def __init__(self, place, receive_buffer=None):
        self.socket = place.connect(receive_buffer)
        self.file = self.socket.makefile("rb")

    def send(self, data):
        self.socket.sendall(data)

    def response(self, seconds=ANSWER_SECONDS):
        """The next response: its head and body."""
        self.socket.settimeout(seconds)
        head = Head(self.file)
        return head, b"".join(head.pieces(self.file))

    def is_closed(self, seconds):
        """Whether the server closes it within this time; data before that is ignored."""
        deadline = time.monotonic() + seconds
        try:
            while (left := deadline - time.monotonic()) > 0:
                self.socket.settimeout(left)
                if not self.file.read1(65536):
                    return True
        except TimeoutError:
            return False
        except OSError:
            return True
        return False

    def close(self):
        self.file.close()
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, kind, problem, trace):
        self.close()
