"""The client of mcp.py over HTTP, in three forms: Streamable HTTP of older revisions (with sessions), of the
latest one (without), and the pair of /sse and /messages. And a server for it.

Each request uses a connection of its own, which the test may close: `pending.exchange`.
"""

import json
import re

from http_wire import ANSWER_SECONDS, Exchange, Place, Raw, encoded
from mcp import Client, Process, Server
from tap import poll
from wire import claim

JSON, EVENTS = "application/json", "text/event-stream"
NAMED_BY = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}


class HttpError(Exception):
    """A response without a JSON-RPC answer."""

    def __init__(self, exchange):
        self.status = exchange.head.status if exchange.head else None
        self.body = exchange.body
        super().__init__(f"HTTP {self.status}, {self.body[:500]!r}, {exchange.problem!r}")


class OverHttp(Client):
    """Shared by both kinds of clients."""

    def __init__(self, place, token=None, log_tail=None, headers=()):
        super().__init__()
        self.place = place
        self.token = token
        self.headers = list(headers)  # sent with every request
        if log_tail is not None:
            self.log_tail = log_tail
        self.exchanges = []  # exchanges that may be open

    def common_headers(self):
        return ([("Authorization", f"Bearer {self.token}")] if self.token else []) + self.headers

    def exchange(self, method, path, headers=(), body=None, **callbacks):
        self.exchanges = [e for e in self.exchanges if not e.ended.is_set()]
        exchange = Exchange(self.place, method, path, [*self.common_headers(), *headers], body, **callbacks)
        self.exchanges.append(exchange)
        return exchange

    def send_bytes(self, data):
        for line in data.split(b"\n"):
            if line.strip():
                self.post(line)

    def send(self, message):
        self.post(json.dumps(message, ensure_ascii=False).encode())

    def raw(self, line, ident):
        try:
            return super().raw(line, ident)
        except HttpError as problem:  # an error that names no id
            answer = parsed(problem.body)
            if not isinstance(answer, dict):
                raise
            self.unmatched.remove(answer)
            return answer

    def notify(self, method, params=None):
        """Returns when the server has received it, since later messages may use another connection."""
        message = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = params
        return self.post(json.dumps(message).encode()).wait()

    def post(self, body):
        raise NotImplementedError

    def take(self, exchange, event):
        """Handles an event of a stream."""
        if event.data:
            self.sort_text(event.data.encode())

    def pending_of(self, message):
        if isinstance(message, dict) and "method" in message and "id" in message:
            with self.lock:
                return self.pending.get(self._key(message["id"]))
        return None

    def fail(self, pending, exchange):
        """Handles the end of a response that should have contained an answer."""
        with self.lock:
            mine = pending is not None and self.pending.get(self._key(pending.ident)) is pending
            if mine:
                del self.pending[self._key(pending.ident)]
        if mine:
            pending.box.put(lambda: HttpError(exchange))

    def hang_up(self):
        for exchange in self.exchanges:
            if not exchange.ended.is_set():
                exchange.drop()


def parsed(body):
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


