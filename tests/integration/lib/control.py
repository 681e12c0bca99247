"""The control API of a server, on its socket, as programs use it."""

import glob
import http.client
import json
import os
import socket
import threading

import mcp


def sockets(runtime_dir):
    return glob.glob(os.path.join(runtime_dir, "*", "control.sock"))


class OnSocket(http.client.HTTPConnection):
    """A connection of HTTP to a unix socket."""

    def __init__(self, path):
        super().__init__("cloister", timeout=mcp.ANSWER_SECONDS)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def json(self):
        return json.loads(self.body)


class Control:
    """The API of the server whose runtime directory this is."""

    def __init__(self, server):
        (self.path,) = mcp.poll("the control socket", lambda: sockets(server.runtime_dir))

    def ask(self, method, path):
        connection = OnSocket(self.path)
        try:
            connection.request(method, path)
            response = connection.getresponse()
            return Answer(response.status, response.headers, response.read())
        finally:
            connection.close()

    def get(self, path):
        answer = self.ask("GET", path)
        assert answer.status == 200, (path, answer.status, answer.body)
        return answer.json()

    def failing(self, method, path, status):
        answer = self.ask(method, path)
        assert answer.status == status, (path, answer.status, answer.body)
        return answer.json()["error"]

    def lines(self, path):
        """All lines of a stream that ends by itself."""
        answer = self.ask("GET", path)
        assert answer.status == 200, (path, answer.status, answer.body)
        return [json.loads(line) for line in answer.body.splitlines()]


class Stream:
    """Lines as they come, read by a thread; closed by the test, or by the server."""

    def __init__(self, control, path):
        self.connection = OnSocket(control.path)
        self.connection.request("GET", path)
        self.response = self.connection.getresponse()
        self.status = self.response.status
        self.lines, self.ended = [], False
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self):
        try:
            for line in self.response:
                self.lines.append(json.loads(line))
        except (OSError, ValueError, http.client.HTTPException):
            pass  # the test has closed it
        self.ended = True

    def close(self):
        if self.connection.sock is not None:
            self.connection.sock.shutdown(socket.SHUT_RDWR)
        self.thread.join(mcp.ANSWER_SECONDS)
        self.connection.close()

    def __enter__(self):
        return self

    def __exit__(self, kind, problem, trace):
        self.close()