class HttpClient(OverHttp):
    def __init__(self, place, token=None, log_tail=None, headers=(), path="/mcp", accept=f"{JSON}, {EVENTS}"):
        super().__init__(place, token, log_tail, headers)
        self.path = path
        self.accept = accept
        self.session = None
        self.tool_headers = {}  # tool: {argument: header}
        self.stream = None

    # ---- sending ----

    def headers_for(self, message):
        found = [("Content-Type", JSON), ("Accept", self.accept)]
        version = claim(message) if isinstance(message, dict) else None
        if isinstance(version, str):
            return found + self.modern_headers(version, message)
        return found + self.session_headers()

    def session_headers(self):
        found = [("Mcp-Session-Id", self.session)] if self.session else []
        if self.session and self.version and self.version >= "2025-06-18":
            found.append(("MCP-Protocol-Version", self.version))
        return found

    def modern_headers(self, version, message):
        method, params = message.get("method"), message.get("params")
        found = [("MCP-Protocol-Version", version)]
        if isinstance(method, str):
            found.append(("Mcp-Method", method))
            name = params.get(NAMED_BY.get(method))
            if isinstance(name, str):
                found.append(("Mcp-Name", encoded(name)))
            if method == "tools/call" and isinstance(params.get("arguments"), dict):
                found += self.argument_headers(params)
        return found

    def argument_headers(self, params):
        for argument, header in self.tool_headers.get(params.get("name"), {}).items():
            value = params["arguments"].get(argument)
            if value is not None:
                text = value if isinstance(value, str) else json.dumps(value)
                yield (f"Mcp-Param-{header}", encoded(text))

    def post(self, body, headers=None):
        """Sends one message, by default with the headers that belong to it."""
        self.sniff(body)
        message = parsed(body)
        if headers is None:
            headers = self.headers_for(message)
        pending = self.pending_of(message)

        def on_end(exchange):
            self.take_end(exchange, pending, message)

        exchange = self.exchange("POST", self.path, headers, body, on_head=self.take_head, on_event=self.take, on_end=on_end)
        if pending is not None:
            pending.exchange = exchange
        return exchange

    # ---- receiving ----

    def take_head(self, exchange):
        session = exchange.head.get("mcp-session-id")
        if session is not None:
            if self.session not in (None, session):
                self.violations.append((session, "another session id than before"))
            self.session = session

    def take_end(self, exchange, pending, message):
        head = exchange.head
        if head is not None and not exchange.is_stream() and exchange.body:
            if (head.get("content-type") or "").startswith(JSON):
                self.sort_text(exchange.body)
            elif head.status == 200:
                self.violations.append((exchange.body[:200], f"200 with {head.get('content-type')}"))
            if head.status == 202:
                self.violations.append((exchange.body[:200], "202 with a body"))
        modern = isinstance(message, dict) and claim(message) is not None
        if head is not None and modern:
            if any(event.id is not None for event in exchange.events):
                self.violations.append((str(message)[:200], "event ids in the latest revision"))
            if head.get("mcp-session-id") is not None:
                self.violations.append((str(message)[:200], "a session id in the latest revision"))
        if modern or not exchange.dropped:  # otherwise a session may still receive the answer by another connection
            with self.lock:
                self.wire.forget(message)
            self.fail(pending, exchange)

    def sort(self, message):
        super().sort(message)
        result = message.get("result") if isinstance(message, dict) else None
        for tool in result.get("tools", []) if isinstance(result, dict) else []:
            properties = tool["inputSchema"].get("properties", {})
            self.tool_headers[tool["name"]] = {k: p["x-mcp-header"] for k, p in properties.items() if "x-mcp-header" in p}

    # ---- sessions ----

    def listen(self, last_event=None):
        """Opens the session's own stream, or the rest of one that was lost."""
        headers = [("Accept", EVENTS), *self.session_headers()]
        if last_event is not None:
            headers.append(("Last-Event-ID", last_event))
        exchange = self.exchange("GET", self.path, headers, on_event=self.take)
        if last_event is None:
            self.stream = exchange
        return exchange

    def delete(self):
        return self.exchange("DELETE", self.path, self.session_headers()).wait()


class SseClient(OverHttp):
    """The pair of endpoints of 2024-11-05."""

    def __init__(self, place, token=None, log_tail=None, headers=()):
        super().__init__(place, token, log_tail, headers)
        self.endpoint = None
        self.stream = self.exchange("GET", "/sse", [("Accept", EVENTS)], on_event=self.take)
        poll("an endpoint to post to", lambda: self.endpoint or self.stream.ended.is_set(), ANSWER_SECONDS)
        if self.endpoint is None:
            raise HttpError(self.stream)

    def take(self, exchange, event):
        if self.endpoint is None:
            if event.name != "endpoint":
                self.violations.append((event.name, "the first event must be `endpoint`"))
            self.endpoint = event.data
        else:
            super().take(exchange, event)

    def post(self, body):
        self.sniff(body)
        pending = self.pending_of(parsed(body))

        def on_end(exchange):
            if exchange.head is None or exchange.head.status != 202:
                if exchange.body.startswith(b"{"):
                    self.sort_text(exchange.body)
                self.fail(pending, exchange)

        exchange = self.exchange("POST", self.endpoint, [("Content-Type", JSON)], body, on_end=on_end)
        if pending is not None:
            pending.exchange = exchange
        return exchange


class HttpSide:
    """The part of a listening server process with its address and its clients."""

    def find_place(self, authority=None):
        def url():
            if self.is_gone():
                raise AssertionError(f"server ended with {self.process.poll()}:\n{self.log_tail()}")
            lines = [re.search(r"https?://[^\s/\"]+:\d+", line) for line in list(self.log)]
            return next((found[0] for found in lines if found), None)

        self.clients = []
        self.place = Place(poll("the server says where it listens", url), authority)

    def client(self, version=None, kind=HttpClient, **how):
        """Another client, with a session of this revision if one is given."""
        client = kind(self.place, log_tail=self.log_tail, **how)
        self.clients.append(client)
        if version is not None:
            client.open(version)
        return client

    def raw(self, **how):
        return Raw(self.place, **how)

    def ask(self, method, path, headers=(), body=None):
        """Sends one request and returns the whole response."""
        return Exchange(self.place, method, path, headers, body).wait()

    def close_sandboxes(self, **how):
        """Closes all sandboxes, which a server over HTTP would leave to the next one."""
        client = self.client("2025-11-25", **how)
        asks = {"_meta": {"cloister/results": "structured"}}  # independent of the server's default form of results
        status = client.request("tools/call", {"name": "get_sandbox_status", "arguments": {}, **asks})
        for sandbox in status["structuredContent"]["sandboxes"]:
            client.request("tools/call", {"name": "close_sandbox", "arguments": {"sandbox_id": sandbox["sandbox_id"]}})

    def check_clients(self):
        for client in self.clients:
            client.hang_up()
            client.check_wire()


class HttpServer(HttpSide, Process):
    """A server over HTTP only."""

    def __init__(self, *options, address="127.0.0.1:0", authority=None, **how):
        Process.__init__(self, "--http", address, *options, stdio=False, **how)
        self.find_place(authority)

    def check_wire(self):
        self.check_clients()


class BothServer(HttpSide, Server):
    """A server over HTTP and its pipes; the object is the client of the pipes."""

    def __init__(self, *options, address="127.0.0.1:0", **how):
        Server.__init__(self, "--http", address, "--stdio", *options, **how)
        self.find_place()

    def end(self):
        """Closing the pipes ends only one client."""
        Process.end(self)

    def raw(self, line, ident):
        return Server.raw(self, line, ident)

    def check_wire(self):
        Server.check_wire(self)
        self.check_clients()


class ServerByHttp(HttpSide, Process, HttpClient):
    """A server with one client, as mcp.Server, for tests that do not depend on the transport."""

    def __init__(self, *options, **how):
        Process.__init__(self, "--http", "127.0.0.1:0", *options, stdio=False, **how)
        self.find_place()
        HttpClient.__init__(self, self.place)

    client = HttpSide.client
    raw = OverHttp.raw

    def end(self):
        self.close_sandboxes()
        Process.end(self)

    def open(self, version):
        """A server may have several sessions; these tests use one after the other."""
        self.session, self.wire.version = None, None
        return HttpClient.open(self, version)

    def check_wire(self):
        self.hang_up()
        Client.check_wire(self)


class ServerBySse(HttpSide, Process, SseClient):
    def __init__(self, *options, **how):
        Process.__init__(self, "--http", "127.0.0.1:0", *options, stdio=False, **how)
        self.find_place()
        SseClient.__init__(self, self.place)

    client = HttpSide.client
    raw = OverHttp.raw

    def end(self):
        self.close_sandboxes()
        Process.end(self)

    def check_wire(self):
        self.hang_up()
        Client.check_wire(self)
